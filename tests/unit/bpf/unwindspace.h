// SPDX-License-Identifier: Apache-2.0
//
// unwindspace: whole tables → pages, rows and rules of the space that bpf/unwind.h searches. For
// tests alone: it only ever adds, shares nothing between tables and takes no page twice. The memory
// is the test's: ordinary, or that of the kernel's maps.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "agent/unwindtable.h"

#define SPACE_CHUNKS 64u

struct space {
	fp_u64 *pages;		      // FP_UNWIND_PAGES
	struct fp_unwind_rule *rules; // FP_UNWIND_RULES
	struct fp_unwind_chunk *chunks[SPACE_CHUNKS];
	uint32_t page_count, rule_count, row_count, chunk_count;
};

struct space_table {
	uint32_t first_page; // place of file offset 0
	uint16_t tag;
};

// Rows of one page lie in one chunk.
static inline bool space_begin_page(struct space *space, uint32_t rows)
{
	uint32_t room = FP_UNWIND_CHUNK_ROWS - space->row_count % FP_UNWIND_CHUNK_ROWS;

	if (rows > room)
		space->row_count += room;
	return rows <= FP_UNWIND_CHUNK_ROWS &&
	       space->row_count + rows <= space->chunk_count * FP_UNWIND_CHUNK_ROWS;
}

static inline void space_row(struct space *space, uint32_t place, uint32_t rule)
{
	uint32_t row = space->row_count++;

	space->chunks[row / FP_UNWIND_CHUNK_ROWS]->rows[row % FP_UNWIND_CHUNK_ROWS] =
	    (place & 0xffff) | rule << 16;
}

// Rows from `row` on that lie below `end`; before the first, the one that covers `begin`.
static inline bool space_page(struct space *space, const struct fp_unwind_view *view, uint32_t *row,
			      uint64_t begin, uint16_t tag)
{
	uint32_t last = *row, rule_base = space->rule_count, first;
	uint64_t end = begin + (1u << FP_UNWIND_PAGE_BITS);
	bool covered;

	while (last < view->head->rows && view->offsets[last] < end)
		last++;
	covered = last > *row && view->offsets[*row] == begin;
	if (!space_begin_page(space, last - *row + !covered))
		return false;
	first = space->row_count;
	if (!covered)
		space_row(space, 0, *row > 0 ? rule_base + view->rule_of[*row - 1] : 0);
	for (; *row < last; (*row)++)
		space_row(space, view->offsets[*row], rule_base + view->rule_of[*row]);
	space->pages[begin >> FP_UNWIND_PAGE_BITS] =
	    FP_UNWIND_PAGE(first / FP_UNWIND_CHUNK_ROWS, first % FP_UNWIND_CHUNK_ROWS,
			   space->row_count - first, tag);
	return true;
}

// False when there is no room, and then the space is of no use any more.
static inline bool space_add(struct space *space, const struct fp_unwind_view *view,
			     struct space_table *ret)
{
	struct space window = *space; // whose pages begin at the table's first
	uint32_t row = 0, last = view->offsets[view->head->rows - 1], pages;
	bool fits = true;

	pages = (last >> FP_UNWIND_PAGE_BITS) + 1;
	if (pages > FP_UNWIND_PAGES - space->page_count ||
	    view->head->rules > FP_UNWIND_RULES - space->rule_count)
		return false;
	*ret = (struct space_table){ space->page_count, (uint16_t)(space->page_count + 1) };
	memcpy(&space->rules[space->rule_count], view->rules,
	       view->head->rules * sizeof(*view->rules));
	window.pages += space->page_count;
	for (uint32_t page = 0; page < pages && fits; page++)
		fits = space_page(&window, view, &row, (uint64_t)page << FP_UNWIND_PAGE_BITS,
				  ret->tag);
	space->row_count = window.row_count;
	space->page_count += pages;
	space->rule_count += view->head->rules;
	return fits;
}
