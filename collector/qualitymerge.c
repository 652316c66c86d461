// SPDX-License-Identifier: Apache-2.0
// Quality records of many batches as one. Most counters add up; a rate is averaged over
// batches, a peak or capacity is the largest seen.
#include "merge.h"

#include <errno.h>

enum rule { ADD, AVERAGE, LARGEST };

static enum rule rule_of(enum fp_quality_counter counter)
{
	switch (counter) {
	case FP_QUALITY_HZ_REQUESTED:
	case FP_QUALITY_HZ_ACTUAL:
		return AVERAGE;
	case FP_QUALITY_CPUS:
	case FP_QUALITY_MAP_ENTRIES_PEAK:
	case FP_QUALITY_MAP_CAPACITY:
		return LARGEST;
	default:
		return ADD;
	}
}

static void merge_counters(struct fp_merge *merge, const struct fp_quality *from,
			   struct fp_quality *to)
{
	merge->rate_batches++;
	fp_merge_sum(&merge->rate_sums[0], from->counters[FP_QUALITY_HZ_REQUESTED]);
	fp_merge_sum(&merge->rate_sums[1], from->counters[FP_QUALITY_HZ_ACTUAL]);
	for (int i = 0; i < FP_QUALITY_COUNT; i++) {
		enum rule rule = rule_of(i);

		if (rule == ADD)
			fp_merge_sum(&to->counters[i], from->counters[i]);
		if (rule == LARGEST && from->counters[i] > to->counters[i])
			to->counters[i] = from->counters[i];
	}
}

static int merge_named(struct fp_merge *merge, const struct fp_profile *batch,
		       const struct fp_quality *from)
{
	struct fp_profile *profile = merge->profile;
	enum fp_profile_type type = merge->options.type;

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
			const struct fp_quality *from)
{
	for (uint32_t i = 0; i < from->builds_count; i++) {
		struct fp_build_quality *row;
		uint32_t build;
		int r = fp_merge_build(merge, batch, from->builds[i].build, &build);

		if (r < 0)
			return r;
		row = fp_quality_build(merge->profile, merge->options.type, build);
		if (!row)
			return -ENOMEM;
		fp_merge_sum(&row->stacks, from->builds[i].stacks);
		fp_merge_sum(&row->stopped, from->builds[i].stopped);
	}
	return 0;
}

int fp_merge_quality(struct fp_merge *merge, const struct fp_profile *batch)
{
	const struct fp_quality *from = &batch->quality[merge->options.type];
	struct fp_quality *to = &merge->profile->quality[merge->options.type];
	int r;

	if (!from->present)
		return 0;
	if (!to->present) {
		to->present = true;
		r = fp_profile_cstring(merge->profile, fp_profile_str(batch, from->hook),
				       &to->hook);
		if (r < 0)
			return r;
	}
	merge_counters(merge, from, to);
	r = merge_named(merge, batch, from);
	return r < 0 ? r : merge_builds(merge, batch, from);
}

void fp_merge_quality_finish(struct fp_merge *merge)
{
	struct fp_quality *quality = &merge->profile->quality[merge->options.type];

	if (!merge->rate_batches)
		return;
	quality->counters[FP_QUALITY_HZ_REQUESTED] = merge->rate_sums[0] / merge->rate_batches;
	quality->counters[FP_QUALITY_HZ_ACTUAL] = merge->rate_sums[1] / merge->rate_batches;
}
