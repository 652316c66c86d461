/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * unwind: one step from a frame to its caller, by what the unwind tables say of the code, and by
 * frame pointer where they say nothing. bpf/unwindlookup.h finds the rule; here it gives the
 * caller's registers.
 *
 * Nothing that a table or a stack holds can make a step loop, and user memory is read by a helper
 * that fails. A wrong table makes wrong frames, which is why the agent checks tables before it loads
 * them.
 * Pure logic: also compiled natively by the tests.
 */
#ifndef FLEETPROF_UNWIND_H
#define FLEETPROF_UNWIND_H

#include "bpf/unwindlookup.h"

static inline __attribute__((always_inline)) long fp_unwind_cannot(struct fp_walk *walk,
								   fp_u32 reason)
{
	walk->cannot = reason < FP_UNWIND_CANNOT_COUNT ? reason : FP_UNWIND_CANNOT_MALFORMED;
	return fp_walk_ends(walk, FP_WALK_END_CANNOT);
}

/* The value of a register in the frame. */
static inline __attribute__((always_inline)) long
fp_unwind_register(struct fp_walk *walk, fp_u32 number, const struct fp_reader *reader, fp_u64 *ret)
{
	fp_u64 index = number;

	if (number >= FP_REGISTERS || !(walk->known >> number & 1))
		return fp_unwind_cannot(walk, FP_UNWIND_CANNOT_REGISTER);
	if (number == FP_RBP && fp_walk_fetch(walk, FP_RBP, &walk->frame_pointer_at, reader))
		return 1;
	if (number == FP_RBX && fp_walk_fetch(walk, FP_RBX, &walk->rbx_at, reader))
		return 1;
	FP_UNWIND_MASK(index, 15);
	*ret = walk->registers[index];
	return 0;
}

/* The canonical frame address, which is the caller's stack pointer. */
static inline __attribute__((always_inline)) long fp_unwind_cfa(struct fp_walk *walk,
								const struct fp_unwind_rule *rule,
								const struct fp_reader *reader,
								fp_u64 *ret)
{
	fp_u32 kind = rule->cfa, number = FP_RSP;
	fp_u64 value, index = 0;

	if (kind == FP_UNWIND_RBP || kind == FP_UNWIND_RBP_DEREF)
		number = FP_RBP;
	if (kind == FP_UNWIND_REGISTER)
		number = rule->reg;
	if (fp_unwind_register(walk, number, reader, &value))
		return 1;
	if (kind == FP_UNWIND_INDEXED && fp_unwind_register(walk, rule->reg, reader, &index))
		return 1;
	value += (fp_u64)(fp_i64)rule->offset + 8 * index;
	if (kind == FP_UNWIND_RSP_DEREF || kind == FP_UNWIND_RBP_DEREF ||
	    kind == FP_UNWIND_INDEXED) {
		if (FP_READ_USER(reader, &value, sizeof(value), value))
			return fp_walk_ends(walk, FP_WALK_END_FAULT);
		value += (fp_u64)(fp_i64)rule->add;
	}
	if (kind == FP_UNWIND_PLT && (walk->ip & 15) >= (fp_u32)rule->add)
		value += 8;
	/* The stack of a caller lies above. Code that has just begun may have switched it. */
	if (!fp_frame_address(value) || (!walk->exact && value <= walk->registers[FP_RSP]))
		return fp_walk_ends(walk, FP_WALK_END_ASTRAY);
	*ret = value;
	return 0;
}

/* Where a register of the caller is: `at` becomes its place, or stays when it is untouched. */
static inline __attribute__((always_inline)) void
fp_unwind_saved(struct fp_walk *walk, fp_u32 kind, fp_u32 number, fp_u64 *at, fp_u64 place)
{
	if (kind == FP_UNWIND_LOST)
		walk->known &= ~(1 << number);
	if (kind == FP_UNWIND_AT_CFA || kind == FP_UNWIND_AT_RBP) {
		walk->known |= 1 << number;
		*at = place;
	}
}

/*
 * Registers that a function keeps for its caller, and perhaps has changed by now: where, tables do
 * not say. Any other that code relies on across a call is not touched by what it calls:
 * OpenSSL's AES-GCM has its stack pointer in rax and calls helpers of its own.
 */
#define FP_UNWIND_UNTRACKED (1 << 12 | 1 << 13 | 1 << 14 | 1 << 15) /* r12 to r15 */

/* What the caller's registers are, given its stack pointer: in memory mostly, from where they are
 * read when they are needed. */
static inline __attribute__((always_inline)) long
fp_unwind_restore(struct fp_walk *walk, const struct fp_unwind_rule *rule, fp_u64 cfa,
		  const struct fp_reader *reader)
{
	fp_u32 rbp = rule->saved & 3, rbx = rule->saved >> 2 & 3;
	fp_u64 rbp_base = cfa, rbx_base = cfa, frame = 0;

	if (rbp == FP_UNWIND_AT_RBP || rbx == FP_UNWIND_AT_RBP) {
		if (fp_unwind_register(walk, FP_RBP, reader, &frame))
			return 1;
		rbp_base = rbp == FP_UNWIND_AT_RBP ? frame : cfa;
		rbx_base = rbx == FP_UNWIND_AT_RBP ? frame : cfa;
	}
	fp_unwind_saved(walk, rbp, FP_RBP, &walk->frame_pointer_at,
			rbp_base + (fp_u64)(fp_i64)rule->rbp_at);
	fp_unwind_saved(walk, rbx, FP_RBX, &walk->rbx_at, rbx_base + (fp_u64)(fp_i64)rule->rbx_at);
	walk->known &= ~FP_UNWIND_UNTRACKED;
	walk->known |= 1 << FP_RSP;
	walk->registers[FP_RSP] = cfa;
	return 0;
}

/* The return address; with it comes the frame pointer where that lies beside it. */
static inline __attribute__((always_inline)) long
fp_unwind_return(struct fp_walk *walk, const struct fp_unwind_rule *rule, fp_u64 cfa,
		 const struct fp_reader *reader, fp_u64 *ret)
{
	fp_u64 pair[FP_PAIR_LEN];

	if (rule->return_reg != FP_UNWIND_RETURN_AT_CFA) {
		if (fp_unwind_register(walk, rule->return_reg, reader, ret))
			return 1;
		return fp_unwind_restore(walk, rule, cfa, reader);
	}
	if ((rule->saved & 3) != FP_UNWIND_AT_CFA || rule->rbp_at != -(fp_i32)sizeof(pair)) {
		if (FP_READ_USER(reader, ret, sizeof(*ret), cfa - sizeof(*ret)))
			return fp_walk_ends(walk, FP_WALK_END_FAULT);
		return fp_unwind_restore(walk, rule, cfa, reader);
	}
	if (FP_READ_USER(reader, pair, sizeof(pair), cfa - sizeof(pair)))
		return fp_walk_ends(walk, FP_WALK_END_FAULT);
	if (fp_unwind_restore(walk, rule, cfa, reader))
		return 1;
	walk->registers[FP_RBP] = pair[FP_PAIR_SAVED];
	walk->frame_pointer_at = 0;
	*ret = pair[FP_PAIR_RETURN];
	return 0;
}

/* From a signal's frame to what it interrupted, all of whose registers are there. Its stack may be
 * another one. */
static inline __attribute__((always_inline)) long
fp_unwind_signal(struct fp_walk *walk, fp_u64 *frames, fp_u32 index,
		 const struct fp_unwind_rule *rule, const struct fp_reader *reader)
{
	fp_u64 at = walk->registers[FP_RSP] + (fp_u64)(fp_i64)rule->offset + FP_SIGNAL_CONTEXT_AT;

	if (FP_READ_USER(reader, &walk->context, sizeof(walk->context), at))
		return fp_walk_ends(walk, FP_WALK_END_FAULT);
	if (!fp_user_address(walk->context.rip) || !fp_user_address(walk->context.rsp))
		return fp_walk_ends(walk, FP_WALK_END_ASTRAY);
	fp_signal_registers(&walk->context, walk->registers);
	walk->frame_pointer_at = walk->rbx_at = 0;
	walk->known = (1 << FP_REGISTERS) - 1;
	fp_walk_take(walk, frames, index, walk->context.rip + 1);
	walk->ip = walk->context.rip;
	walk->exact = 1;
	return 0;
}

static inline __attribute__((always_inline)) long
fp_unwind_by_rule(struct fp_walk *walk, fp_u64 *frames, fp_u32 index,
		  const struct fp_unwind_rule *rule, const struct fp_reader *reader)
{
	fp_u64 cfa, caller;

	if (fp_unwind_cfa(walk, rule, reader, &cfa) ||
	    fp_unwind_return(walk, rule, cfa, reader, &caller))
		return 1;
	/* Who has nobody to return to: Go's goexit and the threads of its runtime, coroutines. */
	if (!fp_user_address(caller))
		return fp_walk_ends(walk, caller ? FP_WALK_END_ASTRAY : FP_WALK_END_ROOT);
	fp_walk_take(walk, frames, index, caller);
	return 0;
}

/*
 * Takes step `index` (0, 1, 2, …), which fills slot first + index. Returns 0 to go on, 1 when the
 * step could not be taken and walk->end says why.
 */
static inline __attribute__((always_inline)) long
fp_unwind_step(struct fp_walk *walk, fp_u64 *frames, fp_u32 index, const struct fp_reader *reader)
{
	const struct fp_unwind_rule *rule = (void *)0;
	long over;

	if (FP_UNWIND_TABLES)
		rule = fp_unwind_find(walk, walk->ip - !walk->exact);
	if (!rule || rule->cfa == FP_UNWIND_GAP)
		return fp_walk_by_pointer(walk, frames, index, reader);
	if (rule->cfa == FP_UNWIND_END)
		return fp_walk_ends(walk, FP_WALK_END_OUTERMOST);
	if (rule->cfa == FP_UNWIND_CANNOT || rule->cfa >= FP_UNWIND_CFA_COUNT)
		return fp_unwind_cannot(walk, rule->cfa == FP_UNWIND_CANNOT
						  ? (fp_u32)rule->add
						  : FP_UNWIND_CANNOT_MALFORMED);
	walk->last_frame = 0;
	if (rule->cfa == FP_UNWIND_SIGNAL)
		over = fp_unwind_signal(walk, frames, index, rule, reader);
	else
		over = fp_unwind_by_rule(walk, frames, index, rule, reader);
	walk->by_table += !over;
	return over;
}

#endif
