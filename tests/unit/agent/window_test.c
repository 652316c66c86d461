// SPDX-License-Identifier: Apache-2.0
//
// The window's books: what is drained without frames is still there and counted, and the
// quality record holds what the epochs came to.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/window.h"

#include <unistd.h>

static const struct fp_window_facts facts = {
	.hz_requested = 99,
	.hz_actual = 49,
	.cpus = 2,
	.capacity = 64,
	.has_source = { true, true, true, true },
	.hook = { "cpu-clock", "way_out", "way_out", "way_out" },
};

static uint64_t named(const struct fp_profile *profile, enum fp_profile_type type, const char *name)
{
	const struct fp_quality *quality = &profile->quality[type];

	for (uint32_t i = 0; i < quality->named_count; i++) {
		if (!strcmp(fp_profile_str(profile, quality->named[i].name), name))
			return quality->named[i].value;
	}
	return UINT64_MAX;
}

static void a_count_without_frames_is_a_lost_stack_not_a_lost_sample(void **state)
{
	struct fp_count count = { .count = 7, .value = 700 };
	struct fp_resolver resolver = { 0 };
	struct fp_profile *profile;
	struct fp_window window;

	assert_int_equal(fp_window_open(&window, 0, NULL), 0);
	for (int source = 0; source < FP_SOURCE_COUNT; source++)
		assert_int_equal(fp_window_count(&window, &resolver, source, &count, NULL), 0);
	fp_window_end(&window);
	assert_int_equal(fp_window_close(&window, &facts, &profile), 0);
	assert_int_equal(profile->samples_count, FP_SOURCE_COUNT);
	assert_int_equal(profile->samples[0].value, 7); // samples
	for (int source = FP_SOURCE_OFFCPU; source < FP_SOURCE_COUNT; source++)
		assert_int_equal(profile->samples[source].value, 700); // nanoseconds
	for (int type = FP_PROFILE_CPU; type < FP_PROFILE_TYPES; type++) {
		const uint64_t *counters = profile->quality[type].counters;

		assert_true(profile->quality[type].present);
		assert_int_equal(counters[FP_QUALITY_SAMPLES], 7);
		assert_int_equal(counters[FP_QUALITY_STACKS_LOST], 7);
	}
	fp_profile_free(profile);
}

static void epochs_add_up_in_the_quality_record(void **state)
{
	struct fp_epoch epoch = { .entries = { 3, 40 } };
	struct fp_profile *profile;
	struct fp_window window;

	epoch.totals[FP_PROGRAM_CPU].runs = 10;
	epoch.totals[FP_PROGRAM_CPU].outcomes[FP_OUTCOME_AGGREGATED] = 9;
	epoch.totals[FP_PROGRAM_CPU].outcomes[FP_OUTCOME_MAP_FULL] = 1;
	epoch.totals[FP_PROGRAM_SWITCH_OUT].runs = 5;
	epoch.totals[FP_PROGRAM_SWITCH_OUT].unclosed = 4;
	epoch.totals[FP_PROGRAM_SWITCH_OUT].outcomes[FP_OUTCOME_PREEMPTED] = 5;
	assert_int_equal(fp_window_open(&window, 0, NULL), 0);
	fp_window_epoch(&window, &epoch);
	fp_window_epoch(&window, &epoch);
	fp_window_end(&window);
	assert_int_equal(fp_window_close(&window, &facts, &profile), 0);
	assert_int_equal(named(profile, FP_PROFILE_CPU, "cpu.runs"), 20);
	assert_int_equal(named(profile, FP_PROFILE_CPU, "cpu.kept.aggregated"), 18);
	assert_int_equal(named(profile, FP_PROFILE_CPU, "cpu.dropped.map_full"), 2);
	assert_int_equal(named(profile, FP_PROFILE_OFF_CPU, "switch_out.filtered.preempted"), 10);
	assert_int_equal(named(profile, FP_PROFILE_OFF_CPU, "switch_in.missed.not_closed"), 8);
	assert_int_equal(named(profile, FP_PROFILE_OFF_CPU, "switch_in.runs"), 0);
	assert_int_equal(named(profile, FP_PROFILE_CPU, "switch_out.runs"), UINT64_MAX);
	assert_int_equal(profile->quality[FP_PROFILE_CPU].counters[FP_QUALITY_EPOCHS], 2);
	assert_int_equal(profile->quality[FP_PROFILE_CPU].counters[FP_QUALITY_MAP_ENTRIES_PEAK],
			 40);
	assert_int_equal(profile->quality[FP_PROFILE_CPU].counters[FP_QUALITY_HZ_ACTUAL], 49);
	assert_int_equal(profile->period_ns, 1000000000 / 49);
	assert_true(profile->end_boottime_ns >= profile->start_boottime_ns);
	fp_profile_free(profile);
}

static void a_stack_of_a_task_not_back_yet_adds_nothing(void **state)
{
	struct fp_count count = { .count = 0, .announced = 1 };
	struct fp_resolver resolver = { 0 };
	struct fp_window window;

	assert_int_equal(fp_window_open(&window, 0, NULL), 0);
	assert_int_equal(fp_window_count(&window, &resolver, FP_SOURCE_OFFCPU, &count, NULL), 0);
	assert_int_equal(window.profile->samples_count, 0);
	assert_int_equal(window.stacks_lost[FP_SOURCE_OFFCPU], 0);
	fp_window_free(&window);
}

static void the_expectation_ends_with_the_sampling(void **state)
{
	struct fp_moment start = { .boottime_ns = 5, .realtime_ns = 6, .busy_ns = 1000 };
	struct fp_profile *profile;
	struct fp_window window;

	assert_int_equal(fp_window_open(&window, 0, &start), 0);
	fp_window_end(&window);
	window.end.busy_ns = 1000 + 2000000000; // two CPU-seconds
	usleep(20000);				// what comes later is not waited for
	assert_int_equal(fp_window_close(&window, &facts, &profile), 0);
	assert_int_equal(profile->quality[FP_PROFILE_CPU].counters[FP_QUALITY_EXPECTED_SAMPLES],
			 98);
	assert_int_equal(profile->start_boottime_ns, 5);
	assert_int_equal(profile->start_realtime_ns, 6);
	fp_profile_free(profile);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_expectation_ends_with_the_sampling),
		cmocka_unit_test(a_count_without_frames_is_a_lost_stack_not_a_lost_sample),
		cmocka_unit_test(epochs_add_up_in_the_quality_record),
		cmocka_unit_test(a_stack_of_a_task_not_back_yet_adds_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
