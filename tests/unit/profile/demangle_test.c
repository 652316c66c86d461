// SPDX-License-Identifier: Apache-2.0
#include "../cases.h"

#include "profile/demangle.h"

#include <string.h>

static void test_names(void **state)
{
	static const struct {
		const char *mangled, *readable;
	} cases[] = {
		{ "main", "main" },
		{ "", "" },
		{ "_start", "_start" },
		{ "_Z3foov", "foo()" },
		{ "_ZN3foo3barEi", "foo::bar(int)" },
		{ "_ZNSt6vectorIiSaIiEE9push_backERKi",
		  "std::vector<int, std::allocator<int> >::push_back(int const&)" },
		{ "_ZN4core3fmt9Formatter3pad17h0123456789abcdefE", "core::fmt::Formatter::pad" },
		{ "_RNvCs1234_7mycrate4main", "mycrate::main" },
		{ "_ZN3fooEi.cold", "foo(int) [clone .cold]" },
		{ "_Znonsense", "_Znonsense" },
		{ "__x64_sys_read", "__x64_sys_read" },
	};

	for (size_t i = 0; i < FP_ARRAY_SIZE(cases); i++) {
		FP_AUTOBUF struct fp_buf text = { 0 };

		assert_int_equal(fp_demangle(cases[i].mangled, &text), 0);
		assert_string_equal((const char *)text.data, cases[i].readable);
	}
}

// Substitutions let a short name stand for an enormous one.
static void test_output_is_bounded(void **state)
{
	FP_AUTOBUF struct fp_buf name = { 0 }, text = { 0 };

	// f(pair<int, int>, pair<S0, S0>, pair<S1, S1>, …): every parameter doubles the last.
	fp_buf_str(&name, "_Z1fSt4pairIiiE");
	for (int i = 0; i < 60; i++) {
		char number[3] = { 0 };
		char *p = number;

		if (i >= 36)
			*p++ = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[i / 36];
		*p = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[i % 36];
		fp_buf_printf(&name, "S_IS%s_S%s_E", number, number);
	}
	assert_true(name.len < FP_DEMANGLE_INPUT_MAX);
	assert_int_equal(fp_demangle((const char *)name.data, &text), 0);
	// It stays as it was: 2^60 pairs are not to be printed.
	assert_string_equal((const char *)text.data, (const char *)name.data);

	fp_buf_clear(&name);
	fp_buf_clear(&text);
	fp_buf_str(&name, "_Z");
	for (int i = 0; i < FP_DEMANGLE_INPUT_MAX; i++)
		fp_buf_byte(&name, 'P');
	assert_int_equal(fp_demangle((const char *)name.data, &text), 0);
	assert_int_equal(text.len, name.len);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		FP_CASE("names of C, C++ and Rust", test_names),
		FP_CASE("no name grows without bound", test_output_is_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
