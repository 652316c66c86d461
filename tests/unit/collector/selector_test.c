// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/cases.h"

#include "collector/selector.h"

#include <errno.h>
#include <string.h>

// Text, then a label set as name, value pairs, then what matching says.
static const struct {
	const char *sentence, *text;
	const char *labels[8];
	int expected;
} matches[] = {
	{ "an empty text matches everything", "", { "host", "a" }, 1 },
	{ "empty braces match everything", " { } ", { "host", "a" }, 1 },
	{ "an equal value matches", "{host=\"a\"}", { "host", "a" }, 1 },
	{ "another value does not", "{host=\"a\"}", { "host", "b" }, 0 },
	{ "a longer value does not", "{host=\"a\"}", { "host", "ab" }, 0 },
	{ "a missing label has the empty value", "{pod=\"\"}", { "host", "a" }, 1 },
	{ "!= includes sets without the label", "{pod!=\"x\"}", { "host", "a" }, 1 },
	{ "!= excludes the value", "{pod!=\"x\"}", { "pod", "x" }, 0 },
	{ "all matchers must hold",
	  "{host=\"a\",thread=\"t\"}",
	  { "host", "a", "thread", "u" },
	  0 },
	{ "all matchers hold", "{host=\"a\", thread=\"t\",}", { "host", "a", "thread", "t" }, 1 },
	{ "=~ is anchored at its end", "{host=~\"web\"}", { "host", "web1" }, 0 },
	{ "=~ is anchored at its start", "{host=~\"web\"}", { "host", "aweb" }, 0 },
	{ "anchors span alternatives", "{host=~\"a|b\"}", { "host", "bc" }, 0 },
	{ "=~ matches the whole", "{host=~\"web.*\"}", { "host", "web1" }, 1 },
	{ "=~ of a missing label sees nothing", "{pod=~\".+\"}", { "host", "a" }, 0 },
	{ "!~ negates", "{host!~\"web.*\"}", { "host", "web1" }, 0 },
	{ "!~ includes sets without the label", "{pod!~\".+\"}", { "host", "a" }, 1 },
	{ "single quotes and backquotes quote", "{a='x',b=`\\y`}", { "a", "x", "b", "\\y" }, 1 },
	{ "escapes stand for their bytes", "{a=\"q\\\"\\\\\\n\"}", { "a", "q\"\\\n" }, 1 },
	{ "a dot matches a newline", "{a=~\"x.y\"}", { "a", "x\ny" }, 1 },
	{ "names may hold dots and dashes", "{k8s.pod-name=\"p\"}", { "k8s.pod-name", "p" }, 1 },
	{ "a value may be any bytes", "{a=~\"x.*\"}", { "a", "x\xff" }, 1 },
	{ "braces inside a string are text", "{a=\"}{\"}", { "a", "}{" }, 1 },
};

static void matches_as_stated(void **state)
{
	for (size_t i = 0; i < FP_ARRAY_SIZE(matches); i++) {
		FP_AUTOSELECTOR struct fp_selector selector = { 0 };
		FP_AUTOBUF struct fp_buf error = { 0 };
		struct fp_selector_label labels[4];
		size_t count = 0;
		int r =
		    fp_selector_parse(matches[i].text, strlen(matches[i].text), &selector, &error);

		if (r < 0)
			fail_msg("%s: refused: %s", matches[i].sentence, (char *)error.data);
		for (; count < 4 && matches[i].labels[2 * count]; count++) {
			const char *value = matches[i].labels[2 * count + 1];

			labels[count] = (struct fp_selector_label){ matches[i].labels[2 * count],
								    value, strlen(value) };
		}
		r = fp_selector_match(&selector, labels, count);
		if (r != matches[i].expected)
			fail_msg("%s: got %d", matches[i].sentence, r);
	}
}

static const struct {
	const char *text, *part_of_reason;
} refusals[] = {
	{ "host=\"a\"", "{ was expected" },
	{ "{", "label name" },
	{ "{host", "one of" },
	{ "{host=", "quoted value" },
	{ "{host=a}", "quoted value" },
	{ "{host=\"a}", "not closed" },
	{ "{host=\"a\\", "not closed" },
	{ "{host=\"\\d\"}", "escape" },
	{ "{host=\"a\" thread=\"b\"}", "comma" },
	{ "{host=\"a\"}x", "after }" },
	{ "{,}", "label name" },
	{ "{1a=\"x\"}", "label name" },
	{ "{host=~\"(\"}", "regular expression" },
	{ "{host=~\"*\"}", "regular expression" },
	{ "{host==\"a\"}", "quoted value" },
	{ "{host>\"a\"}", "one of" },
};

static void refuses_with_a_reason(void **state)
{
	for (size_t i = 0; i < FP_ARRAY_SIZE(refusals); i++) {
		FP_AUTOSELECTOR struct fp_selector selector = { 0 };
		FP_AUTOBUF struct fp_buf error = { 0 };
		const char *text = refusals[i].text;

		assert_int_equal(fp_selector_parse(text, strlen(text), &selector, &error), -EINVAL);
		if (!strstr((char *)error.data, refusals[i].part_of_reason))
			fail_msg("'%s' was refused with: %s", text, (char *)error.data);
		assert_null(selector.matchers);
	}
}

static void bounds_length_and_count(void **state)
{
	FP_AUTOSELECTOR struct fp_selector selector = { 0 };
	FP_AUTOBUF struct fp_buf error = { 0 };
	FP_AUTOBUF struct fp_buf text = { 0 };

	fp_buf_byte(&text, '{');
	for (int i = 0; i <= FP_SELECTOR_MAX_MATCHERS; i++)
		fp_buf_str(&text, "a=\"\",");
	fp_buf_byte(&text, '}');
	assert_int_equal(fp_selector_parse((char *)text.data, text.len, &selector, &error),
			 -EINVAL);
	assert_non_null(strstr((char *)error.data, "too many"));
	while (text.len <= FP_SELECTOR_MAX_BYTES)
		fp_buf_byte(&text, ' ');
	fp_buf_clear(&error);
	assert_int_equal(fp_selector_parse((char *)text.data, text.len, &selector, &error),
			 -EINVAL);
	assert_non_null(strstr((char *)error.data, "longer"));
}

// Backtracking without end is cut off by the step limit, whatever the machine's speed.
static void a_pathological_pattern_is_stopped(void **state)
{
	FP_AUTOSELECTOR struct fp_selector selector = { 0 };
	FP_AUTOBUF struct fp_buf error = { 0 };
	const char *text = "{a=~\"(x+x+)+[yw]\"}";
	const char *value = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx";
	struct fp_selector_label label = { "a", value, strlen(value) };

	assert_int_equal(fp_selector_parse(text, strlen(text), &selector, &error), 0);
	assert_int_equal(fp_selector_match(&selector, &label, 1), -E2BIG);
	label.value_size = 0;
	assert_int_equal(fp_selector_match(&selector, &label, 1), 0);
}

static void what_is_printed_reads_back_the_same(void **state)
{
	const char *text = "{a=\"q\\\"\\\\\\n\",b=~\"x.*\",c!=\"\",d!~\"y|z\"}";
	FP_AUTOSELECTOR struct fp_selector first = { 0 };
	FP_AUTOSELECTOR struct fp_selector second = { 0 };
	FP_AUTOBUF struct fp_buf error = { 0 };
	FP_AUTOBUF struct fp_buf printed = { 0 };
	FP_AUTOBUF struct fp_buf again = { 0 };

	assert_int_equal(fp_selector_parse(text, strlen(text), &first, &error), 0);
	fp_selector_print(&first, &printed);
	fp_buf_reserve(&printed, 1);
	assert_int_equal(fp_selector_parse((char *)printed.data, printed.len, &second, &error), 0);
	fp_selector_print(&second, &again);
	assert_int_equal(printed.len, again.len);
	assert_memory_equal(printed.data, again.data, again.len);
	assert_int_equal(printed.len, strlen(text));
	assert_memory_equal(printed.data, text, printed.len);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FP_CASE("selectors match as their operators say", matches_as_stated),
		FP_CASE("malformed selectors are refused with a reason", refuses_with_a_reason),
		FP_CASE("length and number of matchers are bounded", bounds_length_and_count),
		FP_CASE("a pathological pattern is stopped", a_pathological_pattern_is_stopped),
		FP_CASE("a printed selector reads back the same",
			what_is_printed_reads_back_the_same),
	};

	return cmocka_run_group_tests_name("selector", tests, NULL, NULL);
}
