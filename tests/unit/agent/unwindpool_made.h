// SPDX-License-Identifier: Apache-2.0
//
// unwindpool_made: a pool over ordinary memory, tables that are in it, and whether a program finds at
// each offset what the table there says.
#pragma once

#include "unwindload_bench.h"

#include "../lots.h"

#define PAGE   65536u
#define CHUNKS 8u

static struct unwind_bench bench;
static struct fp_unwind_pool *pool;

static int begin(void **state)
{
	unwind_bench_begin(&bench);
	random_state = 0x9E3779B97F4A7C15ULL;
	return fp_unwind_pool_new(&bench.memory, CHUNKS, &pool);
}

// What places own that are still in the pool when a test ends.
static void *owned[4096];
static uint32_t owned_count;

static int end(void **state)
{
	while (owned_count > 0)
		free(owned[--owned_count]);
	fp_unwind_pool_freep(&pool);
	unwind_bench_end(&bench);
	return 0;
}

static inline struct fp_unwind_pool_stats stats_now(void)
{
	struct fp_unwind_pool_stats stats;

	fp_unwind_pool_stats(pool, &stats);
	return stats;
}

struct made { // a table and where it lies
	void *bytes;
	size_t size;
	struct fp_unwind_place place;
};

static inline int add(struct made *made)
{
	int r = fp_unwind_pool_add(pool, made->bytes, made->size, &made->place);

	assert_true(owned_count < sizeof(owned) / sizeof(owned[0]));
	if (r == 0)
		owned[owned_count++] = made->place.rules;
	return r;
}

static inline void take_out(struct made *made)
{
	for (uint32_t i = 0; i < owned_count; i++)
		if (owned[i] == made->place.rules)
			owned[i] = owned[--owned_count];
	fp_unwind_pool_remove(pool, &made->place);
}

static inline void check_view(const struct made *made, const struct fp_unwind_view *view,
			      uint32_t offset)
{
	const struct fp_unwind_rule *wanted = fp_unwind_view_find(view, offset);
	struct fp_unwind_rule found = { 0 };

	if (!unwind_bench_find(&bench, &made->place, offset, &found))
		assert_int_equal(wanted->cfa, FP_UNWIND_GAP);
	else
		assert_memory_equal(&found, wanted, sizeof(found));
}

static inline void check_at(const struct made *made, uint32_t offset)
{
	struct fp_unwind_view view;

	assert_int_equal(fp_unwind_table_check(made->bytes, made->size, &view), 0);
	check_view(made, &view, offset);
}

// At each row, and just before it.
static inline void check_all(const struct made *made)
{
	struct fp_unwind_view view;

	assert_int_equal(fp_unwind_table_check(made->bytes, made->size, &view), 0);
	for (uint32_t i = 0; i < view.head->rows; i++) {
		if (i + 1 < view.head->rows) // behind the last row there may be no page
			check_view(made, &view, view.offsets[i]);
		if (i > 0)
			check_view(made, &view, view.offsets[i] - 1);
	}
}

static inline void forget(struct made *made)
{
	free(made->bytes);
	made->bytes = NULL;
}

static inline void *many_rows(uint32_t rows_count, uint32_t step, uint32_t rules_count,
			      int32_t salt, size_t *ret_size)
{
	struct unwind_row *rows = calloc(rows_count, sizeof(*rows));
	struct fp_unwind_rule *rules = calloc(rules_count + 1, sizeof(*rules));
	void *table;

	for (uint32_t i = 0; i < rules_count; i++)
		rules[i + 1] = unwind_rule(8 * ((int32_t)i + salt));
	for (uint32_t i = 0; i < rows_count; i++)
		rows[i] = (struct unwind_row){ i * step, (uint16_t)(1 + i % rules_count) };
	table = unwind_table(rows, rows_count, rows_count * step, rules, rules_count + 1, ret_size);
	free(rows);
	free(rules);
	return table;
}
