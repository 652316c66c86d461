// SPDX-License-Identifier: Apache-2.0
#include "trees.h"

#include <stdlib.h>

static void test_texts(void **state)
{
	static const struct {
		const char *what, *in, *out;
	} cases[] = {
		{ "nothing", "", "" },
		{ "one stack", "a;b 3\n", "a;b 3\n" },
		{ "the same stack twice", "a;b 3\na;b 4\n", "a;b 7\n" },
		{ "no newline at the end", "a;b 3", "a;b 3\n" },
		{ "CRLF line ends", "a;b 3\r\nc 1\r\n", "a;b 3\nc 1\n" },
		{ "empty lines", "\n\na 1\n\n", "a 1\n" },
		{ "byte order", "b 1\na;c 1\na 1\na.b 1\n", "a 1\na.b 1\na;c 1\nb 1\n" },
		{ "names with blanks", "foo bar;operator new 2\n", "foo bar;operator new 2\n" },
		{ "a name that ends in a blank", "a  5\n", "a  5\n" },
		{ "a tab before the value", "a;b\t5\n", "a;b 5\n" },
		{ "kinds", "a;b_[k];c_[j];d_[i] 1\n", "a;b_[k];c_[j];d_[i] 1\n" },
		{ "other annotations stay part of the name", "a_[w] 1\n", "a_[w] 1\n" },
		{ "explanations and code without a name", "[stack lost] 1\nx;libc.so.6+0x1f 2\n",
		  "[stack lost] 1\nx;libc.so.6+0x1f 2\n" },
		{ "marks of time off the CPU", "a;[blocked: stopped] 1\nb;[woken by c];d 2\n",
		  "a;[blocked: stopped] 1\nb;[woken by c];d 2\n" },
		{ "an empty frame inside a stack", "a;;b 1\n", "a;;b 1\n" },
		{ "an empty stack", " 5\n", " 5\n" },
		{ "an inner frame that ends in a number", "worker 1;run 5\n", "worker 1;run 5\n" },
		{ "a single name of digits", "42 5\n", "42 5\n" },
		{ "escapes of the writer", "a\\x3bb;c\\x0ad 1\n", "a\\x3bb;c\\x0ad 1\n" },
		{ "backslashes that are no escape", "C:\\dir\\x41;\\x 1\n",
		  "C:\\dir\\x41;\\x 1\n" },
		{ "not UTF-8", "\xff\xfe;b 1\n", "\xff\xfe;b 1\n" },
		{ "the largest value", "a 18446744073709551615\n", "a 18446744073709551615\n" },
		{ "a value of 0", "a 0\nb 1\n", "b 1\n" },
	};

	for (size_t i = 0; i < FP_ARRAY_SIZE(cases); i++) {
		FP_AUTOTREE struct fp_tree *tree = tree_of(cases[i].in);
		FP_AUTOTREE struct fp_tree *again = NULL;

		assert_folded(tree, cases[i].out);
		again = tree_of(cases[i].out);
		assert_folded(again, cases[i].out);
	}
}

static void test_kinds(void **state)
{
	static const struct {
		const char *text, *name;
		enum fp_node_kind kind;
	} cases[] = {
		{ "f 1\n", "f", FP_NODE_USER },
		{ "f_[k] 1\n", "f", FP_NODE_KERNEL },
		{ "f_[j] 1\n", "f", FP_NODE_JIT },
		{ "f_[i] 1\n", "f", FP_NODE_INLINE },
		{ "f_[z] 1\n", "f_[z]", FP_NODE_USER },
		{ "[why] 1\n", "[why]", FP_NODE_ERROR },
		{ "[blocked: interruptible] 1\n", "[blocked: interruptible]", FP_NODE_WAIT },
		{ "[stopped] 1\n", "[stopped]", FP_NODE_WAIT },
		{ "[preempted] 1\n", "[preempted]", FP_NODE_READY },
		{ "[woken] 1\n", "[woken]", FP_NODE_READY },
		{ "[woken by a b] 1\n", "[woken by a b]", FP_NODE_WAKE },
		{ "[] 1\n", "[]", FP_NODE_USER },
		{ "libc.so.6+0x1f 1\n", "libc.so.6+0x1f", FP_NODE_UNKNOWN },
		{ "a+0x 1\n", "a+0x", FP_NODE_USER },
		{ "+0x1f 1\n", "+0x1f", FP_NODE_USER },
		{ "a\\x0ab 1\n", "a\nb", FP_NODE_USER },
	};

	for (size_t i = 0; i < FP_ARRAY_SIZE(cases); i++) {
		FP_AUTOTREE struct fp_tree *tree = tree_of(cases[i].text);
		uint32_t node = child_of(tree, FP_TREE_ROOT, cases[i].name);

		assert_int_equal(tree->nodes[node].kind, cases[i].kind);
	}
}

// Names nobody should have, and how they must come back.
static void test_hostile_names(void **state)
{
	static const struct {
		const char *name;
		size_t size;
		enum fp_node_kind kind;
		const char *text;
	} cases[] = {
		{ "a\nb", 3, FP_NODE_USER, "a\\x0ab 1\n" },
		{ "a;b", 3, FP_NODE_USER, "a\\x3bb 1\n" },
		{ "a\0b", 3, FP_NODE_USER, "a\\x00b 1\n" },
		{ "\x1b[31m", 5, FP_NODE_USER, "\\x1b[31m 1\n" },
		{ "\x7f\t", 2, FP_NODE_KERNEL, "\\x7f\\x09_[k] 1\n" },
		{ "\xc2\x9b"
		  "31m",
		  5, FP_NODE_USER, "\\xc2\\x9b31m 1\n" },
		{ "\x9d"
		  "0;\xff",
		  4, FP_NODE_JIT, "\\x9d0\\x3b\xff_[j] 1\n" },
		{ "\xe2\x80\xae"
		  "txt",
		  6, FP_NODE_USER, "\\xe2\\x80\\xaetxt 1\n" },
		{ "\xe2\x81\xa9", 3, FP_NODE_USER, "\\xe2\\x81\\xa9 1\n" },
		{ "\xe2\x80\x94", 3, FP_NODE_USER, "\xe2\x80\x94 1\n" }, // a dash is a dash
		{ "\xc2\\x9b", 5, FP_NODE_USER, "\xc2\\x5cx9b 1\n" },
		{ "\u00e9\u20ac\xc2\x9f", 7, FP_NODE_USER, "\u00e9\u20ac\\xc2\\x9f 1\n" },
		{ "a\\x0ab", 6, FP_NODE_USER, "a\\x5cx0ab 1\n" },
		{ "a\\x41b", 6, FP_NODE_USER, "a\\x41b 1\n" },
		{ "f_[k]", 5, FP_NODE_USER, "f_\\x5bk] 1\n" },
		{ "f_[k]", 5, FP_NODE_JIT, "f_[k]_[j] 1\n" },
		{ "worker 1", 8, FP_NODE_USER, "worker\\x201 1\n" },
		{ "worker 1", 8, FP_NODE_KERNEL, "worker 1_[k] 1\n" },
	};

	for (size_t i = 0; i < FP_ARRAY_SIZE(cases); i++) {
		struct fp_tree_frame frame = { cases[i].name, cases[i].size, NULL, cases[i].kind };
		FP_AUTOTREE struct fp_tree *tree = NULL;
		FP_AUTOTREE struct fp_tree *again = NULL;
		const struct fp_node *node;

		assert_int_equal(fp_tree_new(&tree), 0);
		assert_int_equal(fp_tree_add(tree, &frame, 1, 1), 0);
		assert_int_equal(fp_tree_finish(tree), 0);
		assert_folded(tree, cases[i].text);
		again = tree_of(cases[i].text);
		assert_int_equal(again->count, 2);
		node = &again->nodes[1];
		assert_int_equal(node->kind, cases[i].kind);
		assert_int_equal(again->names.sizes[node->name], cases[i].size);
		assert_memory_equal(fp_intern_get(&again->names, node->name), cases[i].name,
				    cases[i].size);
	}
}

static void test_modules_merge(void **state)
{
	FP_AUTOTREE struct fp_tree *tree = NULL;
	struct fp_tree_frame a = { "f", 1, "liba.so", FP_NODE_USER };
	struct fp_tree_frame b = { "f", 1, "libb.so", FP_NODE_USER };

	assert_int_equal(fp_tree_new(&tree), 0);
	assert_int_equal(fp_tree_add(tree, &a, 1, 2), 0);
	assert_int_equal(fp_tree_add(tree, &b, 1, 3), 0);
	assert_int_equal(fp_tree_finish(tree), 0);
	assert_folded(tree, "f 5\n");
}

static void test_bad_lines(void **state)
{
	static const struct {
		const char *text;
		uint64_t lines, bad, first_bad;
		const char *reason; // a part of it
	} cases[] = {
		{ "a;b\n", 0, 1, 1, "does not end in a number" },
		{ "a;b 1\nnonsense\na 2\nmore\n", 2, 2, 2, "does not end in a number" },
		{ "5\n", 0, 1, 1, "no blank" },
		{ "a;b5\n", 0, 1, 1, "no blank" },
		{ "a;b 1.5\n", 0, 1, 1, "whole number" },
		{ "a;b -5\n", 0, 1, 1, "no blank" },
		{ "a;b 10 20\n", 0, 1, 1, "comparison" },
		{ "\n\na;b 10 20\n", 0, 1, 3, "comparison" },
		{ "a 18446744073709551616\n", 0, 1, 1, "64 bits" },
		{ "a 18446744073709551615\nb 1\n", 1, 1, 2, "sum" },
		{ "# comment\n", 0, 1, 1, "does not end in a number" },
	};

	for (size_t i = 0; i < FP_ARRAY_SIZE(cases); i++) {
		FP_AUTOTREE struct fp_tree *tree = NULL;
		struct fp_folded_result result;

		assert_int_equal(fp_tree_new(&tree), 0);
		assert_int_equal(
		    fp_folded_parse(cases[i].text, strlen(cases[i].text), tree, &result), 0);
		assert_int_equal(result.lines, cases[i].lines);
		assert_int_equal(result.bad_lines, cases[i].bad);
		assert_int_equal(result.first_bad, cases[i].first_bad);
		assert_non_null(strstr(result.first_bad_reason, cases[i].reason));
	}
}

// Text that was written once is written the same for ever, whatever was read.
static void test_random_text_settles(void **state)
{
	static const char alphabet[] = "ab;; \\x03_[kji]\n\t0123456789\x01\xff.";

	for (unsigned int seed = 1; seed <= 300; seed++) {
		FP_AUTOBUF struct fp_buf text = { 0 }, once = { 0 }, twice = { 0 };
		FP_AUTOTREE struct fp_tree *tree = NULL;
		FP_AUTOTREE struct fp_tree *again = NULL;
		struct fp_folded_result result;
		unsigned int random = seed;

		for (int i = 0; i < 600; i++)
			fp_buf_byte(
			    &text,
			    (uint8_t)alphabet[(size_t)rand_r(&random) % (sizeof(alphabet) - 1)]);
		assert_int_equal(fp_tree_new(&tree), 0);
		assert_int_equal(fp_folded_parse((const char *)text.data, text.len, tree, &result),
				 0);
		assert_int_equal(fp_tree_finish(tree), 0);
		assert_int_equal(fp_folded_write(tree, &once), 0);
		assert_int_equal(fp_tree_new(&again), 0);
		assert_int_equal(fp_folded_parse((const char *)once.data, once.len, again, &result),
				 0);
		assert_int_equal(result.bad_lines, 0);
		assert_int_equal(again->sum, tree->sum);
		assert_int_equal(fp_tree_finish(again), 0);
		assert_int_equal(fp_folded_write(again, &twice), 0);
		assert_int_equal(once.len, twice.len);
		if (once.len > 0)
			assert_memory_equal(once.data, twice.data, once.len);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		FP_CASE("text comes out as it should, and the same again", test_texts),
		FP_CASE("the form of a name tells its kind", test_kinds),
		FP_CASE("hostile names survive", test_hostile_names),
		FP_CASE("stacks that differ in modules only are one line", test_modules_merge),
		FP_CASE("bad lines are counted and explained", test_bad_lines),
		FP_CASE("random text settles after one round", test_random_text_settles),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
