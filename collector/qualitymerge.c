// SPDX-License-Identifier: Apache-2.0
// Quality records of many batches as one. Most counters add up; a rate is averaged over
// batches, a peak, capacity or bound is the largest seen, the least quantum the smallest.
#include "merge.h"

#include <errno.h>

enum rule { ADD, AVERAGE, LARGEST, SMALLEST };

static enum rule rule_of(enum fp_quality_counter counter)
{
	switch (counter) {
	case FP_QUALITY_HZ_REQUESTED:
	case FP_QUALITY_HZ_ACTUAL:
		return AVERAGE;
	case FP_QUALITY_CPUS:
	case FP_QUALITY_MAP_ENTRIES_PEAK:
	case FP_QUALITY_MAP_CAPACITY:
	case FP_QUALITY_QUANTUM_MAX_NS:
	case FP_QUALITY_WEIGHT_MAX:
	case FP_QUALITY_WALK_BUDGET:
		return LARGEST;
	case FP_QUALITY_QUANTUM_MIN_NS:
		return SMALLEST; // 0: nothing was sampled there, so it had no quantum
	default:
		return ADD;
	}
}

static void merge_counters(const struct fp_quality *from, struct fp_quality *to,
			   struct fp_merge_rates *rates)
{
	rates->batches++;
	fp_merge_sum(&rates->requested, from->counters[FP_QUALITY_HZ_REQUESTED]);
	fp_merge_sum(&rates->actual, from->counters[FP_QUALITY_HZ_ACTUAL]);
	for (int i = 0; i < FP_QUALITY_COUNT; i++) {
		enum rule rule = rule_of(i);
		uint64_t value = from->counters[i], *sum = &to->counters[i];

		if (rule == ADD)
			fp_merge_sum(sum, value);
		if (rule == LARGEST && value > *sum)
			*sum = value;
		if (rule == SMALLEST && value && (!*sum || value < *sum))
			*sum = value;
	}
}

static int merge_named(struct fp_merge *merge, const struct fp_profile *batch,
		       enum fp_profile_type type)
{
	struct fp_profile *profile = merge->profile;
	const struct fp_quality *from = &batch->quality[type];

	for (uint32_t i = 0; i < from->named_count; i++) {
		const char *name = fp_profile_str(batch, from->named[i].name);
		uint64_t sum = from->named[i].value;
		const struct fp_quality *to = &profile->quality[type];
		uint32_t id;
		int r = fp_profile_cstring(profile, name, &id);

		if (r < 0)
			return r;
		for (uint32_t j = 0; j < to->named_count; j++)
			if (to->named[j].name == id)
				fp_merge_sum(&sum, to->named[j].value);
		r = fp_quality_set_named(profile, type, name, sum);
		if (r < 0)
			return r;
	}
	return 0;
}

static int merge_builds(struct fp_merge *merge, const struct fp_profile *batch,
			enum fp_profile_type type)
{
	const struct fp_quality *from = &batch->quality[type];

	for (uint32_t i = 0; i < from->builds_count; i++) {
		struct fp_build_quality *row;
		uint32_t build;
		int r = fp_merge_build(merge, batch, from->builds[i].build, &build);

		if (r < 0)
			return r;
		row = fp_quality_build(merge->profile, type, build);
		if (!row)
			return -ENOMEM;
		fp_merge_sum(&row->stacks, from->builds[i].stacks);
		fp_merge_sum(&row->stopped, from->builds[i].stopped);
	}
	return 0;
}

static int merge_stops(struct fp_merge *merge, const struct fp_profile *batch,
		       enum fp_profile_type type)
{
	const struct fp_quality *from = &batch->quality[type];
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < from->stops_count; i++) {
		uint32_t build, reason;

		r = fp_merge_build(merge, batch, from->stops[i].build, &build);
		if (r == 0)
			r = fp_profile_cstring(
			    merge->profile, fp_profile_str(batch, from->stops[i].reason), &reason);
		if (r == 0)
			r = fp_quality_stop(merge->profile, type, build, reason,
					    from->stops[i].count);
	}
	return r;
}

static int merge_type(struct fp_merge *merge, const struct fp_profile *batch,
		      enum fp_profile_type type)
{
	const struct fp_quality *from = &batch->quality[type];
	struct fp_quality *to = &merge->profile->quality[type];
	int r;

	if (!from->present)
		return 0;
	merge->facts.recorded[type]++;
	if (!to->present) {
		to->present = true;
		r = fp_profile_cstring(merge->profile, fp_profile_str(batch, from->hook),
				       &to->hook);
		if (r < 0)
			return r;
	}
	merge_counters(from, to, &merge->rates[type]);
	r = merge_named(merge, batch, type);
	if (r == 0)
		r = merge_builds(merge, batch, type);
	return r < 0 ? r : merge_stops(merge, batch, type);
}

int fp_merge_quality(struct fp_merge *merge, const struct fp_profile *batch)
{
	int r = 0;

	for (int type = 1; r == 0 && type < FP_PROFILE_TYPES; type++)
		if (fp_aspect_has(merge->options.aspect, (uint32_t)type))
			r = merge_type(merge, batch, type);
	return r;
}

void fp_merge_quality_finish(struct fp_merge *merge)
{
	for (int type = 1; type < FP_PROFILE_TYPES; type++) {
		const struct fp_merge_rates *rates = &merge->rates[type];
		uint64_t *counters = merge->profile->quality[type].counters;

		if (!rates->batches)
			continue;
		counters[FP_QUALITY_HZ_REQUESTED] = rates->requested / rates->batches;
		counters[FP_QUALITY_HZ_ACTUAL] = rates->actual / rates->batches;
	}
}
