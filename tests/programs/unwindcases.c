// SPDX-License-Identifier: Apache-2.0
//
// unwindcases: functions of no code to speak of, with all the call frame information that
// assemblers write and people ask them for. Never run: what becomes of it is compared with what
// libdw makes of it, in .eh_frame and, with UNWIND_SECTION, in .debug_frame.
#ifndef UNWIND_SECTION
#define UNWIND_SECTION ".eh_frame"
#endif

// clang-format off
#define FUNCTION(name, body) __asm__(                                                              \
	".cfi_sections " UNWIND_SECTION "\n"                                                       \
	".text\n.p2align 4\n.globl " #name "\n.type " #name ", @function\n" #name ":\n"            \
	".cfi_startproc\n" body ".cfi_endproc\n.size " #name ", . - " #name "\n")
#define CODE "nop\nnop\nnop\n"

FUNCTION(no_frame, CODE);

FUNCTION(frame_pointer,
	 CODE ".cfi_def_cfa_offset 16\n.cfi_offset %rbp, -16\n"
	 CODE ".cfi_def_cfa_register %rbp\n"
	 CODE ".cfi_remember_state\n"
	 CODE ".cfi_def_cfa %rsp, 8\n.cfi_restore %rbp\n"
	 CODE ".cfi_restore_state\n" CODE);

FUNCTION(pushes,
	 CODE ".cfi_adjust_cfa_offset 8\n.cfi_rel_offset %rbp, 0\n"
	 CODE ".cfi_adjust_cfa_offset 8\n.cfi_rel_offset %rbx, 0\n"
	 CODE ".cfi_adjust_cfa_offset 200\n"
	 CODE ".cfi_adjust_cfa_offset -200\n"
	 CODE ".cfi_adjust_cfa_offset -8\n.cfi_restore %rbx\n"
	 CODE ".cfi_adjust_cfa_offset -8\n.cfi_restore %rbp\n" CODE);

FUNCTION(large_frame,
	 CODE ".cfi_def_cfa_offset 1000016\n.cfi_offset %rbp, -16\n.cfi_offset %rbx, -1000000\n"
	 ".skip 300, 0x90\n.cfi_def_cfa_offset 8\n"
	 ".skip 70000, 0x90\n.cfi_def_cfa_offset 16\n" CODE);

FUNCTION(by_other_registers,
	 CODE ".cfi_def_cfa %rax, 8\n"
	 CODE ".cfi_def_cfa_register %rbx\n"
	 CODE ".cfi_def_cfa %r15, -24\n"
	 CODE ".cfi_def_cfa %r10, 0\n" CODE);

FUNCTION(outermost, CODE ".cfi_undefined %rip\n" CODE);

FUNCTION(return_in_register, // as vfork keeps it
	 CODE ".cfi_adjust_cfa_offset -8\n.cfi_register %rip, %rdi\n"
	 CODE ".cfi_adjust_cfa_offset 8\n.cfi_offset %rip, -8\n" CODE);

FUNCTION(registers_in_registers,
	 CODE ".cfi_register %rbp, %r8\n"
	 CODE ".cfi_same_value %rbp\n"
	 CODE ".cfi_undefined %rbp\n"
	 CODE ".cfi_val_offset %rbx, 0\n"
	 CODE ".cfi_restore %rbp\n.cfi_restore %rbx\n" CODE);

FUNCTION(other_stack_pointer,
	 CODE ".cfi_register %rsp, %r8\n"
	 CODE ".cfi_val_offset %rsp, 0\n"
	 CODE ".cfi_val_offset %rsp, 16\n" CODE);

FUNCTION(realigned, // gcc: lea 8(%rsp), %r10; and $-32, %rsp; …
	 CODE ".cfi_def_cfa %r10, 0\n"
	 CODE ".cfi_escape 0x10, 6, 2, 0x76, 0\n"			   // rbp at rbp + 0
	 CODE ".cfi_escape 0x0f, 3, 0x76, 0x78, 6\n.cfi_escape 0x10, 3, 2, 0x76, 0x70\n"
	 CODE ".cfi_def_cfa %r10, 0\n"
	 CODE ".cfi_def_cfa %rsp, 8\n" CODE);

FUNCTION(saved_stack_pointer, // OpenSSL: *(rsp + 40) + 56
	 CODE ".cfi_def_cfa_register %rax\n"
	 CODE ".cfi_escape 0x0f, 5, 0x77, 40, 6, 0x23, 56\n.cfi_offset %rbp, -16\n"
	 CODE ".cfi_escape 0x0f, 4, 0x77, 0x78, 6, 0x96\n"
	 CODE ".cfi_escape 0x0f, 5, 0x76, 0xd8, 0, 6, 0x96\n"
	 CODE ".cfi_escape 0x0f, 9, 0x77, 8, 0x79, 0, 0x38, 0x1e, 0x22, 6, 0x96\n"
	 CODE ".cfi_def_cfa %rsp, 8\n" CODE);

FUNCTION(slots, // rsp + 8 + ((rip & 15) >= 11) << 3, and with 9
	 ".cfi_escape 0x0f, 11, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22\n"
	 ".skip 32, 0x90\n"
	 ".cfi_escape 0x0f, 11, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x39, 0x2a, 0x33, 0x24, 0x22\n"
	 ".skip 32, 0x90\n");

FUNCTION(signal_trampoline,
	 ".cfi_signal_frame\n"
	 ".cfi_escape 0x0f, 4, 0x77, 0xa0, 1, 6\n"	// the CFA: *(rsp + 160)
	 ".cfi_escape 0x10, 6, 3, 0x77, 0xf8, 0\n"	// rbp at rsp + 120
	 ".cfi_escape 0x10, 3, 3, 0x77, 0x80, 1\n"	// rbx at rsp + 128
	 ".cfi_escape 0x10, 7, 3, 0x77, 0xa0, 1\n"	// rsp at rsp + 160
	 ".cfi_escape 0x10, 16, 3, 0x77, 0xa8, 1\n"	// rip at rsp + 168
	 CODE);

FUNCTION(odd_places, // spelled as no compiler does, and yet to be understood
	 CODE ".cfi_escape 0x10, 6, 2, 0x23, 16\n"	// rbp at CFA + 16
	 CODE ".cfi_escape 0x10, 6, 2, 0x77, 24\n"	// at rsp + 24
	 CODE ".cfi_escape 0x16, 6, 2, 0x76, 0\n"	// is rbp
	 CODE ".cfi_escape 0x16, 6, 2, 0x76, 8\n"	// is rbp + 8: cannot be said
	 CODE ".cfi_escape 0x10, 16, 2, 0x77, 0\n"	// the return address at rsp
	 CODE ".cfi_offset %rip, -8\n"
	 CODE ".cfi_escape 0x2e, 24\n"			// GNU_args_size
	 CODE ".cfi_escape 0x2f, 6, 2\n"		// GNU_negative_offset_extended
	 CODE ".cfi_escape 0x13, 0x7e\n"		// def_cfa_offset_sf -2
	 CODE ".cfi_escape 0x12, 6, 0x7d\n"		// def_cfa_sf rbp, -3
	 CODE ".cfi_escape 0x11, 3, 0x7c\n"		// offset_extended_sf rbx, -4
	 CODE ".cfi_escape 0x15, 3, 0x7c\n" CODE);	// val_offset_sf rbx, -4
