// SPDX-License-Identifier: Apache-2.0
//
// The list of online CPUs in all the forms the kernel writes it in, and some it does not.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/cpus.h"

#include <errno.h>
#include <unistd.h>

static const struct {
	const char *sentence, *list;
	int result;
	uint32_t count, highest;
} cases[] = {
	{ "one CPU", "0\n", 0, 1, 0 },
	{ "a range", "0-3\n", 0, 4, 3 },
	{ "holes", "0,2-3,7\n", 0, 4, 7 },
	{ "no final newline", "0-1", 0, 2, 1 },
	{ "a CPU named twice counts once", "0-2,1\n", 0, 3, 2 },
	{ "the highest that there can be", "8191\n", 0, 1, 8191 },
	{ "one past it", "8192\n", -EINVAL, 0, 0 },
	{ "an empty list", "\n", -EINVAL, 0, 0 },
	{ "a range that runs backwards", "3-1\n", -EINVAL, 0, 0 },
	{ "text", "all\n", -EINVAL, 0, 0 },
	{ "text after a number", "0-1x\n", -EINVAL, 0, 0 },
	{ "half a range", "0-\n", -EINVAL, 0, 0 },
};

static void lists_are_read_as_stated(void **state)
{
	static struct fp_cpus cpus;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		print_message("%s\n", cases[i].sentence);
		assert_int_equal(fp_cpus_parse(cases[i].list, &cpus), cases[i].result);
		if (cases[i].result)
			continue;
		assert_int_equal(cpus.count, cases[i].count);
		assert_int_equal(cpus.highest, cases[i].highest);
	}
}

static void this_host_has_online_cpus(void **state)
{
	static struct fp_cpus cpus;

	assert_int_equal(fp_cpus_read(&cpus), 0);
	assert_int_equal(cpus.count, sysconf(_SC_NPROCESSORS_ONLN));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lists_are_read_as_stated),
		cmocka_unit_test(this_host_has_online_cpus),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
