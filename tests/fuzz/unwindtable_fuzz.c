// SPDX-License-Identifier: Apache-2.0
//
// unwindtable_fuzz: any bytes as call frame information. What begins as an ELF file is one, for
// everything that finds the sections; else the input is the sections themselves:
//   u8 form | u16 bytes of .eh_frame | .eh_frame | .debug_frame
// form: 1 .eh_frame ends at a length of zero, 2 of Go, 4 .debug_frame is a PLT's code instead, 8
// or that of the entry point, 16 or what runs last.
// Code lies in two segments, as that of tests/programs/unwindcases.c in the first. A table that comes out passes the
// agent's check; the input as a table is refused or can be looked up in.
#include "fuzz.h"
#include "memfile.h"

#include "agent/unwindtable_private.h"

#include <string.h>

#define ENDS_AT_ZERO 1
#define IS_GO	     2
#define IS_PLT	     4
#define IS_ENTRY     8
#define IS_CRT	     16

static const struct fp_symbol_segment segments[] = { { 0x1000, 0x12000, 0x1000 },
						     { 0x20000, 0x20000, 0x420000 } };

static void look_up(const struct fp_unwind_view *view)
{
	for (uint32_t i = 0; i < view->head->rows; i++) {
		const struct fp_unwind_rule *rule = &view->rules[view->rule_of[i]];

		if (memcmp(fp_unwind_view_find(view, view->offsets[i]), rule, sizeof(*rule)) != 0)
			abort();
	}
	if (fp_unwind_view_find(view, UINT32_MAX)->cfa != FP_UNWIND_GAP)
		abort();
}

// Of what was made more is true than the agent insists on.
static void check_made(const struct fp_buf *table)
{
	struct fp_unwind_view view;
	uint32_t cannot = 0, counted = 0;

	if (fp_unwind_table_check(table->data, table->len, &view))
		abort();
	for (uint32_t i = 0; i < view.head->rows; i++) {
		cannot += view.rules[view.rule_of[i]].cfa == FP_UNWIND_CANNOT;
		if (view.rule_of[i] == (i > 0 ? view.rule_of[i - 1] : 0))
			abort(); // neighbours are not alike, and the first is no gap
	}
	for (size_t i = 0; i < FP_UNWIND_CANNOT_COUNT; i++)
		counted += view.head->cannot[i];
	if (cannot != counted)
		abort();
	look_up(&view);
}

static void try_sections(const uint8_t *data, size_t size)
{
	struct fp_unwind_sources sources = { .segments = segments,
					     .segments_count = FP_ARRAY_SIZE(segments) };
	FP_AUTOBUF struct fp_buf table = { 0 };
	size_t eh;

	if (size < 3)
		return;
	eh = data[1] | (size_t)data[2] << 8;
	if (eh > size - 3)
		eh = size - 3;
	sources.eh = (struct fp_cfi_section){ .bytes = data + 3,
					      .size = eh,
					      .address = 0x13080,
					      .ends_at_zero = data[0] & ENDS_AT_ZERO };
	sources.is_go = data[0] & IS_GO;
	if (data[0] & IS_PLT)
		sources.plt = (struct fp_unwind_code){ data + 3 + eh, size - 3 - eh, 0x2000 };
	else if (data[0] & IS_ENTRY)
		sources.entry = (struct fp_unwind_code){ data + 3 + eh, size - 3 - eh, 0x2000 };
	else if (data[0] & IS_CRT)
		sources.crt[3] = (struct fp_unwind_code){ data + 3 + eh, size - 3 - eh, 0x2000 };
	else
		sources.debug = (struct fp_cfi_section){ .bytes = data + 3 + eh,
							 .size = size - 3 - eh,
							 .is_debug = true };
	if (sources.plt.size > 0x1000)
		sources.plt.size = 0x1000;
	if (fp_unwind_table_of(&sources, &table) == 0)
		check_made(&table);
}

static void try_file(const uint8_t *data, size_t size)
{
	static int file = -1;
	FP_AUTOBUF struct fp_buf table = { 0 };

	memfile_set(&file, data, size);
	if (fp_unwind_table_make(file, NULL, &table) == 0)
		check_made(&table);
}

static void try_table(const uint8_t *bytes, size_t size)
{
	struct fp_unwind_view view;

	if (fp_unwind_table_check(bytes, size, &view) == 0)
		look_up(&view);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	FP_AUTOFREE uint8_t *copy = calloc(1, size + 1); // 8-aligned, and no longer than it is

	if (!copy)
		return 0;
	if (size > 0)
		memcpy(copy, data, size);
	try_table(copy, size);
	if (size >= 4 && memcmp(data, "\177ELF", 4) == 0)
		try_file(copy, size);
	else
		try_sections(copy, size);
	return 0;
}
