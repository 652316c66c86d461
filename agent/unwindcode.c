// SPDX-License-Identifier: Apache-2.0
#include "unwindcode.h"

#include <string.h>

#define SLOT 16

// Bytes of a slot; what is -1 is an address or a number.
static const int16_t plt_header[] = { 0xff, 0x35, -1, -1, -1, -1, // push GOT+8(%rip)
				      0xff, 0x25, -1, -1, -1, -1, // jmp *GOT+16(%rip)
				      -1,   -1,	  -1, -1 };	  // never run
static const int16_t plt_entry[] = { 0xff, 0x25, -1, -1, -1, -1,  // jmp *GOT+n(%rip)
				     0x68, -1,	 -1, -1, -1,	  // push its number
				     0xe9, -1,	 -1, -1, -1 };	  // jmp to the header
_Static_assert(FP_ARRAY_SIZE(plt_header) == SLOT && FP_ARRAY_SIZE(plt_entry) == SLOT, "a slot");

static bool is_like(const uint8_t *code, const int16_t *pattern)
{
	for (size_t i = 0; i < SLOT; i++)
		if (pattern[i] >= 0 && code[i] != pattern[i])
			return false;
	return true;
}

static bool is_plt(const struct fp_unwind_code *plt)
{
	if (plt->size < (size_t)2 * SLOT || plt->size % SLOT != 0 ||
	    !is_like(plt->bytes, plt_header))
		return false;
	for (size_t at = SLOT; at < plt->size; at += SLOT)
		if (!is_like(plt->bytes + at, plt_entry))
			return false;
	return true;
}

int fp_unwind_plt_rows(const struct fp_unwind_code *plt, struct fp_unwind_rules *rules,
		       struct fp_unwind_rows *rows)
{
	static const struct {
		uint32_t at; // from where on
		struct fp_unwind_rule rule;
	} steps[] = {
		// The header is jumped to with the entry's number pushed, and pushes another word.
		{ 0,
		  { .cfa = FP_UNWIND_RSP, .return_reg = FP_UNWIND_RETURN_AT_CFA, .offset = 16 } },
		{ 6,
		  { .cfa = FP_UNWIND_RSP, .return_reg = FP_UNWIND_RETURN_AT_CFA, .offset = 24 } },
		// An entry has pushed its number when its last jump, at byte 11, is reached.
		{ SLOT,
		  { .cfa = FP_UNWIND_PLT,
		    .return_reg = FP_UNWIND_RETURN_AT_CFA,
		    .offset = 8,
		    .add = 11 } },
	};
	int r = 0;

	if (!is_plt(plt))
		return 0;
	for (size_t i = 0; r == 0 && i < FP_ARRAY_SIZE(steps); i++) {
		uint16_t number;

		r = fp_unwind_rules_number(rules, &steps[i].rule, &number);
		if (r == 0)
			r = fp_unwind_rows_add(rows, plt->offset + steps[i].at, number);
	}
	return r < 0 ? r : fp_unwind_rows_add(rows, plt->offset + (uint32_t)plt->size, 0);
}

// What a program begins with: the outermost frame has 0 in rbp, or the stack as the kernel made it
// goes to whoever is called.
static const struct {
	uint8_t size, bytes[7];
} beginnings[] = {
	{ 4, { 0x48, 0x89, 0xe7, 0xe8 } },	       // mov %rsp,%rdi; call: glibc's ld.so
	{ 2, { 0x31, 0xed } },			       // xor %ebp,%ebp
	{ 3, { 0x48, 0x31, 0xed } },		       // xor %rbp,%rbp: musl
	{ 6, { 0xf3, 0x0f, 0x1e, 0xfa, 0x31, 0xed } }, // endbr64 first
	{ 7, { 0xf3, 0x0f, 0x1e, 0xfa, 0x48, 0x31, 0xed } },
};

static bool is_beginning(const struct fp_unwind_code *entry)
{
	for (size_t i = 0; i < FP_ARRAY_SIZE(beginnings); i++)
		if (entry->size >= beginnings[i].size &&
		    memcmp(entry->bytes, beginnings[i].bytes, beginnings[i].size) == 0)
			return true;
	return false;
}

int fp_unwind_entry_rows(const struct fp_unwind_code *entry, struct fp_unwind_rules *rules,
			 struct fp_unwind_rows *rows)
{
	static const struct fp_unwind_rule end = { .cfa = FP_UNWIND_END };
	size_t size = entry->size < FP_UNWIND_ENTRY_MAX ? entry->size : FP_UNWIND_ENTRY_MAX;
	uint16_t number;
	int r;

	if (!is_beginning(entry))
		return 0;
	r = fp_unwind_rules_number(rules, &end, &number);
	if (r == 0)
		r = fp_unwind_rows_add(rows, entry->offset, number);
	return r < 0 ? r : fp_unwind_rows_add(rows, entry->offset + (uint32_t)size, 0);
}
