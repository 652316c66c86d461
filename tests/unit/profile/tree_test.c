// SPDX-License-Identifier: Apache-2.0
#include "trees.h"

#include <errno.h>
#include <stdlib.h>

#define DEEP 100000

static struct fp_tree_frame frame_of(const char *name, const char *module, enum fp_node_kind kind)
{
	return (struct fp_tree_frame){ name, strlen(name), module, kind };
}

// Every node's total is its own value and its children's; siblings are in byte order; all
// that was added is in the root.
static void assert_sound(const struct fp_tree *tree, uint64_t sum)
{
	uint64_t self = 0;

	assert_int_equal(tree->nodes[FP_TREE_ROOT].total, sum);
	for (uint32_t i = 0; i < tree->count; i++) {
		const struct fp_node *node = &tree->nodes[i];
		uint64_t total = node->self;
		const char *previous = NULL;

		self += node->self;
		assert_true(i == FP_TREE_ROOT || node->parent < i);
		for (uint32_t c = node->first_child; c != UINT32_MAX;
		     c = tree->nodes[c].next_sibling) {
			const char *name = fp_intern_get(&tree->names, tree->nodes[c].name);

			assert_int_equal(tree->nodes[c].parent, i);
			assert_true(!previous || strcmp(previous, name) <= 0);
			previous = name;
			total += tree->nodes[c].total;
		}
		assert_int_equal(node->total, total);
	}
	assert_int_equal(self, sum);
}

static void test_split_parents(void **state)
{
	static const struct {
		const char *text;
		const char *parent;
		uint64_t total;
		uint32_t top_level;
	} cases[] = {
		// Sorted as text, "a.b;x" comes between "a 1" and "a;c": the parent would be cut in two.
		{ "a 1\na.b;x 1\na;c 1\n", "a", 2, 2 },
		{ "f 1\nf(x);y 1\nf;z 1\n", "f", 2, 2 },
		{ "a;b 1\na b;c 1\na;d 1\n", "a", 2, 2 },
		{ "a;b 1\na+;c 1\na;d 1\na 4\n", "a", 6, 2 },
	};

	for (size_t i = 0; i < FP_ARRAY_SIZE(cases); i++) {
		FP_AUTOTREE struct fp_tree *tree = tree_of(cases[i].text);
		uint32_t children = 0;

		for (uint32_t c = tree->nodes[0].first_child; c != UINT32_MAX;
		     c = tree->nodes[c].next_sibling)
			children++;
		assert_int_equal(children, cases[i].top_level);
		assert_int_equal(tree->nodes[child_of(tree, 0, cases[i].parent)].total,
				 cases[i].total);
	}
}

static void test_nodes_differ_by_module_and_kind(void **state)
{
	FP_AUTOTREE struct fp_tree *tree = NULL;
	struct fp_tree_frame frames[] = {
		frame_of("read", "libc.so.6", FP_NODE_USER),
		frame_of("read", "libc.so.6", FP_NODE_KERNEL),
		frame_of("read", "liba.so", FP_NODE_USER),
		frame_of("read", NULL, FP_NODE_USER),
	};
	static const char *const modules[] = { "", "liba.so", "libc.so.6", "libc.so.6" };
	uint32_t node;

	assert_int_equal(fp_tree_new(&tree), 0);
	for (size_t i = 0; i < FP_ARRAY_SIZE(frames); i++)
		assert_int_equal(fp_tree_add(tree, &frames[i], 1, 1), 0);
	assert_int_equal(fp_tree_add(tree, &frames[0], 1, 5), 0);
	assert_int_equal(fp_tree_finish(tree), 0);
	assert_int_equal(tree->count, 1 + FP_ARRAY_SIZE(frames));
	node = tree->nodes[FP_TREE_ROOT].first_child;
	for (size_t i = 0; i < FP_ARRAY_SIZE(modules); i++) {
		assert_string_equal(fp_intern_get(&tree->names, tree->nodes[node].module),
				    modules[i]);
		node = tree->nodes[node].next_sibling;
	}
	assert_int_equal(node, UINT32_MAX);
	assert_sound(tree, 9);
}

static void test_values(void **state)
{
	FP_AUTOTREE struct fp_tree *tree = NULL;
	struct fp_tree_frame frame = frame_of("a", NULL, FP_NODE_USER);

	assert_int_equal(fp_tree_new(&tree), 0);
	assert_int_equal(fp_tree_add(tree, &frame, 1, 0), 0);
	assert_int_equal(tree->count, 1);
	assert_int_equal(fp_tree_add(tree, NULL, 0, 3), 0);
	assert_int_equal(fp_tree_add(tree, &frame, 1, UINT64_MAX - 3), 0);
	assert_int_equal(fp_tree_add(tree, &frame, 1, 1), -EOVERFLOW);
	assert_int_equal(fp_tree_finish(tree), 0);
	assert_int_equal(tree->nodes[FP_TREE_ROOT].self, 3);
	assert_sound(tree, UINT64_MAX);
}

static void test_adding_after_finish(void **state)
{
	FP_AUTOTREE struct fp_tree *tree = tree_of("a;b 1\n");
	struct fp_tree_frame frame = frame_of("0", NULL, FP_NODE_USER);
	struct fp_function *functions = NULL;
	size_t count;

	assert_int_equal(fp_tree_add(tree, &frame, 1, 2), 0);
	assert_false(tree->finished);
	assert_int_equal(fp_tree_functions(tree, &functions, &count), -EINVAL);
	assert_null(functions);
	assert_int_equal(fp_tree_finish(tree), 0);
	assert_sound(tree, 3);
	assert_folded(tree, "0 2\na;b 1\n");
}

static void test_recursion_counts_once(void **state)
{
	static const struct {
		const char *text, *name;
		uint64_t self, total;
	} cases[] = {
		{ "f;f;f 7\n", "f", 7, 7 },
		{ "f;g;f;g 3\nf;g 2\n", "f", 0, 5 },
		{ "f;g;f;g 3\nf;g 2\n", "g", 5, 5 },
		{ "a;f;b;f;c 1\nf;f 2\nx;f 4\n", "f", 6, 7 },
		// The kernel's f is another function than the program's.
		{ "f;f_[k] 4\nf 1\n", "f", 1, 5 },
		// An inlined copy is the function itself.
		{ "f;f_[i] 4\nf 1\n", "f", 5, 5 },
	};

	for (size_t i = 0; i < FP_ARRAY_SIZE(cases); i++) {
		FP_AUTOTREE struct fp_tree *tree = tree_of(cases[i].text);
		FP_AUTOFREE struct fp_function *functions = NULL;
		size_t count = 0, found = 0;

		assert_int_equal(fp_tree_functions(tree, &functions, &count), 0);
		for (size_t f = 0; f < count; f++) {
			if (functions[f].kind != FP_NODE_USER ||
			    strcmp(fp_intern_get(&tree->names, functions[f].name), cases[i].name))
				continue;
			assert_int_equal(functions[f].self, cases[i].self);
			assert_int_equal(functions[f].total, cases[i].total);
			found++;
		}
		assert_int_equal(found, 1);
	}
}

static void test_functions_are_sorted_and_skip_labels(void **state)
{
	FP_AUTOTREE struct fp_tree *tree = NULL;
	FP_AUTOFREE struct fp_function *functions = NULL;
	struct fp_tree_frame stack[] = { frame_of("worker", NULL, FP_NODE_LABEL),
					 frame_of("main", "app", FP_NODE_USER),
					 frame_of("leaf", "app", FP_NODE_USER) };
	static const char *const order[] = { "main", "leaf", "b", "c" };
	size_t count;

	assert_int_equal(fp_tree_new(&tree), 0);
	assert_int_equal(fp_tree_add(tree, stack, 3, 10), 0);
	stack[2] = frame_of("c", "app", FP_NODE_USER);
	assert_int_equal(fp_tree_add(tree, stack, 3, 2), 0);
	stack[2] = frame_of("b", "app", FP_NODE_USER);
	assert_int_equal(fp_tree_add(tree, stack, 3, 2), 0);
	assert_int_equal(fp_tree_finish(tree), 0);
	assert_int_equal(fp_tree_functions(tree, &functions, &count), 0);
	assert_int_equal(count, FP_ARRAY_SIZE(order));
	for (size_t i = 0; i < count; i++)
		assert_string_equal(fp_intern_get(&tree->names, functions[i].name), order[i]);
}

static void test_deep_stacks(void **state)
{
	FP_AUTOFREE struct fp_tree_frame *frames = calloc(DEEP, sizeof(*frames));
	FP_AUTOTREE struct fp_tree *tree = NULL;
	FP_AUTOFREE struct fp_function *functions = NULL;
	size_t count;

	assert_non_null(frames);
	for (size_t i = 0; i < DEEP; i++)
		frames[i] = frame_of(i % 2 ? "odd" : "even", NULL, FP_NODE_USER);
	assert_int_equal(fp_tree_new(&tree), 0);
	assert_int_equal(fp_tree_add(tree, frames, DEEP, 5), 0);
	assert_int_equal(fp_tree_add(tree, frames, DEEP / 2, 1), 0);
	assert_int_equal(fp_tree_finish(tree), 0);
	assert_sound(tree, 6);
	assert_int_equal(fp_tree_functions(tree, &functions, &count), 0);
	assert_int_equal(count, 2);
	assert_int_equal(functions[0].total, 6);
	assert_int_equal(functions[1].total, 6);
	for (size_t r = 0; r < fp_renderers_count; r++) {
		struct fp_render_options options = { .title = "deep" };
		FP_AUTOBUF struct fp_buf bytes = { 0 };

		assert_int_equal(fp_renderers[r].render(tree, &options, &bytes), 0);
		assert_true(bytes.len > 0);
	}
}

static void test_random_trees_are_sound(void **state)
{
	for (unsigned int seed = 1; seed <= 20; seed++) {
		FP_AUTOTREE struct fp_tree *tree = NULL;
		unsigned int random = seed;
		uint64_t sum = 0;

		assert_int_equal(fp_tree_new(&tree), 0);
		for (int stack = 0; stack < 400; stack++) {
			char names[12][4];
			struct fp_tree_frame frames[12];
			size_t depth = (size_t)rand_r(&random) % 12;
			uint64_t value = (uint64_t)rand_r(&random) % 100;

			for (size_t i = 0; i < depth; i++) {
				snprintf(names[i], sizeof(names[i]), "%c%c",
					 'a' + rand_r(&random) % 3, '.' + rand_r(&random) % 3);
				frames[i] =
				    frame_of(names[i], NULL, FP_NODE_USER + rand_r(&random) % 3);
			}
			assert_int_equal(fp_tree_add(tree, frames, depth, value), 0);
			sum += value;
		}
		assert_int_equal(fp_tree_finish(tree), 0);
		assert_sound(tree, sum);
	}
}

// Self adds up to the whole; no function has more than the whole, nor less than its self.
static void test_random_functions_add_up(void **state)
{
	for (unsigned int seed = 1; seed <= 20; seed++) {
		FP_AUTOBUF struct fp_buf text = { 0 };
		FP_AUTOTREE struct fp_tree *tree = NULL;
		FP_AUTOFREE struct fp_function *functions = NULL;
		unsigned int random = seed;
		uint64_t self = 0;
		size_t count;

		for (int line = 0; line < 200; line++) {
			for (int depth = rand_r(&random) % 9; depth >= 0; depth--)
				fp_buf_printf(&text, "%c%s", 'a' + rand_r(&random) % 6,
					      depth ? ";" : "");
			fp_buf_printf(&text, " %d\n", 1 + rand_r(&random) % 50);
		}
		tree = tree_of((const char *)text.data);
		assert_int_equal(fp_tree_functions(tree, &functions, &count), 0);
		for (size_t i = 0; i < count; i++) {
			self += functions[i].self;
			assert_true(functions[i].total <= tree->sum);
			assert_true(functions[i].self <= functions[i].total);
		}
		assert_int_equal(self, tree->sum);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		FP_CASE("a sibling whose name sorts before ';' does not split its parent",
			test_split_parents),
		FP_CASE("nodes of one name differ by module and by kind",
			test_nodes_differ_by_module_and_kind),
		FP_CASE("a value of 0 adds nothing and the sum never wraps", test_values),
		FP_CASE("a tree that grew has to be finished again", test_adding_after_finish),
		FP_CASE("recursion counts once", test_recursion_counts_once),
		FP_CASE("functions come by total, then self, then name; labels are none",
			test_functions_are_sorted_and_skip_labels),
		FP_CASE("a stack of 100,000 frames passes through everything", test_deep_stacks),
		FP_CASE("random trees keep every sum", test_random_trees_are_sound),
		FP_CASE("random functions add up to the whole", test_random_functions_add_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
