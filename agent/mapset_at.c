// SPDX-License-Identifier: Apache-2.0
//
// A mapping set as of a time.
#include "mapset.h"

#include <errno.h>

static int compare_mappings(const void *a, const void *b)
{
	const struct fp_mapping *left = a, *right = b;

	if (left->start != right->start)
		return left->start < right->start ? -1 : 1;
	return left->from_ns < right->from_ns ? -1 : left->from_ns > right->from_ns;
}

// Of two mappings that overlap, the later one holds. They can only overlap where an event
// came late, after what it should have preceded.
static uint32_t without_overlaps(struct fp_mapping *mappings, uint32_t count)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < count; i++) {
		if (kept == 0 || mappings[kept - 1].end <= mappings[i].start)
			mappings[kept++] = mappings[i];
		else if (mappings[kept - 1].from_ns <= mappings[i].from_ns)
			mappings[kept - 1] = mappings[i];
	}
	return kept;
}

static uint32_t collect(const struct fp_mapset *set, uint64_t time_ns, struct fp_mapping *mappings)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < set->live_count; i++)
		if (set->live[i].from_ns <= time_ns)
			mappings[count++] = set->live[i];
	for (uint32_t i = 0; i < set->old_count; i++)
		if (set->old[i].mapping.from_ns <= time_ns && time_ns < set->old[i].to_ns)
			mappings[count++] = set->old[i].mapping;
	qsort(mappings, count, sizeof(*mappings), compare_mappings);
	return without_overlaps(mappings, count);
}

int fp_mapset_at(const struct fp_mapset *set, uint64_t time_ns, struct fp_mapset_scratch *scratch,
		 const struct fp_mapping **ret_mappings, uint32_t *ret_count)
{
	uint32_t most = set->live_count + set->old_count;

	if (set->newest_ns <= time_ns &&
	    (set->old_count == 0 || set->old[set->old_count - 1].to_ns <= time_ns)) {
		*ret_mappings = set->live;
		*ret_count = set->live_count;
		return 0;
	}
	if (most > scratch->capacity) {
		void *grown = reallocarray(scratch->mappings, most, sizeof(*scratch->mappings));

		if (!grown)
			return -ENOMEM;
		scratch->mappings = grown;
		scratch->capacity = most;
	}
	*ret_count = scratch->mappings ? collect(set, time_ns, scratch->mappings) : 0;
	*ret_mappings = scratch->mappings;
	return 0;
}
