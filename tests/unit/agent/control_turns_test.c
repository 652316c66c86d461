// SPDX-License-Identifier: Apache-2.0
// Whose turn it is: the decision alone, with a clock of the test's own.
#include "agent/control_turns.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define S FP_NS_PER_S

static const struct fp_peer root = { .trusted = true };
static const struct fp_peer member = { .uid = 7, .trusted = true };
static const struct fp_peer alice = { .uid = 1000 }, bob = { .uid = 1001 };

static const struct row {
	const char *name;
	const struct fp_peer *ended, *asks, *runs;
	uint64_t after_ns; // since `ended` ended
	enum fp_turn turn;
	uint64_t wait_ns;
} rows[] = {
	{ "a first snapshot starts", NULL, &alice, NULL, 0, FP_TURN_START, 0 },
	{ "a second one at once must wait", &alice, &alice, NULL, 0, FP_TURN_PAUSE, 10 * S },
	{ "and still just before the end of the pause", &alice, &alice, NULL, 10 * S - 1,
	  FP_TURN_PAUSE, 1 },
	{ "and starts when it is over", &alice, &alice, NULL, 10 * S, FP_TURN_START, 0 },
	{ "another user does not wait for it", &alice, &bob, NULL, 0, FP_TURN_START, 0 },
	{ "root does not wait", &root, &root, NULL, 0, FP_TURN_START, 0 },
	{ "a member of the group does not wait", &member, &member, NULL, 0, FP_TURN_START, 0 },
	{ "a user's snapshot keeps another user out", NULL, &bob, &alice, 0, FP_TURN_BUSY, 0 },
	{ "and their own second one", NULL, &alice, &alice, 0, FP_TURN_BUSY, 0 },
	{ "but root ends it", NULL, &root, &alice, 0, FP_TURN_PREEMPT, 0 },
	{ "and so does the group", NULL, &member, &alice, 0, FP_TURN_PREEMPT, 0 },
	{ "nobody ends root's", NULL, &alice, &root, 0, FP_TURN_BUSY, 0 },
	{ "nor does root end the group's", NULL, &root, &member, 0, FP_TURN_BUSY, 0 },
};

static void every_row(void **state)
{
	for (size_t i = 0; i < FP_ARRAY_SIZE(rows); i++) {
		struct fp_turns turns = { 0 };
		uint64_t wait_ns = 0;

		print_message("  %s\n", rows[i].name);
		if (rows[i].ended)
			fp_turns_ended(&turns, rows[i].ended, 5 * S);
		assert_int_equal(fp_turns_decide(&turns, rows[i].asks, rows[i].runs,
						 5 * S + rows[i].after_ns, &wait_ns),
				 rows[i].turn);
		assert_int_equal(wait_ns, rows[i].wait_ns);
	}
}

// More users than are remembered: none of them gets out of the pause by that.
static void a_crowd_waits(void **state)
{
	struct fp_turns turns = { 0 };
	struct fp_peer one = { .uid = 2000 };
	uint64_t wait_ns = 0;

	for (uint32_t i = 0; i < FP_TURNS_UIDS_MAX; i++, one.uid++) {
		assert_int_equal(fp_turns_decide(&turns, &one, NULL, i, &wait_ns), FP_TURN_START);
		fp_turns_ended(&turns, &one, i);
	}
	assert_int_equal(fp_turns_decide(&turns, &one, NULL, S, &wait_ns), FP_TURN_PAUSE);
	assert_int_equal(wait_ns, 9 * S);
	assert_int_equal(fp_turns_decide(&turns, &root, NULL, S, &wait_ns), FP_TURN_START);
	assert_int_equal(fp_turns_decide(&turns, &one, NULL, 10 * S, &wait_ns), FP_TURN_START);
	fp_turns_ended(&turns, &one, 10 * S); // takes the place of the first
	one.uid = 2001;
	assert_int_equal(fp_turns_decide(&turns, &one, NULL, 10 * S, &wait_ns), FP_TURN_PAUSE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_row),
		cmocka_unit_test(a_crowd_waits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
