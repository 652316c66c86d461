// SPDX-License-Identifier: Apache-2.0
//
// elfsymbols: an ELF file → build-ID, loadable segments, function symbols. Reads .symtab,
// else .dynsym, and names PLT slots `name@plt`. A separate debug file has lost the file
// offsets of its code (objcopy writes 0); they are laid out again the way linkers do, unless
// the binary itself is there to give them. Private to profile/.
// Trust: the file is foreign. Every section is bounded (FP_ELF_SECTION_MAX) before libelf
// reads it, every index and string is checked here, and only ET_EXEC/ET_DYN are taken.
// Ownership: fp_elf owns the libelf handle; images stay the caller's and must outlive it.
// Threads: none shared.
#pragma once

#include "symboltable.h"

#define FP_ELF_SECTION_MAX  ((uint64_t)512 << 20)
#define FP_ELF_SECTIONS_MAX 65536
#define FP_ELF_ID_MAX	    32

struct fp_elf;

// fd: a regular file, stays the caller's and must stay open. Errors: -ENOEXEC no ELF file or
// not one that is mapped and run, -ENOMEM.
int fp_elf_open(int fd, struct fp_elf **ret_elf);
int fp_elf_open_image(const void *image, size_t size, struct fp_elf **ret_elf);
void fp_elf_free(struct fp_elf *elf);
static inline void fp_elf_freep(struct fp_elf **elf)
{
	fp_elf_free(*elf);
	*elf = NULL;
}
#define FP_AUTOELF FP_CLEANUP(fp_elf_freep)

// The GNU build-ID. Returns its length, at most FP_ELF_ID_MAX, or 0 when there is none.
size_t fp_elf_build_id(const struct fp_elf *elf, uint8_t ret_id[FP_ELF_ID_MAX]);
// Adds the functions. Errors: -EBADMSG malformed, -E2BIG over a bound, -ENOMEM.
int fp_elf_symbols(const struct fp_elf *elf, struct fp_symbol_builder *builder);
int fp_elf_plt(const struct fp_elf *elf, struct fp_symbol_builder *builder);
// Whether the file holds the code itself, so that its segments are as mapped.
bool fp_elf_has_code(const struct fp_elf *elf);
// The executable segments. *ret_segments is malloc'ed, the caller frees it.
int fp_elf_segments(const struct fp_elf *elf, struct fp_symbol_segment **ret_segments,
		    uint32_t *ret_count);
