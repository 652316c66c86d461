// SPDX-License-Identifier: Apache-2.0
//
// The hottest functions for a terminal, by self value. Every cell is measured first, so
// that columns are as wide as they must be and names get what is left.
#include "renderers.h"
#include "text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_ROWS	30
#define DEFAULT_COLUMNS 100
#define MIN_NAME_WIDTH	16
#define PERCENT_WIDTH	8 // "100.00 %"
#define MAX_MODULE	28

struct table {
	const struct fp_tree *tree;
	const struct fp_render_options *options;
	struct fp_function *rows;
	size_t count, shown;
	size_t value_width, name_width, module_width;
};

static void table_free(struct table *table)
{
	free(table->rows);
}
#define AUTOTABLE FP_CLEANUP(table_free)

// Colours by what the row is; only when asked for.
static const char *const kind_colors[] = {
	[FP_NODE_USER] = "\033[33m",   [FP_NODE_KERNEL] = "\033[36m", [FP_NODE_JIT] = "\033[32m",
	[FP_NODE_UNKNOWN] = "\033[2m", [FP_NODE_ERROR] = "\033[2m",   [FP_NODE_WAIT] = "\033[34m",
	[FP_NODE_READY] = "\033[34m",  [FP_NODE_WAKE] = "\033[35m",
};

static int compare_self(const void *a, const void *b, void *context)
{
	const struct fp_intern *names = context;
	const struct fp_function *x = a, *y = b;
	int order;

	if (x->self != y->self)
		return x->self < y->self ? 1 : -1;
	if (x->total != y->total)
		return x->total < y->total ? 1 : -1;
	order = strcmp(fp_intern_get(names, x->name), fp_intern_get(names, y->name));
	if (!order)
		order = strcmp(fp_intern_get(names, x->module), fp_intern_get(names, y->module));
	return order ? order : (int)x->kind - (int)y->kind;
}

static int table_value(const struct table *table, uint64_t value, struct fp_buf *ret_text)
{
	if (table->options->unit == FP_UNIT_NANOSECONDS)
		return fp_text_duration(value, ret_text);
	return fp_text_count(value, ret_text);
}

static size_t characters(const struct fp_buf *text)
{
	size_t count = 0;

	for (size_t i = 0; i < text->len; i++)
		count += (text->data[i] & 0xc0) != 0x80;
	return count;
}

static size_t value_width(const struct table *table, uint64_t value)
{
	FP_AUTOBUF struct fp_buf text = { 0 };

	table_value(table, value, &text);
	return characters(&text);
}

static const char *module_name(const struct table *table, const struct fp_function *row)
{
	const char *path = fp_intern_get(&table->tree->names, row->module);
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

static size_t name_width(const char *name, size_t size, size_t limit)
{
	FP_AUTOBUF struct fp_buf text = { 0 };

	return fp_text_name(name, size, limit, &text);
}

static void table_measure(struct table *table)
{
	size_t columns = table->options->columns ? table->options->columns : DEFAULT_COLUMNS;
	size_t fixed;

	table->value_width = strlen("total");
	for (size_t i = 0; i < table->shown; i++) {
		const struct fp_function *row = &table->rows[i];
		const char *module = module_name(table, row);
		size_t total = value_width(table, row->total), self = value_width(table, row->self);
		size_t wide = total > self ? total : self;
		size_t name = name_width(module, strlen(module), MAX_MODULE);

		if (wide > table->value_width)
			table->value_width = wide;
		if (name > table->module_width)
			table->module_width = name;
	}
	if (table->module_width > 0 && table->module_width < strlen("module"))
		table->module_width = strlen("module");
	fixed = 2 * (PERCENT_WIDTH + 2 + table->value_width + 2) +
		(table->module_width ? table->module_width + 2 : 0);
	table->name_width = columns > fixed + MIN_NAME_WIDTH ? columns - fixed : MIN_NAME_WIDTH;
}

static void pad_left(const struct fp_buf *text, size_t width, struct fp_buf *ret_bytes)
{
	for (size_t i = characters(text); i < width; i++)
		fp_buf_byte(ret_bytes, ' ');
	if (text->len > 0)
		fp_buf_append(ret_bytes, text->data, text->len);
}

static void table_cells(const struct table *table, uint64_t value, struct fp_buf *ret_bytes)
{
	FP_AUTOBUF struct fp_buf share = { 0 };
	FP_AUTOBUF struct fp_buf text = { 0 };

	fp_text_percent(value, table->tree->nodes[FP_TREE_ROOT].total, 2, &share);
	table_value(table, value, &text);
	pad_left(&share, PERCENT_WIDTH, ret_bytes);
	fp_buf_str(ret_bytes, "  ");
	pad_left(&text, table->value_width, ret_bytes);
	fp_buf_str(ret_bytes, "  ");
}

static void table_row(const struct table *table, const struct fp_function *row,
		      struct fp_buf *ret_bytes)
{
	const struct fp_intern *names = &table->tree->names;
	const char *color = table->options->color && row->kind < FP_ARRAY_SIZE(kind_colors)
				? kind_colors[row->kind]
				: NULL;
	const char *module = module_name(table, row);
	size_t width;

	table_cells(table, row->self, ret_bytes);
	table_cells(table, row->total, ret_bytes);
	if (color)
		fp_buf_str(ret_bytes, color);
	width = fp_text_name(fp_intern_get(names, row->name), names->sizes[row->name],
			     table->name_width, ret_bytes);
	if (color)
		fp_buf_str(ret_bytes, "\033[0m");
	if (module[0]) {
		for (; width < table->name_width + 2; width++)
			fp_buf_byte(ret_bytes, ' ');
		fp_text_name(module, strlen(module), table->module_width, ret_bytes);
	}
	fp_buf_byte(ret_bytes, '\n');
}

static void table_line(const char *text, struct fp_buf *ret_bytes)
{
	fp_text_name(text, strlen(text), SIZE_MAX, ret_bytes);
	fp_buf_byte(ret_bytes, '\n');
}

static void table_head(const struct table *table, struct fp_buf *ret_bytes)
{
	const struct fp_render_options *options = table->options;
	uint64_t total = table->tree->nodes[FP_TREE_ROOT].total, busy_ns;

	fp_text_name(options->title, strlen(options->title), SIZE_MAX, ret_bytes);
	fp_buf_str(ret_bytes, ": ");
	fp_render_value(options->unit, total, ret_bytes);
	if (options->unit == FP_UNIT_SAMPLES && options->period_ns &&
	    !__builtin_mul_overflow(total, options->period_ns, &busy_ns)) {
		fp_buf_str(ret_bytes, " (");
		fp_text_duration(busy_ns, ret_bytes);
		fp_buf_str(ret_bytes, " of CPU time)");
	}
	fp_buf_byte(ret_bytes, '\n');
	if (options->subtitle)
		table_line(options->subtitle, ret_bytes);
	if (table->count == 0)
		return;
	fp_buf_printf(ret_bytes, "\n%*s  %*s  %*s  %*s  ", PERCENT_WIDTH, "self %",
		      (int)table->value_width, "self", PERCENT_WIDTH, "total %",
		      (int)table->value_width, "total");
	if (table->module_width)
		fp_buf_printf(ret_bytes, "%-*s  module\n", (int)table->name_width, "function");
	else
		fp_buf_str(ret_bytes, "function\n");
}

// What the table leaves out is said, with its weight.
static void table_foot(const struct table *table, struct fp_buf *ret_bytes)
{
	uint64_t rest = table->tree->nodes[FP_TREE_ROOT].total;

	for (size_t i = 0; i < table->shown; i++)
		rest -= table->rows[i].self;
	if (table->count > table->shown) {
		fp_buf_str(ret_bytes, "\n");
		fp_text_count(table->count - table->shown, ret_bytes);
		fp_buf_str(ret_bytes, " more functions hold ");
		fp_text_percent(rest, table->tree->nodes[FP_TREE_ROOT].total, 2, ret_bytes);
		fp_buf_str(ret_bytes, " of the total as self.\n");
	}
	if (table->options->quality) {
		fp_buf_byte(ret_bytes, '\n');
		table_line(table->options->quality, ret_bytes);
	}
}

int fp_render_table(const struct fp_tree *tree, const struct fp_render_options *options,
		    struct fp_buf *ret_bytes)
{
	AUTOTABLE struct table table = { .tree = tree, .options = options };
	size_t limit = options->rows ? options->rows : DEFAULT_ROWS;
	int error = fp_tree_functions(tree, &table.rows, &table.count);

	if (error)
		return error;
	qsort_r(table.rows, table.count, sizeof(*table.rows), compare_self, (void *)&tree->names);
	table.shown = table.count < limit ? table.count : limit;
	table_measure(&table);
	table_head(&table, ret_bytes);
	for (size_t i = 0; i < table.shown; i++)
		table_row(&table, &table.rows[i], ret_bytes);
	table_foot(&table, ret_bytes);
	return ret_bytes->error;
}
