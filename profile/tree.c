// SPDX-License-Identifier: Apache-2.0
#include "tree.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NO_NODE UINT32_MAX

struct node_key {
	uint32_t parent, name, module, kind;
};

int fp_tree_new(struct fp_tree **ret_tree)
{
	FP_AUTOTREE struct fp_tree *tree = calloc(1, sizeof(*tree));
	int error;

	if (!tree)
		return -ENOMEM;
	tree->index = FP_HASHMAP_INIT(struct node_key, uint32_t);
	error = fp_intern_init(&tree->names);
	if (error)
		return error;
	tree->capacity = 64;
	tree->nodes = calloc(tree->capacity, sizeof(*tree->nodes));
	if (!tree->nodes)
		return -ENOMEM;
	tree->nodes[FP_TREE_ROOT] = (struct fp_node){ .parent = NO_NODE,
						      .kind = FP_NODE_ROOT,
						      .first_child = NO_NODE,
						      .next_sibling = NO_NODE };
	tree->count = 1;
	*ret_tree = fp_take_ptr(tree);
	return 0;
}

void fp_tree_free(struct fp_tree *tree)
{
	if (!tree)
		return;
	free(tree->nodes);
	fp_intern_free(&tree->names);
	fp_hashmap_free(&tree->index);
	free(tree);
}

static int tree_reserve(struct fp_tree *tree)
{
	struct fp_node *nodes;

	if (tree->count < tree->capacity)
		return 0;
	if (tree->capacity > UINT32_MAX / 2)
		return -ENOMEM;
	nodes = reallocarray(tree->nodes, (size_t)tree->capacity * 2, sizeof(*nodes));
	if (!nodes)
		return -ENOMEM;
	tree->nodes = nodes;
	tree->capacity *= 2;
	return 0;
}

static int tree_child(struct fp_tree *tree, const struct node_key *key, uint32_t *ret_node)
{
	uint32_t *slot = fp_hashmap_get(&tree->index, key);
	bool inserted;
	int error;

	if (slot) {
		*ret_node = *slot;
		return 0;
	}
	error = tree_reserve(tree);
	if (error)
		return error;
	slot = fp_hashmap_put(&tree->index, key, &inserted);
	if (!slot)
		return -ENOMEM;
	*slot = tree->count;
	tree->nodes[tree->count] = (struct fp_node){ .parent = key->parent,
						     .name = key->name,
						     .module = key->module,
						     .kind = (uint8_t)key->kind,
						     .first_child = NO_NODE,
						     .next_sibling = NO_NODE };
	*ret_node = tree->count++;
	return 0;
}

static int tree_step(struct fp_tree *tree, const struct fp_tree_frame *frame, uint32_t *node)
{
	const char *module = frame->module ? frame->module : "";
	struct node_key key = { .parent = *node, .kind = frame->kind };
	int error;

	error = fp_intern_add(&tree->names, frame->name, frame->name_size, &key.name);
	if (!error)
		error = fp_intern_add(&tree->names, module, strlen(module), &key.module);
	if (!error)
		error = tree_child(tree, &key, node);
	return error;
}

int fp_tree_add(struct fp_tree *tree, const struct fp_tree_frame *frames, size_t count,
		uint64_t value)
{
	uint32_t node = FP_TREE_ROOT;
	uint64_t sum;

	if (!value)
		return 0;
	if (__builtin_add_overflow(tree->sum, value, &sum))
		return -EOVERFLOW;
	tree->finished = false;
	for (size_t i = 0; i < count; i++) {
		int error = tree_step(tree, &frames[i], &node);

		if (error)
			return error;
	}
	tree->nodes[node].self += value;
	tree->sum = sum;
	return 0;
}

static int compare_names(const void *a, const void *b, void *context)
{
	const struct fp_intern *names = context;
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	size_t size = names->sizes[x] < names->sizes[y] ? names->sizes[x] : names->sizes[y];
	int order = memcmp(names->strings[x], names->strings[y], size);

	if (order)
		return order;
	return (names->sizes[x] > names->sizes[y]) - (names->sizes[x] < names->sizes[y]);
}

// rank[name id] = place in byte order, so that sorting nodes compares numbers only.
static uint32_t *rank_names(struct fp_intern *names)
{
	FP_AUTOFREE uint32_t *order = malloc(names->count * sizeof(*order));
	uint32_t *rank = malloc(names->count * sizeof(*rank));

	if (!order || !rank) {
		free(rank);
		return NULL;
	}
	for (uint32_t i = 0; i < names->count; i++)
		order[i] = i;
	qsort_r(order, names->count, sizeof(*order), compare_names, names);
	for (uint32_t i = 0; i < names->count; i++)
		rank[order[i]] = i;
	return rank;
}

struct node_order {
	uint32_t parent, name_rank, module_rank, kind, node;
};

static int compare_nodes(const void *a, const void *b)
{
	const struct node_order *x = a, *y = b;

	if (x->parent != y->parent)
		return x->parent < y->parent ? -1 : 1;
	if (x->name_rank != y->name_rank)
		return x->name_rank < y->name_rank ? -1 : 1;
	if (x->module_rank != y->module_rank)
		return x->module_rank < y->module_rank ? -1 : 1;
	return (int)x->kind - (int)y->kind;
}

static int tree_order(struct fp_tree *tree, struct node_order *order)
{
	FP_AUTOFREE uint32_t *rank = rank_names(&tree->names);

	if (!rank)
		return -ENOMEM;
	for (uint32_t i = 1; i < tree->count; i++) {
		const struct fp_node *node = &tree->nodes[i];

		order[i - 1] = (struct node_order){ node->parent, rank[node->name],
						    rank[node->module], node->kind, i };
	}
	qsort(order, tree->count - 1, sizeof(*order), compare_nodes);
	return 0;
}

static void tree_link(struct fp_tree *tree, const struct node_order *order)
{
	for (uint32_t i = 0; i < tree->count; i++) {
		tree->nodes[i].first_child = NO_NODE;
		tree->nodes[i].next_sibling = NO_NODE;
		tree->nodes[i].total = tree->nodes[i].self;
	}
	for (uint32_t i = tree->count - 1; i > 0; i--) {
		const struct node_order *entry = &order[i - 1];
		struct fp_node *parent = &tree->nodes[entry->parent];

		tree->nodes[entry->node].next_sibling = parent->first_child;
		parent->first_child = entry->node;
	}
	// Parents come before their children, so one pass from the end sums every subtree.
	for (uint32_t i = tree->count - 1; i > 0; i--)
		tree->nodes[tree->nodes[i].parent].total += tree->nodes[i].total;
}

int fp_tree_finish(struct fp_tree *tree)
{
	FP_AUTOFREE struct node_order *order = calloc(tree->count, sizeof(*order));
	int error;

	if (!order)
		return -ENOMEM;
	error = tree_order(tree, order);
	if (error)
		return error;
	tree_link(tree, order);
	tree->finished = true;
	return 0;
}
