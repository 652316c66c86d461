// SPDX-License-Identifier: Apache-2.0
//
// unwindpool_private: the inside of the pool, shared by unwindpool.c (tables in and out),
// unwindpool_rows.c (blocks of the chunks), unwindpool_compact.c (fewer of them) and
// unwindpool_rules.c (rules and their numbers).
// Threads: one owner.
#pragma once

#include "common/hashmap.h"
#include "unwindpool.h"

#define FP_UNWIND_BLOCKS     (FP_UNWIND_CHUNK_ROWS / FP_UNWIND_BLOCK_ROWS) // of a chunk
#define FP_UNWIND_BLOCK_SETS (FP_UNWIND_BLOCKS / 64)
#define FP_UNWIND_NO_RULE    UINT16_MAX

struct fp_unwind_slot { // for a chunk
	struct fp_unwind_chunk *memory;
	uint64_t used[FP_UNWIND_BLOCK_SETS];	// a bit for each block
	uint64_t waiting[FP_UNWIND_BLOCK_SETS]; // of these, those of removed tables
	uint32_t longest;			// run of free blocks
};

struct fp_unwind_pool {
	struct fp_unwind_memory memory;
	struct fp_unwind_slot slots[FP_UNWIND_CHUNKS];
	uint32_t chunks, chunks_max, tables;
	uint32_t blocks, blocks_waiting;
	uint64_t rows;
	bool waits;

	uint64_t pages_used[FP_UNWIND_PAGES / 64], pages_waiting[FP_UNWIND_PAGES / 64];
	uint32_t pages;
	uint64_t tags_used[FP_UNWIND_PAGES / 64], tags_waiting[FP_UNWIND_PAGES / 64];
	uint16_t last_tag;

	struct fp_hashmap rule_index; // struct fp_unwind_rule → uint16_t number
	uint32_t rule_refs[FP_UNWIND_RULES];
	uint16_t rules_free[FP_UNWIND_RULES], rules_waiting[FP_UNWIND_RULES];
	uint32_t rules_free_count, rules_waiting_count;
	uint32_t rules_begun; // numbers that were ever given

	fp_u32 scratch[FP_UNWIND_CHUNK_ROWS]; // the rows of one page
};

static inline bool fp_bit(const uint64_t *bits, uint32_t index)
{
	return bits[index / 64] >> (index % 64) & 1;
}
static inline void fp_bit_set(uint64_t *bits, uint32_t index)
{
	bits[index / 64] |= 1ULL << (index % 64);
}
static inline void fp_bit_clear(uint64_t *bits, uint32_t index)
{
	bits[index / 64] &= ~(1ULL << (index % 64));
}
// The first of `count` zero bits in a row among `limit`, a multiple of 64; limit: there are none.
uint32_t fp_bits_find(const uint64_t *bits, uint32_t limit, uint32_t count);

// unwindpool_rows. Takes blocks for `count` rows in one chunk. -ENOSPC, -ENOMEM.
int fp_unwind_pool_rows_take(struct fp_unwind_pool *pool, uint32_t count, uint32_t *ret_chunk,
			     uint32_t *ret_first);
// Gives back the rows that the word of a page tells of: at once, or after the grace period.
void fp_unwind_pool_rows_give(struct fp_unwind_pool *pool, fp_u64 word, bool wait);
void fp_unwind_pool_rows_grace(struct fp_unwind_pool *pool);
void fp_unwind_pool_rows_drop_empty(struct fp_unwind_pool *pool);
static inline uint32_t fp_unwind_word_chunk(fp_u64 word)
{
	return word & 0xffff;
}
static inline uint32_t fp_unwind_word_first(fp_u64 word)
{
	return word >> 16 & 0xffff;
}
static inline uint32_t fp_unwind_word_count(fp_u64 word)
{
	return word >> 32 & 0xffff;
}

// unwindpool_rules. The number of a rule, with one more reference, or FP_UNWIND_RULE_RULES_FULL.
int fp_unwind_pool_rules_take(struct fp_unwind_pool *pool, const struct fp_unwind_rule *rule,
			      uint16_t *ret_number);
void fp_unwind_pool_rules_give(struct fp_unwind_pool *pool, uint16_t number, bool wait);
void fp_unwind_pool_rules_grace(struct fp_unwind_pool *pool);
void fp_unwind_pool_rules_init(struct fp_unwind_pool *pool);
