// SPDX-License-Identifier: Apache-2.0
//
// unwindcfi: a section of call frame information (.eh_frame or .debug_frame) → its frame
// description entries, and of each the states that its program goes through, address by address.
// Formats: DWARF 5, 6.4 and 7.24; Linux Standard Base 5.0, Core, 10.6 (augmentations, pointer
// encodings of .eh_frame). x86-64 alone: of all registers those are followed that a walk takes
// from one frame to the next.
// Work is linear in the section: an entry is run once, a common entry at most once for each entry
// that refers to it and then only up to FP_CFI_COMMON_MAX bytes.
// Trust: the bytes are foreign. Ownership: the section's bytes stay the caller's. Threads: none
// shared.
#pragma once

#include "unwindexpr.h"

#define FP_CFI_COMMON_MAX    128 // bytes of a common entry; real ones have 20 to 40
#define FP_CFI_REMEMBERED    16	 // DW_CFA_remember_state; compilers nest one
#define FP_CFI_COMMON_CACHED 64

struct fp_cfi_section {
	const uint8_t *bytes;
	size_t size;	   // below 4 GiB
	uint64_t address;  // of bytes[0] in the program, which pointers are relative to
	bool is_debug;	   // .debug_frame
	bool ends_at_zero; // an entry of length 0 is the end, since something else lies behind it
};

enum fp_cfi_how {	    // a register of the caller
	FP_CFI_UNSPECIFIED, // no rule
	FP_CFI_UNDEFINED,   // not to be had
	FP_CFI_SAME,	    // as it is
	FP_CFI_AT_CFA,	    // at CFA + value.offset
	FP_CFI_CFA_PLUS,    // is CFA + value.offset
	FP_CFI_IN_REGISTER, // in value.reg
	FP_CFI_AT_VALUE,    // at what the expression comes to
	FP_CFI_IS_VALUE	    // is that
};

struct fp_cfi_rule {
	uint8_t how; // enum fp_cfi_how
	uint8_t padding[7];
	struct fp_unwind_value value;
};

struct fp_cfi_state {
	struct fp_unwind_value cfa; // kind FP_VALUE_OTHER: none, or an unknown form
	bool cfa_by_register;	    // and so with an offset that can be set
	uint8_t padding[7];
	struct fp_cfi_rule rbx, rbp, rsp, ret; // ret: the return address
};

struct fp_cfi_common { // a common information entry
	bool is_good, is_known;
	bool has_sizes;	  // augmentation z: each entry tells how long its own augmentation is
	bool is_signal;	  // S: the frame is a signal's
	uint8_t encoding; // R: DW_EH_PE_* of the entries' addresses
	uint8_t offset_size;
	uint8_t padding[2];
	uint32_t at; // in the section
	uint64_t code_factor;
	uint64_t data_factor; // sign-extended
	struct fp_cfi_state initial;
};

struct fp_cfi_entry { // a frame description entry; valid until the next is read
	uint32_t at;  // in the section
	const struct fp_cfi_common *common;
	uint64_t start, size; // addresses
	const uint8_t *program;
	size_t program_size;
};

struct fp_cfi_reader {
	const struct fp_cfi_section *section;
	size_t at;
	uint32_t entries;  // that could be read
	uint32_t rejected; // that break the rules, or are of a form that toolchains do not emit
	struct fp_cfi_common cache[FP_CFI_COMMON_CACHED];
};

// The next entry of the section, beginning with reader->at. False at the end.
bool fp_cfi_next(struct fp_cfi_reader *reader, struct fp_cfi_entry *ret);
// The entry at a place where there has been one.
bool fp_cfi_read(struct fp_cfi_reader *reader, uint32_t at, struct fp_cfi_entry *ret);

// A state holds from address on, within the entry; addresses rise strictly. NULL: from there on
// the entry breaks the rules. Anything but 0 ends the run.
typedef int (*fp_cfi_state_fn)(void *context, uint64_t address, const struct fp_cfi_state *state);
// 0, or what the callback returned.
int fp_cfi_run(const struct fp_cfi_reader *reader, const struct fp_cfi_entry *entry,
	       fp_cfi_state_fn take, void *context);
