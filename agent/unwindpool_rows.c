// SPDX-License-Identifier: Apache-2.0
//
// The rows' memory. A page's rows lie in blocks of 64 rows, in a row in one chunk: half a block is
// lost per page, some two rows in a hundred, and in return a page's word tells all there is to know
// of it and a bit map is all the bookkeeping.
#include "unwindpool_private.h"

#include <errno.h>

uint32_t fp_bits_find(const uint64_t *bits, uint32_t limit, uint32_t count)
{
	uint32_t run = 0;

	for (uint32_t i = 0; i < limit; i++) {
		if (run == 0 && i % 64 == 0 && bits[i / 64] == UINT64_MAX) {
			i += 63;
			continue;
		}
		run = fp_bit(bits, i) ? 0 : run + 1;
		if (run == count)
			return i + 1 - count;
	}
	return limit;
}

static void find_longest(struct fp_unwind_slot *slot)
{
	uint32_t run = 0;

	slot->longest = 0;
	for (uint32_t i = 0; i < FP_UNWIND_BLOCKS; i++) {
		run = fp_bit(slot->used, i) ? 0 : run + 1;
		if (run > slot->longest)
			slot->longest = run;
	}
}

static bool is_empty(const struct fp_unwind_slot *slot)
{
	for (uint32_t i = 0; i < FP_UNWIND_BLOCK_SETS; i++)
		if (slot->used[i])
			return false;
	return true;
}

static int make_chunk(struct fp_unwind_pool *pool, uint32_t index)
{
	struct fp_unwind_slot *slot = &pool->slots[index];
	struct fp_unwind_chunk *chunk;

	if (pool->chunks >= pool->chunks_max)
		return -ENOSPC;
	chunk = pool->memory.make_chunk(index, pool->memory.context);
	if (!chunk)
		return -ENOMEM;
	*slot = (struct fp_unwind_slot){ .memory = chunk, .longest = FP_UNWIND_BLOCKS };
	pool->chunks++;
	return 0;
}

static void drop_chunk(struct fp_unwind_pool *pool, uint32_t index)
{
	struct fp_unwind_slot *slot = &pool->slots[index];

	pool->memory.drop_chunk(index, slot->memory, pool->memory.context);
	*slot = (struct fp_unwind_slot){ 0 };
	pool->chunks--;
}

// The first chunk with room, so that those behind it empty; else a new one.
static int find_chunk(struct fp_unwind_pool *pool, uint32_t blocks, uint32_t *ret_index)
{
	uint32_t missing = FP_UNWIND_CHUNKS;
	int r;

	for (uint32_t i = 0; i < FP_UNWIND_CHUNKS; i++) {
		if (pool->slots[i].memory && pool->slots[i].longest >= blocks) {
			*ret_index = i;
			return 0;
		}
		if (!pool->slots[i].memory && missing == FP_UNWIND_CHUNKS)
			missing = i;
	}
	if (missing == FP_UNWIND_CHUNKS)
		return -ENOSPC;
	r = make_chunk(pool, missing);
	if (r == 0)
		*ret_index = missing;
	return r;
}

static uint32_t blocks_of(uint32_t rows)
{
	return (rows + FP_UNWIND_BLOCK_ROWS - 1) / FP_UNWIND_BLOCK_ROWS;
}

int fp_unwind_pool_rows_take(struct fp_unwind_pool *pool, uint32_t count, uint32_t *ret_chunk,
			     uint32_t *ret_first)
{
	uint32_t blocks = blocks_of(count), block;
	struct fp_unwind_slot *slot;
	int r = find_chunk(pool, blocks, ret_chunk);

	if (r < 0)
		return r;
	slot = &pool->slots[*ret_chunk];
	block = fp_bits_find(slot->used, FP_UNWIND_BLOCKS, blocks);
	for (uint32_t i = 0; i < blocks; i++)
		fp_bit_set(slot->used, block + i);
	find_longest(slot);
	pool->blocks += blocks;
	*ret_first = block * FP_UNWIND_BLOCK_ROWS;
	return 0;
}

void fp_unwind_pool_rows_give(struct fp_unwind_pool *pool, fp_u64 word, bool wait)
{
	struct fp_unwind_slot *slot = &pool->slots[fp_unwind_word_chunk(word)];
	uint32_t block = fp_unwind_word_first(word) / FP_UNWIND_BLOCK_ROWS;
	uint32_t blocks = blocks_of(fp_unwind_word_count(word));

	for (uint32_t i = block; i < block + blocks; i++) {
		if (wait)
			fp_bit_set(slot->waiting, i);
		else
			fp_bit_clear(slot->used, i);
	}
	if (wait) {
		pool->blocks_waiting += blocks;
		return;
	}
	pool->blocks -= blocks;
	find_longest(slot);
}

void fp_unwind_pool_rows_drop_empty(struct fp_unwind_pool *pool)
{
	for (uint32_t i = 0; i < FP_UNWIND_CHUNKS; i++)
		if (pool->slots[i].memory && is_empty(&pool->slots[i]))
			drop_chunk(pool, i);
}

void fp_unwind_pool_rows_grace(struct fp_unwind_pool *pool)
{
	for (uint32_t i = 0; i < FP_UNWIND_CHUNKS; i++) {
		struct fp_unwind_slot *slot = &pool->slots[i];

		if (!slot->memory)
			continue;
		for (uint32_t set = 0; set < FP_UNWIND_BLOCK_SETS; set++) {
			slot->used[set] &= ~slot->waiting[set];
			slot->waiting[set] = 0;
		}
		find_longest(slot);
	}
	pool->blocks -= pool->blocks_waiting;
	pool->blocks_waiting = 0;
	fp_unwind_pool_rows_drop_empty(pool);
}
