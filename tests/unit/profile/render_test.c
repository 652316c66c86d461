// SPDX-License-Identifier: Apache-2.0
#include "trees.h"

#include <errno.h>
#include <jansson.h>

static const char sample[] = "main;do_query;parse_row 60\n"
			     "main;do_query;index_row 30\n"
			     "main;do_query 1\n"
			     "main;read;vfs_read_[k] 9\n";

static char *rendered(const struct fp_tree *tree, const char *name,
		      const struct fp_render_options *options)
{
	struct fp_buf bytes = { 0 };

	assert_non_null(fp_renderer_find(name));
	assert_int_equal(fp_renderer_find(name)->render(tree, options, &bytes), 0);
	return fp_buf_take(&bytes);
}

static void test_every_renderer(void **state)
{
	for (size_t i = 0; i < fp_renderers_count; i++) {
		const struct fp_renderer *renderer = &fp_renderers[i];
		struct fp_render_options options = { .title = "CPU" };
		FP_AUTOBUF struct fp_buf bytes = { 0 };
		FP_AUTOTREE struct fp_tree *tree = tree_of("");
		FP_AUTOTREE struct fp_tree *open = NULL;

		assert_ptr_equal(fp_renderer_find(renderer->name), renderer);
		assert_true(strlen(renderer->content_type) > 0 && strlen(renderer->extension) > 0);
		assert_int_equal(renderer->render(tree, &options, &bytes), 0);
		assert_int_equal(fp_tree_new(&open), 0);
		assert_int_equal(renderer->render(open, &options, &bytes), -EINVAL);
	}
	assert_null(fp_renderer_find("png"));
	assert_int_equal(fp_renderers_count, 5);
}

static void test_values(void **state)
{
	static const struct {
		enum fp_unit unit;
		uint64_t value;
		const char *text;
	} cases[] = {
		{ FP_UNIT_SAMPLES, 0, "0 samples" },
		{ FP_UNIT_SAMPLES, 1, "1 sample" },
		{ FP_UNIT_SAMPLES, 1234, "1,234 samples" },
		{ FP_UNIT_NANOSECONDS, 12300000, "12.3 ms" },
	};

	for (size_t i = 0; i < FP_ARRAY_SIZE(cases); i++) {
		FP_AUTOBUF struct fp_buf text = { 0 };

		assert_int_equal(fp_render_value(cases[i].unit, cases[i].value, &text), 0);
		assert_string_equal((const char *)text.data, cases[i].text);
	}
}

static void test_table(void **state)
{
	FP_AUTOTREE struct fp_tree *tree = tree_of(sample);
	struct fp_render_options options = { .title = "CPU",
					     .subtitle = "host web-1",
					     .quality = "all well",
					     .period_ns = 10000000,
					     .columns = 70 };
	FP_AUTOFREE char *text = rendered(tree, "table", &options);

	assert_string_equal(text, "CPU: 100 samples (1.00 s of CPU time)\n"
				  "host web-1\n"
				  "\n"
				  "  self %   self   total %  total  function\n"
				  " 60.00 %     60   60.00 %     60  parse_row\n"
				  " 30.00 %     30   30.00 %     30  index_row\n"
				  "  9.00 %      9    9.00 %      9  vfs_read\n"
				  "  1.00 %      1   91.00 %     91  do_query\n"
				  "  0.00 %      0  100.00 %    100  main\n"
				  "  0.00 %      0    9.00 %      9  read\n"
				  "\n"
				  "all well\n");
}

static void test_table_rows_and_rest(void **state)
{
	FP_AUTOTREE struct fp_tree *tree = tree_of(sample);
	struct fp_render_options options = { .title = "CPU", .rows = 2 };
	FP_AUTOFREE char *text = rendered(tree, "table", &options);

	assert_non_null(
	    strstr(text, "index_row\n\n4 more functions hold 10.00 % of the total as self.\n"));
	assert_null(strstr(text, "vfs_read"));
}

static void test_table_fits_its_columns(void **state)
{
	FP_AUTOTREE struct fp_tree *tree = NULL;
	struct fp_render_options options = { .title = "Off-CPU",
					     .unit = FP_UNIT_NANOSECONDS,
					     .columns = 80 };
	FP_AUTOFREE char *text = NULL;
	char name[200];
	struct fp_tree_frame frame = { name, sizeof(name), "/usr/lib/libverylongname.so.6",
				       FP_NODE_USER };

	memset(name, 'x', sizeof(name));
	memcpy(name, "\x1b[2J", 4);
	assert_int_equal(fp_tree_new(&tree), 0);
	assert_int_equal(fp_tree_add(tree, &frame, 1, 12345678), 0);
	assert_int_equal(fp_tree_finish(tree), 0);
	text = rendered(tree, "table", &options);
	assert_null(strchr(text, '\x1b'));
	assert_non_null(strstr(text, "12.3 ms"));
	assert_non_null(strstr(text, "..  libverylongname.so.6\n"));
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
		assert_true(strlen(line) <= 80);
}

static void test_table_colours_only_when_asked(void **state)
{
	FP_AUTOTREE struct fp_tree *tree = tree_of(sample);
	struct fp_render_options options = { .title = "CPU", .color = true };
	FP_AUTOFREE char *text = rendered(tree, "table", &options);

	assert_non_null(strstr(text, "\033[33mparse_row\033[0m"));
	assert_non_null(strstr(text, "\033[36mvfs_read\033[0m"));
}

static json_int_t column(const json_t *root, const char *name, size_t index)
{
	return json_integer_value(
	    json_array_get(json_object_get(json_object_get(root, "nodes"), name), index));
}

static void test_json(void **state)
{
	FP_AUTOTREE struct fp_tree *tree = tree_of("a;b_[k] 2\na\\x0a\xff\"</script> 3\n");
	struct fp_render_options options = { .title = "CPU \"1\"", .period_ns = 7 };
	FP_AUTOFREE char *text = rendered(tree, "json", &options);
	json_t *root = json_loads(text, 0, NULL);
	json_t *names;

	assert_non_null(root);
	assert_string_equal(json_string_value(json_object_get(root, "title")), "CPU \"1\"");
	assert_true(json_is_null(json_object_get(root, "subtitle")));
	assert_int_equal(json_integer_value(json_object_get(root, "total")), 5);
	names = json_object_get(root, "names");
	// Drawing order: the root, a, its b, then the hostile one.
	assert_int_equal(column(root, "parent", 0), -1);
	assert_int_equal(column(root, "parent", 1), 0);
	assert_int_equal(column(root, "parent", 2), 1);
	assert_int_equal(column(root, "parent", 3), 0);
	assert_int_equal(column(root, "total", 1), 2);
	assert_int_equal(column(root, "self", 1), 0);
	assert_int_equal(column(root, "kind", 2), FP_NODE_KERNEL);
	assert_string_equal(
	    json_string_value(json_array_get(names, (size_t)column(root, "name", 2))), "b");
	assert_string_equal(
	    json_string_value(json_array_get(names, (size_t)column(root, "name", 3))),
	    "a\n\\xff\"</script>");
	json_decref(root);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		FP_CASE("every renderer is found by name, draws an empty tree, refuses an open one",
			test_every_renderer),
		FP_CASE("values read as amounts", test_values),
		FP_CASE("the table is aligned, hottest first", test_table),
		FP_CASE("the table says what it leaves out", test_table_rows_and_rest),
		FP_CASE("no name widens the table or reaches the terminal raw",
			test_table_fits_its_columns),
		FP_CASE("colours appear when asked for", test_table_colours_only_when_asked),
		FP_CASE("JSON holds the tree in columns", test_json),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
