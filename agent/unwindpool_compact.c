// SPDX-License-Identifier: Apache-2.0
//
// Fewer chunks for the same rows. Tables go one by one and leave holes in many chunks; when there are
// more chunks than there may be, the rows of the emptiest move into the holes of the others. A
// program that has read a page's word before it was changed finds the old rows, until the grace
// period is over.
#include "unwindpool_private.h"

#include <string.h>

#define CHUNKS_AT_ONCE 16

static uint32_t blocks_in_use(const struct fp_unwind_slot *slot)
{
	uint32_t count = 0;

	for (uint32_t set = 0; set < FP_UNWIND_BLOCK_SETS; set++)
		count += (uint32_t)__builtin_popcountll(slot->used[set] & ~slot->waiting[set]);
	return count;
}

// FP_UNWIND_CHUNKS: all chunks wait to be given back. *ret_going: how many do.
static uint32_t find_emptiest(const struct fp_unwind_pool *pool, uint32_t *ret_going)
{
	uint32_t emptiest = FP_UNWIND_CHUNKS, least = FP_UNWIND_BLOCKS + 1;

	*ret_going = 0;
	for (uint32_t i = 0; i < FP_UNWIND_CHUNKS; i++) {
		uint32_t count = pool->slots[i].memory ? blocks_in_use(&pool->slots[i]) : 0;

		if (pool->slots[i].memory && count == 0)
			++*ret_going;
		if (count == 0 || count >= least)
			continue;
		least = count;
		emptiest = i;
	}
	return emptiest;
}

static int move_page(struct fp_unwind_pool *pool, uint32_t page)
{
	fp_u64 word = pool->memory.pages[page];
	uint32_t count = fp_unwind_word_count(word), chunk, first;
	const struct fp_unwind_slot *from = &pool->slots[fp_unwind_word_chunk(word)];
	int r = fp_unwind_pool_rows_take(pool, count, &chunk, &first);

	if (r < 0)
		return r;
	memcpy(&pool->slots[chunk].memory->rows[first],
	       &from->memory->rows[fp_unwind_word_first(word)], count * sizeof(fp_u32));
	__atomic_store_n(&pool->memory.pages[page], FP_UNWIND_PAGE(chunk, first, count, word >> 48),
			 __ATOMIC_RELEASE);
	fp_unwind_pool_rows_give(pool, word, true);
	pool->waits = true;
	return 0;
}

// Its own holes are no room: it is to be given back.
static int empty_chunk(struct fp_unwind_pool *pool, uint32_t chunk)
{
	int r = 0;

	pool->slots[chunk].longest = 0;
	for (uint32_t page = 0; page < FP_UNWIND_PAGES && r == 0; page++) {
		fp_u64 word = pool->memory.pages[page];

		if (word && fp_unwind_word_chunk(word) == chunk)
			r = move_page(pool, page);
	}
	return r;
}

bool fp_unwind_pool_compact(struct fp_unwind_pool *pool)
{
	for (int i = 0; i < CHUNKS_AT_ONCE; i++) {
		uint32_t going, chunk = find_emptiest(pool, &going);

		if (pool->chunks - going <= pool->chunks_max)
			return true;
		if (chunk == FP_UNWIND_CHUNKS || empty_chunk(pool, chunk) < 0)
			return false;
	}
	return true; // so far, and on with the next call
}
