// SPDX-License-Identifier: Apache-2.0
#include "unwind_callers.h"

#include "common/cleanup.h"

#include <dwarf.h>

uint64_t callers_mix(uint64_t x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ x >> 27) * 0x94d049bb133111ebULL;
	return x ^ x >> 31;
}

static uint64_t load(const struct machine *machine, uint64_t address)
{
	return callers_mix(address ^ machine->seed);
}

struct machine callers_machine(uint64_t address, uint64_t state)
{
	struct machine machine = { .seed = callers_mix(state + 1) };

	for (uint64_t i = 0; i < REGISTERS; i++)
		machine.regs[i] = callers_mix(address * 64 + state * 32 + i);
	machine.regs[RIP] = address;
	return machine;
}

// ---- what libdw says ----

struct stack {
	uint64_t values[64];
	size_t depth;
	bool failed, is_register, is_value;
};

static void push(struct stack *stack, uint64_t value)
{
	if (stack->depth < FP_ARRAY_SIZE(stack->values))
		stack->values[stack->depth++] = value;
	else
		stack->failed = true;
}

static uint64_t pop(struct stack *stack)
{
	if (stack->depth > 0)
		return stack->values[--stack->depth];
	stack->failed = true;
	return 0;
}

static uint64_t reg_of(struct stack *stack, const struct machine *machine, uint64_t reg)
{
	if (reg < REGISTERS)
		return machine->regs[reg];
	stack->failed = true;
	return 0;
}

static void calculate(struct stack *stack, uint8_t atom)
{
	uint64_t b = pop(stack), a = pop(stack);

	switch (atom) {
	case DW_OP_plus:
		push(stack, a + b);
		break;
	case DW_OP_minus:
		push(stack, a - b);
		break;
	case DW_OP_mul:
		push(stack, a * b);
		break;
	case DW_OP_and:
		push(stack, a & b);
		break;
	case DW_OP_ge:
		push(stack, (int64_t)a >= (int64_t)b);
		break;
	case DW_OP_shl:
		push(stack, b < 64 ? a << b : 0);
		break;
	default:
		stack->failed = true;
	}
}

static void step_other(struct stack *stack, const Dwarf_Op *op, const struct machine *machine,
		       uint64_t cfa)
{
	switch (op->atom) {
	case DW_OP_call_frame_cfa:
		push(stack, cfa);
		break;
	case DW_OP_bregx:
		push(stack, reg_of(stack, machine, op->number) + op->number2);
		break;
	case DW_OP_regx:
		push(stack, reg_of(stack, machine, op->number));
		stack->is_register = true;
		break;
	case DW_OP_plus_uconst:
		push(stack, pop(stack) + op->number);
		break;
	case DW_OP_deref:
		push(stack, load(machine, pop(stack)));
		break;
	case DW_OP_stack_value:
		stack->is_value = true;
		break;
	case DW_OP_nop:
		break;
	default:
		calculate(stack, op->atom);
	}
}

static void step(struct stack *stack, const Dwarf_Op *op, const struct machine *machine,
		 uint64_t cfa)
{
	if (op->atom >= DW_OP_lit0 && op->atom <= DW_OP_lit31)
		push(stack, op->atom - DW_OP_lit0);
	else if (op->atom >= DW_OP_breg0 && op->atom <= DW_OP_breg31)
		push(stack, reg_of(stack, machine, op->atom - DW_OP_breg0) + op->number);
	else if (op->atom >= DW_OP_const1u && op->atom <= DW_OP_consts)
		push(stack, op->number);
	else if (op->atom >= DW_OP_reg0 && op->atom <= DW_OP_reg31) {
		push(stack, reg_of(stack, machine, op->atom - DW_OP_reg0));
		stack->is_register = true;
	} else
		step_other(stack, op, machine, cfa);
}

// is_place: the result is where the value lies, unless the operations say otherwise.
static struct said evaluate(const Dwarf_Op *ops, size_t count, const struct machine *machine,
			    uint64_t cfa, bool is_place)
{
	struct stack stack = { .failed = count == 0 };
	uint64_t value;

	for (size_t i = 0; i < count && !stack.failed; i++)
		step(&stack, &ops[i], machine, cfa);
	value = pop(&stack);
	if (stack.failed)
		return (struct said){ .what = NOT_SAID };
	if (is_place && !stack.is_register && !stack.is_value)
		value = load(machine, value);
	return (struct said){ KNOWN, value };
}

static struct said register_by_libdw(Dwarf_Frame *frame, int reg, const struct machine *machine,
				     uint64_t cfa)
{
	Dwarf_Op memory[3], *ops;
	size_t count;

	if (dwarf_frame_register(frame, reg, memory, &ops, &count) != 0)
		return (struct said){ .what = NOT_SAID };
	if (count == 0 && ops == memory)
		return (struct said){ .what = UNDEFINED };
	if (count == 0)
		return (struct said){ KNOWN, machine->regs[reg] };
	return evaluate(ops, count, machine, cfa, true);
}

struct caller callers_by_libdw(Dwarf_Frame *frame, const struct machine *machine)
{
	struct caller caller = { 0 };
	Dwarf_Op *ops;
	size_t count;

	caller.cfa.what = NOT_SAID;
	if (dwarf_frame_cfa(frame, &ops, &count) == 0)
		caller.cfa = evaluate(ops, count, machine, 0, false);
	caller.rip = register_by_libdw(frame, RIP, machine, caller.cfa.value);
	caller.rbp = register_by_libdw(frame, RBP, machine, caller.cfa.value);
	caller.rbx = register_by_libdw(frame, RBX, machine, caller.cfa.value);
	return caller;
}

// ---- what the table says ----

static struct said saved(const struct machine *machine, uint64_t cfa, unsigned int where, int reg,
			 int at)
{
	switch (where) {
	case FP_UNWIND_SAME:
		return (struct said){ KNOWN, machine->regs[reg] };
	case FP_UNWIND_AT_CFA:
		return (struct said){ KNOWN, load(machine, cfa + (uint64_t)(int64_t)at) };
	case FP_UNWIND_AT_RBP:
		return (struct said){ KNOWN,
				      load(machine, machine->regs[RBP] + (uint64_t)(int64_t)at) };
	default:
		return (struct said){ .what = NOT_SAID };
	}
}

static uint64_t cfa_by_rule(const struct fp_unwind_rule *rule, const struct machine *machine)
{
	uint64_t offset = (uint64_t)(int64_t)rule->offset, add = (uint64_t)(int64_t)rule->add;
	const uint64_t *regs = machine->regs;

	switch (rule->cfa) {
	case FP_UNWIND_RSP:
		return regs[RSP] + offset;
	case FP_UNWIND_RBP:
		return regs[RBP] + offset;
	case FP_UNWIND_REGISTER:
		return regs[rule->reg] + offset;
	case FP_UNWIND_RSP_DEREF:
		return load(machine, regs[RSP] + offset) + add;
	case FP_UNWIND_RBP_DEREF:
		return load(machine, regs[RBP] + offset) + add;
	case FP_UNWIND_INDEXED:
		return load(machine, regs[RSP] + 8 * regs[rule->reg] + offset) + add;
	default: // FP_UNWIND_PLT
		return regs[RSP] + offset + ((regs[RIP] & 15) >= add ? 8 : 0);
	}
}

// <sys/ucontext.h>: uc_mcontext.gregs begins at 40; RBP is the 10th, RBX the 11th, RSP the 15th.
static struct caller caller_of_signal(const struct fp_unwind_rule *rule,
				      const struct machine *machine)
{
	uint64_t context = machine->regs[RSP] + (uint64_t)(int64_t)rule->offset;

	return (struct caller){ .cfa = { KNOWN, load(machine, context + 40 + 8 * 15) },
				.rip = { KNOWN, load(machine, context + 40 + 8 * 16) },
				.rbp = { KNOWN, load(machine, context + 40 + 8 * 10) },
				.rbx = { KNOWN, load(machine, context + 40 + 8 * 11) } };
}

struct caller callers_by_rule(const struct fp_unwind_rule *rule, const struct machine *machine)
{
	struct caller caller = { 0 };
	uint64_t cfa;

	if (rule->cfa == FP_UNWIND_SIGNAL)
		return caller_of_signal(rule, machine);
	cfa = cfa_by_rule(rule, machine);
	caller.cfa = (struct said){ KNOWN, cfa };
	caller.rip = (struct said){ KNOWN, rule->return_reg == FP_UNWIND_RETURN_AT_CFA
					       ? load(machine, cfa - 8)
					       : machine->regs[rule->return_reg] };
	caller.rbp = saved(machine, cfa, rule->saved & 3, RBP, rule->rbp_at);
	caller.rbx = saved(machine, cfa, rule->saved >> 2, RBX, rule->rbx_at);
	return caller;
}
