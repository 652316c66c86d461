// SPDX-License-Identifier: Apache-2.0
#include "window_private.h"

#include "busytime.h"
#include "common/clock.h"
#include "epochmaps.h"
#include "outcomes.h"

#include <errno.h>

enum fp_profile_type fp_window_type(enum fp_source source)
{
	static const enum fp_profile_type types[FP_SOURCE_COUNT] = {
		[FP_SOURCE_CPU] = FP_PROFILE_CPU,
		[FP_SOURCE_OFFCPU] = FP_PROFILE_OFF_CPU,
		[FP_SOURCE_RUNQUEUE] = FP_PROFILE_RUN_QUEUE,
		[FP_SOURCE_WAKER] = FP_PROFILE_WAKER,
	};

	return types[source];
}

static struct fp_moment moment_now(uint32_t tgid)
{
	struct fp_moment now = { .monotonic_ns = fp_monotonic_ns(),
				 .boottime_ns = fp_boottime_ns(),
				 .realtime_ns = fp_realtime_ns() };

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

void fp_window_begun(struct fp_window *window, uint64_t ago_ns)
{
	window->start.monotonic_ns -= ago_ns;
	window->start.boottime_ns -= ago_ns;
	window->start.realtime_ns -= ago_ns;
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

int fp_window_resolve(struct fp_window *window, struct fp_resolver *resolver,
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

static enum fp_quality_counter counter_of(const struct fp_resolved *resolved)
{
	static const enum fp_quality_counter by_end[FP_WALK_END_COUNT] = {
		[FP_WALK_END_NONE] = FP_QUALITY_USER_UNKNOWN,
		[FP_WALK_END_ROOT] = FP_QUALITY_USER_COMPLETE,
		[FP_WALK_END_BROKEN] = FP_QUALITY_USER_BROKEN,
		[FP_WALK_END_FAULT] = FP_QUALITY_USER_FAULT,
		[FP_WALK_END_DEPTH] = FP_QUALITY_USER_DEPTH,
		[FP_WALK_END_UNKNOWN] = FP_QUALITY_USER_UNKNOWN,
		[FP_WALK_END_OUTERMOST] = FP_QUALITY_USER_COMPLETE,
		[FP_WALK_END_NO_TABLE] = FP_QUALITY_USER_NO_TABLE,
		[FP_WALK_END_CANNOT] = FP_QUALITY_USER_CANNOT,
		[FP_WALK_END_ASTRAY] = FP_QUALITY_USER_CANNOT,
		[FP_WALK_END_STALE] = FP_QUALITY_USER_STALE,
	};
	bool without =
	    resolved->walk_end == FP_WALK_END_BROKEN || resolved->walk_end == FP_WALK_END_NO_TABLE;

	if (without && resolved->stop_jit)
		return FP_QUALITY_USER_JIT;
	if (without && resolved->stop != FP_STOP_NONE && resolved->stop != FP_STOP_OFF)
		return FP_QUALITY_USER_NO_TABLE;
	return by_end[resolved->walk_end];
}

// In code, and not at a limit of ours.
static bool stopped_early(enum fp_walk_end end)
{
	return end != FP_WALK_END_NONE && end != FP_WALK_END_ROOT && end != FP_WALK_END_OUTERMOST &&
	       end != FP_WALK_END_DEPTH && end != FP_WALK_END_UNKNOWN;
}

static int count_stop(struct fp_window *window, enum fp_profile_type type,
		      const struct fp_resolved *resolved, uint64_t count)
{
	struct fp_build_quality *build =
	    fp_quality_build(window->profile, type, resolved->stop_build);
	uint32_t reason;
	int error;

	if (!build)
		return -ENOMEM;
	build->stacks += count;
	if (!stopped_early(resolved->walk_end))
		return 0;
	build->stopped += count;
	error = fp_profile_cstring(window->profile, fp_stop_label(resolved->stop), &reason);
	return error ? error
		     : fp_quality_stop(window->profile, type, resolved->stop_build, reason, count);
}

int fp_window_count_quality(struct fp_window *window, enum fp_profile_type type,
			    const struct fp_resolved *resolved, uint64_t count)
{
	uint64_t *counters = window->profile->quality[type].counters;

	counters[FP_QUALITY_FRAMES] += resolved->frames * count;
	counters[FP_QUALITY_FRAMES_NO_BUILD_ID] += resolved->frames_no_build_id * count;
	counters[FP_QUALITY_FRAMES_JIT] += resolved->frames_jit * count;
	counters[FP_QUALITY_FRAMES_ANON] += resolved->frames_anon * count;
	counters[FP_QUALITY_FRAMES_UNMAPPED] += resolved->frames_unmapped * count;
	counters[FP_QUALITY_FRAMES_BY_TABLE] += resolved->frames_by_table * count;
	counters[FP_QUALITY_PROCESSES_UNKNOWN] += resolved->process_unknown ? count : 0;
	if (!resolved->has_user)
		return 0;
	counters[FP_QUALITY_USER_STACKS] += count;
	counters[counter_of(resolved)] += count;
	return resolved->stop_build == FP_NO_BUILD ? 0 : count_stop(window, type, resolved, count);
}

int fp_window_lost_stack(struct fp_profile *profile, struct fp_sample *sample)
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
	enum fp_profile_type type = fp_window_type(source);
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
		error = fp_window_lost_stack(window->profile, &sample);
		return error ? error : fp_profile_sample(window->profile, &sample);
	}
	error = fp_window_resolve(window, resolver, record, &resolved);
	if (error)
		return error;
	if (resolved->unwanted) {
		window->relabel_dropped[source] += count->count;
		return 0;
	}
	window->profile->quality[type].counters[FP_QUALITY_SAMPLES] += count->count;
	sample.stack = resolved->stack;
	sample.labels = resolved->labels;
	error = fp_window_count_quality(window, type, resolved, count->count);
	return error ? error : fp_profile_sample(window->profile, &sample);
}

// Widens the range [*min, *max] to hold another one.
static void widen(bool first, uint64_t from, uint64_t to, uint64_t *min, uint64_t *max)
{
	if (first || from < *min)
		*min = from;
	if (to > *max)
		*max = to;
}

void fp_window_epoch(struct fp_window *window, const struct fp_epoch *epoch)
{
	for (int program = 0; program < FP_PROGRAM_COUNT; program++)
		fp_totals_add(&window->totals[program], &epoch->totals[program]);
	for (int row = 0; row < FP_DURATIONS_ROWS; row++)
		fp_durations_add(&window->durations[row], &epoch->durations[row]);
	if (fp_epoch_entries(epoch) > window->entries_peak)
		window->entries_peak = fp_epoch_entries(epoch);
	widen(window->epochs == 0, epoch->quantum_min_ns, epoch->quantum_max_ns,
	      &window->quantum_min_ns, &window->quantum_max_ns);
	widen(window->epochs == 0, epoch->waker_quantum_min_ns, epoch->waker_quantum_max_ns,
	      &window->waker_quantum_min_ns, &window->waker_quantum_max_ns);
	if (epoch->weight_max > window->weight_max)
		window->weight_max = epoch->weight_max;
	window->cut_missed += epoch->cut_missed;
	window->epochs++;
}

int fp_window_close(struct fp_window *window, const struct fp_window_facts *facts,
		    struct fp_profile **ret_profile)
{
	struct fp_profile *profile = window->profile;
	int error = fp_window_complete(window, facts);

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
