// SPDX-License-Identifier: Apache-2.0
#include "../cases.h"

#include "profile/symboltable.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct input {
	uint64_t address, size, limit;
	const char *name;
	uint8_t rank;
};

static struct fp_symbol_table *table_of(const struct input *inputs, size_t count)
{
	FP_AUTOSYMBOLS struct fp_symbol_builder builder = { 0 };
	struct fp_symbol_table *table = NULL;

	for (size_t i = 0; i < count && inputs[i].name; i++) {
		struct fp_symbol symbol = { .address = inputs[i].address,
					    .size = inputs[i].size,
					    .limit = inputs[i].limit,
					    .name = inputs[i].name,
					    .name_size = strlen(inputs[i].name),
					    .rank = inputs[i].rank };

		assert_int_equal(fp_symbol_builder_add(&builder, &symbol), 0);
	}
	assert_int_equal(fp_symbol_builder_finish(&builder, &table), 0);
	return table;
}

static void assert_found(const struct fp_symbol_table *table, uint64_t address, const char *name)
{
	uint32_t index = fp_symbol_table_find(table, address);

	if (!name) {
		assert_int_equal(index, UINT32_MAX);
		return;
	}
	assert_int_not_equal(index, UINT32_MAX);
	assert_string_equal(fp_symbol_table_name(table, index), name);
}

static void test_shapes(void **state)
{
	static const struct {
		const char *what;
		struct input inputs[5];
		struct {
			uint64_t address;
			const char *name;
		} lookups[6];
	} cases[] = {
		{ "a gap answers nothing",
		  { { 0x10, 4, 0, "a", 0 }, { 0x20, 4, 0, "b", 0 } },
		  { { 0xf, NULL },
		    { 0x10, "a" },
		    { 0x13, "a" },
		    { 0x14, NULL },
		    { 0x23, "b" },
		    { 0x24, NULL } } },
		{ "a symbol without a size reaches to the next",
		  { { 0x10, 0, 0x100, "a", 0 }, { 0x20, 4, 0x100, "b", 0 } },
		  { { 0x1f, "a" }, { 0x20, "b" }, { 0x24, NULL } } },
		{ "the last one without a size reaches to the section's end",
		  { { 0x10, 0, 0x18, "a", 0 }, { 0x40, 4, 0x100, "b", 0 } },
		  { { 0x17, "a" }, { 0x18, NULL } } },
		{ "a label inside a sized function is not a function",
		  { { 0x10, 0x20, 0, "f", 0 }, { 0x18, 0, 0x100, "label", 0 } },
		  { { 0x18, "f" }, { 0x1f, "f" }, { 0x30, NULL } } },
		{ "a sized function inside another cuts a hole",
		  { { 0x10, 0x20, 0, "out", 0 }, { 0x18, 4, 0, "in", 0 } },
		  { { 0x17, "out" },
		    { 0x18, "in" },
		    { 0x1c, "out" },
		    { 0x2f, "out" },
		    { 0x30, NULL } } },
		{ "of two that overlap the later begins where it begins",
		  { { 0x10, 0x10, 0, "a", 0 }, { 0x18, 0x10, 0, "b", 0 } },
		  { { 0x17, "a" }, { 0x18, "b" }, { 0x27, "b" }, { 0x28, NULL } } },
		{ "fewer underscores win",
		  { { 0x10, 4, 0, "__read", 0 },
		    { 0x10, 4, 0, "read", 0 },
		    { 0x10, 4, 0, "_read", 0 } },
		  { { 0x10, "read" } } },
		{ "rank comes before underscores",
		  { { 0x10, 4, 0, "__global", 0 }, { 0x10, 4, 0, "local", 1 } },
		  { { 0x10, "__global" } } },
		{ "a size comes before rank",
		  { { 0x10, 0, 0x100, "unsized", 0 }, { 0x10, 4, 0x100, "sized", 3 } },
		  { { 0x10, "sized" }, { 0x14, NULL } } },
		{ "longer names say more",
		  { { 0x10, 4, 0, "gettime", 0 }, { 0x10, 4, 0, "clock_gettime", 0 } },
		  { { 0x10, "clock_gettime" } } },
		{ "aliases reach as far as the longest",
		  { { 0x10, 4, 0, "a_long_name", 0 }, { 0x10, 8, 0, "short", 0 } },
		  { { 0x17, "a_long_name" }, { 0x18, NULL } } },
		{ "a size that wraps is cut",
		  { { UINT64_MAX - 8, 100, 0, "end", 0 } },
		  { { UINT64_MAX - 1, "end" }, { UINT64_MAX - 9, NULL } } },
		{ "a huge size covers what 32 bits hold",
		  { { 0, UINT64_MAX, 0, "all", 0 } },
		  { { 0, "all" }, { UINT32_MAX - 1ULL, "all" }, { 1ULL << 40, NULL } } },
	};

	for (size_t i = 0; i < FP_ARRAY_SIZE(cases); i++) {
		FP_AUTOSYMBOLTABLE struct fp_symbol_table *table = table_of(cases[i].inputs, 5);

		for (size_t l = 0; l < FP_ARRAY_SIZE(cases[i].lookups); l++) {
			if (l > 0 && cases[i].lookups[l].address == 0)
				break;
			assert_found(table, cases[i].lookups[l].address, cases[i].lookups[l].name);
		}
	}
}

// The innermost function by brute force: of those that cover, the one that starts last.
static const char *innermost(const struct input *inputs, size_t count, uint64_t address)
{
	const struct input *best = NULL;

	for (size_t i = 0; i < count; i++) {
		const struct input *input = &inputs[i];

		if (address >= input->address && address - input->address < input->size &&
		    (!best || input->address > best->address))
			best = input;
	}
	return best ? best->name : NULL;
}

static void test_random_tables(void **state)
{
	for (unsigned int seed = 1; seed <= 50; seed++) {
		struct input inputs[30];
		char names[30][8];
		unsigned int random = seed;
		size_t count = 0;
		FP_AUTOSYMBOLTABLE struct fp_symbol_table *table = NULL;

		for (uint64_t address = 0; count < FP_ARRAY_SIZE(inputs); count++) {
			address += 1 + (uint64_t)rand_r(&random) % 12;
			snprintf(names[count], sizeof(names[count]), "f%zu", count);
			inputs[count] = (struct input){ address, 1 + (uint64_t)rand_r(&random) % 40,
							0, names[count], 0 };
		}
		table = table_of(inputs, count);
		for (uint64_t address = 0; address < 500; address++)
			assert_found(table, address, innermost(inputs, count, address));
		for (uint32_t i = 1; i < table->count; i++)
			assert_true(table->starts[i - 1] + table->sizes[i - 1] <= table->starts[i]);
	}
}

static void test_bounds(void **state)
{
	FP_AUTOSYMBOLS struct fp_symbol_builder builder = { .pool_max = 10 };
	struct fp_symbol symbol = { .address = 1, .size = 1, .name = "12345", .name_size = 5 };
	FP_AUTOSYMBOLTABLE struct fp_symbol_table *table = NULL;

	assert_int_equal(fp_symbol_builder_add(&builder, &symbol), 0);
	assert_int_equal(fp_symbol_builder_add(&builder, &symbol), -E2BIG);
	symbol.name_size = 0;
	assert_int_equal(fp_symbol_builder_add(&builder, &symbol), 0);
	assert_int_equal(fp_symbol_builder_finish(&builder, &table), 0);
	assert_int_equal(table->count, 1);
	assert_true(fp_symbol_table_bytes(table) > sizeof(*table));
}

static void test_nothing(void **state)
{
	FP_AUTOSYMBOLS struct fp_symbol_builder builder = { 0 };
	FP_AUTOSYMBOLTABLE struct fp_symbol_table *table = NULL;

	assert_int_equal(fp_symbol_builder_finish(&builder, &table), 0);
	assert_int_equal(table->count, 0);
	assert_found(table, 0, NULL);
	assert_found(table, UINT64_MAX, NULL);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		FP_CASE("aliases, gaps, nesting and missing sizes settle", test_shapes),
		FP_CASE("random tables answer as brute force does", test_random_tables),
		FP_CASE("bounds are kept", test_bounds),
		FP_CASE("a table of nothing answers nothing", test_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
