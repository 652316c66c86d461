// SPDX-License-Identifier: Apache-2.0
#include "window.h"

#include "busytime.h"
#include "common/clock.h"
#include "outcomes.h"

#include <errno.h>

struct known { // what a stack was resolved to
	struct fp_resolved resolved;
	uint32_t epoch;
};

static enum fp_profile_type profile_type(enum fp_source source)
{
	return source == FP_SOURCE_CPU ? FP_PROFILE_CPU : FP_PROFILE_OFF_CPU;
}

static struct fp_moment moment_now(uint32_t tgid)
{
	struct fp_moment now = { .boottime_ns = fp_boottime_ns(), .realtime_ns = fp_realtime_ns() };

	if (fp_busy_time(tgid, &now.busy_ns))
		now.busy_ns = UINT64_MAX; // unknown: no expectation is stated
	return now;
}

int fp_window_open(struct fp_window *window, uint32_t tgid, const struct fp_moment *start)
{
	struct fp_profile *profile;
	int error = fp_profile_new(&profile);

	if (error)
		return error;
	*window = (struct fp_window){ .profile = profile,
				      .resolved = FP_HASHMAP_INIT(struct fp_key, struct known),
				      .start = start ? *start : moment_now(tgid),
				      .tgid = tgid };
	return 0;
}

void fp_window_end(struct fp_window *window)
{
	window->end = moment_now(window->tgid);
}

void fp_window_free(struct fp_window *window)
{
	fp_profile_free(window->profile);
	window->profile = NULL;
	fp_hashmap_free(&window->resolved);
}

// epoch is 0 in an entry that has just been made, and the epoch's number plus one later.
static bool usable(const struct fp_window *window, const struct known *known)
{
	return known->epoch != 0 &&
	       (!known->resolved.provisional || known->epoch == window->epochs + 1);
}

bool fp_window_knows(const struct fp_window *window, const struct fp_stack_record *record)
{
	const struct known *known = fp_hashmap_get(&window->resolved, &record->key);

	return known && usable(window, known);
}

static int resolve_once(struct fp_window *window, struct fp_resolver *resolver,
			const struct fp_stack_record *record, struct fp_resolved **ret)
{
	struct known *known = fp_hashmap_put(&window->resolved, &record->key, NULL);
	int error = known ? 0 : -ENOMEM;

	if (!error && !usable(window, known)) {
		error = fp_resolver_resolve(resolver, record, window->profile, &known->resolved);
		known->epoch = window->epochs + 1;
	}
	if (error && known)
		fp_hashmap_remove(&window->resolved, &record->key);
	else if (known)
		*ret = &known->resolved;
	return error;
}

static void count_walk_end(uint64_t *counters, enum fp_walk_end end, uint64_t count)
{
	static const enum fp_quality_counter by_end[FP_WALK_END_COUNT] = {
		[FP_WALK_END_NONE] = FP_QUALITY_USER_UNKNOWN,
		[FP_WALK_END_ROOT] = FP_QUALITY_USER_COMPLETE,
		[FP_WALK_END_BROKEN] = FP_QUALITY_USER_BROKEN,
		[FP_WALK_END_FAULT] = FP_QUALITY_USER_FAULT,
		[FP_WALK_END_DEPTH] = FP_QUALITY_USER_DEPTH,
		[FP_WALK_END_UNKNOWN] = FP_QUALITY_USER_UNKNOWN,
	};

	counters[by_end[end]] += count;
}

static int count_quality(struct fp_window *window, enum fp_profile_type type,
			 const struct fp_resolved *resolved, uint64_t count)
{
	uint64_t *counters = window->profile->quality[type].counters;
	struct fp_build_quality *build;

	counters[FP_QUALITY_FRAMES] += resolved->frames * count;
	counters[FP_QUALITY_FRAMES_NO_BUILD_ID] += resolved->frames_no_build_id * count;
	counters[FP_QUALITY_FRAMES_JIT] += resolved->frames_jit * count;
	counters[FP_QUALITY_FRAMES_ANON] += resolved->frames_anon * count;
	counters[FP_QUALITY_FRAMES_UNMAPPED] += resolved->frames_unmapped * count;
	counters[FP_QUALITY_PROCESSES_UNKNOWN] += resolved->process_unknown ? count : 0;
	if (!resolved->has_user)
		return 0;
	counters[FP_QUALITY_USER_STACKS] += count;
	count_walk_end(counters, resolved->walk_end, count);
	if (resolved->stop_build == FP_NO_BUILD)
		return 0;
	build = fp_quality_build(window->profile, type, resolved->stop_build);
	if (!build)
		return -ENOMEM;
	build->stacks += count;
	if (resolved->walk_end == FP_WALK_END_BROKEN || resolved->walk_end == FP_WALK_END_FAULT)
		build->stopped += count;
	return 0;
}

static int lost_stack(struct fp_profile *profile, struct fp_sample *sample)
{
	struct fp_frame frame = { .kind = FP_FRAME_ERROR, .build = FP_NO_BUILD };
	uint32_t index;
	int error = fp_profile_cstring(profile, "[stack lost]", &frame.name);

	if (!error)
		error = fp_profile_frame(profile, &frame, &index);
	if (!error)
		error = fp_profile_stack(profile, &index, 1, &sample->stack);
	if (!error)
		error = fp_profile_labels(profile, NULL, 0, &sample->labels);
	return error;
}

int fp_window_count(struct fp_window *window, struct fp_resolver *resolver, enum fp_source source,
		    const struct fp_count *count, const struct fp_stack_record *record)
{
	enum fp_profile_type type = profile_type(source);
	struct fp_sample sample = { .type = type,
				    .count = count->count,
				    .value =
					source == FP_SOURCE_CPU ? count->count : count->value };
	struct fp_resolved *resolved;
	int error;

	if (!count->count)
		return 0; // a stack of a task that has not come back yet
	if (!record) {
		window->profile->quality[type].counters[FP_QUALITY_SAMPLES] += count->count;
		window->stacks_lost[source] += count->count;
		error = lost_stack(window->profile, &sample);
		return error ? error : fp_profile_sample(window->profile, &sample);
	}
	error = resolve_once(window, resolver, record, &resolved);
	if (error)
		return error;
	if (resolved->unwanted) {
		window->relabel_dropped[source] += count->count;
		return 0;
	}
	window->profile->quality[type].counters[FP_QUALITY_SAMPLES] += count->count;
	sample.stack = resolved->stack;
	sample.labels = resolved->labels;
	error = count_quality(window, type, resolved, count->count);
	return error ? error : fp_profile_sample(window->profile, &sample);
}

void fp_window_epoch(struct fp_window *window, const struct fp_epoch *epoch)
{
	for (int program = 0; program < FP_PROGRAM_COUNT; program++)
		fp_totals_add(&window->totals[program], &epoch->totals[program]);
	for (int source = 0; source < FP_SOURCE_COUNT; source++) {
		if (epoch->entries[source] > window->entries_peak)
			window->entries_peak = epoch->entries[source];
	}
	window->epochs++;
}

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
static int name_unclosed(struct fp_window *window)
{
	uint64_t unclosed = window->totals[FP_PROGRAM_SWITCH_OUT].unclosed;

	if (!unclosed)
		return 0;
	return fp_quality_set_named(window->profile, FP_PROFILE_OFF_CPU,
				    "switch_in.missed.return_unseen", unclosed);
}

// With the samples of the profile these are all that were aggregated.
static int name_unwanted(struct fp_window *window, enum fp_source source)
{
	if (!window->relabel_dropped[source])
		return 0;
	return fp_quality_set_named(window->profile, profile_type(source), "relabel.dropped",
				    window->relabel_dropped[source]);
}

static int complete_quality(struct fp_window *window, enum fp_source source,
			    const struct fp_window_facts *facts)
{
	enum fp_profile_type type = profile_type(source);
	struct fp_quality *quality = &window->profile->quality[type];
	int error;

	quality->present = true;
	quality->counters[FP_QUALITY_STACKS_LOST] = window->stacks_lost[source];
	quality->counters[FP_QUALITY_SIDEBAND_LOST] = window->sideband_lost;
	quality->counters[FP_QUALITY_CPUS] = facts->cpus;
	quality->counters[FP_QUALITY_MAP_ENTRIES_PEAK] = window->entries_peak;
	quality->counters[FP_QUALITY_MAP_CAPACITY] = facts->capacity;
	quality->counters[FP_QUALITY_EPOCHS] = window->epochs;
	error = fp_profile_cstring(window->profile, facts->hook[source], &quality->hook);
	if (!error)
		error = name_unwanted(window, source);
	if (source == FP_SOURCE_OFFCPU) {
		if (!error)
			error = name_outcomes(window, type, FP_PROGRAM_SWITCH_OUT);
		if (!error)
			error = name_unclosed(window);
		return error ? error : name_outcomes(window, type, FP_PROGRAM_SWITCH_IN);
	}
	quality->counters[FP_QUALITY_HZ_REQUESTED] = facts->hz_requested;
	quality->counters[FP_QUALITY_HZ_ACTUAL] = facts->hz_actual;
	return error ? error : name_outcomes(window, type, FP_PROGRAM_CPU);
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

int fp_window_close(struct fp_window *window, const struct fp_window_facts *facts,
		    struct fp_profile **ret_profile)
{
	struct fp_profile *profile = window->profile;
	int error = 0;

	expect_samples(window, facts);
	for (int source = 0; source < FP_SOURCE_COUNT && !error; source++) {
		if (facts->has_source[source])
			error = complete_quality(window, source, facts);
	}
	if (error)
		return error;
	profile->start_boottime_ns = window->start.boottime_ns;
	profile->start_realtime_ns = window->start.realtime_ns;
	profile->end_boottime_ns = window->end.boottime_ns;
	profile->end_realtime_ns = window->end.realtime_ns;
	profile->period_ns = facts->hz_actual ? FP_NS_PER_S / facts->hz_actual : 0;
	*ret_profile = fp_take_ptr(window->profile);
	fp_window_free(window);
	return 0;
}
