// SPDX-License-Identifier: Apache-2.0
#include "perfmap_index.h"

#include "common/cleanup.h"

#include <errno.h>
#include <string.h>

#define RUN_CAPACITY_MIN 64

static void level_free(struct fp_perf_level *level)
{
	free(level->ranges);
	*level = (struct fp_perf_level){ 0 };
}
#define AUTOLEVEL FP_CLEANUP(level_free)

void fp_perf_index_free(struct fp_perf_index *index)
{
	for (size_t i = 0; i < index->levels_count; i++)
		level_free(&index->levels[i]);
	level_free(&index->run);
	*index = (struct fp_perf_index){ 0 };
}

static uint64_t range_end(const struct fp_perf_range *range)
{
	return range->start + range->size;
}

static int level_reserve(struct fp_perf_level *level, size_t capacity)
{
	struct fp_perf_range *grown = reallocarray(level->ranges, capacity, sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	level->ranges = grown;
	level->capacity = capacity;
	return 0;
}

// Gives back what was reserved for splits that did not happen.
static void level_shrink(struct fp_perf_level *level)
{
	if (level->capacity > level->count && level->count > 0)
		level_reserve(level, level->count);
}

static void emit(struct fp_perf_level *level, const struct fp_perf_range *range)
{
	level->ranges[level->count++] = *range;
}

// What is left of `range` from `start` on.
static struct fp_perf_range cut_before(const struct fp_perf_range *range, uint64_t start)
{
	return (struct fp_perf_range){ start, (uint32_t)(range_end(range) - start), range->line };
}

// One level out of two. A range of the newer one splits at most one of the older, hence the
// room: each of its ranges adds itself and at most one piece.
static int overlay(const struct fp_perf_level *older, const struct fp_perf_level *newer,
		   struct fp_perf_level *ret_level)
{
	AUTOLEVEL struct fp_perf_level out = { 0 };
	struct fp_perf_range left = older->ranges[0]; // of the older range in hand
	size_t o = 0;

	if (level_reserve(&out, older->count + 2 * newer->count))
		return -ENOMEM;
	for (size_t n = 0; n < newer->count; n++) {
		const struct fp_perf_range *top = &newer->ranges[n];

		for (; o < older->count && range_end(&left) <= top->start; o++) {
			emit(&out, &left);
			left = older->ranges[o + 1 < older->count ? o + 1 : o];
		}
		if (o < older->count && left.start < top->start) {
			struct fp_perf_range before = { left.start,
							(uint32_t)(top->start - left.start),
							left.line };
			emit(&out, &before);
		}
		for (; o < older->count && range_end(&left) <= range_end(top); o++)
			left = older->ranges[o + 1 < older->count ? o + 1 : o];
		if (o < older->count && left.start < range_end(top))
			left = cut_before(&left, range_end(top));
		emit(&out, top);
	}
	for (; o < older->count; o++) {
		emit(&out, &left);
		left = older->ranges[o + 1 < older->count ? o + 1 : o];
	}
	level_shrink(&out);
	*ret_level = out;
	out = (struct fp_perf_level){ 0 };
	return 0;
}

static int merge_last_two(struct fp_perf_index *index)
{
	struct fp_perf_level *older = &index->levels[index->levels_count - 2];
	struct fp_perf_level *newer = older + 1;
	struct fp_perf_level merged;
	size_t before = older->count + newer->count;
	int error = overlay(older, newer, &merged);

	if (error)
		return error;
	level_free(newer);
	level_free(older);
	*older = merged;
	index->levels_count--;
	index->ranges = index->ranges - before + merged.count;
	return 0;
}

static bool merge_is_due(const struct fp_perf_index *index)
{
	const struct fp_perf_level *last = &index->levels[index->levels_count - 1];

	if (index->levels_count < 2)
		return false;
	return last[-1].count < 2 * last->count || index->levels_count == FP_PERF_LEVELS_MAX;
}

// The run becomes a level; its memory stays for the next run when it is small, because maps
// without any order make as many runs as lines.
static int end_run(struct fp_perf_index *index)
{
	struct fp_perf_level level = { 0 };
	int error = 0;

	if (index->run.count > RUN_CAPACITY_MIN) {
		level = index->run;
		index->run = (struct fp_perf_level){ 0 };
		level_shrink(&level);
	} else {
		error = level_reserve(&level, index->run.count);
		if (error)
			return error;
		memcpy(level.ranges, index->run.ranges, index->run.count * sizeof(*level.ranges));
		level.count = index->run.count;
		index->run.count = 0;
	}
	index->levels[index->levels_count++] = level;
	while (!error && merge_is_due(index))
		error = merge_last_two(index);
	return error;
}

int fp_perf_index_add(struct fp_perf_index *index, const struct fp_perf_range *range)
{
	struct fp_perf_level *run = &index->run;
	int error = 0;

	if (index->ranges >= FP_PERF_RANGES_MAX)
		return -EFBIG;
	if (run->count > 0 && range->start < range_end(&run->ranges[run->count - 1]))
		error = end_run(index);
	if (!error && run->count == run->capacity)
		error = level_reserve(run, run->count ? 2 * run->count : RUN_CAPACITY_MIN);
	if (error)
		return error;
	emit(run, range);
	index->ranges++;
	return 0;
}

static bool level_find(const struct fp_perf_level *level, uint64_t address, uint32_t *ret_line)
{
	size_t low = 0, high = level->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (level->ranges[middle].start <= address)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == 0 || address - level->ranges[low - 1].start >= level->ranges[low - 1].size)
		return false;
	*ret_line = level->ranges[low - 1].line;
	return true;
}

bool fp_perf_index_find(const struct fp_perf_index *index, uint64_t address, uint32_t *ret_line)
{
	if (level_find(&index->run, address, ret_line))
		return true;
	for (size_t i = index->levels_count; i > 0; i--)
		if (level_find(&index->levels[i - 1], address, ret_line))
			return true;
	return false;
}

size_t fp_perf_index_bytes(const struct fp_perf_index *index)
{
	size_t bytes = index->run.capacity * sizeof(*index->run.ranges);

	for (size_t i = 0; i < index->levels_count; i++)
		bytes += index->levels[i].capacity * sizeof(*index->run.ranges);
	return bytes;
}
