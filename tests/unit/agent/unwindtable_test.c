// SPDX-License-Identifier: Apache-2.0
// From sections to a table: which entry counts, which rules there are, and what is known of code
// without an entry.
#include "unwind_sections.h"

#include <dwarf.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define AT(n) (SECTIONS_ADDRESS + (n))

// ---- which entry counts ----

struct span {
	uint64_t start, length; // start: an address
	uint8_t cfa;		// 0: no more
};
struct layout {
	const char *sentence;
	struct span eh[5], debug[5];
	const char *rows;
};

static const struct layout layouts[] = {
	{ "neighbours, and a gap",
	  { { AT(0), 16, 8 }, { AT(16), 16, 16 }, { AT(0x40), 16, 24 } },
	  { { 0 } },
	  "0:8 10:16 20:- 40:24 50:-" },
	{ "entries in any order",
	  { { AT(0x40), 16, 24 }, { AT(16), 16, 16 }, { AT(0), 16, 8 } },
	  { { 0 } },
	  "0:8 10:16 20:- 40:24 50:-" },
	{ "neighbours that are alike share a row",
	  { { AT(0), 16, 8 }, { AT(16), 16, 8 } },
	  { { 0 } },
	  "0:8 20:-" },
	{ "an entry ends where the next begins",
	  { { AT(0), 64, 8 }, { AT(16), 64, 16 } },
	  { { 0 } },
	  "0:8 10:16 50:-" },
	{ "behind one within another is a gap",
	  { { AT(0), 64, 8 }, { AT(16), 16, 16 } },
	  { { 0 } },
	  "0:8 10:16 20:-" },
	{ "of two at one address the longer counts",
	  { { AT(0), 64, 8 }, { AT(0), 16, 16 } },
	  { { 0 } },
	  "0:8 40:-" },
	{ "of two alike the later",
	  { { AT(0), 16, 8 }, { AT(0), 16, 16 } },
	  { { 0 } },
	  "0:16 10:-" },
	{ "what was thrown away does not count: address 0, length 0, code that is not there",
	  { { 0, 0x1000000, 8 },
	    { AT(4), 0, 16 },
	    { AT(SECTIONS_CODE_SIZE), 16, 24 },
	    { AT(0), 16, 32 } },
	  { { 0 } },
	  "0:32 10:-" },
	{ "code ends with its segment",
	  { { AT(SECTIONS_CODE_SIZE - 8), 16, 8 } },
	  { { 0 } },
	  "3fff8:8 40000:-" },
	{ "a length beyond all addresses ends there too",
	  { { AT(SECTIONS_CODE_SIZE - 8), UINT64_MAX, 8 } },
	  { { 0 } },
	  "3fff8:8 40000:-" },
	{ ".debug_frame alone", { { 0 } }, { { AT(0), 16, 8 } }, "0:8 10:-" },
	{ ".debug_frame fills what .eh_frame leaves open",
	  { { AT(16), 16, 16 }, { AT(0x40), 16, 24 } },
	  { { AT(0), 0x80, 8 } },
	  "0:8 10:16 20:8 40:24 50:8 80:-" },
	{ "and no more",
	  { { AT(0), 0x80, 8 } },
	  { { AT(16), 16, 16 }, { AT(0x80), 8, 24 } },
	  "0:8 80:24 88:-" },
};

static void of_several_entries_one_counts(void **state)
{
	for (size_t i = 0; i < FP_ARRAY_SIZE(layouts); i++) {
		AUTOSECTIONS struct sections *sections = sections_new();
		const struct layout *layout = &layouts[i];

		print_message("  %s\n", layout->sentence);
		sections_common(sections, SECTIONS_EH, "zR", NULL, 0);
		for (const struct span *span = layout->eh; span->cfa; span++)
			sections_plain(sections, SECTIONS_EH, span->start, span->length, span->cfa);
		sections_common(sections, SECTIONS_DEBUG, "", NULL, 0);
		for (const struct span *span = layout->debug; span->cfa; span++)
			sections_plain(sections, SECTIONS_DEBUG, span->start, span->length,
				       span->cfa);
		sections_assert(sections, layout->rows);
	}
}

static void without_an_entry_there_is_no_table(void **state)
{
	AUTOSECTIONS struct sections *sections = sections_new();
	FP_AUTOBUF struct fp_buf table = { 0 };
	struct fp_unwind_view view;

	assert_int_equal(sections_table(sections, &table, &view), -ENODATA);
	sections_common(sections, SECTIONS_EH, "zR", NULL, 0);
	assert_int_equal(sections_table(sections, &table, &view), -ENODATA);
	sections_plain(sections, SECTIONS_EH, 0x99, 16, 8);
	assert_int_equal(sections_table(sections, &table, &view), -ENODATA);
	assert_int_equal(table.len, 0);
}

static void a_length_of_zero_ends_only_what_nothing_else_ends(void **state)
{
	AUTOSECTIONS struct sections *sections = sections_new();

	sections_common(sections, SECTIONS_EH, "zR", NULL, 0);
	sections_plain(sections, SECTIONS_EH, AT(0), 16, 8);
	sections_put(sections, SECTIONS_EH, "\0\0\0", 4);
	sections_plain(sections, SECTIONS_EH, AT(16), 16, 16);
	sections_put(sections, SECTIONS_EH, "\0\0\0\0\0", 6); // padding
	sections_assert(sections, "0:8 10:16 20:-");
	sections->by_zero = true;
	sections_assert(sections, "0:8 10:-");
}

// ---- rules ----

static size_t put_uleb(uint8_t *at, uint64_t value)
{
	size_t size = 0;

	do {
		at[size++] = (uint8_t)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
		value >>= 7;
	} while (value > 0);
	return size;
}

// A program of `count` rows, each with a CFA of its own and rbx saved at another place.
static size_t many_rules(uint8_t *program, uint32_t count)
{
	size_t size = 0;

	for (uint32_t i = 0; i < count; i++) {
		program[size++] = DW_CFA_def_cfa_offset;
		size += put_uleb(program + size, 8 + i / 4);
		program[size++] = DW_CFA_offset | 3;
		size += put_uleb(program + size, 2 + i % 4);
		program[size++] = DW_CFA_advance_loc | 1;
	}
	return size;
}

static void rules_that_have_no_room_forget_rbx_and_then_say_so(void **state)
{
	enum { COUNT = 4 * (FP_UNWIND_TABLE_RULES_MAX / 4 + 200), LAST = 0x3fff0 };
	AUTOSECTIONS struct sections *sections = sections_new();
	FP_AUTOFREE uint8_t *program = malloc(SECTIONS_MAX / 2);
	FP_AUTOBUF struct fp_buf table = { 0 };
	struct fp_unwind_view view;
	size_t size;

	assert_non_null(program);
	size = many_rules(program, COUNT);
	sections_common(sections, SECTIONS_EH, "zR", NULL, 0);
	sections_entry(sections, SECTIONS_EH, AT(0), COUNT, program, size);
	assert_int_equal(sections_table(sections, &table, &view), 0);
	assert_true(view.head->rules > FP_UNWIND_TABLE_RULES_MAX / 4 * 3);
	assert_true(view.head->rules < FP_UNWIND_TABLE_RULES_MAX);
	assert_int_equal(view.head->cannot[FP_UNWIND_CANNOT_RULES_FULL], 0);
	// With as many again there is no room even so.
	for (uint32_t i = 0; i < COUNT / 4; i++) {
		size = 1;
		program[0] = DW_CFA_def_cfa_offset;
		size += put_uleb(program + size, 100000 + i);
		sections_entry(sections, SECTIONS_EH, AT(COUNT + i), 1, program, size);
	}
	fp_buf_free(&table);
	assert_int_equal(sections_table(sections, &table, &view), 0);
	assert_int_equal(view.head->rules, FP_UNWIND_TABLE_RULES_MAX);
	assert_true(view.head->cannot[FP_UNWIND_CANNOT_RULES_FULL] > 0);
	assert_true(view.head->rows < LAST); // of those that are refused neighbours share one
}

static void rules_stand_in_the_order_of_their_use(void **state)
{
	AUTOSECTIONS struct sections *sections = sections_new();
	FP_AUTOBUF struct fp_buf table = { 0 };
	struct fp_unwind_view view;

	sections_common(sections, SECTIONS_EH, "zR", NULL, 0);
	sections_plain(sections, SECTIONS_EH, AT(0), 16, 8);
	for (uint64_t i = 1; i < 8; i++)
		sections_plain(sections, SECTIONS_EH, AT(16 * i), 16, i % 2 ? 32 : 24);
	assert_int_equal(sections_table(sections, &table, &view), 0);
	assert_int_equal(view.head->rules, 4);
	assert_int_equal(view.rules[0].cfa, FP_UNWIND_GAP);
	assert_int_equal(view.rules[1].offset, 32);
	assert_int_equal(view.rules[2].offset, 24);
	assert_int_equal(view.rules[3].offset, 8);
}

static void reasons_are_counted_by_row(void **state)
{
	static const uint8_t program[] = { DW_CFA_def_cfa,
					   17,
					   0,
					   DW_CFA_advance_loc | 1,
					   DW_CFA_def_cfa,
					   7,
					   8,
					   DW_CFA_advance_loc | 1,
					   DW_CFA_register,
					   7,
					   8,
					   DW_CFA_advance_loc | 1,
					   DW_CFA_def_cfa_expression,
					   1,
					   DW_OP_lit1,
					   DW_CFA_advance_loc | 1,
					   0x3f };
	AUTOSECTIONS struct sections *sections = sections_new();
	FP_AUTOBUF struct fp_buf table = { 0 };
	struct fp_unwind_view view;

	sections_common(sections, SECTIONS_EH, "zR", NULL, 0);
	sections_entry(sections, SECTIONS_EH, AT(0), 16, program, sizeof(program));
	assert_int_equal(sections_table(sections, &table, &view), 0);
	assert_string_equal(sections_text(&view), "0:! 1:8 2:! 3:! 4:! 10:-");
	assert_int_equal(view.head->cannot[FP_UNWIND_CANNOT_REGISTER], 2);
	assert_int_equal(view.head->cannot[FP_UNWIND_CANNOT_EXPRESSION], 1);
	assert_int_equal(view.head->cannot[FP_UNWIND_CANNOT_MALFORMED], 1);
}

// ---- Go, and the PLT ----

static void of_go_that_is_believed_which_has_no_frame(void **state)
{
	static const uint8_t program[] = { DW_CFA_advance_loc | 4, DW_CFA_def_cfa_offset, 32,
					   DW_CFA_advance_loc | 8, DW_CFA_def_cfa_offset, 8 };
	AUTOSECTIONS struct sections *sections = sections_new();

	sections_common(sections, SECTIONS_DEBUG, "", NULL, 0);
	sections_entry(sections, SECTIONS_DEBUG, AT(0), 16, program, sizeof(program));
	sections_common(sections, SECTIONS_EH, "zR", NULL, 0);
	sections_entry(sections, SECTIONS_EH, AT(16), 16, program, sizeof(program)); // of cgo
	sections_assert(sections, "0:8 4:32 c:8 14:32 1c:8 20:-");
	sections->is_go = true;
	sections_assert(sections, "0:8 4:- c:8 14:32 1c:8 20:-");
}

#define PLT_SLOT(n) 0xff, 0x25, 1, 2, 3, 4, 0x68, n, 0, 0, 0, 0xe9, 5, 6, 7, 8

static void a_plt_without_an_entry_is_known_by_its_code(void **state)
{
	uint8_t code[] = { 0xff, 0x35, 1, 2,	3,    4,    0xff, 0x25,	       1,
			   2,	 3,    4, 0x0f, 0x1f, 0x40, 0,	  PLT_SLOT(0), PLT_SLOT(1) };
	AUTOSECTIONS struct sections *sections = sections_new();

	sections_common(sections, SECTIONS_EH, "zR", NULL, 0);
	sections_plain(sections, SECTIONS_EH, AT(0), 16, 8);
	sections->plt = (struct fp_unwind_code){ code, sizeof(code), SECTIONS_OFFSET + 0x100 };
	sections_assert(sections, "0:8 10:- 100:16 106:24 110:plt 130:-");
	sections_plain(sections, SECTIONS_EH, AT(0x100), 0x10, 40); // what is described is believed
	sections_assert(sections, "0:8 10:- 100:40 110:plt 130:-");
	code[38] = 0x90; // one entry is something else
	sections_assert(sections, "0:8 10:- 100:40 110:-");
}

static void an_entry_point_without_an_entry_is_the_outermost_frame(void **state)
{
	static const uint8_t loader[100] = { 0x48, 0x89, 0xe7, 0xe8 },
			     other[100] = { 0x48, 0x8d, 0x3d };
	AUTOSECTIONS struct sections *sections = sections_new();
	FP_AUTOBUF struct fp_buf table = { 0 };
	struct fp_unwind_view view;

	sections->entry = (struct fp_unwind_code){ loader, sizeof(loader), SECTIONS_OFFSET + 0x20 };
	assert_int_equal(sections_table(sections, &table, &view), -ENODATA);
	sections_common(sections, SECTIONS_EH, "zR", NULL, 0);
	sections_plain(sections, SECTIONS_EH, AT(0), 16, 8);
	sections_assert(sections, "0:8 10:- 20:e 60:-");
	sections_plain(sections, SECTIONS_EH, AT(0x40), 16, 8);
	sections_assert(sections, "0:8 10:- 20:e 40:8 50:-");
	sections->entry.bytes = other;
	sections_assert(sections, "0:8 10:- 40:8 50:-");
	sections_plain(sections, SECTIONS_EH, AT(0x20), 8, 16);
	sections->entry.bytes = loader;
	sections_assert(sections, "0:8 10:- 20:16 28:- 40:8 50:-");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(of_several_entries_one_counts),
		cmocka_unit_test(without_an_entry_there_is_no_table),
		cmocka_unit_test(a_length_of_zero_ends_only_what_nothing_else_ends),
		cmocka_unit_test(rules_that_have_no_room_forget_rbx_and_then_say_so),
		cmocka_unit_test(rules_stand_in_the_order_of_their_use),
		cmocka_unit_test(reasons_are_counted_by_row),
		cmocka_unit_test(of_go_that_is_believed_which_has_no_frame),
		cmocka_unit_test(a_plt_without_an_entry_is_known_by_its_code),
		cmocka_unit_test(an_entry_point_without_an_entry_is_the_outermost_frame),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
