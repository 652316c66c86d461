// SPDX-License-Identifier: Apache-2.0
//
// elfframes: where the call frame information of an ELF file lies: .eh_frame by its section, or in
// a file without section headers by PT_GNU_EH_FRAME (Linux Standard Base 5.0, Core, 10.6.2), and
// .debug_frame, decompressed where it is compressed.
// Trust: the file is foreign; sections are bounded before they are read. Ownership: the bytes
// live as long as the handle. Threads: none shared.
#pragma once

#include "elfsymbols.h"

#define FP_ELF_FRAMES_MAX ((uint64_t)64 << 20) // bytes of one section; the largest have some 30 MB

struct fp_elf_frames {
	const uint8_t *bytes; // NULL: there is none
	size_t size;
	uint64_t address;  // of bytes[0]
	bool ends_at_zero; // the size is only a bound: an entry of length 0 is the end
};

// x86-64, and 64-bit: what tables of frames can be made of.
bool fp_elf_is_x86_64(const struct fp_elf *elf);
// Errors: -EBADMSG malformed, -E2BIG over a bound, -ENOMEM. A file without any has size 0.
int fp_elf_eh_frame(const struct fp_elf *elf, struct fp_elf_frames *ret);
int fp_elf_debug_frame(const struct fp_elf *elf, struct fp_elf_frames *ret);
// The code of the lazy procedure linkage table, .plt.
int fp_elf_plt_code(const struct fp_elf *elf, struct fp_elf_frames *ret);
// The first bytes from the entry point on, at most size; none when it has none.
int fp_elf_entry_code(const struct fp_elf *elf, size_t size, struct fp_elf_frames *ret);
// What runs first when the file is loaded and last when it goes: _init, _fini, and the function that
// comes first in .init_array, in .fini_array (System V gABI, "Initialization and Termination
// Functions"). Likewise; of an array whose words the loader fills in, none.
enum fp_elf_crt { FP_ELF_CRT_INIT, FP_ELF_CRT_FINI, FP_ELF_CRT_INIT_ARRAY, FP_ELF_CRT_FINI_ARRAY };
int fp_elf_crt_code(const struct fp_elf *elf, enum fp_elf_crt which, size_t size,
		    struct fp_elf_frames *ret);
// The Go linker has made it, and so its .debug_frame.
bool fp_elf_is_go(const struct fp_elf *elf);
