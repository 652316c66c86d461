// SPDX-License-Identifier: Apache-2.0
//
// symboltable: the functions of one build as flat arrays: non-overlapping segments sorted by
// address, each with the name of the innermost function that covers it, so that a lookup is
// one binary search and a gap between functions answers NULL rather than a wrong name.
// Filled through a builder by the ELF reader and by the text readers. Private to profile/.
// Trust: the builder takes any numbers; sizes that wrap are cut, counts and bytes bounded.
// Ownership: the table owns arrays and string pool. Threads: none shared.
#pragma once

#include "common/buf.h"

// Bounds of one table. Chromium's unstripped binary, about the largest there is, has 1.5 M
// function symbols.
#define FP_SYMBOLS_MAX	   4000000u
#define FP_SYMBOL_NAME_MAX 4096u

struct fp_symbol_segment { // a PT_LOAD program header: file offset → address
	uint64_t offset, size, address;
};

struct fp_symbol_table {
	uint64_t *starts;
	uint32_t *sizes;
	uint32_t *names; // offset into pool
	uint32_t *shown; // the caller's: id of the readable name, 0 = not yet made
	uint32_t count;
	char *pool;
	size_t pool_size;
	struct fp_symbol_segment *segments; // none: addresses are offsets
	uint32_t segments_count;
};

struct fp_symbol { // input of the builder
	uint64_t address;
	uint64_t size;	// 0: up to the next symbol, but not past `limit`
	uint64_t limit; // end of the section the symbol is in
	const char *name;
	size_t name_size;
	uint8_t rank; // of two at one address the lower wins, then fewer leading underscores
};

struct fp_symbol_builder {
	struct fp_symbol_row *rows; // private
	size_t rows_count, rows_capacity;
	struct fp_buf pool;
	size_t pool_max; // bytes of names accepted; 0: 256 MiB
};

void fp_symbol_builder_free(struct fp_symbol_builder *builder);
#define FP_AUTOSYMBOLS FP_CLEANUP(fp_symbol_builder_free)
// Errors: -ENOMEM, -E2BIG when a bound is passed. An empty name is ignored.
int fp_symbol_builder_add(struct fp_symbol_builder *builder, const struct fp_symbol *symbol);
// Sorts, settles aliases, sizes and nesting, and makes the table; the builder is empty then.
// A table without symbols is a table with count 0.
int fp_symbol_builder_finish(struct fp_symbol_builder *builder, struct fp_symbol_table **ret_table);

void fp_symbol_table_free(struct fp_symbol_table *table);
static inline void fp_symbol_table_freep(struct fp_symbol_table **table)
{
	fp_symbol_table_free(*table);
	*table = NULL;
}
#define FP_AUTOSYMBOLTABLE FP_CLEANUP(fp_symbol_table_freep)
// Index of the segment of the table that covers the address, UINT32_MAX when none does.
uint32_t fp_symbol_table_find(const struct fp_symbol_table *table, uint64_t address);
// Turns a file offset into an address by the segments; false when no segment holds it.
bool fp_symbol_table_address(const struct fp_symbol_table *table, uint64_t offset,
			     uint64_t *ret_address);
static inline const char *fp_symbol_table_name(const struct fp_symbol_table *table, uint32_t index)
{
	return table->pool + table->names[index];
}
size_t fp_symbol_table_bytes(const struct fp_symbol_table *table);
