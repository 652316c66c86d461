// SPDX-License-Identifier: Apache-2.0
#include "unwind_sections.h"

#include <dwarf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

struct sections *sections_new(void)
{
	struct sections *sections = calloc(1, sizeof(*sections));

	assert_non_null(sections);
	return sections;
}

void sections_put(struct sections *sections, enum sections_which which, const void *bytes,
		  size_t size)
{
	assert_true(sections->size[which] + size <= SECTIONS_MAX);
	if (size > 0)
		memcpy(sections->bytes[which] + sections->size[which], bytes, size);
	sections->size[which] += size;
}

static void put_number(struct sections *sections, enum sections_which which, uint64_t number,
		       size_t size)
{
	sections_put(sections, which, &number, size);
}

// Fills the length in, which stands at `start`.
static void finish(struct sections *sections, enum sections_which which, size_t start)
{
	uint32_t length;

	while (sections->size[which] % 4 != 0)
		put_number(sections, which, DW_CFA_nop, 1);
	length = (uint32_t)(sections->size[which] - start - 4);
	memcpy(sections->bytes[which] + start, &length, sizeof(length));
}

static void put_augmentation(struct sections *sections, enum sections_which which,
			     const char *letters)
{
	bool has_encoding = strchr(letters, 'R') != NULL, has_lsda = strchr(letters, 'L') != NULL;

	if (letters[0] != 'z')
		return;
	put_number(sections, which, (uint64_t)has_encoding + has_lsda, 1);
	if (has_lsda)
		put_number(sections, which, DW_EH_PE_omit, 1);
	if (has_encoding)
		put_number(sections, which, DW_EH_PE_absptr, 1);
}

void sections_common(struct sections *sections, enum sections_which which, const char *letters,
		     const uint8_t *program, size_t size)
{
	static const uint8_t usual[] = { DW_CFA_def_cfa, 7, 8, DW_CFA_offset | 16, 1 };
	size_t start = sections->size[which];

	sections->common[which] = start;
	put_number(sections, which, 0, 4);
	put_number(sections, which, which == SECTIONS_EH ? 0 : UINT32_MAX, 4);
	put_number(sections, which, 1, 1);
	sections_put(sections, which, letters, strlen(letters) + 1);
	put_number(sections, which, 1, 1);    // code factor
	put_number(sections, which, 0x78, 1); // data factor: -8
	put_number(sections, which, 16, 1);   // return address
	put_augmentation(sections, which, letters);
	sections_put(sections, which, usual, sizeof(usual));
	sections_put(sections, which, program, size);
	finish(sections, which, start);
}

void sections_entry(struct sections *sections, enum sections_which which, uint64_t start,
		    uint64_t length, const uint8_t *program, size_t size)
{
	size_t at = sections->size[which], common = sections->common[which];
	bool has_sizes = sections->bytes[which][common + 9] == 'z';

	put_number(sections, which, 0, 4);
	put_number(sections, which, which == SECTIONS_EH ? at + 4 - common : common, 4);
	put_number(sections, which, start, 8);
	put_number(sections, which, length, 8);
	if (has_sizes)
		put_number(sections, which, 0, 1);
	sections_put(sections, which, program, size);
	finish(sections, which, at);
}

int sections_table(const struct sections *sections, struct fp_buf *ret_table,
		   struct fp_unwind_view *ret_view)
{
	const struct fp_symbol_segment code = { SECTIONS_OFFSET, SECTIONS_CODE_SIZE,
						SECTIONS_ADDRESS };
	struct fp_unwind_sources sources = {
		.eh = { .bytes = sections->bytes[SECTIONS_EH],
			.size = sections->size[SECTIONS_EH],
			.address = 0x500000,
			.ends_at_zero = sections->by_zero },
		.debug = { .bytes = sections->bytes[SECTIONS_DEBUG],
			   .size = sections->size[SECTIONS_DEBUG],
			   .is_debug = true },
		.segments = &code,
		.segments_count = 1,
		.plt = sections->plt,
		.entry = sections->entry,
		.is_go = sections->is_go,
	};
	int r;

	memcpy(sources.crt, sections->crt, sizeof(sources.crt));
	r = fp_unwind_table_of(&sources, ret_table);

	if (r == 0)
		assert_int_equal(fp_unwind_table_check(ret_table->data, ret_table->len, ret_view),
				 0);
	return r;
}

void sections_plain(struct sections *sections, enum sections_which which, uint64_t start,
		    uint64_t length, uint8_t cfa)
{
	const uint8_t program[] = { DW_CFA_def_cfa_offset, cfa };

	sections_entry(sections, which, start, length, program, sizeof(program));
}

const char *sections_text(const struct fp_unwind_view *view)
{
	static char text[4096];
	size_t at = 0;

	text[0] = '\0';
	for (uint32_t i = 0; i < view->head->rows && at < sizeof(text) - 64; i++) {
		const struct fp_unwind_rule *rule = &view->rules[view->rule_of[i]];
		const char *kind = rule->cfa == FP_UNWIND_GAP	   ? "-"
				   : rule->cfa == FP_UNWIND_END	   ? "e"
				   : rule->cfa == FP_UNWIND_CANNOT ? "!"
				   : rule->cfa == FP_UNWIND_PLT	   ? "plt"
				   : rule->cfa == FP_UNWIND_RBP	   ? "rbp"
								   : "";

		at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%x:%s", i ? " " : "",
				       view->offsets[i] - SECTIONS_OFFSET, kind);
		if (rule->cfa == FP_UNWIND_RSP)
			at += (size_t)snprintf(text + at, sizeof(text) - at, "%d", rule->offset);
	}
	return text;
}

void sections_assert(const struct sections *sections, const char *rows)
{
	FP_AUTOBUF struct fp_buf table = { 0 };
	struct fp_unwind_view view;

	assert_int_equal(sections_table(sections, &table, &view), 0);
	assert_string_equal(sections_text(&view), rows);
}
