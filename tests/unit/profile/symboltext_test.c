// SPDX-License-Identifier: Apache-2.0
#include "../cases.h"

#include "profile/symboltext.h"

#include <errno.h>
#include <string.h>

static const char kallsyms[] = "ffffffff81000000 T _stext\n"
			       "ffffffff81000040 t f\n"
			       "ffffffffc0100000 t xfs_init\t[xfs]\n"
			       "ffffffffc0100080 T xfs_read\t[xfs]\n"
			       "ffffffffc0100080 d xfs_data\t[xfs]\n"
			       "ffffffffc0200000 t other\t[other]\n"
			       "ffffffffc00f0000 t before_base\t[xfs]\n";

static const char modules[] = "other 4096 0 - Live 0xffffffffc0200000\n"
			      "xfs 2048000 1 - Live 0xffffffffc0100000 (E)\n"
			      "xfs_extra 1 0 - Live 0xffffffffc0300000\n"
			      "hidden 1 0 - Live 0x0000000000000000\n"
			      "short 1 0\n";

static void test_module_tables(void **state)
{
	FP_AUTOSYMBOLS struct fp_symbol_builder builder = { 0 };
	FP_AUTOSYMBOLTABLE struct fp_symbol_table *table = NULL;
	uint64_t base = 0;
	static const struct {
		uint64_t address;
		const char *name;
	} cases[] = {
		{ 0, "xfs_init" }, { 0x7f, "xfs_init" }, { 0x80, "xfs_read" }, { 0x2000, NULL }
	};

	assert_int_equal(fp_modules_base(modules, strlen(modules), "xfs", &base), 0);
	assert_int_equal(base, 0xffffffffc0100000);
	assert_int_equal(fp_kallsyms_module(kallsyms, strlen(kallsyms), "xfs", base, &builder), 0);
	assert_int_equal(fp_symbol_builder_finish(&builder, &table), 0);
	for (size_t i = 0; i < FP_ARRAY_SIZE(cases); i++) {
		uint32_t index = fp_symbol_table_find(table, cases[i].address);

		if (cases[i].name)
			assert_string_equal(fp_symbol_table_name(table, index), cases[i].name);
		else
			assert_int_equal(index, UINT32_MAX);
	}
}

static void test_module_bases(void **state)
{
	uint64_t base = 1;

	assert_int_equal(fp_modules_base(modules, strlen(modules), "absent", &base), -ENOENT);
	assert_int_equal(fp_modules_base(modules, strlen(modules), "short", &base), -ENOENT);
	assert_int_equal(fp_modules_base(modules, strlen(modules), "hidden", &base), -EACCES);
	assert_int_equal(base, 1);
	assert_int_equal(fp_modules_base(modules, strlen(modules), "xfs_extra", &base), 0);
	assert_int_equal(base, 0xffffffffc0300000);
}

static void test_kernel_errors(void **state)
{
	static const struct {
		const char *text;
		int error;
	} cases[] = {
		{ "", -ENOENT },
		{ "ffffffff81000000 T not_stext\n", -ENOENT },
		{ "ffffffff81000000 T _stext\t[xfs]\n", -ENOENT },
		{ "0000000000000000 T _stext\n", -EACCES },
		{ "                 T _stext\n", -ENOENT },
		{ "ffffffff81000000 T _stext\n", 0 },
	};

	for (size_t i = 0; i < FP_ARRAY_SIZE(cases); i++) {
		FP_AUTOSYMBOLS struct fp_symbol_builder builder = { 0 };

		assert_int_equal(fp_kallsyms_kernel(cases[i].text, strlen(cases[i].text), &builder),
				 cases[i].error);
	}
}

static void test_lines(void **state)
{
	static const struct {
		const char *text;
		uint64_t bad;
		uint32_t count;
	} cases[] = {
		{ "", 0, 0 },
		{ "0 a\n10 b\n", 0, 2 },
		{ "0 a\r\n10 b", 0, 2 },
		{ "0 a\n10 \n", 1, 1 },
		{ "-1 a\n", 1, 0 },
		{ "12345678901234567 a\n", 1, 0 },
		{ "0x a\n", 1, 0 },
		{ " 10 a\n", 1, 0 },
		{ "FF a\n", 0, 1 },
		{ "ffffffffffffffff a\n", 0, 0 }, // there is no byte left for it to cover
	};

	for (size_t i = 0; i < FP_ARRAY_SIZE(cases); i++) {
		FP_AUTOSYMBOLS struct fp_symbol_builder builder = { 0 };
		FP_AUTOSYMBOLTABLE struct fp_symbol_table *table = NULL;
		uint64_t bad = 99;

		assert_int_equal(
		    fp_symbol_text(cases[i].text, strlen(cases[i].text), &builder, &bad), 0);
		assert_int_equal(bad, cases[i].bad);
		assert_int_equal(fp_symbol_builder_finish(&builder, &table), 0);
		assert_int_equal(table->count, cases[i].count);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		FP_CASE("a module's table counts from its load address", test_module_tables),
		FP_CASE("load addresses come from /proc/modules", test_module_bases),
		FP_CASE("a kernel table needs _stext and its address", test_kernel_errors),
		FP_CASE("bad lines are counted", test_lines),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
