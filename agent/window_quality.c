// SPDX-License-Identifier: Apache-2.0
//
// What a profile says of itself: what was sampled against what busy CPU time predicts, outcomes,
// intervals measured against intervals estimated, how walks ended.
#include "window_private.h"

#include "common/clock.h"
#include "outcomes.h"

#include <string.h>

static int name_outcomes(struct fp_window *window, enum fp_profile_type type,
			 enum fp_program program)
{
	const struct fp_totals *totals = &window->totals[program];
	char name[96];
	int error;

	snprintf(name, sizeof(name), "%s.runs", fp_program_names[program]);
	error = fp_quality_set_named(window->profile, type, name, totals->runs);
	for (int outcome = 0; outcome < FP_OUTCOME_COUNT && !error; outcome++) {
		const struct fp_outcome_row *row = &fp_outcome_rows[outcome];

		if (!totals->outcomes[outcome])
			continue;
		snprintf(name, sizeof(name), "%s.%s.%s", fp_program_names[program],
			 fp_outcome_class_names[row->class], row->label);
		error =
		    fp_quality_set_named(window->profile, type, name, totals->outcomes[outcome]);
	}
	return error;
}

// Intervals that no run of a program stands for, so they are in no outcome either.
static int name_missed(struct fp_window *window)
{
	uint64_t unclosed = window->totals[FP_PROGRAM_SWITCH_OUT].unclosed +
			    window->totals[FP_PROGRAM_SWITCH_IN].unclosed;
	int error = 0;

	if (unclosed)
		error = fp_quality_set_named(window->profile, FP_PROFILE_OFF_CPU,
					     "switch_in.missed.not_closed", unclosed);
	if (!error && window->cut_missed)
		error = fp_quality_set_named(window->profile, FP_PROFILE_OFF_CPU,
					     "blocked.missed.not_cut", window->cut_missed);
	return error;
}

// With the samples of the profile these are all that were aggregated.
static int name_unwanted(struct fp_window *window, enum fp_source source)
{
	if (!window->relabel_dropped[source])
		return 0;
	return fp_quality_set_named(window->profile, fp_window_type(source), "relabel.dropped",
				    window->relabel_dropped[source]);
}

static int name_programs(struct fp_window *window, enum fp_source source)
{
	static const struct {
		enum fp_source source;
		enum fp_program program;
	} rows[] = {
		{ FP_SOURCE_CPU, FP_PROGRAM_CPU },
		{ FP_SOURCE_OFFCPU, FP_PROGRAM_SWITCH_OUT },
		{ FP_SOURCE_OFFCPU, FP_PROGRAM_SWITCH_IN },
		{ FP_SOURCE_OFFCPU, FP_PROGRAM_BLOCKED },
		{ FP_SOURCE_RUNQUEUE, FP_PROGRAM_RUN_QUEUE },
		{ FP_SOURCE_WAKER, FP_PROGRAM_WAKE },
		{ FP_SOURCE_WAKER, FP_PROGRAM_WAKER },
	};
	int error = 0;

	for (size_t i = 0; i < FP_ARRAY_SIZE(rows) && !error; i++) {
		if (rows[i].source == source)
			error = name_outcomes(window, fp_window_type(source), rows[i].program);
	}
	return error;
}

static void add_intervals(uint64_t *counters, const struct fp_durations *durations)
{
	for (int i = 0; i < FP_DURATION_BUCKETS; i++) {
		counters[FP_QUALITY_INTERVALS] += durations->count[i];
		counters[FP_QUALITY_INTERVALS_NS] += durations->sum_ns[i];
	}
}

// What the estimates of this source can be held against, and what they were made with.
static void state_estimate(struct fp_window *window, enum fp_source source,
			   const struct fp_window_facts *facts)
{
	bool ready = source == FP_SOURCE_RUNQUEUE, waker = source == FP_SOURCE_WAKER;
	const struct fp_durations *cut =
	    &window->durations[ready ? FP_DURATIONS_CUT_READY : FP_DURATIONS_CUT_BLOCKED];
	uint64_t *counters = window->profile->quality[fp_window_type(source)].counters;

	add_intervals(counters,
		      &window->durations[ready ? FP_DURATIONS_READY : FP_DURATIONS_BLOCKED]);
	add_intervals(counters, cut);
	for (int i = 0; i < FP_DURATION_BUCKETS; i++)
		counters[FP_QUALITY_INTERVALS_CUT] += cut->count[i];
	// On the way out departures are picked by their weight, of whatever length.
	if (waker || strcmp(facts->hook[source], fp_offcpu_hook_name(FP_HOOK_WAY_OUT)) != 0) {
		counters[FP_QUALITY_QUANTUM_MIN_NS] =
		    waker ? window->waker_quantum_min_ns : window->quantum_min_ns;
		counters[FP_QUALITY_QUANTUM_MAX_NS] =
		    waker ? window->waker_quantum_max_ns : window->quantum_max_ns;
	}
	counters[FP_QUALITY_WEIGHT_MAX] = window->weight_max;
	counters[FP_QUALITY_WALK_BUDGET] = facts->quantum_fixed ? 0 : facts->walk_budget;
}

static uint64_t walks_of(const struct fp_window *window, enum fp_source source)
{
	if (source == FP_SOURCE_WAKER)
		return window->totals[FP_PROGRAM_WAKE].walks;
	if (source != FP_SOURCE_OFFCPU)
		return 0; // one walk serves both parts of an interval
	return window->totals[FP_PROGRAM_SWITCH_OUT].walks +
	       window->totals[FP_PROGRAM_SWITCH_IN].walks +
	       window->totals[FP_PROGRAM_BLOCKED].walks;
}

static int complete_quality(struct fp_window *window, enum fp_source source,
			    const struct fp_window_facts *facts)
{
	enum fp_profile_type type = fp_window_type(source);
	struct fp_quality *quality = &window->profile->quality[type];
	int error;

	quality->present = true;
	quality->counters[FP_QUALITY_STACKS_LOST] = window->stacks_lost[source];
	quality->counters[FP_QUALITY_SIDEBAND_LOST] = window->sideband_lost;
	quality->counters[FP_QUALITY_CPUS] = facts->cpus;
	quality->counters[FP_QUALITY_MAP_ENTRIES_PEAK] = window->entries_peak;
	quality->counters[FP_QUALITY_MAP_CAPACITY] = facts->capacity;
	quality->counters[FP_QUALITY_EPOCHS] = window->epochs;
	quality->counters[FP_QUALITY_WALKS] = walks_of(window, source);
	error = fp_profile_cstring(window->profile, facts->hook[source], &quality->hook);
	if (!error)
		error = name_unwanted(window, source);
	if (!error)
		error = name_programs(window, source);
	if (!error && source == FP_SOURCE_OFFCPU)
		error = name_missed(window);
	if (!error && source == FP_SOURCE_WAKER && window->totals[FP_PROGRAM_WAKE].unclosed)
		error = fp_quality_set_named(window->profile, type, "wake.missed.unseen",
					     window->totals[FP_PROGRAM_WAKE].unclosed);
	if (source != FP_SOURCE_CPU) {
		state_estimate(window, source, facts);
		return error;
	}
	quality->counters[FP_QUALITY_HZ_REQUESTED] = facts->hz_requested;
	quality->counters[FP_QUALITY_HZ_ACTUAL] = facts->hz_actual;
	return error;
}

static void expect_samples(struct fp_window *window, const struct fp_window_facts *facts)
{
	uint64_t from_ns = window->start.busy_ns, to_ns = window->end.busy_ns;
	uint64_t unwanted = window->relabel_dropped[FP_SOURCE_CPU];
	double samples;

	if (!facts->has_source[FP_SOURCE_CPU] || from_ns == UINT64_MAX || to_ns == UINT64_MAX ||
	    to_ns < from_ns)
		return;
	// What a rule drops is missing on purpose, so it is not expected either.
	samples = (double)(to_ns - from_ns) / FP_NS_PER_S * facts->hz_actual - (double)unwanted;
	window->profile->quality[FP_PROFILE_CPU].counters[FP_QUALITY_EXPECTED_SAMPLES] =
	    samples > 0 ? (uint64_t)(samples + 0.5) : 0;
}

int fp_window_complete(struct fp_window *window, const struct fp_window_facts *facts)
{
	int error = 0;

	expect_samples(window, facts);
	for (int source = 0; source < FP_SOURCE_COUNT && !error; source++) {
		if (facts->has_source[source])
			error = complete_quality(window, (enum fp_source)source, facts);
	}
	return error;
}
