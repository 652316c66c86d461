// SPDX-License-Identifier: Apache-2.0
//
// Threshold sampling is unbiased, on the live kernel: tests/programs/waits sleeps for 20 µs to
// 200 ms, each length on a stack of its own, and three samplers watch it at once: one with a
// quantum T, one with 2 T, and one that keeps every interval, which is the truth: the very
// intervals that the others sample. Per stack and round the estimate is held against the
// standard error that sampling has, √Σ d (T − d) over the intervals d < T; over all rounds the
// mean error against that of the mean; and the two quanta against one another. For every hook;
// on the way out, where no length is known yet, with a budget of walks and with half of it: one
// departure in w is kept, with the standard error √Σ d² (w − 1).
//
// Of so many comparisons some are beyond three standard errors by chance: of 540 one or two. So
// what fails is what chance does in one of 10,000 such runs (FAMILY_ERROR), by Bernstein's
// inequality, which holds however few intervals were kept; how many were beyond three is printed.
// The samplers run one after the other, so their stamps of one return lie apart, by the walk of
// the one in front where that kept the interval: some tens of microseconds, which are allowed for
// (stamp_allowance). Each sampler's own total is also held against what itself measured of all
// intervals, where nothing is to be allowed for. FP_TEST_FULL=1: 20 rounds of 60 s, T = 10 ms; an
// argument runs the tests whose name it matches alone ("*interrupt", 20 minutes each).
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/records.h"
#include "agent/sampler.h"
#include "chance.h"
#include "waits_program.h"
#include "threshold_watch.h"

static bool within(struct run *run, const char *what, double error, const struct spread *spread,
		   struct allowance allowance)
{
	double standard = sqrt(spread->variance);
	double bound = chance_bound(spread, FAMILY_ERROR, COMPARISONS);
	double rest = error + (error < 0 ? allowance.below : -allowance.above);
	bool holds = error < 0 ? rest >= -bound : rest <= bound;

	run->comparisons++;
	run->beyond_three += error < 0 ? rest < -3 * standard : rest > 3 * standard;
	if (!holds)
		print_message("  FAIL %s: error %+.6f s, standard error %.6f s, allowed beside "
			      "chance -%.6f +%.6f s\n",
			      what, error, standard, allowance.below, allowance.above);
	return holds;
}

// What the walks of the others do to one's stamps, see watch(). The exact one is always longer.
static struct allowance stamp_allowance(const struct run *run, const struct leaf *leaf, int role)
{
	bool way_out = run->hook == FP_HOOK_WAY_OUT;
	double count = (double)leaf->of[EXACT].count;
	uint64_t walks = way_out ? 0 : leaf->of[TWICE].count;

	double slower = is_emulated() ? EMULATED_SLOWER : 1;

	if ((role == TWICE) == way_out)
		walks += leaf->of[ONCE].count;
	return (struct allowance){ slower * (STEAL_S + (way_out ? SWITCH_S : STAMP_S) * count +
					     WALK_S * (double)walks),
				   slower * (STEAL_S + STAMP_S * count) };
}

static int compare_stack(struct run *run, const json_t *waiter, struct stack *stack)
{
	const char *name = json_string_value(json_object_get(waiter, "name"));
	uint64_t waits = (uint64_t)json_integer_value(json_object_get(waiter, "waits"));
	const struct leaf *leaf = main_leaf(&run->leaves, name);
	double truth = (double)leaf->of[EXACT].value / 1e9, error[2];
	struct allowance allowance;
	struct spread spread[2], both;
	int failures = 0;

	assert_in_range(leaf->of[EXACT].count, waits / 200,
			waits); // short ones may be over at once
	snprintf(stack->name, sizeof(stack->name), "%s", name);
	stack->rounds++;
	for (int role = ONCE; role <= TWICE; role++) {
		double quantum = (double)run->quantum_ns / 1e9 * (role == TWICE ? 2 : 1);

		error[role] = (double)leaf->of[role].value / 1e9 - truth;
		spread[role] = stack_spread(json_object_get(waiter, "lengths"), quantum,
					    (double)run->watchers[role].weight);
		allowance = stamp_allowance(run, leaf, role);
		stack->largest = fmax(stack->largest, spread[role].largest);
		failures += !within(run, name, error[role], &spread[role], allowance);
		stack->error[role] += error[role];
		stack->kept[role] += leaf->of[role].count;
		stack->variance[role] += spread[role].variance;
		stack->allowance[role].below += allowance.below / rounds();
		stack->allowance[role].above += allowance.above / rounds();
	}
	both = (struct spread){ spread[0].variance + spread[1].variance,
				fmax(spread[0].largest, spread[1].largest), 0 };
	allowance = stamp_allowance(run, leaf, run->hook == FP_HOOK_WAY_OUT ? TWICE : ONCE);
	allowance.above = allowance.below;
	return failures + !within(run, name, error[TWICE] - error[ONCE], &both, allowance);
}

static int compare(struct run *run, const char *truth)
{
	json_t *root = json_loads(truth, 0, NULL), *waiter;
	int failures = 0;
	size_t i;

	assert_non_null(root);
	assert_int_equal(json_array_size(json_object_get(root, "waiters")), STACKS);
	json_array_foreach(json_object_get(root, "waiters"), i, waiter) failures +=
	    compare_stack(run, waiter, &run->stacks[i]);
	json_decref(root);
	return failures;
}

// Mean errors over all rounds.
static int compare_means(struct run *run)
{
	int failures = 0;

	for (int i = 0; i < STACKS; i++) {
		const struct stack *stack = &run->stacks[i];

		for (int role = ONCE; role <= TWICE; role++) {
			double rounds = stack->rounds,
			       standard = sqrt(stack->variance[role]) / rounds;
			struct spread spread = { stack->variance[role] / rounds / rounds,
						 stack->largest / rounds,
						 (double)stack->kept[role] };

			print_message("  %-11s %s mean error %+.6f s, %+.2f standard errors\n",
				      stack->name, role == TWICE ? "2 T" : "  T",
				      stack->error[role] / rounds,
				      standard > 0 ? stack->error[role] / rounds / standard : 0);
			failures += !within(run, stack->name, stack->error[role] / rounds, &spread,
					    stack->allowance[role]);
		}
	}
	return failures;
}

// Nothing but sampling is between what a sampler measured and what it estimates.
static int compare_totals(struct run *run)
{
	int failures = 0;

	for (int role = 0; role < SAMPLERS; role++) {
		const struct watcher *watcher = &run->watchers[role];
		double error = watcher->estimated - watcher->measured;

		print_message("  all stacks, %s: %.3f s measured, error %+.3f s, %+.2f standard "
			      "errors\n",
			      role == EXACT   ? "all kept"
			      : role == TWICE ? "2 T"
					      : "T",
			      watcher->measured, error,
			      watcher->spread.variance > 0 ? error / sqrt(watcher->spread.variance)
							   : 0);
		failures += !within(run, "all stacks", error, &watcher->spread,
				    (struct allowance){ 1e-3, 1e-3 });
	}
	return failures;
}

static int play_round(struct run *run, uint32_t seed)
{
	static char truth[1 << 17];
	struct program program = start_program(run->seconds, seed);
	struct pollfd pollfd = { .fd = program.out, .events = POLLIN };
	int failures;

	memset(&run->leaves, 0, sizeof(run->leaves));
	for (int role = 0; role < SAMPLERS; role++)
		run->watchers[role].tgid = (uint32_t)program.pid, run->watchers[role].weight = 0;
	assert_int_equal(write(program.in, "\n", 1), 1);
	do {
		for (int role = 0; role < SAMPLERS; role++)
			drain(&run->watchers[role]);
	} while (poll(&pollfd, 1, 1000) == 0);
	read_line(&program, truth, sizeof(truth));
	for (int role = 0; role < SAMPLERS; role++)
		drain(&run->watchers[role]);
	failures = compare(run, truth);
	end_program(&program);
	return failures;
}

static void check_hook(enum fp_offcpu_hook hook)
{
	struct run *run = calloc(1, sizeof(*run));
	const struct fp_totals *exact;
	int failures = 0;

	assert_non_null(run);
	exact = &run->watchers[EXACT].in;
	run->hook = hook;
	if (hook == FP_HOOK_WAY_OUT)
		run->budget = is_full() ? 500 : is_emulated() ? EMULATED_BUDGET : 10000;
	else
		run->quantum_ns = is_full() ? 10000000 : 2000000;
	run->seconds = is_full() ? 60 : 0.5;
	if (!watch(run)) {
		assert_true(hook != FP_HOOK_WAY_OUT); // every kernel has that one
		unwatch(run);
		free(run);
		return;
	}
	print_message("%s, T = %.0f ms, budget %u, %u rounds of %.1f s\n",
		      fp_sampler_hook(run->watchers[ONCE].sampler, FP_SOURCE_OFFCPU),
		      (double)run->quantum_ns / 1e6, run->budget, rounds(), run->seconds);
	for (uint32_t seed = 1; seed <= rounds(); seed++)
		failures += play_round(run, seed);
	failures += compare_means(run) + compare_totals(run);
	print_message("  %u comparisons, %u beyond 3 standard errors, %d beyond chance\n",
		      run->comparisons, run->beyond_three, failures);
	// Stamps of two CPUs may make an interval of nothing, which counts nothing.
	print_message("  all kept: %llu intervals, %llu of them of no length\n",
		      (unsigned long long)exact->outcomes[FP_OUTCOME_AGGREGATED],
		      (unsigned long long)exact->outcomes[FP_OUTCOME_NOT_KEPT]);
	assert_in_range(exact->outcomes[FP_OUTCOME_NOT_KEPT], 0,
			20 + exact->outcomes[FP_OUTCOME_AGGREGATED] / 10000);
	assert_true(run->watchers[ONCE].in.outcomes[FP_OUTCOME_NOT_KEPT] >
		    (is_emulated() ? 100 : 1000));
	unwatch(run);
	assert_int_equal(failures, 0);
	free(run);
}

static void every_stack_is_right_closed_in_an_interrupt(void **state)
{
	check_hook(FP_HOOK_IRQ_WORK);
}

static void every_stack_is_right_closed_at_sched_exit(void **state)
{
	check_hook(FP_HOOK_SCHED_EXIT);
}

static void every_stack_is_right_closed_at_fexit(void **state)
{
	check_hook(FP_HOOK_FEXIT);
}

static void every_stack_is_right_taken_on_the_way_out(void **state)
{
	check_hook(FP_HOOK_WAY_OUT);
}

int main(int argc, char *argv[])
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_stack_is_right_closed_in_an_interrupt),
		cmocka_unit_test(every_stack_is_right_closed_at_sched_exit),
		cmocka_unit_test(every_stack_is_right_closed_at_fexit),
		cmocka_unit_test(every_stack_is_right_taken_on_the_way_out),
	};

	if (geteuid() != 0) {
		puts("skipped: sampling the host needs root");
		return 77;
	}
	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
