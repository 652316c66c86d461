// SPDX-License-Identifier: Apache-2.0
#include "unwindpool_private.h"

#include "unwindtable.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PAGE_BYTES (1ULL << FP_UNWIND_PAGE_BITS)
// Of one table: 1 GiB from its first code to its last. The largest programs have a quarter of it.
#define PAGES_MAX (FP_UNWIND_PAGES / 4)

struct adding { // a table on its way in
	struct fp_unwind_pool *pool;
	struct fp_unwind_view view;
	struct fp_unwind_place place;
	uint16_t *numbers; // the table's rule → the pool's, FP_UNWIND_NO_RULE: not met yet
	fp_u64 *words;	   // of its pages
	uint32_t row;	   // the next to be entered
	uint16_t number;   // of the rule that holds before it
};

int fp_unwind_pool_new(const struct fp_unwind_memory *memory, uint32_t chunks_max,
		       struct fp_unwind_pool **ret)
{
	struct fp_unwind_pool *pool = calloc(1, sizeof(*pool));

	if (!pool)
		return -ENOMEM;
	pool->memory = *memory;
	fp_bit_set(pool->tags_used, 0); // what no table has
	fp_unwind_pool_rules_init(pool);
	fp_unwind_pool_set_chunks(pool, chunks_max);
	*ret = pool;
	return 0;
}

void fp_unwind_pool_free(struct fp_unwind_pool *pool)
{
	if (!pool)
		return;
	for (uint32_t i = 0; i < FP_UNWIND_CHUNKS; i++)
		if (pool->slots[i].memory)
			pool->memory.drop_chunk(i, pool->slots[i].memory, pool->memory.context);
	fp_hashmap_free(&pool->rule_index);
	free(pool);
}

void fp_unwind_pool_set_chunks(struct fp_unwind_pool *pool, uint32_t chunks_max)
{
	pool->chunks_max = chunks_max < FP_UNWIND_CHUNKS ? chunks_max : FP_UNWIND_CHUNKS;
}

// The last row begins where the code has ended.
static int measure(struct adding *adding)
{
	const struct fp_unwind_view *view = &adding->view;
	struct fp_unwind_place *place = &adding->place;
	uint32_t last;

	if (view->head->rows < 2)
		return -ENODATA;
	last = (view->offsets[view->head->rows - 1] - 1) >> FP_UNWIND_PAGE_BITS;
	place->file_page = view->offsets[0] >> FP_UNWIND_PAGE_BITS;
	place->pages = last - place->file_page + 1;
	if (place->pages > PAGES_MAX ||
	    view->head->rows > (uint64_t)adding->pool->chunks_max * FP_UNWIND_CHUNK_ROWS)
		return -EFBIG;
	return 0;
}

static int take_tag(struct fp_unwind_pool *pool, uint16_t *ret_tag)
{
	uint16_t tag = pool->last_tag;

	for (uint32_t tries = 0; tries < FP_UNWIND_PAGES; tries++) {
		tag++; // the one that has been unused for longest
		if (!fp_bit(pool->tags_used, tag)) {
			fp_bit_set(pool->tags_used, tag);
			pool->last_tag = tag;
			*ret_tag = tag;
			return 0;
		}
	}
	return -ENOSPC;
}

static int take_space(struct adding *adding)
{
	struct fp_unwind_pool *pool = adding->pool;
	struct fp_unwind_place *place = &adding->place;
	uint32_t page = fp_bits_find(pool->pages_used, FP_UNWIND_PAGES, place->pages);
	int r;

	if (page == FP_UNWIND_PAGES)
		return -ENOSPC;
	r = take_tag(pool, &place->tag);
	if (r < 0)
		return r;
	for (uint32_t i = 0; i < place->pages; i++)
		fp_bit_set(pool->pages_used, page + i);
	pool->pages += place->pages;
	place->page = page;
	return 0;
}

// A rule that only says that there is none is the pool's as well.
static int number_of(struct adding *adding, uint16_t rule, uint16_t *ret_number)
{
	uint16_t *number = &adding->numbers[rule];
	int r = 0;

	if (*number == FP_UNWIND_NO_RULE && adding->view.rules[rule].cfa == FP_UNWIND_GAP)
		*number = FP_UNWIND_GAP;
	if (*number == FP_UNWIND_NO_RULE)
		r = fp_unwind_pool_rules_take(adding->pool, &adding->view.rules[rule], number);
	*ret_number = *number;
	return r;
}

// Puts the rows of the page that begins at `base` of the file into scratch, the first of them one
// for its beginning. Returns their number, 0: nothing covers the page; or -errno.
static int collect_page(struct adding *adding, uint64_t base)
{
	const struct fp_unwind_view *view = &adding->view;
	fp_u32 *rows = adding->pool->scratch;
	uint32_t count = 1;
	bool full = false;

	rows[0] = (fp_u32)adding->number << 16;
	for (; adding->row < view->head->rows; adding->row++) {
		uint64_t at = view->offsets[adding->row] - base;
		uint16_t before = adding->number;
		int r;

		if (at >= PAGE_BYTES)
			break;
		r = number_of(adding, view->rule_of[adding->row], &adding->number);
		if (r < 0)
			return r;
		if (at == 0)
			rows[0] = (fp_u32)adding->number << 16;
		else if (adding->number != before && count == FP_UNWIND_CHUNK_ROWS)
			full = true;
		else if (adding->number != before)
			rows[count++] = (fp_u32)at | (fp_u32)adding->number << 16;
	}
	if (full) {
		rows[0] = (fp_u32)FP_UNWIND_RULE_ROWS_FULL << 16;
		return 1;
	}
	return count == 1 && rows[0] >> 16 == FP_UNWIND_GAP ? 0 : (int)count;
}

static int enter_page(struct adding *adding, uint32_t page)
{
	struct fp_unwind_pool *pool = adding->pool;
	uint64_t base = (uint64_t)(adding->place.file_page + page) << FP_UNWIND_PAGE_BITS;
	int count = collect_page(adding, base);
	uint32_t chunk, first;
	int r;

	if (count <= 0)
		return count;
	r = fp_unwind_pool_rows_take(pool, (uint32_t)count, &chunk, &first);
	if (r < 0)
		return r;
	memcpy(&pool->slots[chunk].memory->rows[first], pool->scratch,
	       (size_t)count * sizeof(pool->scratch[0]));
	adding->words[page] = FP_UNWIND_PAGE(chunk, first, count, adding->place.tag);
	adding->place.rows += (uint32_t)count;
	return 0;
}

// What was taken is nobody's yet, so it can be given back at once.
static void give_up(struct adding *adding)
{
	struct fp_unwind_pool *pool = adding->pool;
	const struct fp_unwind_place *place = &adding->place;

	for (uint32_t i = 0; i < place->pages; i++) {
		if (adding->words[i])
			fp_unwind_pool_rows_give(pool, adding->words[i], false);
		fp_bit_clear(pool->pages_used, place->page + i);
	}
	for (uint32_t i = 0; i < adding->view.head->rules; i++)
		if (adding->numbers[i] >= FP_UNWIND_RULES_FIXED &&
		    adding->numbers[i] != FP_UNWIND_NO_RULE)
			fp_unwind_pool_rules_give(pool, adding->numbers[i], false);
	fp_bit_clear(pool->tags_used, place->tag);
	pool->pages -= place->pages;
	fp_unwind_pool_rows_drop_empty(pool);
}

// Keeps the numbers of the rules that were met, in the memory that they are in.
static void keep_rules(struct adding *adding)
{
	struct fp_unwind_place *place = &adding->place;
	uint16_t *fitting;

	for (uint32_t i = 0; i < adding->view.head->rules; i++)
		if (adding->numbers[i] >= FP_UNWIND_RULES_FIXED &&
		    adding->numbers[i] != FP_UNWIND_NO_RULE)
			adding->numbers[place->rules_count++] = adding->numbers[i];
	fitting = realloc(adding->numbers, (place->rules_count + 1) * sizeof(*fitting));
	place->rules = fitting ? fitting : adding->numbers;
	adding->numbers = NULL;
}

// What the words lead to is there before they are.
static void publish(struct adding *adding)
{
	fp_u64 *pages = &adding->pool->memory.pages[adding->place.page];

	for (uint32_t i = 0; i < adding->place.pages; i++)
		__atomic_store_n(&pages[i], adding->words[i], __ATOMIC_RELEASE);
}

static int enter(struct adding *adding, struct fp_unwind_place *ret)
{
	struct fp_unwind_pool *pool = adding->pool;
	uint32_t blocks = pool->blocks;
	int r = take_space(adding);

	if (r < 0)
		return r;
	for (uint32_t i = 0; i < adding->place.pages && r == 0; i++)
		r = enter_page(adding, i);
	if (r < 0) {
		give_up(adding);
		return r;
	}
	keep_rules(adding);
	publish(adding);
	adding->place.blocks = pool->blocks - blocks;
	pool->rows += adding->place.rows;
	pool->tables++;
	*ret = adding->place;
	return 0;
}

int fp_unwind_pool_add(struct fp_unwind_pool *pool, const void *table, size_t size,
		       struct fp_unwind_place *ret)
{
	struct adding adding = { .pool = pool };
	FP_AUTOFREE fp_u64 *words = NULL;
	int r = fp_unwind_table_check(table, size, &adding.view);

	if (r == 0)
		r = measure(&adding);
	if (r < 0)
		return r;
	adding.numbers = malloc(adding.view.head->rules * sizeof(*adding.numbers));
	adding.words = words = calloc(adding.place.pages, sizeof(*words));
	r = adding.numbers && words ? 0 : -ENOMEM;
	if (r == 0) {
		memset(adding.numbers, 0xff, adding.view.head->rules * sizeof(*adding.numbers));
		r = enter(&adding, ret);
	}
	free(adding.numbers);
	return r;
}

void fp_unwind_pool_remove(struct fp_unwind_pool *pool, struct fp_unwind_place *place)
{
	for (uint32_t i = place->page; i < place->page + place->pages; i++) {
		fp_u64 word = pool->memory.pages[i];

		__atomic_store_n(&pool->memory.pages[i], 0, __ATOMIC_RELEASE);
		if (word)
			fp_unwind_pool_rows_give(pool, word, true);
		fp_bit_set(pool->pages_waiting, i);
	}
	for (uint32_t i = 0; i < place->rules_count; i++)
		fp_unwind_pool_rules_give(pool, place->rules[i], true);
	if (place->tag) {
		fp_bit_set(pool->tags_waiting, place->tag);
		pool->pages -= place->pages;
		pool->rows -= place->rows;
		pool->tables--;
		pool->waits = true;
	}
	free(place->rules);
	*place = (struct fp_unwind_place){ 0 };
}

bool fp_unwind_pool_waits(const struct fp_unwind_pool *pool)
{
	return pool->waits;
}

static void release_bits(uint64_t *used, uint64_t *waiting)
{
	for (uint32_t i = 0; i < FP_UNWIND_PAGES / 64; i++) {
		used[i] &= ~waiting[i];
		waiting[i] = 0;
	}
}

void fp_unwind_pool_grace(struct fp_unwind_pool *pool)
{
	if (!pool->waits)
		return;
	release_bits(pool->pages_used, pool->pages_waiting);
	release_bits(pool->tags_used, pool->tags_waiting);
	fp_unwind_pool_rules_grace(pool);
	fp_unwind_pool_rows_grace(pool);
	pool->waits = false;
}

void fp_unwind_pool_stats(const struct fp_unwind_pool *pool, struct fp_unwind_pool_stats *ret)
{
	*ret = (struct fp_unwind_pool_stats){
		.tables = pool->tables,
		.pages = pool->pages,
		.chunks = pool->chunks,
		.chunks_max = pool->chunks_max,
		.blocks = pool->blocks,
		.blocks_waiting = pool->blocks_waiting,
		.rules = pool->rules_begun - pool->rules_free_count,
		.rows = pool->rows,
		.book_bytes = sizeof(*pool) + fp_hashmap_bytes(&pool->rule_index),
	};
}
