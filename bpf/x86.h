/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * x86: what a walk of user frames knows of x86-64, and the only header that does: registers by
 * their DWARF numbers (System V ABI, AMD64 supplement, figure 3.36), where code and stacks can
 * be, what lies at a frame pointer and below a canonical frame address, and the registers that a
 * signal's frame holds.
 * Pure logic: also compiled natively by the tests.
 */
#ifndef FLEETPROF_X86_H
#define FLEETPROF_X86_H

#include "bpf/abi.h"

#define FP_USER_LOW  0x1000ULL		   /* below: never code or stack (vm.mmap_min_addr) */
#define FP_USER_HIGH 0x00fffffffffff000ULL /* above: not user space, also with 5-level paging */

enum fp_register {
	FP_RAX,
	FP_RDX,
	FP_RCX,
	FP_RBX,
	FP_RSI,
	FP_RDI,
	FP_RBP,
	FP_RSP,
	FP_R8,
	FP_R9,
	FP_R10,
	FP_R11,
	FP_R12,
	FP_R13,
	FP_R14,
	FP_R15,
	FP_REGISTERS
};

/* At a frame pointer lie the caller's frame pointer and the return address, and so they do at
 * this distance from the canonical frame address, which is the caller's stack pointer. */
enum { FP_PAIR_SAVED, FP_PAIR_RETURN, FP_PAIR_LEN };
#define FP_PAIR_BYTES (FP_PAIR_LEN * sizeof(fp_u64))

/*
 * The registers in a signal's frame: struct sigcontext of the kernel's
 * arch/x86/include/uapi/asm/sigcontext.h, up to the instruction pointer. In struct ucontext it
 * lies behind flags, link and stack (asm-generic/ucontext.h).
 */
#define FP_SIGNAL_CONTEXT_AT 40
struct fp_signal_context {
	fp_u64 r8, r9, r10, r11, r12, r13, r14, r15;
	fp_u64 rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip;
};

/* All registers of a structure with the kernel's names for them (struct pt_regs). */
#define FP_COPY_REGISTERS(to, regs)                                                                \
	do {                                                                                       \
		(to)[FP_RAX] = (regs)->ax;                                                         \
		(to)[FP_RDX] = (regs)->dx;                                                         \
		(to)[FP_RCX] = (regs)->cx;                                                         \
		(to)[FP_RBX] = (regs)->bx;                                                         \
		(to)[FP_RSI] = (regs)->si;                                                         \
		(to)[FP_RDI] = (regs)->di;                                                         \
		(to)[FP_RBP] = (regs)->bp;                                                         \
		(to)[FP_RSP] = (regs)->sp;                                                         \
		(to)[FP_R8] = (regs)->r8;                                                          \
		(to)[FP_R9] = (regs)->r9;                                                          \
		(to)[FP_R10] = (regs)->r10;                                                        \
		(to)[FP_R11] = (regs)->r11;                                                        \
		(to)[FP_R12] = (regs)->r12;                                                        \
		(to)[FP_R13] = (regs)->r13;                                                        \
		(to)[FP_R14] = (regs)->r14;                                                        \
		(to)[FP_R15] = (regs)->r15;                                                        \
	} while (0)

static inline __attribute__((always_inline)) void
fp_signal_registers(const struct fp_signal_context *context, fp_u64 ret[FP_REGISTERS])
{
	ret[FP_RAX] = context->rax;
	ret[FP_RDX] = context->rdx;
	ret[FP_RCX] = context->rcx;
	ret[FP_RBX] = context->rbx;
	ret[FP_RSI] = context->rsi;
	ret[FP_RDI] = context->rdi;
	ret[FP_RBP] = context->rbp;
	ret[FP_RSP] = context->rsp;
	ret[FP_R8] = context->r8;
	ret[FP_R9] = context->r9;
	ret[FP_R10] = context->r10;
	ret[FP_R11] = context->r11;
	ret[FP_R12] = context->r12;
	ret[FP_R13] = context->r13;
	ret[FP_R14] = context->r14;
	ret[FP_R15] = context->r15;
}

/* Whether it can be an address of user code or memory. */
static inline __attribute__((always_inline)) int fp_user_address(fp_u64 address)
{
	return address >= FP_USER_LOW && address <= FP_USER_HIGH;
}

/* Whether it can be where a frame lies: aligned as the ABI has it. */
static inline __attribute__((always_inline)) int fp_frame_address(fp_u64 address)
{
	return !(address & 7) && fp_user_address(address);
}

#endif
