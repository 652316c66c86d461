// SPDX-License-Identifier: Apache-2.0
//
// perfmap_index: address → line of a perf map, where a later line takes its range from earlier
// ones, whole or in part. Levels of sorted ranges that do not overlap, each at least twice as
// long as the next newer one; so growing costs little at a time, a look-up is one binary
// search per level, and the first level that covers the address is right. Private to perfmap.
// Ownership: the index owns its levels. Threads: none shared.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FP_PERF_RANGES_MAX ((size_t)4 << 20) // 64 MiB of them
#define FP_PERF_LEVELS_MAX 24		     // log2 of that, and two

struct fp_perf_range {
	uint64_t start;
	uint32_t size;
	uint32_t line; // its offset in the file
};

struct fp_perf_level {
	struct fp_perf_range *ranges;
	size_t count, capacity;
};

struct fp_perf_index {
	struct fp_perf_level levels[FP_PERF_LEVELS_MAX]; // oldest first
	size_t levels_count;
	struct fp_perf_level run; // the newest: it still grows at its end
	size_t ranges;		  // of all
};

void fp_perf_index_free(struct fp_perf_index *index);
// range: size > 0, start + size does not wrap. Errors: -ENOMEM, -EFBIG too many.
int fp_perf_index_add(struct fp_perf_index *index, const struct fp_perf_range *range);
bool fp_perf_index_find(const struct fp_perf_index *index, uint64_t address, uint32_t *ret_line);
size_t fp_perf_index_bytes(const struct fp_perf_index *index);
