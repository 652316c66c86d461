// SPDX-License-Identifier: Apache-2.0
#include "unwindexpr.h"

#include "unwindcursor.h"

#include "common/cleanup.h"

#include <dwarf.h>

#define DEPTH_MAX 8 // of the stack; forms that are known take three

struct evaluation {
	struct fp_cursor code;
	struct fp_unwind_value stack[DEPTH_MAX];
	size_t depth;
	bool failed;
};

static void push(struct evaluation *run, struct fp_unwind_value value)
{
	if (run->depth < DEPTH_MAX)
		run->stack[run->depth++] = value;
	else
		run->failed = true;
}

static struct fp_unwind_value pop(struct evaluation *run)
{
	if (run->depth > 0)
		return run->stack[--run->depth];
	run->failed = true;
	return (struct fp_unwind_value){ .kind = FP_VALUE_OTHER };
}

static void push_number(struct evaluation *run, uint64_t number)
{
	push(run, (struct fp_unwind_value){ .kind = FP_VALUE_NUMBER, .offset = number });
}

static void push_register(struct evaluation *run, uint64_t reg)
{
	int64_t offset = fp_cursor_sleb(&run->code);

	if (reg > FP_X86_RETURN)
		run->failed = true;
	push(run, (struct fp_unwind_value){ .kind = FP_VALUE_REGISTER,
					    .reg = (uint16_t)reg,
					    .offset = (uint64_t)offset });
}

static void load(struct evaluation *run)
{
	struct fp_unwind_value value = pop(run);

	value.kind = value.kind == FP_VALUE_REGISTER  ? FP_VALUE_MEMORY
		     : value.kind == FP_VALUE_ELEMENT ? FP_VALUE_INDEXED
						      : FP_VALUE_OTHER;
	push(run, value);
}

static struct fp_unwind_value add_number(struct fp_unwind_value value, uint64_t number)
{
	if (value.kind == FP_VALUE_MEMORY || value.kind == FP_VALUE_INDEXED)
		value.add += number;
	else if (value.kind == FP_VALUE_NUMBER || value.kind == FP_VALUE_REGISTER ||
		 value.kind == FP_VALUE_PLT || value.kind == FP_VALUE_ELEMENT)
		value.offset += number;
	else
		value.kind = FP_VALUE_OTHER;
	return value;
}

static struct fp_unwind_value sum(struct fp_unwind_value a, struct fp_unwind_value b)
{
	if (b.kind == FP_VALUE_NUMBER)
		return add_number(a, b.offset);
	if (a.kind == FP_VALUE_NUMBER)
		return add_number(b, a.offset);
	if (b.kind == FP_VALUE_PUSHED && a.kind == FP_VALUE_REGISTER && a.reg == FP_X86_RSP)
		return (struct fp_unwind_value){
			.kind = FP_VALUE_PLT, .reg = a.reg, .offset = a.offset, .add = b.add
		};
	if (b.kind == FP_VALUE_SCALED && a.kind == FP_VALUE_REGISTER)
		return (struct fp_unwind_value){
			.kind = FP_VALUE_ELEMENT, .index = b.index, .reg = a.reg, .offset = a.offset
		};
	if (b.kind == FP_VALUE_REGISTER && (a.kind == FP_VALUE_PUSHED || a.kind == FP_VALUE_SCALED))
		return sum(b, a);
	return (struct fp_unwind_value){ .kind = FP_VALUE_OTHER };
}

// The steps by which a PLT entry says that it has pushed something from some byte on.
static struct fp_unwind_value slot_step(uint8_t op, struct fp_unwind_value value, uint64_t number)
{
	if (op == DW_OP_and && number == 15 && value.kind == FP_VALUE_REGISTER &&
	    value.reg == FP_X86_RETURN && value.offset == 0)
		value.kind = FP_VALUE_SLOT;
	else if (op == DW_OP_ge && number <= 15 && value.kind == FP_VALUE_SLOT)
		value = (struct fp_unwind_value){ .kind = FP_VALUE_IN_SLOT, .add = number };
	else if (op == DW_OP_shl && number == 3 && value.kind == FP_VALUE_IN_SLOT)
		value.kind = FP_VALUE_PUSHED;
	else
		value.kind = FP_VALUE_OTHER;
	return value;
}

// An element of eight bytes, by a register that counts them.
static struct fp_unwind_value scaled(struct fp_unwind_value value, uint64_t factor)
{
	if (value.kind != FP_VALUE_REGISTER || value.reg > FP_X86_R15 || value.offset != 0 ||
	    factor != 8)
		return (struct fp_unwind_value){ .kind = FP_VALUE_OTHER };
	return (struct fp_unwind_value){ .kind = FP_VALUE_SCALED, .index = (uint8_t)value.reg };
}

static void combine(struct evaluation *run, uint8_t op)
{
	struct fp_unwind_value right = pop(run), left = pop(run);

	if (op == DW_OP_plus)
		left = sum(left, right);
	else if (right.kind != FP_VALUE_NUMBER)
		left.kind = FP_VALUE_OTHER;
	else if (op == DW_OP_minus)
		left = add_number(left, -right.offset);
	else if (op == DW_OP_mul)
		left = scaled(left, right.offset);
	else
		left = slot_step(op, left, right.offset);
	push(run, left);
}

static void push_constant(struct evaluation *run, uint8_t op)
{
	static const uint8_t sizes[] = { 1, 1, 2, 2, 4, 4, 8, 8 }; // const1u const1s const2u …
	size_t size = sizes[op - DW_OP_const1u];
	bool is_signed = (op - DW_OP_const1u) % 2;

	push_number(run, is_signed ? (uint64_t)fp_cursor_signed(&run->code, size)
				   : fp_cursor_unsigned(&run->code, size));
}

static void step_named(struct evaluation *run, uint8_t op)
{
	switch (op) {
	case DW_OP_nop:
		break;
	case DW_OP_deref:
		load(run);
		break;
	case DW_OP_constu:
		push_number(run, fp_cursor_uleb(&run->code));
		break;
	case DW_OP_consts:
		push_number(run, (uint64_t)fp_cursor_sleb(&run->code));
		break;
	case DW_OP_bregx:
		push_register(run, fp_cursor_uleb(&run->code));
		break;
	case DW_OP_plus_uconst:
		push(run, add_number(pop(run), fp_cursor_uleb(&run->code)));
		break;
	case DW_OP_plus:
	case DW_OP_minus:
	case DW_OP_mul:
	case DW_OP_and:
	case DW_OP_ge:
	case DW_OP_shl:
		combine(run, op);
		break;
	default:
		run->failed = true;
	}
}

static void step(struct evaluation *run)
{
	uint8_t op = fp_cursor_byte(&run->code);

	if (op >= DW_OP_lit0 && op <= DW_OP_lit31)
		push_number(run, op - DW_OP_lit0);
	else if (op >= DW_OP_breg0 && op <= DW_OP_breg31)
		push_register(run, op - DW_OP_breg0);
	else if (op >= DW_OP_const1u && op <= DW_OP_const8s)
		push_constant(run, op);
	else
		step_named(run, op);
}

struct fp_unwind_value fp_unwind_expression(const uint8_t *bytes, size_t size, bool with_cfa)
{
	struct evaluation run = { .code = { bytes, bytes + size, false } };
	struct fp_unwind_value value;

	if (with_cfa)
		push(&run,
		     (struct fp_unwind_value){ .kind = FP_VALUE_REGISTER, .reg = FP_X86_CFA });
	while (run.code.at < run.code.end && !run.failed)
		step(&run);
	value = pop(&run);
	if (run.failed || run.code.over || value.kind >= FP_VALUE_ELEMENT)
		return (struct fp_unwind_value){ .kind = FP_VALUE_OTHER };
	return value;
}
