// SPDX-License-Identifier: Apache-2.0
//
// treewalk: a finished tree's nodes in drawing order (parent, then its children by name,
// depth first) with their depths, as two arrays; so that renderers are plain loops and a
// stack of 100,000 frames costs no recursion. Also names of kinds. Private to profile/.
// Ownership: the struct owns its arrays. Threads: none shared.
#pragma once

#include "tree.h"

struct fp_tree_walk {
	uint32_t *nodes; // tree->count entries in drawing order; the root first
	uint32_t *depth; // by node; the root has 0
};

int fp_tree_walk_new(const struct fp_tree *tree, struct fp_tree_walk *ret_walk);
void fp_tree_walk_free(struct fp_tree_walk *walk);
#define FP_AUTOWALK FP_CLEANUP(fp_tree_walk_free)

const char *fp_node_kind_name(enum fp_node_kind kind); // "user", "kernel", …
