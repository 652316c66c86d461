// SPDX-License-Identifier: Apache-2.0
#include "unwindcrt.h"

#include <string.h>

#define WORD	    8
#define CHANGES_MAX 8 // of the stack in one function; they have 2

enum effect { NONE, PUSHES_RBP, POPS_RBP, GROWS, SHRINKS, LEAVES };

// As GCC's crtstuff.c and the crti.s of glibc and musl come out for x86-64 (Intel's manual, volume 2);
// what follows the bytes is an address or a number.
static const struct instruction {
	uint8_t length, size, bytes[4];
	enum effect effect;
} instructions[] = {
	{ 4, 4, { 0xf3, 0x0f, 0x1e, 0xfa }, NONE },    // endbr64
	{ 7, 2, { 0x80, 0x3d }, NONE },		       // cmpb $n, n(%rip)
	{ 8, 3, { 0x48, 0x83, 0x3d }, NONE },	       // cmpq $n, n(%rip)
	{ 2, 1, { 0x74 }, NONE },		       // je
	{ 2, 1, { 0x75 }, NONE },		       // jne
	{ 7, 3, { 0x48, 0x8b, 0x3d }, NONE },	       // mov n(%rip), %rdi
	{ 7, 3, { 0x48, 0x8b, 0x05 }, NONE },	       // mov n(%rip), %rax
	{ 7, 3, { 0x48, 0x8d, 0x3d }, NONE },	       // lea n(%rip), %rdi
	{ 3, 3, { 0x48, 0x85, 0xc0 }, NONE },	       // test %rax, %rax
	{ 3, 3, { 0x48, 0x89, 0xe5 }, NONE },	       // mov %rsp, %rbp
	{ 7, 2, { 0xc6, 0x05 }, NONE },		       // movb $n, n(%rip)
	{ 5, 1, { 0xe8 }, NONE },		       // call
	{ 2, 2, { 0xff, 0xd0 }, NONE },		       // call *%rax
	{ 1, 1, { 0x55 }, PUSHES_RBP },		       // push %rbp
	{ 1, 1, { 0x5d }, POPS_RBP },		       // pop %rbp
	{ 1, 1, { 0x50 }, GROWS },		       // push %rax
	{ 1, 1, { 0x58 }, SHRINKS },		       // pop %rax
	{ 4, 4, { 0x48, 0x83, 0xec, WORD }, GROWS },   // sub $8, %rsp
	{ 4, 4, { 0x48, 0x83, 0xc4, WORD }, SHRINKS }, // add $8, %rsp
	{ 1, 1, { 0xc3 }, LEAVES },		       // ret
	{ 2, 2, { 0xf3, 0xc3 }, LEAVES },	       // repz ret
	{ 5, 1, { 0xe9 }, LEAVES },		       // jmp, to another function
	{ 2, 1, { 0xeb }, LEAVES },
};

struct change {
	uint32_t at; // from the function's start
	struct fp_unwind_rule rule;
};

struct walk {
	struct change changes[CHANGES_MAX];
	size_t count;
	uint32_t at;
	int32_t depth, rbp_at; // below the CFA; rbp_at 0: rbp is the caller's
};

static const struct instruction *find(const uint8_t *bytes, size_t size)
{
	for (size_t i = 0; i < FP_ARRAY_SIZE(instructions); i++)
		if (size >= instructions[i].length &&
		    memcmp(bytes, instructions[i].bytes, instructions[i].size) == 0)
			return &instructions[i];
	return NULL;
}

static bool note_change(struct walk *walk)
{
	struct fp_unwind_rule rule = { .cfa = FP_UNWIND_RSP,
				       .return_reg = FP_UNWIND_RETURN_AT_CFA,
				       .offset = walk->depth };

	if (walk->count == CHANGES_MAX)
		return false;
	if (walk->rbp_at) {
		rule.saved = FP_UNWIND_AT_CFA;
		rule.rbp_at = (int16_t)-walk->rbp_at;
	}
	walk->changes[walk->count++] = (struct change){ walk->at, rule };
	return true;
}

// False: a stack that is not what such a function makes of it.
static bool take(struct walk *walk, enum effect effect)
{
	switch (effect) {
	case PUSHES_RBP:
		if (walk->rbp_at)
			return false;
		walk->rbp_at = walk->depth += WORD;
		return note_change(walk);
	case POPS_RBP:
		if (!walk->rbp_at || walk->rbp_at != walk->depth)
			return false;
		walk->rbp_at = 0;
		walk->depth -= WORD;
		return note_change(walk);
	case GROWS:
		walk->depth += WORD;
		return note_change(walk);
	case SHRINKS:
		walk->depth -= WORD;
		return walk->depth >= WORD && walk->depth >= walk->rbp_at && note_change(walk);
	case LEAVES:
		return walk->depth == WORD;
	case NONE:
		break;
	}
	return true;
}

// True: all of it is known, and ends at walk->at.
static bool walk_function(const struct fp_unwind_code *function, struct walk *walk)
{
	const struct instruction *found;

	*walk = (struct walk){ .depth = WORD };
	note_change(walk);
	while (walk->at < FP_UNWIND_CRT_BYTES &&
	       (found = find(function->bytes + walk->at, function->size - walk->at))) {
		walk->at += found->length;
		if (!take(walk, found->effect))
			return false;
		if (found->effect == LEAVES)
			return true;
	}
	return false;
}

int fp_unwind_crt_rows(const struct fp_unwind_code *function, struct fp_unwind_rules *rules,
		       struct fp_unwind_rows *rows)
{
	struct walk walk;
	int r = 0;

	if (function->size == 0 || !walk_function(function, &walk))
		return 0;
	for (size_t i = 0; r == 0 && i < walk.count; i++) {
		uint16_t number;

		r = fp_unwind_rules_number(rules, &walk.changes[i].rule, &number);
		if (r == 0)
			r = fp_unwind_rows_add(rows, function->offset + walk.changes[i].at, number);
	}
	return r < 0 ? r : fp_unwind_rows_add(rows, function->offset + walk.at, 0);
}
