// SPDX-License-Identifier: Apache-2.0
// What a table must hold for the agent to take it, and looking up in one.
#include "unwind_sections.h"

#include <dwarf.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define AT(n) (SECTIONS_ADDRESS + (n))

struct damage {
	const char *sentence;
	void (*spoil)(struct fp_buf *table, struct fp_unwind_view *view);
};

static struct fp_unwind_table *head(struct fp_buf *table)
{
	return (struct fp_unwind_table *)table->data;
}

// The views are const for those who only read.
#define OFFSETS(view) ((fp_u32 *)(view)->offsets)
#define RULE_OF(view) ((fp_u16 *)(view)->rule_of)
#define RULE(view, n) (((struct fp_unwind_rule *)(view)->rules)[n])

#define SPOIL(name, what)                                                                          \
	static void name(struct fp_buf *table, struct fp_unwind_view *view)                        \
	{                                                                                          \
		what;                                                                              \
	}
SPOIL(magic, head(table)->magic++)
SPOIL(padding, head(table)->padding = 1)
SPOIL(no_rows, head(table)->rows = 0)
SPOIL(more_rows, head(table)->rows += 2)
SPOIL(all_rows, head(table)->rows = UINT32_MAX)
SPOIL(no_rules, head(table)->rules = 0)
SPOIL(fewer_rules, head(table)->rules--)
SPOIL(all_rules, head(table)->rules = UINT32_MAX)
SPOIL(byte_less, table->len--)
SPOIL(byte_more, fp_buf_byte(table, 0))
SPOIL(empty, table->len = 0)
SPOIL(head_only, table->len = sizeof(struct fp_unwind_table))
SPOIL(same_offset, OFFSETS(view)[1] = OFFSETS(view)[0])
SPOIL(falling_offset, OFFSETS(view)[2] = 0)
SPOIL(no_such_rule, RULE_OF(view)[0] = (fp_u16)view->head->rules)
SPOIL(last_no_gap, RULE_OF(view)[view->head->rows - 1] = 1)
SPOIL(first_no_gap, RULE(view, 0) = RULE(view, 1))
SPOIL(gap_with_offset, RULE(view, 0).offset = 1)
SPOIL(no_such_kind, RULE(view, 1).cfa = FP_UNWIND_CFA_COUNT)
SPOIL(no_such_reason, RULE(view, 1) = ((struct fp_unwind_rule){ .cfa = FP_UNWIND_CANNOT,
								.add = FP_UNWIND_CANNOT_COUNT }))
SPOIL(negative_reason,
      RULE(view, 1) = ((struct fp_unwind_rule){ .cfa = FP_UNWIND_CANNOT, .add = -1 }))
SPOIL(no_such_register, RULE(view, 1).cfa = FP_UNWIND_REGISTER; RULE(view, 1).reg = 16)
SPOIL(a_register_too_many, RULE(view, 1).reg = 6)
SPOIL(no_such_return, RULE(view, 1).return_reg = 16)
SPOIL(no_such_place, RULE(view, 1).saved = 16)
SPOIL(a_place_too_many, RULE(view, 1).rbp_at = -16)
SPOIL(a_slot_too_far, RULE(view, 1).cfa = FP_UNWIND_PLT; RULE(view, 1).add = 16)

static const struct damage damages[] = {
	{ "another magic", magic },
	{ "padding", padding },
	{ "no rows", no_rows },
	{ "rows more than there are", more_rows },
	{ "the most rows there can be", all_rows },
	{ "no rules", no_rules },
	{ "a rule less than there is", fewer_rules },
	{ "the most rules there can be", all_rules },
	{ "a byte less", byte_less },
	{ "a byte more", byte_more },
	{ "nothing", empty },
	{ "the head alone", head_only },
	{ "an offset twice", same_offset },
	{ "an offset below the one before", falling_offset },
	{ "a rule that is not there", no_such_rule },
	{ "a last row that is no gap", last_no_gap },
	{ "a first rule that is no gap", first_no_gap },
	{ "a gap with an offset", gap_with_offset },
	{ "a kind that is none", no_such_kind },
	{ "a reason that is none", no_such_reason },
	{ "a reason below zero", negative_reason },
	{ "a register that is none", no_such_register },
	{ "a register where none is due", a_register_too_many },
	{ "a return address in a register that is none", no_such_return },
	{ "saved at no place there is", no_such_place },
	{ "a place of what is not saved", a_place_too_many },
	{ "a PLT slot of more than 16 bytes", a_slot_too_far },
};

static void a_table_that_is_damaged_is_refused(void **state)
{
	for (size_t i = 0; i < FP_ARRAY_SIZE(damages); i++) {
		AUTOSECTIONS struct sections *sections = sections_new();
		FP_AUTOBUF struct fp_buf table = { 0 };
		struct fp_unwind_view view, other;

		print_message("  %s\n", damages[i].sentence);
		sections_common(sections, SECTIONS_EH, "zR", NULL, 0);
		sections_plain(sections, SECTIONS_EH, AT(0), 16, 8);
		sections_plain(sections, SECTIONS_EH, AT(16), 16, 16);
		assert_int_equal(sections_table(sections, &table, &view), 0);
		damages[i].spoil(&table, &view);
		assert_int_equal(fp_unwind_table_check(table.data, table.len, &other), -EBADMSG);
	}
}

static void a_look_up_gives_the_row_at_or_before(void **state)
{
	AUTOSECTIONS struct sections *sections = sections_new();
	FP_AUTOBUF struct fp_buf table = { 0 };
	struct fp_unwind_view view;

	sections_common(sections, SECTIONS_EH, "zR", NULL, 0);
	sections_plain(sections, SECTIONS_EH, AT(0), 16, 8);
	sections_plain(sections, SECTIONS_EH, AT(16), 16, 16);
	assert_int_equal(sections_table(sections, &table, &view), 0);
	assert_int_equal(fp_unwind_view_find(&view, 0)->cfa, FP_UNWIND_GAP);
	assert_int_equal(fp_unwind_view_find(&view, SECTIONS_OFFSET - 1)->cfa, FP_UNWIND_GAP);
	assert_int_equal(fp_unwind_view_find(&view, SECTIONS_OFFSET)->offset, 8);
	assert_int_equal(fp_unwind_view_find(&view, SECTIONS_OFFSET + 15)->offset, 8);
	assert_int_equal(fp_unwind_view_find(&view, SECTIONS_OFFSET + 16)->offset, 16);
	assert_int_equal(fp_unwind_view_find(&view, SECTIONS_OFFSET + 32)->cfa, FP_UNWIND_GAP);
	assert_int_equal(fp_unwind_view_find(&view, UINT32_MAX)->cfa, FP_UNWIND_GAP);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_table_that_is_damaged_is_refused),
		cmocka_unit_test(a_look_up_gives_the_row_at_or_before),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
