// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "agent/quantum.h"
#include "common/clock.h"

#define US 1000ULL
#define MS 1000000ULL
#define S  FP_NS_PER_S

static struct fp_durations durations;

static void add(uint64_t count, uint64_t length_ns)
{
	uint32_t bucket = 0; // see struct fp_durations

	while (length_ns / 1000 >> bucket)
		bucket++;

	durations.count[bucket] += count;
	durations.sum_ns[bucket] += count * length_ns;
}

static int clear(void **state)
{
	durations = (struct fp_durations){ 0 };
	return 0;
}

static void walks_are_the_long_ones_and_the_short_ones_time_over_the_quantum(void **state)
{
	add(1000, 100 * US); // 0.1 s in all
	add(30, 50 * MS);    // 1.5 s in all
	assert_float_equal(fp_quantum_walks(&durations, 10 * US), 1030, 1e-6);
	assert_float_equal(fp_quantum_walks(&durations, 10 * MS), 10 + 30, 1e-6);
	assert_float_equal(fp_quantum_walks(&durations, 100 * MS), 1 + 15, 1e-6);
}

static void the_least_quantum_within_the_budget_is_taken(void **state)
{
	uint64_t quantum;

	assert_int_equal(fp_quantum_for(&durations, 10), FP_QUANTUM_LEAST); // nothing happens
	add(100000, 100 * US);						    // 10 s in all
	quantum = fp_quantum_for(&durations, 2500);			    // 10 s / 2500 = 4 ms
	assert_in_range(quantum, 4 * MS, 4 * MS + 4 * MS / 8);
	assert_true(fp_quantum_walks(&durations, quantum) <= 2500);
	assert_int_equal(fp_quantum_for(&durations, 100000), FP_QUANTUM_LEAST);
}

static void no_number_of_threads_is_too_many(void **state)
{
	uint64_t quantum;

	add(10000000, 10 * MS); // 20,000 threads for 5 s: 100,000 s in all
	quantum = fp_quantum_for(&durations, 2000);
	assert_in_range(quantum, 50 * S, 57 * S);
	assert_int_equal(fp_quantum_for(&durations, 0.0001), FP_QUANTUM_MOST);
}

static void upwards_at_once_downwards_by_halves(void **state)
{
	uint64_t quantum;

	add(1000000, 100 * US); // 100 s in all, in 5 s
	quantum = fp_quantum_next(US, &durations, 5 * S, 400);
	assert_in_range(quantum, 50 * MS, 57 * MS);
	clear(NULL);
	assert_int_equal(fp_quantum_next(quantum, &durations, 5 * S, 400), quantum / 2);
	assert_int_equal(fp_quantum_next(1500, &durations, 5 * S, 400), FP_QUANTUM_LEAST);
	assert_int_equal(fp_quantum_next(FP_QUANTUM_LEAST, &durations, 5 * S, 400),
			 FP_QUANTUM_LEAST);
}

static void a_weight_is_departures_over_walks(void **state)
{
	assert_int_equal(fp_weight_next(1, 1999, 5 * S, 400), 1);
	assert_int_equal(fp_weight_next(1, 2000, 5 * S, 400), 1);
	assert_int_equal(fp_weight_next(1, 2001, 5 * S, 400), 2);
	assert_int_equal(fp_weight_next(1, 1000000, 5 * S, 400), 500);
	assert_int_equal(fp_weight_next(500, 0, 5 * S, 400), 250); // downwards by halves
	assert_int_equal(fp_weight_next(1, 0, 5 * S, 400), 1);
	assert_int_equal(fp_weight_next(1, UINT64_MAX / 2, S, 1), FP_WEIGHT_MOST);
	assert_int_equal(fp_weight_next(1, 1000, 1, 1), FP_WEIGHT_MOST); // no time, no walks
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(
		    walks_are_the_long_ones_and_the_short_ones_time_over_the_quantum, clear),
		cmocka_unit_test_setup(the_least_quantum_within_the_budget_is_taken, clear),
		cmocka_unit_test_setup(no_number_of_threads_is_too_many, clear),
		cmocka_unit_test_setup(upwards_at_once_downwards_by_halves, clear),
		cmocka_unit_test_setup(a_weight_is_departures_over_walks, clear),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
