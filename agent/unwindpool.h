// SPDX-License-Identifier: Apache-2.0
//
// unwindpool: where unwind tables lie for the BPF walker: one space of 64 KiB pages of code, their
// rows in chunks that are made when needed and given back when empty, and rules that all tables
// share. Pure bookkeeping over memory that the caller hands in (maps, mapped), so that it can be
// tested without BPF.
// Input: tables as the symbols role makes them (bpf/abi.h), foreign: each is checked first.
// A program may read all this memory at any moment. What it can reach is published last, page by
// page with one store each; what is removed is used again only after fp_unwind_pool_grace.
// Cost: adding is linear in the table's rows, removing in its pages and rules.
// Ownership: the pool owns its books, the caller the memory. Threads: one owner.
#pragma once

#include "bpf/abi.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fp_unwind_memory {
	fp_u64 *pages;		      // FP_UNWIND_PAGES words, all 0
	struct fp_unwind_rule *rules; // FP_UNWIND_RULES
	// Makes chunk `index`, reachable for the programs, or gives it back. NULL: not to be had.
	struct fp_unwind_chunk *(*make_chunk)(uint32_t index, void *context);
	void (*drop_chunk)(uint32_t index, struct fp_unwind_chunk *chunk, void *context);
	void *context;
};

// Rules that are always there, behind FP_UNWIND_GAP, which is number 0.
enum { FP_UNWIND_RULE_RULES_FULL = 1, FP_UNWIND_RULE_ROWS_FULL, FP_UNWIND_RULES_FIXED };

struct fp_unwind_place {       // a table in the space; zero: none
	uint32_t page, pages;  // of the space
	uint32_t file_page;    // the file's that lies in the first of them
	uint16_t tag;	       // also in the words of its pages; never 0
	uint32_t rows, blocks; // written; taken of chunks, FP_UNWIND_BLOCK_ROWS each
	uint16_t *rules;       // numbers of the rules that it holds
	uint32_t rules_count;
};

#define FP_UNWIND_BLOCK_ROWS 64u

struct fp_unwind_pool;

// chunks_max: of struct fp_unwind_chunk, up to FP_UNWIND_CHUNKS.
int fp_unwind_pool_new(const struct fp_unwind_memory *memory, uint32_t chunks_max,
		       struct fp_unwind_pool **ret);
void fp_unwind_pool_free(struct fp_unwind_pool *pool); // gives all chunks back; no program may run
static inline void fp_unwind_pool_freep(struct fp_unwind_pool **pool)
{
	fp_unwind_pool_free(*pool);
	*pool = NULL;
}
void fp_unwind_pool_set_chunks(struct fp_unwind_pool *pool, uint32_t chunks_max);

// Enters a table. Rules and rows beyond what the space holds become FP_UNWIND_CANNOT rows that say
// so. -EBADMSG: the table is malformed; -ENODATA: it covers no code; -EFBIG: it will never
// fit; -ENOSPC: no room for it now; -ENOMEM. What fails changes nothing.
int fp_unwind_pool_add(struct fp_unwind_pool *pool, const void *table, size_t size,
		       struct fp_unwind_place *ret);
// The programs no longer find it; the place is zero afterwards.
void fp_unwind_pool_remove(struct fp_unwind_pool *pool, struct fp_unwind_place *place);
// Whether something that was removed waits for a grace period.
bool fp_unwind_pool_waits(const struct fp_unwind_pool *pool);
// To be called when every program run has ended that was under way when the last table was removed,
// and no range carries its tag any more: its memory, pages, rules and tag may be used again.
void fp_unwind_pool_grace(struct fp_unwind_pool *pool);

// With more chunks than there may be: moves rows together so that chunks become empty, which are given
// back after the grace period. False: that is not enough, and tables have to go.
bool fp_unwind_pool_compact(struct fp_unwind_pool *pool);

// Blocks that a table of so many rows and pages takes at most.
static inline uint32_t fp_unwind_pool_blocks(uint32_t rows, uint32_t pages)
{
	return (rows + pages) / FP_UNWIND_BLOCK_ROWS + pages;
}

struct fp_unwind_pool_stats {
	uint32_t tables, pages, chunks, chunks_max;
	uint32_t blocks, blocks_waiting; // taken of the chunks; of these, of removed tables
	uint32_t rules;			 // in use or waiting, with the fixed ones
	uint64_t rows;
	uint64_t book_bytes; // of the pool itself
};
void fp_unwind_pool_stats(const struct fp_unwind_pool *pool, struct fp_unwind_pool_stats *ret);
