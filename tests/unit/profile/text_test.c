// SPDX-License-Identifier: Apache-2.0
#include "../cases.h"

#include "profile/text.h"

#include <string.h>

static void assert_text(struct fp_buf *text, const char *expected)
{
	assert_int_equal(text->error, 0);
	assert_string_equal(text->len ? (const char *)text->data : "", expected);
	fp_buf_clear(text);
}

static void test_counts(void **state)
{
	static const struct {
		uint64_t value;
		const char *text;
	} cases[] = {
		{ 0, "0" },
		{ 999, "999" },
		{ 1000, "1,000" },
		{ 1234567, "1,234,567" },
		{ UINT64_MAX, "18,446,744,073,709,551,615" },
	};
	FP_AUTOBUF struct fp_buf text = { 0 };

	for (size_t i = 0; i < FP_ARRAY_SIZE(cases); i++) {
		fp_text_count(cases[i].value, &text);
		assert_text(&text, cases[i].text);
	}
}

static void test_percents(void **state)
{
	static const struct {
		uint64_t part, whole;
		unsigned int decimals;
		const char *text;
	} cases[] = {
		{ 0, 100, 2, "0.00 %" },
		{ 100, 100, 2, "100.00 %" },
		{ 1, 3, 2, "33.33 %" },
		{ 2, 3, 1, "66.7 %" },
		{ 2, 3, 0, "67 %" },
		{ 99999, 100000, 2, "99.99 %" },
		{ 9999999, 10000000, 1, "99.9 %" },
		{ 1, 10000000, 2, "<0.01 %" },
		{ 1, 10000000, 1, "<0.1 %" },
		{ 1, 10000000, 0, "<1 %" },
		{ 110, 100, 1, "110.0 %" },
		{ 0, 0, 2, "0.00 %" },
		{ UINT64_MAX, UINT64_MAX, 2, "100.00 %" },
		{ UINT64_MAX / 2, UINT64_MAX, 2, "50.00 %" },
	};
	FP_AUTOBUF struct fp_buf text = { 0 };

	for (size_t i = 0; i < FP_ARRAY_SIZE(cases); i++) {
		fp_text_percent(cases[i].part, cases[i].whole, cases[i].decimals, &text);
		assert_text(&text, cases[i].text);
	}
}

static void test_durations(void **state)
{
	static const struct {
		uint64_t ns;
		const char *text;
	} cases[] = {
		{ 0, "0 ns" },
		{ 1, "1 ns" },
		{ 999, "999 ns" },
		{ 1000, "1.00 µs" },
		{ 12345, "12.3 µs" },
		{ 999499, "999 µs" },
		{ 999600, "1.00 ms" },
		{ 1040000, "1.04 ms" },
		{ 99960000, "100 ms" },
		{ 999999999, "1.00 s" },
		{ 12340000000, "12.3 s" },
		{ 999400000000, "999 s" },
		{ 1234000000000, "1,234 s" },
	};
	FP_AUTOBUF struct fp_buf text = { 0 };

	for (size_t i = 0; i < FP_ARRAY_SIZE(cases); i++) {
		fp_text_duration(cases[i].ns, &text);
		assert_text(&text, cases[i].text);
	}
}

static void test_names(void **state)
{
	static const struct {
		const char *name;
		size_t size, width;
		const char *text;
	} cases[] = {
		{ "main", 4, 10, "main" },
		{ "main", 4, 4, "main" },
		{ "mains", 5, 4, "ma.." },
		{ "main", 4, 2, ".." },
		{ "main", 4, 1, "" },
		{ "", 0, 5, "" },
		{ "\x1b[31mred", 8, 20, "\\x1b[31mred" },
		{ "a\nb", 3, 20, "a\\x0ab" },
		{ "a\0b", 3, 20, "a\\x00b" },
		{ "\xc2\x9b", 2, 20, "\\xc2\\x9b" },	      // C1: CSI in one character
		{ "\xe2\x80\xae", 3, 20, "\\xe2\\x80\\xae" }, // right-to-left override
		{ "\xe2\x80\x94", 3, 20, "\xe2\x80\x94" },    // a dash is fine
		{ "\xff\xc0\x80", 3, 20, "\\xff\\xc0\\x80" },
		{ "gr\xc3\xb6\xc3\x9f"
		  "er",
		  8, 5, "gr\xc3\xb6.." },
		{ "\xed\xa0\x80", 3, 20, "\\xed\\xa0\\x80" }, // a surrogate
		{ "\xe2\x80", 2, 20, "\\xe2\\x80" },	      // cut off
		{ "\xe8\xaa\x9e\xe8\xaa\x9e\xe8\xaa\x9e", 9, 5,
		  "\xe8\xaa\x9e.." },	 // two columns each
		{ "\nabc", 4, 5, ".." }, // an escape is never cut in two
	};
	FP_AUTOBUF struct fp_buf text = { 0 };

	for (size_t i = 0; i < FP_ARRAY_SIZE(cases); i++) {
		size_t cells = fp_text_name(cases[i].name, cases[i].size, cases[i].width, &text);

		assert_true(cells <= cases[i].width);
		assert_text(&text, cases[i].text);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		FP_CASE("counts are grouped", test_counts),
		FP_CASE("0 % and 100 % stand only for exactly that", test_percents),
		FP_CASE("durations have three digits and the right unit", test_durations),
		FP_CASE("no name steers the terminal or passes its width", test_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
