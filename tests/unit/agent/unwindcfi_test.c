// SPDX-License-Identifier: Apache-2.0
// Programs of call frame information, instruction by instruction, and the rules they come to. Each
// case is one entry at offset 0x1000 of the file, 0x40 bytes long.
#include "unwind_sections.h"

#include <dwarf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define ADVANCE(n)  DW_CFA_advance_loc | (n)
#define OFFSET(r)   DW_CFA_offset | (r)
#define RESTORE(r)  DW_CFA_restore | (r)
#define PROGRAM_MAX 200
#define ROWS_MAX    8

// The rules that cases come to: what is not named is 0.
#define AT_CFA	     .return_reg = FP_UNWIND_RETURN_AT_CFA
#define RSP_(n)	     .cfa = FP_UNWIND_RSP, AT_CFA, .offset = (n)
#define RBP_(n)	     .cfa = FP_UNWIND_RBP, AT_CFA, .offset = (n)
#define REG_(r, n)   .cfa = FP_UNWIND_REGISTER, AT_CFA, .reg = (r), .offset = (n)
#define RBP_SAVED(n) .saved = FP_UNWIND_AT_CFA, .rbp_at = (n)
#define RBX_SAVED(n) .saved = FP_UNWIND_AT_CFA << 2, .rbx_at = (n)
#define CANNOT(why)  .cfa = FP_UNWIND_CANNOT, .add = FP_UNWIND_CANNOT_##why
#define END_	     .cfa = FP_UNWIND_END
#define GAP_	     .cfa = FP_UNWIND_GAP

struct row {
	uint32_t offset; // from the entry's start
	struct fp_unwind_rule rule;
};

struct program_case {
	const char *sentence;
	uint8_t program[PROGRAM_MAX];
	size_t size;
	struct row rows[ROWS_MAX]; // without the gap at the end
	size_t count;
};

#define PROGRAM(...) .program = { __VA_ARGS__ }, .size = sizeof((const uint8_t[]){ __VA_ARGS__ })
#define ROWS(...)                                                                                  \
	.rows = { __VA_ARGS__ },                                                                   \
	.count = sizeof((const struct row[]){ __VA_ARGS__ }) / sizeof(struct row)
#define BREG(r) DW_OP_breg0 + (r)
#define S(n)	((n)&0x7f) // one byte of SLEB128

static const struct program_case cases[] = {
	{ "an entry without instructions has the common one's rules", PROGRAM(DW_CFA_nop),
	  ROWS({ 0, { RSP_(8) } }) },
	{ "a prologue with a frame pointer, and its epilogue",
	  PROGRAM(ADVANCE(1), DW_CFA_def_cfa_offset, 16, OFFSET(6), 2, ADVANCE(3),
		  DW_CFA_def_cfa_register, 6, ADVANCE(40), DW_CFA_def_cfa, 7, 8, RESTORE(6)),
	  ROWS({ 0, { RSP_(8) } }, { 1, { RSP_(16), RBP_SAVED(-16) } },
	       { 4, { RBP_(16), RBP_SAVED(-16) } }, { 44, { RSP_(8) } }) },
	{ "advance_loc1, 2, 4 and MIPS_advance_loc8 read their width",
	  PROGRAM(DW_CFA_advance_loc1, 1, DW_CFA_def_cfa_offset, 16, DW_CFA_advance_loc2, 2, 0,
		  DW_CFA_def_cfa_offset, 24, DW_CFA_advance_loc4, 4, 0, 0, 0, DW_CFA_def_cfa_offset,
		  32, 0x1d, 8, 0, 0, 0, 0, 0, 0, 0, DW_CFA_def_cfa_offset, 40),
	  ROWS({ 0, { RSP_(8) } }, { 1, { RSP_(16) } }, { 3, { RSP_(24) } }, { 7, { RSP_(32) } },
	       { 15, { RSP_(40) } }) },
	{ "set_loc is an address",
	  PROGRAM(DW_CFA_set_loc, 0x10, 0x10, 0x40, 0, 0, 0, 0, 0, DW_CFA_def_cfa_offset, 16),
	  ROWS({ 0, { RSP_(8) } }, { 16, { RSP_(16) } }) },
	{ "set_loc does not go back",
	  PROGRAM(ADVANCE(4), DW_CFA_set_loc, 0x01, 0x10, 0x40, 0, 0, 0, 0, 0,
		  DW_CFA_def_cfa_offset, 16),
	  ROWS({ 0, { RSP_(8) } }, { 4, { CANNOT(MALFORMED) } }) },
	{ "what follows the entry's end does not count",
	  PROGRAM(ADVANCE(63), DW_CFA_def_cfa_offset, 16, ADVANCE(1), DW_CFA_def_cfa_offset, 24),
	  ROWS({ 0, { RSP_(8) } }, { 63, { RSP_(16) } }) },
	{ "an advance beyond all bounds ends at the end",
	  PROGRAM(DW_CFA_advance_loc4, 0xff, 0xff, 0xff, 0xff, DW_CFA_def_cfa_offset, 24),
	  ROWS({ 0, { RSP_(8) } }) },
	{ "an advance by nothing makes no row",
	  PROGRAM(DW_CFA_def_cfa_offset, 16, ADVANCE(0), DW_CFA_def_cfa_offset, 24),
	  ROWS({ 0, { RSP_(24) } }) },
	{ "rules that come to the same share a row",
	  PROGRAM(ADVANCE(1), OFFSET(12), 2, ADVANCE(1), OFFSET(13), 3, ADVANCE(1),
		  DW_CFA_def_cfa_offset, 8),
	  ROWS({ 0, { RSP_(8) } }) },
	{ "def_cfa_sf and def_cfa_offset_sf are factored and signed",
	  PROGRAM(DW_CFA_def_cfa_sf, 6, S(-3), ADVANCE(1), DW_CFA_def_cfa_offset_sf, S(2)),
	  ROWS({ 0, { RBP_(24) } }, { 1, { RBP_(-16) } }) },
	{ "the CFA may hang on any general register", PROGRAM(DW_CFA_def_cfa, 10, 0),
	  ROWS({ 0, { REG_(10, 0) } }) },
	{ "but not on a vector register, nor on rip",
	  PROGRAM(DW_CFA_def_cfa, 17, 0, ADVANCE(1), DW_CFA_def_cfa, 16, 0),
	  ROWS({ 0, { CANNOT(REGISTER) } }) },
	{ "a register of 2^64 - 1 is none",
	  PROGRAM(DW_CFA_def_cfa, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0),
	  ROWS({ 0, { CANNOT(REGISTER) } }) },
	{ "the CFA at an offset of more than 31 bits is refused",
	  PROGRAM(DW_CFA_def_cfa_offset, 0x80, 0x80, 0x80, 0x80, 8, ADVANCE(1),
		  DW_CFA_def_cfa_offset, 0xff, 0xff, 0xff, 0xff, 7),
	  ROWS({ 0, { CANNOT(RANGE) } }, { 1, { RSP_(0x7fffffff) } }) },
	{ "offset, offset_extended, their signed and negative forms, for rbx and rbp",
	  PROGRAM(OFFSET(3), 3, OFFSET(6), 2, ADVANCE(1), DW_CFA_offset_extended, 3, 4, ADVANCE(1),
		  DW_CFA_offset_extended_sf, 3, S(-5), ADVANCE(1),
		  DW_CFA_GNU_negative_offset_extended, 3, 6),
	  ROWS({ 0, { RSP_(8), .saved = 5, .rbp_at = -16, .rbx_at = -24 } },
	       { 1, { RSP_(8), .saved = 5, .rbp_at = -16, .rbx_at = -32 } },
	       { 2, { RSP_(8), .saved = 5, .rbp_at = -16, .rbx_at = 40 } },
	       { 3, { RSP_(8), .saved = 5, .rbp_at = -16, .rbx_at = 48 } }) },
	{ "a register saved too far off is lost, the frame is not",
	  PROGRAM(DW_CFA_offset_extended, 6, 0x80, 0x20, ADVANCE(1), DW_CFA_offset_extended, 6,
		  0x81, 0x20),
	  ROWS({ 0, { RSP_(8), RBP_SAVED(-32768) } },
	       { 1, { RSP_(8), .saved = FP_UNWIND_LOST } }) },
	{ "restore and restore_extended bring the common entry's rule back",
	  PROGRAM(OFFSET(3), 2, OFFSET(6), 3, ADVANCE(1), RESTORE(3), ADVANCE(1),
		  DW_CFA_restore_extended, 6),
	  ROWS({ 0, { RSP_(8), .saved = 5, .rbx_at = -16, .rbp_at = -24 } },
	       { 1, { RSP_(8), RBP_SAVED(-24) } }, { 2, { RSP_(8) } }) },
	{ "undefined, same_value, val_offset and register, of rbp",
	  PROGRAM(DW_CFA_undefined, 6, ADVANCE(1), DW_CFA_same_value, 6, ADVANCE(1),
		  DW_CFA_val_offset, 6, 2, ADVANCE(1), DW_CFA_register, 6, 6, ADVANCE(1),
		  DW_CFA_register, 6, 8, ADVANCE(1), DW_CFA_same_value, 6, ADVANCE(1),
		  DW_CFA_val_offset_sf, 6, S(2)),
	  ROWS({ 0, { RSP_(8), .saved = FP_UNWIND_LOST } }, { 1, { RSP_(8) } },
	       { 2, { RSP_(8), .saved = FP_UNWIND_LOST } }, { 3, { RSP_(8) } },
	       { 4, { RSP_(8), .saved = FP_UNWIND_LOST } }, { 5, { RSP_(8) } },
	       { 6, { RSP_(8), .saved = FP_UNWIND_LOST } }) },
	{ "remember_state and restore_state nest, and bring the CFA back as well",
	  PROGRAM(DW_CFA_remember_state, DW_CFA_def_cfa_offset, 16, OFFSET(6), 2, ADVANCE(1),
		  DW_CFA_remember_state, DW_CFA_def_cfa, 6, 16, ADVANCE(1), DW_CFA_restore_state,
		  ADVANCE(1), DW_CFA_restore_state),
	  ROWS({ 0, { RSP_(16), RBP_SAVED(-16) } }, { 1, { RBP_(16), RBP_SAVED(-16) } },
	       { 2, { RSP_(16), RBP_SAVED(-16) } }, { 3, { RSP_(8) } }) },
	{ "restore_state without a state is malformed", PROGRAM(ADVANCE(2), DW_CFA_restore_state),
	  ROWS({ 0, { RSP_(8) } }, { 2, { CANNOT(MALFORMED) } }) },
	{ "so are more remembered states than anybody nests",
	  PROGRAM(ADVANCE(1), DW_CFA_remember_state, DW_CFA_remember_state, DW_CFA_remember_state,
		  DW_CFA_remember_state, DW_CFA_remember_state, DW_CFA_remember_state,
		  DW_CFA_remember_state, DW_CFA_remember_state, DW_CFA_remember_state,
		  DW_CFA_remember_state, DW_CFA_remember_state, DW_CFA_remember_state,
		  DW_CFA_remember_state, DW_CFA_remember_state, DW_CFA_remember_state,
		  DW_CFA_remember_state, DW_CFA_remember_state),
	  ROWS({ 0, { RSP_(8) } }, { 1, { CANNOT(MALFORMED) } }) },
	{ "GNU_args_size says nothing of frames",
	  PROGRAM(DW_CFA_GNU_args_size, 0x90, 0x01, ADVANCE(1), DW_CFA_def_cfa_offset, 16),
	  ROWS({ 0, { RSP_(8) } }, { 1, { RSP_(16) } }) },
	{ "an instruction that is none is malformed", PROGRAM(ADVANCE(1), 0x3f),
	  ROWS({ 0, { RSP_(8) } }, { 1, { CANNOT(MALFORMED) } }) },
	{ "one of other machines too", PROGRAM(DW_CFA_GNU_window_save),
	  ROWS({ 0, { CANNOT(MALFORMED) } }) },
	{ "an instruction that is cut off is malformed",
	  PROGRAM(DW_CFA_nop, ADVANCE(1), DW_CFA_def_cfa_offset, 16, ADVANCE(2), DW_CFA_def_cfa,
		  7), // no room for padding
	  ROWS({ 0, { RSP_(8) } }, { 1, { RSP_(16) } }, { 3, { CANNOT(MALFORMED) } }) },
	{ "an expression that is cut off too",
	  PROGRAM(ADVANCE(1), DW_CFA_def_cfa_expression, 9, BREG(7), 8),
	  ROWS({ 0, { RSP_(8) } }, { 1, { CANNOT(MALFORMED) } }) },
	{ "half of a CFA's definition needs the other half",
	  PROGRAM(DW_CFA_def_cfa_expression, 2, BREG(7), 8, ADVANCE(1), DW_CFA_def_cfa_offset, 16),
	  ROWS({ 0, { RSP_(8) } }, { 1, { CANNOT(MALFORMED) } }) },

	{ "an undefined return address is the end, whatever the CFA",
	  PROGRAM(DW_CFA_undefined, 16, DW_CFA_def_cfa, 40, 0), ROWS({ 0, { END_ } }) },
	{ "a return address in a register", // vfork of glibc
	  PROGRAM(DW_CFA_def_cfa_offset, 0, DW_CFA_register, 16, 5),
	  ROWS({ 0, { .cfa = FP_UNWIND_RSP, .return_reg = 5 } }) },
	{ "not in a vector register", PROGRAM(DW_CFA_register, 16, 17),
	  ROWS({ 0, { CANNOT(RETURN_ADDRESS) } }) },
	{ "a return address that is elsewhere, computed or kept is refused",
	  PROGRAM(OFFSET(16), 2, ADVANCE(1), DW_CFA_def_cfa_offset, 16, ADVANCE(1),
		  DW_CFA_same_value, 16, ADVANCE(1), DW_CFA_val_offset, 16, 1, ADVANCE(1),
		  DW_CFA_val_expression, 16, 2, BREG(7), 0, ADVANCE(1), OFFSET(16), 1),
	  ROWS({ 0, { CANNOT(RETURN_ADDRESS) } }, { 5, { RSP_(16) } }) },
	{ "a return address by an expression that comes to CFA - 8",
	  PROGRAM(DW_CFA_def_cfa_offset, 24, DW_CFA_expression, 16, 2, BREG(7), 16, ADVANCE(1),
		  DW_CFA_expression, 16, 2, BREG(7), 8, ADVANCE(1), DW_CFA_expression, 16, 2,
		  DW_OP_lit8, DW_OP_minus),
	  ROWS({ 0, { RSP_(24) } }, { 1, { CANNOT(RETURN_ADDRESS) } }, { 2, { RSP_(24) } }) },
	{ "a caller's rsp that is not the CFA is refused",
	  PROGRAM(DW_CFA_val_offset, 7, 0, ADVANCE(1), DW_CFA_val_offset, 7, 1, ADVANCE(1),
		  DW_CFA_register, 7, 8, ADVANCE(1), DW_CFA_val_expression, 7, 2, BREG(7), 8),
	  ROWS({ 0, { RSP_(8) } }, { 1, { CANNOT(REGISTER) } }, { 3, { RSP_(8) } }) },

	{ "an expression of register and offset is a plain CFA",
	  PROGRAM(DW_CFA_def_cfa_expression, 2, BREG(6), 16, ADVANCE(1), DW_CFA_def_cfa_expression,
		  3, DW_OP_bregx, 7, 24),
	  ROWS({ 0, { RBP_(16) } }, { 1, { RSP_(24) } }) },
	{ "a stack that gcc has realigned", // DRAP
	  PROGRAM(DW_CFA_expression, 6, 2, BREG(6), 0, DW_CFA_def_cfa_expression, 3, BREG(6), S(-8),
		  DW_OP_deref, DW_CFA_expression, 3, 2, BREG(6), S(-24)),
	  ROWS({ 0,
		 { .cfa = FP_UNWIND_RBP_DEREF,
		   AT_CFA,
		   .offset = -8,
		   .saved = FP_UNWIND_AT_RBP | FP_UNWIND_AT_RBP << 2,
		   .rbp_at = 0,
		   .rbx_at = -24 } }) },
	{ "a stack pointer that OpenSSL has put on the stack",
	  PROGRAM(DW_CFA_def_cfa_expression, 6, BREG(7), S(40), 0x06, DW_OP_plus_uconst, 56,
		  DW_OP_nop, ADVANCE(1), DW_CFA_def_cfa_expression, 4, BREG(7), S(-8), 0x06,
		  DW_OP_nop, ADVANCE(1), DW_CFA_def_cfa_expression, 5, DW_OP_lit8, BREG(7), 16,
		  0x06, DW_OP_plus),
	  ROWS({ 0, { .cfa = FP_UNWIND_RSP_DEREF, AT_CFA, .offset = 40, .add = 56 } },
	       { 1, { .cfa = FP_UNWIND_RSP_DEREF, AT_CFA, .offset = -8 } },
	       { 2, { .cfa = FP_UNWIND_RSP_DEREF, AT_CFA, .offset = 16, .add = 8 } }) },
	{ "one that it has put behind an array there", // bn_mul_mont: *(rsp + 8 * r9 + 8) + 8
	  PROGRAM(DW_CFA_def_cfa_expression, 9, BREG(7), 8, BREG(9), 0, DW_OP_lit8, DW_OP_mul,
		  DW_OP_plus, 0x06, DW_OP_nop, ADVANCE(1), DW_CFA_def_cfa_expression, 11, BREG(9),
		  0, DW_OP_lit8, DW_OP_mul, BREG(7), 8, DW_OP_plus, DW_OP_lit8, DW_OP_plus, 0x06,
		  DW_OP_nop),
	  ROWS({ 0, { .cfa = FP_UNWIND_INDEXED, AT_CFA, .reg = 9, .offset = 8 } },
	       { 1, { .cfa = FP_UNWIND_INDEXED, AT_CFA, .reg = 9, .offset = 16 } }) },
	{ "but not one of other elements, or elsewhere, or the array itself",
	  PROGRAM(DW_CFA_def_cfa_expression, 8, BREG(7), 8, BREG(9), 0, DW_OP_lit4, DW_OP_mul,
		  DW_OP_plus, 0x06, ADVANCE(1), DW_CFA_def_cfa_expression, 7, BREG(7), 8, BREG(9),
		  0, DW_OP_lit8, DW_OP_mul, DW_OP_plus, ADVANCE(1), DW_CFA_def_cfa_expression, 8,
		  BREG(7), 8, BREG(9), 8, DW_OP_lit8, DW_OP_mul, DW_OP_plus, 0x06),
	  ROWS({ 0, { CANNOT(EXPRESSION) } }) },
	{ "nor one behind another register",
	  PROGRAM(DW_CFA_def_cfa_expression, 8, BREG(6), 8, BREG(9), 0, DW_OP_lit8, DW_OP_mul,
		  DW_OP_plus, 0x06),
	  ROWS({ 0, { CANNOT(REGISTER) } }) },
	{ "one that lies where another register points is refused",
	  PROGRAM(DW_CFA_def_cfa_expression, 3, BREG(0), 8, 0x06),
	  ROWS({ 0, { CANNOT(REGISTER) } }) },
	{ "lazy PLT entries, of both kinds",
	  PROGRAM(DW_CFA_def_cfa_expression, 11, BREG(7), 8, BREG(16), 0, DW_OP_lit15, DW_OP_and,
		  DW_OP_lit11, DW_OP_ge, DW_OP_lit3, DW_OP_shl, DW_OP_plus, ADVANCE(1),
		  DW_CFA_def_cfa_expression, 11, BREG(7), 8, BREG(16), 0, DW_OP_lit15, DW_OP_and,
		  DW_OP_lit9, DW_OP_ge, DW_OP_lit3, DW_OP_shl, DW_OP_plus),
	  ROWS({ 0, { .cfa = FP_UNWIND_PLT, AT_CFA, .offset = 8, .add = 11 } },
	       { 1, { .cfa = FP_UNWIND_PLT, AT_CFA, .offset = 8, .add = 9 } }) },
	{ "what is only nearly a PLT entry is refused",
	  PROGRAM(DW_CFA_def_cfa_expression, 11, BREG(7), 8, BREG(16), 0, DW_OP_lit7, DW_OP_and,
		  DW_OP_lit5, DW_OP_ge, DW_OP_lit3, DW_OP_shl, DW_OP_plus, ADVANCE(1),
		  DW_CFA_def_cfa_expression, 11, BREG(6), 8, BREG(16), 0, DW_OP_lit15, DW_OP_and,
		  DW_OP_lit11, DW_OP_ge, DW_OP_lit3, DW_OP_shl, DW_OP_plus, ADVANCE(1),
		  DW_CFA_def_cfa_expression, 9, BREG(7), 8, BREG(16), 0, DW_OP_lit15, DW_OP_and,
		  DW_OP_lit11, DW_OP_ge, DW_OP_plus),
	  ROWS({ 0, { CANNOT(EXPRESSION) } }) },
	{ "every width of constant",
	  PROGRAM(DW_CFA_def_cfa_expression, 9, BREG(7), 0, DW_OP_const1s, 0x80, DW_OP_minus,
		  DW_OP_const2u, 0x00, 0x01, DW_OP_plus, ADVANCE(1), DW_CFA_def_cfa_expression, 8,
		  BREG(7), 0, DW_OP_const4s, 0x00, 0xff, 0xff, 0xff, DW_OP_plus, ADVANCE(1),
		  DW_CFA_def_cfa_expression, 5, BREG(7), 0, DW_OP_constu, 40, DW_OP_plus,
		  ADVANCE(1), DW_CFA_def_cfa_expression, 12, BREG(7), 0, DW_OP_const8u, 48, 0, 0, 0,
		  0, 0, 0, 0, DW_OP_plus, ADVANCE(1), DW_CFA_def_cfa_expression, 5, BREG(7), 0,
		  DW_OP_consts, S(-8), DW_OP_plus),
	  ROWS({ 0, { RSP_(384) } }, { 1, { RSP_(-256) } }, { 2, { RSP_(40) } },
	       { 3, { RSP_(48) } }, { 4, { RSP_(-8) } }) },
	{ "an expression that takes from an empty stack, is empty, or asks for anything else",
	  PROGRAM(DW_CFA_def_cfa_expression, 1, DW_OP_plus, ADVANCE(1), DW_CFA_def_cfa_expression,
		  0, ADVANCE(1), DW_CFA_def_cfa_expression, 3, BREG(7), 8, DW_OP_dup, ADVANCE(1),
		  DW_CFA_def_cfa_expression, 1, DW_OP_lit8, ADVANCE(1), DW_CFA_def_cfa_expression,
		  4, DW_OP_lit1, DW_OP_bra, 0xfc, 0xff, ADVANCE(1), DW_CFA_def_cfa_expression, 4,
		  BREG(7), 8, 0x06, 0x06),
	  ROWS({ 0, { CANNOT(EXPRESSION) } }) },
	{ "a sum of two registers is refused",
	  PROGRAM(DW_CFA_def_cfa_expression, 5, BREG(7), 0, BREG(6), 0, DW_OP_plus),
	  ROWS({ 0, { CANNOT(EXPRESSION) } }) },
	{ "saved registers by expressions: from the CFA, from its register, from rbp, else lost",
	  PROGRAM(DW_CFA_expression, 6, 2, DW_OP_plus_uconst, 16, ADVANCE(1), DW_CFA_expression, 6,
		  2, BREG(7), 0, ADVANCE(1), DW_CFA_expression, 6, 2, BREG(6), 24, ADVANCE(1),
		  DW_CFA_expression, 6, 2, BREG(0), 8, ADVANCE(1), DW_CFA_expression, 6, 3, BREG(6),
		  8, 0x06),
	  ROWS({ 0, { RSP_(8), RBP_SAVED(16) } }, { 1, { RSP_(8), RBP_SAVED(-8) } },
	       { 2, { RSP_(8), .saved = FP_UNWIND_AT_RBP, .rbp_at = 24 } },
	       { 3, { RSP_(8), .saved = FP_UNWIND_LOST } }) },
	{ "a register's value by an expression: itself, else lost",
	  PROGRAM(DW_CFA_val_expression, 6, 2, BREG(6), 0, ADVANCE(1), DW_CFA_val_expression, 6, 2,
		  BREG(6), 8, ADVANCE(1), DW_CFA_val_expression, 3, 2, BREG(3), 0),
	  ROWS({ 0, { RSP_(8) } }, { 1, { RSP_(8), .saved = FP_UNWIND_LOST } }) },
	{ "rbx is followed too", PROGRAM(DW_CFA_def_cfa, 3, 16, OFFSET(3), 3, OFFSET(6), 2),
	  ROWS({ 0, { REG_(3, 16), .saved = 5, .rbp_at = -16, .rbx_at = -24 } }) },
};

static void assert_row(const struct fp_unwind_view *view, uint32_t i, uint32_t offset,
		       const struct fp_unwind_rule *rule)
{
	assert_int_equal(view->offsets[i], offset);
	assert_memory_equal(&view->rules[view->rule_of[i]], rule, sizeof(*rule));
}

static void a_program_comes_to_its_rules(void **state)
{
	static const struct fp_unwind_rule gap;

	for (size_t i = 0; i < FP_ARRAY_SIZE(cases); i++) {
		const struct program_case *c = &cases[i];
		FP_AUTOBUF struct fp_buf table = { 0 };
		AUTOSECTIONS struct sections *sections = sections_new();
		struct fp_unwind_view view;

		print_message("  %s\n", c->sentence);
		sections_common(sections, SECTIONS_EH, "zR", NULL, 0);
		sections_entry(sections, SECTIONS_EH, SECTIONS_ADDRESS, 0x40, c->program, c->size);
		assert_int_equal(sections_table(sections, &table, &view), 0);
		assert_int_equal(view.head->rows, c->count + 1);
		for (uint32_t j = 0; j < c->count; j++)
			assert_row(&view, j, SECTIONS_OFFSET + c->rows[j].offset, &c->rows[j].rule);
		assert_row(&view, (uint32_t)c->count, SECTIONS_OFFSET + 0x40, &gap);
	}
}

// ---- signals ----

struct signal_case {
	const char *sentence;
	int8_t base;	  // where the program says that the context lies, from rsp
	uint8_t rsp, rbp; // where in it these registers lie
	struct fp_unwind_rule rule;
};
#define SIGNAL_(n) .cfa = FP_UNWIND_SIGNAL, AT_CFA, .offset = (n)

static const struct signal_case signals[] = {
	{ "glibc's: the context lies at rsp", 0, 160, 120, { SIGNAL_(0) } },
	{ "one that lies elsewhere", 16, 160, 120, { SIGNAL_(16) } },
	{ "one that lies below", -64, 160, 120, { SIGNAL_(-64) } },
	{ "one of another layout is refused", 0, 168, 120, { CANNOT(EXPRESSION) } },
	{ "one that only differs in rbp too", 0, 160, 112, { CANNOT(EXPRESSION) } },
};

static size_t put_sleb(uint8_t *at, int value)
{
	at[0] = (uint8_t)((value & 0x7f) | 0x80);
	at[1] = (uint8_t)(value >> 7 & 0x7f);
	return 2;
}

static size_t put_saved(uint8_t *at, uint8_t reg, int offset)
{
	at[0] = DW_CFA_expression;
	at[1] = reg;
	at[2] = 3;
	at[3] = BREG(7);
	return 4 + put_sleb(at + 4, offset);
}

static size_t signal_program(const struct signal_case *c, uint8_t *program)
{
	size_t size = 0;

	program[size++] = DW_CFA_def_cfa_expression;
	program[size++] = 4;
	program[size++] = BREG(7);
	size += put_sleb(program + size, c->base + c->rsp);
	program[size++] = DW_OP_deref;
	size += put_saved(program + size, 6, c->base + c->rbp);
	size += put_saved(program + size, 3, c->base + 128);
	size += put_saved(program + size, 7, c->base + 160);
	size += put_saved(program + size, 16, c->base + 168);
	return size;
}

static void a_signals_frame_is_known_by_its_layout(void **state)
{
	for (size_t i = 0; i < FP_ARRAY_SIZE(signals); i++) {
		const struct signal_case *c = &signals[i];
		FP_AUTOBUF struct fp_buf table = { 0 };
		AUTOSECTIONS struct sections *sections = sections_new();
		uint8_t program[64];
		struct fp_unwind_view view;

		print_message("  %s\n", c->sentence);
		sections_common(sections, SECTIONS_EH, "zRS", NULL, 0);
		sections_entry(sections, SECTIONS_EH, SECTIONS_ADDRESS, 0x40, program,
			       signal_program(c, program));
		assert_int_equal(sections_table(sections, &table, &view), 0);
		assert_int_equal(view.head->rows, 2);
		assert_row(&view, 0, SECTIONS_OFFSET, &c->rule);
	}
}

// Without S the caller is one that has called: no rule says that of such a frame.
static void a_signals_layout_of_no_signal_is_refused(void **state)
{
	static const struct fp_unwind_rule refused = { CANNOT(RETURN_ADDRESS) };
	FP_AUTOBUF struct fp_buf table = { 0 };
	AUTOSECTIONS struct sections *sections = sections_new();
	uint8_t program[64];
	struct fp_unwind_view view;

	sections_common(sections, SECTIONS_EH, "zR", NULL, 0);
	sections_entry(sections, SECTIONS_EH, SECTIONS_ADDRESS, 0x40, program,
		       signal_program(&signals[0], program));
	assert_int_equal(sections_table(sections, &table, &view), 0);
	// That the caller's rsp lies in the context is what is seen first.
	assert_true(view.rules[view.rule_of[0]].cfa == refused.cfa);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_program_comes_to_its_rules),
		cmocka_unit_test(a_signals_frame_is_known_by_its_layout),
		cmocka_unit_test(a_signals_layout_of_no_signal_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
