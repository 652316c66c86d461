// SPDX-License-Identifier: Apache-2.0
//
// elfhandle: what the ELF readers share: the open handle and bounded access to sections.
// Private to the files elf*.c of profile/.
// Trust: see elfsymbols.h. Ownership: fp_elf. Threads: none shared.
#pragma once

#include "elfsymbols.h"

#include <gelf.h>

struct fp_elf {
	Elf *elf;
	GElf_Ehdr header;
	size_t sections_count;
};

// Header of the section; false when there is no such section.
bool fp_elf_section(const struct fp_elf *elf, size_t index, GElf_Shdr *ret_header);
// The first section of that name.
bool fp_elf_section_named(const struct fp_elf *elf, const char *wanted, size_t *ret_index,
			  GElf_Shdr *ret_header);
// The section's bytes as they stand in the file; -EBADMSG, or -E2BIG above
// FP_ELF_SECTION_MAX. Compressed sections are refused: symbols never are.
int fp_elf_section_data(const struct fp_elf *elf, size_t index, Elf_Data **ret_data);
// The NUL-terminated string at offset of a string section, its length cut at
// FP_SYMBOL_NAME_MAX; NULL when it does not lie inside.
const char *fp_elf_string(const Elf_Data *strings, uint64_t offset, size_t *ret_size);

struct fp_elf_note_kind {
	const char *owner;
	uint32_t type;
	size_t size_max; // a longer descriptor is none
};
struct fp_elf_bytes {
	const uint8_t *bytes; // alive as long as the handle
	size_t size;
};
// The descriptor of the first such note, in the note sections, else in the note segments: a
// file may have been stripped of its section headers. False when there is none.
bool fp_elf_note(const struct fp_elf *elf, const struct fp_elf_note_kind *kind,
		 struct fp_elf_bytes *ret_bytes);
