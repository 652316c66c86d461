// SPDX-License-Identifier: Apache-2.0
//
// trees: short ways to make trees in tests. Every function fails the running test on error.
#pragma once

#include "../cases.h"

#include "profile/folded.h"
#include "profile/render.h"

#include <string.h>

// A finished tree from folded text that must hold no bad line.
static inline struct fp_tree *tree_of(const char *text)
{
	struct fp_folded_result result;
	struct fp_tree *tree = NULL;

	assert_int_equal(fp_tree_new(&tree), 0);
	assert_int_equal(fp_folded_parse(text, strlen(text), tree, &result), 0);
	assert_int_equal(result.bad_lines, 0);
	assert_int_equal(fp_tree_finish(tree), 0);
	return tree;
}

static inline void assert_folded(const struct fp_tree *tree, const char *expected)
{
	FP_AUTOBUF struct fp_buf text = { 0 };

	assert_int_equal(fp_folded_write(tree, &text), 0);
	fp_buf_byte(&text, 0);
	assert_string_equal((const char *)text.data, expected);
}

// The child of that name below the node, which must exist.
static inline uint32_t child_of(const struct fp_tree *tree, uint32_t parent, const char *name)
{
	for (uint32_t i = tree->nodes[parent].first_child; i != UINT32_MAX;
	     i = tree->nodes[i].next_sibling) {
		if (strcmp(fp_intern_get(&tree->names, tree->nodes[i].name), name) == 0)
			return i;
	}
	fail_msg("no child '%s'", name);
	return UINT32_MAX;
}
