// SPDX-License-Identifier: Apache-2.0
#include "unwindranges.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

uint64_t fp_unwind_file_hash(const struct fp_file *file)
{
	uint64_t place[2] = { file->device, file->inode };
	uint64_t hash = XXH3_64bits(file->name, strlen(file->name));

	if (file->build_id_len)
		return XXH3_64bits_withSeed(file->build_id, file->build_id_len, hash);
	return XXH3_64bits_withSeed(place, sizeof(place), hash);
}

struct candidate {
	struct fp_unwind_range range;
	uint64_t heat;
	uint32_t area;
};

// What of the area lies in the pages of its build's table. False: nothing.
static bool cut_to_table(const struct fp_unwind_area *area, const struct fp_unwind_located *table,
			 struct fp_unwind_range *ret)
{
	uint64_t first = (uint64_t)table->file_page << FP_UNWIND_PAGE_BITS;
	uint64_t last = first + ((uint64_t)table->pages << FP_UNWIND_PAGE_BITS);
	uint64_t from = area->offset, to = area->offset + (area->end - area->start);

	if (from < first)
		from = first;
	if (to > last)
		to = last;
	if (from >= to)
		return false;
	*ret = (struct fp_unwind_range){
		.start = area->start + (from - area->offset),
		.size = (fp_u32)(to - from),
		.at = (table->page << FP_UNWIND_PAGE_BITS) + (fp_u32)(from - first),
		.tag = table->tag,
	};
	return true;
}

static uint32_t collect(const struct fp_unwind_area *areas, uint32_t count,
			fp_unwind_locate_fn locate, void *context, struct candidate *candidates)
{
	uint32_t found = 0;

	for (uint32_t i = 0; i < count; i++) {
		struct fp_unwind_located table = { 0 };

		if (areas[i].build == FP_UNWIND_NO_BUILD ||
		    !locate(areas[i].build, &table, context) ||
		    !cut_to_table(&areas[i], &table, &candidates[found].range))
			continue;
		candidates[found].heat = table.heat;
		candidates[found++].area = i;
	}
	return found;
}

static int hotter_first(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	if (x->heat != y->heat)
		return x->heat < y->heat ? 1 : -1;
	return x->range.start < y->range.start ? -1 : 1;
}

static int lower_first(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	return x->range.start < y->range.start ? -1 : 1;
}

static bool continues(const struct fp_unwind_range *range, const struct fp_unwind_range *next)
{
	return range->tag == next->tag && range->start + range->size == next->start &&
	       range->at + range->size == next->at && range->size + next->size > range->size;
}

int fp_unwind_ranges_make(struct fp_unwind_area *areas, uint32_t count, fp_unwind_locate_fn locate,
			  void *context, struct fp_unwind_range ranges[FP_UNWIND_RANGES_MAX])
{
	FP_AUTOFREE struct candidate *candidates = calloc((size_t)count + 1, sizeof(*candidates));
	uint32_t found, made = 0;

	if (!candidates)
		return -ENOMEM;
	found = collect(areas, count, locate, context, candidates);
	if (found > FP_UNWIND_RANGES_MAX) {
		qsort(candidates, found, sizeof(*candidates), hotter_first);
		found = FP_UNWIND_RANGES_MAX;
		qsort(candidates, found, sizeof(*candidates), lower_first);
	}
	for (uint32_t i = 0; i < count; i++)
		areas[i].by_table = false;
	for (uint32_t i = 0; i < found; i++) {
		areas[candidates[i].area].by_table = true;
		if (made && continues(&ranges[made - 1], &candidates[i].range))
			ranges[made - 1].size += candidates[i].range.size;
		else
			ranges[made++] = candidates[i].range;
	}
	return (int)made;
}

uint32_t fp_unwind_ranges_parts(uint32_t count)
{
	return count ? (count + FP_UNWIND_PART_RANGES - 1) / FP_UNWIND_PART_RANGES : 1;
}

void fp_unwind_ranges_part(const struct fp_unwind_program *program,
			   const struct fp_unwind_range *ranges, uint32_t count, uint32_t part,
			   struct fp_unwind_ranges *ret)
{
	uint32_t first = part * FP_UNWIND_PART_RANGES, left = count - first;

	*ret = (struct fp_unwind_ranges){
		.start_boottime_ns = program->start_boottime_ns,
		.exec_id = program->exec_id,
		.version = program->version,
		.count = left < FP_UNWIND_PART_RANGES ? left : FP_UNWIND_PART_RANGES,
		.parts = fp_unwind_ranges_parts(count),
	};
	for (uint32_t i = 0; i < FP_UNWIND_PARTS; i++)
		ret->part_start[i] = i * FP_UNWIND_PART_RANGES < count
					 ? ranges[i * FP_UNWIND_PART_RANGES].start
					 : UINT64_MAX;
	for (uint32_t i = 0; i < FP_UNWIND_PART_RANGES; i++)
		ret->ranges[i] = i < ret->count ? ranges[first + i]
						: (struct fp_unwind_range){ .start = UINT64_MAX };
}

const struct fp_unwind_area *fp_unwind_area_at(const struct fp_unwind_area *areas, uint32_t count,
					       uint64_t address)
{
	uint32_t low = 0, high = count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (areas[middle].end > address)
			high = middle;
		else
			low = middle + 1;
	}
	return low < count && areas[low].start <= address ? &areas[low] : NULL;
}

static bool is_as_mapped(const struct fp_unwind_area *area, const struct fp_process_view *view,
			 uint64_t address)
{
	const struct fp_mapping *mapping = fp_process_view_at(view, address);

	return mapping &&
	       fp_unwind_offset_of(view, mapping) - mapping->start == area->offset - area->start &&
	       fp_unwind_file_hash(&view->files[mapping->file]) == area->file;
}

uint32_t fp_unwind_believed(const struct fp_unwind_area *areas, uint32_t count,
			    const struct fp_process_view *view,
			    const struct fp_stack_record *record, bool *ret_stale)
{
	const uint64_t *addresses = (const uint64_t *)record->frames + record->kernel_len;

	*ret_stale = false;
	for (uint32_t i = 0; i < record->user_len; i++) {
		uint64_t inside = addresses[i] - (i > 0);
		const struct fp_unwind_area *area = fp_unwind_area_at(areas, count, inside);

		*ret_stale = area && area->by_table && !is_as_mapped(area, view, inside);
		if (*ret_stale)
			return i + 1;
	}
	return record->user_len;
}
