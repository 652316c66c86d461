// SPDX-License-Identifier: Apache-2.0
#include "../cases.h"

#include "common/buf.h"

#include <errno.h>
#include <string.h>

static void test_append(void **state)
{
	FP_AUTOBUF struct fp_buf buf = { 0 };

	for (int i = 0; i < 10000; i++)
		assert_int_equal(fp_buf_append(&buf, &i, sizeof(i)), 0);
	assert_int_equal(buf.len, 10000 * sizeof(int));
	for (int i = 0; i < 10000; i++)
		assert_memory_equal(buf.data + (size_t)i * sizeof(i), &i, sizeof(i));
}

static void test_append_nothing(void **state)
{
	FP_AUTOBUF struct fp_buf buf = { 0 };

	assert_int_equal(fp_buf_append(&buf, NULL, 0), 0);
	assert_int_equal(buf.len, 0);
	assert_string_equal((char *)buf.data, "");
}

static void test_text_is_terminated(void **state)
{
	FP_AUTOBUF struct fp_buf buf = { 0 };

	// Around every capacity a doubling buffer can have.
	for (size_t i = 1; i < 300; i++) {
		assert_int_equal(fp_buf_byte(&buf, 'x'), 0);
		assert_int_equal(strlen((char *)buf.data), i);
		assert_int_equal(buf.len, i);
	}
}

static void test_printf_at_the_edge(void **state)
{
	char expected[400];

	memset(expected, 'a', sizeof(expected));
	for (int length = 0; length < 399; length++) {
		FP_AUTOBUF struct fp_buf buf = { 0 };

		assert_int_equal(fp_buf_printf(&buf, "%.*s", length, expected), 0);
		assert_int_equal(buf.len, length);
		assert_int_equal(strlen((char *)buf.data), length);
		assert_int_equal(fp_buf_printf(&buf, "%d", 42), 0);
		assert_string_equal((char *)buf.data + length, "42");
	}
}

static void test_error_is_sticky(void **state)
{
	FP_AUTOBUF struct fp_buf buf = { 0 };

	assert_int_equal(fp_buf_str(&buf, "kept"), 0);
	assert_int_equal(fp_buf_reserve(&buf, SIZE_MAX - 2), -ENOMEM);
	assert_int_equal(fp_buf_str(&buf, "lost"), -ENOMEM);
	assert_int_equal(fp_buf_printf(&buf, "lost"), -ENOMEM);
	assert_int_equal(buf.error, -ENOMEM);
	assert_string_equal((char *)buf.data, "kept");
	assert_null(fp_buf_take(&buf));
	fp_buf_clear(&buf);
	assert_int_equal(fp_buf_str(&buf, "new"), 0);
	assert_string_equal((char *)buf.data, "new");
}

static void test_take(void **state)
{
	struct fp_buf buf = { 0 };
	char *text = fp_buf_take(&buf);

	assert_string_equal(text, "");
	free(text);
	fp_buf_str(&buf, "moved");
	text = fp_buf_take(&buf);
	assert_string_equal(text, "moved");
	assert_null(buf.data);
	assert_int_equal(buf.len, 0);
	free(text);
}

struct escape_case {
	const char *what;
	const char *input;
	size_t size;
	const char *json;
	const char *xml;
};

#define INPUT(text) text, sizeof(text) - 1
static const struct escape_case escape_cases[] = {
	{ "plain text", INPUT("main"), "main", "main" },
	{ "nothing", INPUT(""), "", "" },
	{ "markup", INPUT("<a href=\"x\">&'"), "<a href=\\\"x\\\">&'",
	  "&lt;a href=&quot;x&quot;&gt;&amp;&#39;" },
	{ "a backslash", INPUT("a\\b"), "a\\\\b", "a\\b" },
	{ "tab and newline", INPUT("\t\n"), "\\u0009\\u000a", "\t\n" },
	{ "carriage return", INPUT("\r"), "\\u000d", "\\x0d" },
	{ "NUL", INPUT("a\0b"), "a\\u0000b", "a\\x00b" },
	{ "escape and delete", INPUT("\x1b\x7f"), "\\u001b\\u007f", "\\x1b\\x7f" },
	{ "two, three and four bytes", INPUT("\xc3\xa9\xe2\x82\xac\xf0\x9f\x94\xa5"),
	  "\xc3\xa9\xe2\x82\xac\xf0\x9f\x94\xa5", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x94\xa5" },
	{ "a lone continuation byte", INPUT("a\x80z"), "a\\\\x80z", "a\\x80z" },
	{ "an overlong slash", INPUT("\xc0\xaf"), "\\\\xc0\\\\xaf", "\\xc0\\xaf" },
	{ "an overlong three-byte form", INPUT("\xe0\x80\xaf"), "\\\\xe0\\\\x80\\\\xaf",
	  "\\xe0\\x80\\xaf" },
	{ "a surrogate", INPUT("\xed\xa0\x80"), "\\\\xed\\\\xa0\\\\x80", "\\xed\\xa0\\x80" },
	{ "above the last code point", INPUT("\xf4\x90\x80\x80"), "\\\\xf4\\\\x90\\\\x80\\\\x80",
	  "\\xf4\\x90\\x80\\x80" },
	{ "the last code point", INPUT("\xf4\x8f\xbf\xbf"), "\xf4\x8f\xbf\xbf",
	  "\xf4\x8f\xbf\xbf" },
	{ "a noncharacter that XML forbids", INPUT("\xef\xbf\xbf"), "\xef\xbf\xbf",
	  "\\xef\\xbf\\xbf" },
	{ "a sequence cut by the end", INPUT("a\xe2\x82"), "a\\\\xe2\\\\x82", "a\\xe2\\x82" },
};

static void test_escapes(void **state)
{
	for (size_t i = 0; i < FP_ARRAY_SIZE(escape_cases); i++) {
		const struct escape_case *c = &escape_cases[i];
		FP_AUTOBUF struct fp_buf json = { 0 }, xml = { 0 };
		// At the exact size: a read past the end is then seen by the sanitizer.
		FP_AUTOFREE char *copy = malloc(c->size ? c->size : 1);

		memcpy(copy, c->input, c->size);
		print_message("  %s\n", c->what);
		assert_int_equal(fp_buf_json(&json, copy, c->size), 0);
		assert_int_equal(fp_buf_xml(&xml, copy, c->size), 0);
		assert_string_equal(json.data ? (char *)json.data : "", c->json);
		assert_string_equal(xml.data ? (char *)xml.data : "", c->xml);
	}
}

int main(void)
{
	const struct CMUnitTest cases[] = {
		FP_CASE("appended bytes survive growth", test_append),
		FP_CASE("appending nothing leaves an empty text", test_append_nothing),
		FP_CASE("text is NUL-terminated at every length", test_text_is_terminated),
		FP_CASE("formatted text may end at any capacity", test_printf_at_the_edge),
		FP_CASE("a failed growth stays visible until the buffer is cleared",
			test_error_is_sticky),
		FP_CASE("taking the text leaves an empty buffer", test_take),
		FP_CASE("JSON and XML escapes are valid UTF-8 for any bytes", test_escapes),
	};

	return cmocka_run_group_tests(cases, NULL, NULL);
}
