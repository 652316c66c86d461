// SPDX-License-Identifier: Apache-2.0
//
// CPU time from /proc texts, hostile names included.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/busytime.h"
#include "common/clock.h"

#include <errno.h>
#include <unistd.h>

static void process_text_is_read_past_any_name(void **state)
{
	static const struct {
		const char *sentence, *stat;
		int result;
		uint64_t ticks;
	} cases[] = {
		{ "a plain name", "7 (sh) S 1 7 7 0 -1 4194560 9 0 0 0 12 34 0 0 20 0 1 0 99", 0,
		  46 },
		{ "a name that looks like the end of one",
		  "7 (a) R 1 2 3 (b) S 1 7 7 0 -1 0 9 0 0 0 5 6 0 0", 0, 11 },
		{ "no name at all", "7 sh S 1 7", -EBADMSG, 0 },
		{ "cut short", "7 (sh) S 1 7 7 0 -1 4194560 9 0", -EBADMSG, 0 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t ticks = 0;

		print_message("%s\n", cases[i].sentence);
		assert_int_equal(fp_busy_time_parse_process(cases[i].stat, &ticks),
				 cases[i].result);
		assert_int_equal(ticks, cases[i].ticks);
	}
}

static void host_text_counts_all_but_idle_and_iowait(void **state)
{
	uint64_t ticks;

	assert_int_equal(
	    fp_busy_time_parse_host("cpu  1 20 300 4000 50000 600000 7000000 8 9 10\n", &ticks), 0);
	assert_int_equal(ticks, 7600321);
	assert_int_equal(fp_busy_time_parse_host("intr 1 2\n", &ticks), -EBADMSG);
}

static void work_done_shows(void **state)
{
	uint64_t before, after, end = fp_clock_ns(CLOCK_PROCESS_CPUTIME_ID) + 200 * FP_NS_PER_MS;

	assert_int_equal(fp_busy_time((uint32_t)getpid(), &before), 0);
	while (fp_clock_ns(CLOCK_PROCESS_CPUTIME_ID) < end)
		;
	assert_int_equal(fp_busy_time((uint32_t)getpid(), &after), 0);
	assert_in_range(after - before, 180 * FP_NS_PER_MS, 220 * FP_NS_PER_MS);
	assert_true(fp_busy_time(UINT32_MAX, &after) < 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(process_text_is_read_past_any_name),
		cmocka_unit_test(host_text_counts_all_but_idle_and_iowait),
		cmocka_unit_test(work_done_shows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
