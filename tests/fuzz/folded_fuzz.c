// SPDX-License-Identifier: Apache-2.0
//
// folded_fuzz: any bytes as folded text. What was read is written, read again and written to
// the same bytes with the same sum; every renderer takes the tree.
#include "fuzz.h"

#include "profile/folded.h"
#include "profile/render.h"

#include <string.h>

#define FP_CHECK(condition)                                                                        \
	do {                                                                                       \
		if (!(condition))                                                                  \
			abort();                                                                   \
	} while (0)

static struct fp_tree *read_text(const void *text, size_t size, struct fp_folded_result *result)
{
	struct fp_tree *tree = NULL;

	FP_CHECK(fp_tree_new(&tree) == 0);
	FP_CHECK(fp_folded_parse(text, size, tree, result) == 0);
	FP_CHECK(fp_tree_finish(tree) == 0);
	return tree;
}

static void render_all(const struct fp_tree *tree)
{
	struct fp_render_options options = { .title = "fuzz", .period_ns = 1, .rows = 5 };

	for (size_t i = 0; i < fp_renderers_count; i++) {
		FP_AUTOBUF struct fp_buf bytes = { 0 };

		FP_CHECK(fp_renderers[i].render(tree, &options, &bytes) == 0);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	FP_AUTOBUF struct fp_buf once = { 0 }, twice = { 0 };
	FP_AUTOTREE struct fp_tree *tree = NULL;
	FP_AUTOTREE struct fp_tree *again = NULL;
	struct fp_folded_result result;

	tree = read_text(data, size, &result);
	FP_CHECK((result.bad_lines > 0) == (result.first_bad_reason != NULL));
	FP_CHECK(fp_folded_write(tree, &once) == 0);
	again = read_text(once.data, once.len, &result);
	FP_CHECK(result.bad_lines == 0);
	FP_CHECK(again->sum == tree->sum);
	FP_CHECK(fp_folded_write(again, &twice) == 0);
	FP_CHECK(once.len == twice.len);
	FP_CHECK(once.len == 0 || memcmp(once.data, twice.data, once.len) == 0);
	render_all(tree);
	return 0;
}
