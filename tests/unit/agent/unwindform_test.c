// SPDX-License-Identifier: Apache-2.0
// The forms of entries: lengths, versions, augmentations, encodings of addresses.
#include "unwind_sections.h"

#include <dwarf.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define AT(n) (SECTIONS_ADDRESS + (n))

struct form {
	const char *sentence;
	enum sections_which which;
	uint8_t bytes[96]; // a common entry and one of it, for code of 16 bytes at AT(0)
	size_t size;
	bool is_refused;
};
#define FORM(...)    .bytes = { __VA_ARGS__ }, .size = sizeof((const uint8_t[]){ __VA_ARGS__ })
#define U32(n)	     (n) & 0xff, (n) >> 8 & 0xff, (n) >> 16 & 0xff, (n) >> 24 & 0xff
#define U64(n)	     U32((n)&0xffffffff), U32((uint64_t)(n) >> 32)
#define RULES	     DW_CFA_def_cfa, 7, 8, DW_CFA_offset | 16, 1 // 5 bytes
#define LENGTH_64    U32(0xffffffff)
#define EH_ADDRESS   0x500000 // of the section
#define PCREL(place) (AT(0) - (EH_ADDRESS + (place)))

// Behind a common entry of 4 + size bytes stands the other, whose pointer says 4 more than that.
static const struct form forms[] = {
	{ "pcrel, sdata4, as gcc and clang write it", SECTIONS_EH,
	  FORM(U32(16), U32(0), 1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x1b, DW_CFA_def_cfa, 7, 8, // 20
	       U32(20), U32(24), U32(PCREL(28)), U32(16), 0, DW_CFA_offset | 16, 1, 0, 0, 0, 0,
	       0) },
	{ "udata4", SECTIONS_EH,
	  FORM(U32(18), U32(0), 1, 'z', 'R', 0, 1, 0x78, 16, 1, DW_EH_PE_udata4, RULES, // 22
	       U32(14), U32(26), U32(AT(0)), U32(16), 0, 0) },
	{ "sdata8", SECTIONS_EH,
	  FORM(U32(18), U32(0), 1, 'z', 'R', 0, 1, 0x78, 16, 1, DW_EH_PE_sdata8, RULES, U32(22),
	       U32(26), U64(AT(0)), U64(16), 0, 0) },
	{ "pcrel, sdata8, of the large code model", SECTIONS_EH,
	  FORM(U32(18), U32(0), 1, 'z', 'R', 0, 1, 0x78, 16, 1, DW_EH_PE_pcrel | DW_EH_PE_sdata8,
	       RULES, U32(22), U32(26), U64(PCREL(30)), U64(16), 0, 0) },
	{ "an indirect address is refused", SECTIONS_EH,
	  FORM(U32(18), U32(0), 1, 'z', 'R', 0, 1, 0x78, 16, 1, DW_EH_PE_indirect | DW_EH_PE_udata4,
	       RULES, U32(14), U32(26), U32(AT(0)), U32(16), 0, 0),
	  true },
	{ "one relative to data too", SECTIONS_EH,
	  FORM(U32(18), U32(0), 1, 'z', 'R', 0, 1, 0x78, 16, 1, DW_EH_PE_datarel | DW_EH_PE_udata4,
	       RULES, U32(14), U32(26), U32(AT(0)), U32(16), 0, 0),
	  true },
	{ "an encoding that is none", SECTIONS_EH,
	  FORM(U32(18), U32(0), 1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x05, RULES, U32(14), U32(26),
	       U32(AT(0)), U32(16), 0, 0),
	  true },
	{ "personality, language data, signal and key are passed over", SECTIONS_EH,
	  FORM(U32(27), U32(0), 1, 'z', 'P', 'L', 'R', 'B', 0, 1, 0x78, 16, 7, 0x9b, U32(0x1234),
	       0x1b, DW_EH_PE_udata4, RULES, // 31
	       U32(18), U32(35), U32(AT(0)), U32(16), 4, U32(0x77), 0) },
	{ "a letter that nobody knows is refused", SECTIONS_EH,
	  FORM(U32(19), U32(0), 1, 'z', 'R', 'Q', 0, 1, 0x78, 16, 1, DW_EH_PE_udata4, RULES,
	       U32(14), U32(27), U32(AT(0)), U32(16), 0, 0),
	  true },
	{ "version 3 has the return register as a LEB", SECTIONS_EH,
	  FORM(U32(19), U32(0), 3, 'z', 'R', 0, 1, 0x78, 0x90, 0, 1, DW_EH_PE_udata4, RULES,
	       U32(14), U32(27), U32(AT(0)), U32(16), 0, 0) },
	{ "version 2 there is none", SECTIONS_EH,
	  FORM(U32(18), U32(0), 2, 'z', 'R', 0, 1, 0x78, 16, 1, DW_EH_PE_udata4, RULES, U32(14),
	       U32(26), U32(AT(0)), U32(16), 0, 0),
	  true },
	{ "another return register is another machine's", SECTIONS_EH,
	  FORM(U32(18), U32(0), 1, 'z', 'R', 0, 1, 0x78, 30, 1, DW_EH_PE_udata4, RULES, U32(14),
	       U32(26), U32(AT(0)), U32(16), 0, 0),
	  true },
	{ "version 4 tells the sizes of addresses and selectors", SECTIONS_DEBUG,
	  FORM(U32(16), U32(0xffffffff), 4, 0, 8, 0, 1, 0x78, 16, RULES, U32(20), U32(0),
	       U64(AT(0)), U64(16)) },
	{ "other sizes are refused", SECTIONS_DEBUG,
	  FORM(U32(16), U32(0xffffffff), 4, 0, 4, 0, 1, 0x78, 16, RULES, U32(20), U32(0),
	       U64(AT(0)), U64(16)),
	  true },
	{ "64-bit DWARF", SECTIONS_DEBUG,
	  FORM(LENGTH_64, U64(18), U64(UINT64_MAX), 1, 0, 1, 0x78, 16, RULES, LENGTH_64, U64(24),
	       U64(0), U64(AT(0)), U64(16)) },
	{ "64-bit .eh_frame has no form that is agreed upon", SECTIONS_EH,
	  FORM(LENGTH_64, U64(18), U64(0), 1, 0, 1, 0x78, 16, RULES, LENGTH_64, U64(24), U64(38),
	       U64(AT(0)), U64(16)),
	  true },
	{ "a common entry that is not one", SECTIONS_EH,
	  FORM(U32(18), U32(0), 1, 'z', 'R', 0, 1, 0x78, 16, 1, DW_EH_PE_udata4, RULES, U32(14),
	       U32(4), U32(AT(0)), U32(16), 0, 0),
	  true },
	{ "one before the section's start", SECTIONS_EH,
	  FORM(U32(18), U32(0), 1, 'z', 'R', 0, 1, 0x78, 16, 1, DW_EH_PE_udata4, RULES, U32(14),
	       U32(99), U32(AT(0)), U32(16), 0, 0),
	  true },
	{ "one whose program advances", SECTIONS_EH,
	  FORM(U32(19), U32(0), 1, 'z', 'R', 0, 1, 0x78, 16, 1, DW_EH_PE_udata4, RULES,
	       DW_CFA_advance_loc | 1, U32(14), U32(27), U32(AT(0)), U32(16), 0, 0),
	  true },
	{ "an entry that is cut off", SECTIONS_EH,
	  FORM(U32(18), U32(0), 1, 'z', 'R', 0, 1, 0x78, 16, 1, DW_EH_PE_udata4, RULES, U32(7),
	       U32(26), 1, 2, 3),
	  true },
	{ "an augmentation longer than its entry", SECTIONS_EH,
	  FORM(U32(18), U32(0), 1, 'z', 'R', 0, 1, 0x78, 16, 1, DW_EH_PE_udata4, RULES, U32(14),
	       U32(26), U32(AT(0)), U32(16), 9, 0),
	  true },
};

static void an_entry_has_one_of_several_forms(void **state)
{
	for (size_t i = 0; i < FP_ARRAY_SIZE(forms); i++) {
		AUTOSECTIONS struct sections *sections = sections_new();
		const struct form *form = &forms[i];
		FP_AUTOBUF struct fp_buf table = { 0 };
		struct fp_unwind_view view;

		print_message("  %s\n", form->sentence);
		sections_put(sections, form->which, form->bytes, form->size);
		// One that is good follows, so that there is a table.
		sections_common(sections, form->which, "", NULL, 0);
		sections_plain(sections, form->which, AT(0x40), 16, 64);
		assert_int_equal(sections_table(sections, &table, &view), 0);
		assert_string_equal(sections_text(&view),
				    form->is_refused ? "40:64 50:-" : "0:8 10:- 40:64 50:-");
		assert_int_equal(view.head->rejected, form->is_refused);
		assert_int_equal(view.head->entries, form->is_refused ? 1 : 2);
	}
}

static void a_length_that_leads_out_ends_the_section(void **state)
{
	static const uint8_t lengths[][4] = { { U32(0x7fffffff) },
					      { U32(0xfffffff0) },
					      { U32(0xffffffff) } };

	for (size_t i = 0; i < FP_ARRAY_SIZE(lengths); i++) {
		AUTOSECTIONS struct sections *sections = sections_new();
		FP_AUTOBUF struct fp_buf table = { 0 };
		struct fp_unwind_view view;

		sections_common(sections, SECTIONS_EH, "zR", NULL, 0);
		sections_plain(sections, SECTIONS_EH, AT(0), 16, 8);
		sections_put(sections, SECTIONS_EH, lengths[i], 4);
		sections_plain(sections, SECTIONS_EH, AT(16), 16, 8);
		assert_int_equal(sections_table(sections, &table, &view), 0);
		assert_string_equal(sections_text(&view), "0:8 10:-");
		assert_int_equal(view.head->rejected, 1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_entry_has_one_of_several_forms),
		cmocka_unit_test(a_length_that_leads_out_ends_the_section),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
