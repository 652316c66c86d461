// SPDX-License-Identifier: Apache-2.0
//
// unwindexpr: what a DWARF expression of call frame information comes to, when it is one of the
// few forms that toolchains emit. It is evaluated once, when it is read, over values that name
// their register instead of holding a number: so `breg7 40, deref, plus_uconst 56` is the value
// *(rsp + 40) + 56, however it is spelled.
// Trust: the bytes are foreign. Threads: no state.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// DWARF numbers of x86-64 registers: System V ABI, AMD64 supplement, figure 3.36.
enum fp_x86_register {
	FP_X86_RBX = 3,
	FP_X86_RBP = 6,
	FP_X86_RSP = 7,
	FP_X86_R15 = 15, // the last of the general ones
	FP_X86_RETURN = 16,
	FP_X86_CFA = 0xffff, // of ours: the CFA, which register expressions find on their stack
};

enum fp_unwind_value_kind {
	FP_VALUE_OTHER,	   // of no form that is known here
	FP_VALUE_NUMBER,   // offset
	FP_VALUE_REGISTER, // reg + offset
	FP_VALUE_MEMORY,   // *(reg + offset) + add
	FP_VALUE_PLT,	   // rsp + offset + ((rip & 15) >= add ? 8 : 0)
	FP_VALUE_INDEXED,  // *(reg + 8 * index + offset) + add
	// On the way to these two:
	FP_VALUE_ELEMENT, // reg + 8 * index + offset
	FP_VALUE_SCALED,  // 8 * index
	FP_VALUE_SLOT,	  // rip & 15
	FP_VALUE_IN_SLOT, // (rip & 15) >= add
	FP_VALUE_PUSHED,  // 8 where that holds
};

struct fp_unwind_value {
	uint8_t kind;	      // enum fp_unwind_value_kind
	uint8_t index;	      // of the general registers
	uint16_t reg;	      // enum fp_x86_register
	uint64_t offset, add; // modulo 2^64, as addresses are
};

// with_cfa: the CFA is on the stack already, as for all registers' expressions (DWARF 5, 6.4.2.3).
struct fp_unwind_value fp_unwind_expression(const uint8_t *bytes, size_t size, bool with_cfa);
