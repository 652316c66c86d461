// SPDX-License-Identifier: Apache-2.0
//
// Symbols in any order, with aliases, missing sizes and nesting → segments that do not
// overlap. Sorted by address, one sweep with a stack of the functions that are open.
#include "symboltable.h"

#include "array.h"

#include <string.h>

#define POOL_MAX_DEFAULT ((size_t)256 << 20)

struct fp_symbol_row {
	uint64_t address, end, limit; // end == address: size not known
	uint32_t name;
	uint8_t rank, underscores;
};

void fp_symbol_builder_free(struct fp_symbol_builder *builder)
{
	free(builder->rows);
	fp_buf_free(&builder->pool);
	*builder = (struct fp_symbol_builder){ 0 };
}

static uint8_t leading_underscores(const char *name, size_t size)
{
	size_t count = 0;

	while (count < size && count < UINT8_MAX && name[count] == '_')
		count++;
	return (uint8_t)count;
}

int fp_symbol_builder_add(struct fp_symbol_builder *builder, const struct fp_symbol *symbol)
{
	size_t pool_max = builder->pool_max ? builder->pool_max : POOL_MAX_DEFAULT;
	size_t size = strnlen(symbol->name ? symbol->name : "", symbol->name_size);
	struct fp_symbol_row row = { .address = symbol->address,
				     .limit = symbol->limit,
				     .rank = symbol->rank };

	if (size == 0)
		return 0;
	if (size > FP_SYMBOL_NAME_MAX)
		size = FP_SYMBOL_NAME_MAX;
	if (builder->rows_count >= FP_SYMBOLS_MAX || builder->pool.len + size + 1 > pool_max)
		return -E2BIG;
	if (FP_ARRAY_ROOM(builder, rows, 1))
		return -ENOMEM;
	if (__builtin_add_overflow(symbol->address, symbol->size, &row.end))
		row.end = UINT64_MAX;
	row.name = (uint32_t)builder->pool.len;
	row.underscores = leading_underscores(symbol->name, size);
	fp_buf_append(&builder->pool, symbol->name, size);
	fp_buf_byte(&builder->pool, 0);
	if (builder->pool.error)
		return builder->pool.error;
	builder->rows[builder->rows_count++] = row;
	return 0;
}

// By address; of several at one address the best name first: with a size, by rank, with
// fewer leading underscores, longer, and at last by bytes, so that the choice is fixed.
static int compare_rows(const void *a, const void *b, void *context)
{
	const char *pool = context;
	const struct fp_symbol_row *x = a, *y = b;
	bool x_sized = x->end > x->address, y_sized = y->end > y->address;
	size_t x_length, y_length;

	if (x->address != y->address)
		return x->address < y->address ? -1 : 1;
	if (x_sized != y_sized)
		return x_sized ? -1 : 1;
	if (x->rank != y->rank)
		return (int)x->rank - (int)y->rank;
	if (x->underscores != y->underscores)
		return (int)x->underscores - (int)y->underscores;
	x_length = strlen(pool + x->name);
	y_length = strlen(pool + y->name);
	if (x_length != y_length)
		return x_length > y_length ? -1 : 1;
	return strcmp(pool + x->name, pool + y->name);
}

// Keeps one row per address: the best name, reaching as far as the longest alias.
static void merge_aliases(struct fp_symbol_builder *builder)
{
	size_t kept = 0;

	for (size_t i = 0; i < builder->rows_count; i++) {
		const struct fp_symbol_row *row = &builder->rows[i];

		if (kept > 0 && builder->rows[kept - 1].address == row->address) {
			if (row->end > builder->rows[kept - 1].end)
				builder->rows[kept - 1].end = row->end;
			continue;
		}
		builder->rows[kept++] = *row;
	}
	builder->rows_count = kept;
}

// A symbol without a size reaches to the next one within its section; inside a function
// that has a size it is a mere label of hand-written code and is dropped.
static void settle_sizes(struct fp_symbol_builder *builder)
{
	uint64_t covered = 0;
	size_t kept = 0;

	for (size_t i = 0; i < builder->rows_count; i++) {
		struct fp_symbol_row row = builder->rows[i];

		if (row.end > row.address) {
			if (row.end > covered)
				covered = row.end;
		} else {
			if (row.address < covered)
				continue;
			row.end = row.limit;
			if (i + 1 < builder->rows_count && builder->rows[i + 1].address < row.end)
				row.end = builder->rows[i + 1].address;
			if (row.end <= row.address)
				continue;
		}
		builder->rows[kept++] = row;
	}
	builder->rows_count = kept;
}

struct sweep {
	struct fp_symbol_table *table;
	const struct fp_symbol_row *rows;
	size_t *open; // rows that cover the position, innermost last
	size_t open_count;
	uint64_t position;
};

// Appends [position, end) for the row; never more than 2 segments per row. Until
// table_compact, `names` holds row numbers.
static void sweep_emit(struct sweep *sweep, uint64_t end, size_t row)
{
	struct fp_symbol_table *table = sweep->table;
	uint64_t size = end - sweep->position;

	table->starts[table->count] = sweep->position;
	table->sizes[table->count] = size > UINT32_MAX ? UINT32_MAX : (uint32_t)size;
	table->names[table->count] = (uint32_t)row;
	table->count++;
	sweep->position = end;
}

static void sweep_close(struct sweep *sweep, uint64_t until)
{
	while (sweep->open_count > 0) {
		size_t row = sweep->open[sweep->open_count - 1];
		uint64_t end = sweep->rows[row].end;

		if (end > until)
			break;
		if (end > sweep->position)
			sweep_emit(sweep, end, row);
		sweep->open_count--;
	}
	if (sweep->open_count > 0 && until > sweep->position)
		sweep_emit(sweep, until, sweep->open[sweep->open_count - 1]);
}

static int table_sweep(const struct fp_symbol_builder *builder, struct fp_symbol_table *table)
{
	FP_AUTOFREE size_t *open = calloc(builder->rows_count + 1, sizeof(*open));
	struct sweep sweep = { .table = table, .rows = builder->rows, .open = open };

	if (!open)
		return -ENOMEM;
	for (size_t i = 0; i < builder->rows_count; i++) {
		sweep_close(&sweep, builder->rows[i].address);
		sweep.position = builder->rows[i].address;
		open[sweep.open_count++] = i;
	}
	sweep_close(&sweep, UINT64_MAX);
	return 0;
}

static int table_reserve(struct fp_symbol_table *table, size_t segments)
{
	table->starts = calloc(segments + 1, sizeof(*table->starts));
	table->sizes = calloc(segments + 1, sizeof(*table->sizes));
	table->names = calloc(segments + 1, sizeof(*table->names));
	if (!table->starts || !table->sizes || !table->names)
		return -ENOMEM;
	return 0;
}

// Gives back the room that nesting would have needed, and the names of dropped aliases.
static int table_compact(struct fp_symbol_table *table, const struct fp_symbol_builder *builder)
{
	FP_AUTOBUF struct fp_buf compact = { 0 };
	FP_AUTOFREE uint32_t *moved = calloc(builder->rows_count + 1, sizeof(*moved));

	if (!moved)
		return -ENOMEM;
	fp_buf_byte(&compact, 0); // so that 0 in `moved` means not yet
	for (uint32_t i = 0; i < table->count; i++) {
		const struct fp_symbol_row *row = &builder->rows[table->names[i]];
		uint32_t *place = &moved[table->names[i]];

		if (*place == 0) {
			const char *name = (const char *)builder->pool.data + row->name;

			*place = (uint32_t)compact.len;
			fp_buf_append(&compact, name, strlen(name) + 1);
		}
		table->names[i] = *place;
	}
	if (compact.error)
		return compact.error;
	table->pool_size = compact.len;
	table->pool = fp_buf_take(&compact);
	table->shown = calloc(table->count + 1, sizeof(*table->shown));
	return table->pool && table->shown ? 0 : -ENOMEM;
}

static void *shrink(void *array, size_t count, size_t size)
{
	void *smaller = reallocarray(array, count + 1, size);

	return smaller ? smaller : array;
}

int fp_symbol_builder_finish(struct fp_symbol_builder *builder, struct fp_symbol_table **ret_table)
{
	FP_AUTOSYMBOLTABLE struct fp_symbol_table *table = calloc(1, sizeof(*table));
	int error;

	if (!table)
		return -ENOMEM;
	if (builder->rows_count > 1)
		qsort_r(builder->rows, builder->rows_count, sizeof(*builder->rows), compare_rows,
			builder->pool.data);
	merge_aliases(builder);
	settle_sizes(builder);
	error = table_reserve(table, 2 * builder->rows_count);
	if (!error)
		error = table_sweep(builder, table);
	if (!error)
		error = table_compact(table, builder);
	if (error)
		return error;
	table->starts = shrink(table->starts, table->count, sizeof(*table->starts));
	table->sizes = shrink(table->sizes, table->count, sizeof(*table->sizes));
	table->names = shrink(table->names, table->count, sizeof(*table->names));
	fp_symbol_builder_free(builder);
	*ret_table = fp_take_ptr(table);
	return 0;
}
