// SPDX-License-Identifier: Apache-2.0
//
// What the tests of the tables' loading share: tables made by hand, and memory for a pool.
#pragma once

#include "../cases.h"

#include "agent/unwindpool.h"
#include "agent/unwindtable.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct unwind_row {
	uint32_t offset;
	uint16_t rule;
};

// A whole table, 8-aligned, of the rows and a gap at `end`. rules[0] is the gap's. To be freed.
static inline void *unwind_table(const struct unwind_row *rows, uint32_t count, uint32_t end,
				 const struct fp_unwind_rule *rules, uint32_t rules_count,
				 size_t *ret_size)
{
	size_t offsets = (count + 1) * sizeof(fp_u32), numbers = (count + 1) * sizeof(fp_u16);
	size_t before = (sizeof(struct fp_unwind_table) + offsets + numbers + 7) / 8 * 8;
	size_t size = before + rules_count * sizeof(*rules);
	struct fp_unwind_table *table = calloc(1, size);
	fp_u32 *offset = (fp_u32 *)(table + 1);
	fp_u16 *number = (fp_u16 *)(offset + count + 1);
	struct fp_unwind_view view;

	*table = (struct fp_unwind_table){ .magic = FP_UNWIND_MAGIC,
					   .rows = count + 1,
					   .rules = rules_count };
	for (uint32_t i = 0; i < count; i++) {
		offset[i] = rows[i].offset;
		number[i] = rows[i].rule;
	}
	offset[count] = end;
	memcpy((uint8_t *)table + before, rules, rules_count * sizeof(*rules));
	assert_int_equal(fp_unwind_table_check(table, size, &view), 0);
	*ret_size = size;
	return table;
}

static inline struct fp_unwind_rule unwind_rule(int32_t offset)
{
	return (struct fp_unwind_rule){ .cfa = FP_UNWIND_RSP,
					.offset = offset,
					.return_reg = FP_UNWIND_RETURN_AT_CFA };
}

struct unwind_bench {
	struct fp_unwind_memory memory;
	struct fp_unwind_chunk *chunks[FP_UNWIND_CHUNKS];
	uint32_t chunks_made; // by now
	bool no_memory;
};

static inline struct fp_unwind_chunk *unwind_make_chunk(uint32_t index, void *context)
{
	struct unwind_bench *bench = context;

	if (bench->no_memory)
		return NULL;
	assert_null(bench->chunks[index]);
	bench->chunks[index] = calloc(1, sizeof(struct fp_unwind_chunk));
	bench->chunks_made++;
	return bench->chunks[index];
}

static inline void unwind_drop_chunk(uint32_t index, struct fp_unwind_chunk *chunk, void *context)
{
	struct unwind_bench *bench = context;

	assert_ptr_equal(bench->chunks[index], chunk);
	free(chunk);
	bench->chunks[index] = NULL;
	bench->chunks_made--;
}

static inline void unwind_bench_begin(struct unwind_bench *bench)
{
	*bench = (struct unwind_bench){ 0 };
	bench->memory = (struct fp_unwind_memory){
		.pages = calloc(FP_UNWIND_PAGES, sizeof(fp_u64)),
		.rules = calloc(FP_UNWIND_RULES, sizeof(struct fp_unwind_rule)),
		.make_chunk = unwind_make_chunk,
		.drop_chunk = unwind_drop_chunk,
		.context = bench,
	};
}

static inline void unwind_bench_end(struct unwind_bench *bench)
{
	assert_int_equal(bench->chunks_made, 0);
	free(bench->memory.pages);
	free(bench->memory.rules);
}

// What a program finds for an offset of the file: range, page, row, rule. False: no table there.
static inline bool unwind_bench_find(const struct unwind_bench *bench,
				     const struct fp_unwind_place *place, uint32_t offset,
				     struct fp_unwind_rule *ret)
{
	uint64_t at = ((uint64_t)place->page << FP_UNWIND_PAGE_BITS) + offset -
		      ((uint64_t)place->file_page << FP_UNWIND_PAGE_BITS);
	fp_u64 word = bench->memory.pages[at >> FP_UNWIND_PAGE_BITS];
	const fp_u32 *rows;
	uint32_t count = word >> 32 & 0xffff, found = 0;

	if (word >> 48 != place->tag || place->tag == 0)
		return false;
	rows = &bench->chunks[word & 0xffff]->rows[word >> 16 & 0xffff];
	assert_int_equal(rows[0] & 0xffff, 0); // something holds at the beginning of each page
	for (uint32_t step = FP_UNWIND_CHUNK_ROWS; step; step /= 2)
		if (found + step < count && (rows[found + step] & 0xffff) <= (at & 0xffff))
			found += step;
	if (found + 1 < count)
		assert_true((rows[found] & 0xffff) < (rows[found + 1] & 0xffff));
	*ret = bench->memory.rules[rows[found] >> 16];
	return true;
}
