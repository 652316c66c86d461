// SPDX-License-Identifier: Apache-2.0
#include "treewalk.h"

#include <errno.h>

#define NO_NODE UINT32_MAX

static void walk_fill(const struct fp_tree *tree, struct fp_tree_walk *walk)
{
	uint32_t node = FP_TREE_ROOT, count = 0, depth = 0;

	for (;;) {
		walk->depth[node] = depth;
		walk->nodes[count++] = node;
		if (tree->nodes[node].first_child != NO_NODE) {
			node = tree->nodes[node].first_child;
			depth++;
			continue;
		}
		while (node != FP_TREE_ROOT && tree->nodes[node].next_sibling == NO_NODE) {
			node = tree->nodes[node].parent;
			depth--;
		}
		if (node == FP_TREE_ROOT)
			return;
		node = tree->nodes[node].next_sibling;
	}
}

int fp_tree_walk_new(const struct fp_tree *tree, struct fp_tree_walk *ret_walk)
{
	FP_AUTOWALK struct fp_tree_walk walk = { 0 };

	if (!tree->finished)
		return -EINVAL;
	walk.nodes = calloc(tree->count, sizeof(*walk.nodes));
	walk.depth = calloc(tree->count, sizeof(*walk.depth));
	if (!walk.nodes || !walk.depth)
		return -ENOMEM;
	walk_fill(tree, &walk);
	*ret_walk = (struct fp_tree_walk){ fp_take_ptr(walk.nodes), fp_take_ptr(walk.depth) };
	return 0;
}

void fp_tree_walk_free(struct fp_tree_walk *walk)
{
	free(walk->nodes);
	free(walk->depth);
}

const char *fp_node_kind_name(enum fp_node_kind kind)
{
	static const char *const names[] = {
		[FP_NODE_ROOT] = "root",   [FP_NODE_LABEL] = "label",
		[FP_NODE_USER] = "user",   [FP_NODE_KERNEL] = "kernel",
		[FP_NODE_JIT] = "jit",	   [FP_NODE_INLINE] = "inline",
		[FP_NODE_ERROR] = "error", [FP_NODE_UNKNOWN] = "unknown",
		[FP_NODE_WAIT] = "wait",   [FP_NODE_READY] = "ready",
		[FP_NODE_WAKE] = "wake",
	};

	return kind < FP_ARRAY_SIZE(names) ? names[kind] : "unknown";
}
