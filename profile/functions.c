// SPDX-License-Identifier: Apache-2.0
#include "tree.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NO_NODE	    UINT32_MAX
#define NO_FUNCTION UINT32_MAX

struct function_key {
	uint32_t name, module, kind;
};

struct function_table {
	struct fp_function *rows;
	uint32_t *row_of_node; // NO_FUNCTION: the root or a label
	uint32_t *open;	       // per row: how many nodes of it are on the path being walked
	uint32_t count;
};

static void table_free(struct function_table *table)
{
	free(table->rows);
	free(table->row_of_node);
	free(table->open);
}
#define AUTOTABLE FP_CLEANUP(table_free)

static uint8_t function_kind(const struct fp_node *node)
{
	return node->kind == FP_NODE_INLINE ? FP_NODE_USER : node->kind;
}

static int table_assign(struct function_table *table, const struct fp_tree *tree,
			struct fp_hashmap *index)
{
	for (uint32_t i = 0; i < tree->count; i++) {
		const struct fp_node *node = &tree->nodes[i];
		struct function_key key = { node->name, node->module, function_kind(node) };
		bool inserted = false;
		uint32_t *row;

		table->row_of_node[i] = NO_FUNCTION;
		if (node->kind == FP_NODE_ROOT || node->kind == FP_NODE_LABEL)
			continue;
		row = fp_hashmap_put(index, &key, &inserted);
		if (!row)
			return -ENOMEM;
		if (inserted) {
			*row = table->count++;
			table->rows[*row] = (struct fp_function){ .name = node->name,
								  .module = node->module,
								  .kind = (uint8_t)key.kind };
		}
		table->row_of_node[i] = *row;
		table->rows[*row].self += node->self;
	}
	return 0;
}

static void table_enter(struct function_table *table, const struct fp_tree *tree, uint32_t node)
{
	uint32_t row = table->row_of_node[node];

	if (row != NO_FUNCTION && table->open[row]++ == 0)
		table->rows[row].total += tree->nodes[node].total;
}

static void table_leave(struct function_table *table, uint32_t node)
{
	uint32_t row = table->row_of_node[node];

	if (row != NO_FUNCTION)
		table->open[row]--;
}

// Depth first along the links, without a stack of its own: frames may be 100,000 deep.
static void table_walk(struct function_table *table, const struct fp_tree *tree)
{
	uint32_t node = FP_TREE_ROOT;

	table_enter(table, tree, node);
	for (;;) {
		if (tree->nodes[node].first_child != NO_NODE) {
			node = tree->nodes[node].first_child;
		} else {
			while (node != FP_TREE_ROOT && tree->nodes[node].next_sibling == NO_NODE) {
				table_leave(table, node);
				node = tree->nodes[node].parent;
			}
			if (node == FP_TREE_ROOT)
				return;
			table_leave(table, node);
			node = tree->nodes[node].next_sibling;
		}
		table_enter(table, tree, node);
	}
}

static int compare_functions(const void *a, const void *b, void *context)
{
	const struct fp_intern *names = context;
	const struct fp_function *x = a, *y = b;
	int order;

	if (x->total != y->total)
		return x->total < y->total ? 1 : -1;
	if (x->self != y->self)
		return x->self < y->self ? 1 : -1;
	order = strcmp(fp_intern_get(names, x->name), fp_intern_get(names, y->name));
	if (!order)
		order = strcmp(fp_intern_get(names, x->module), fp_intern_get(names, y->module));
	return order ? order : (int)x->kind - (int)y->kind;
}

int fp_tree_functions(const struct fp_tree *tree, struct fp_function **ret_functions,
		      size_t *ret_count)
{
	AUTOTABLE struct function_table table = { 0 };
	FP_CLEANUP(fp_hashmap_free)
	struct fp_hashmap index = FP_HASHMAP_INIT(struct function_key, uint32_t);
	int error;

	if (!tree->finished)
		return -EINVAL;
	table.rows = calloc(tree->count, sizeof(*table.rows));
	table.row_of_node = calloc(tree->count, sizeof(*table.row_of_node));
	table.open = calloc(tree->count, sizeof(*table.open));
	if (!table.rows || !table.row_of_node || !table.open)
		return -ENOMEM;
	error = table_assign(&table, tree, &index);
	if (error)
		return error;
	table_walk(&table, tree);
	qsort_r(table.rows, table.count, sizeof(*table.rows), compare_functions,
		(void *)&tree->names);
	*ret_count = table.count;
	*ret_functions = fp_take_ptr(table.rows);
	return 0;
}
