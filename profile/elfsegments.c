// SPDX-License-Identifier: Apache-2.0
#include "elfhandle.h"

#include <errno.h>
#include <stdlib.h>

#define SEGMENTS_MAX 256 // PT_LOADs looked at; real files have 2 to 10

bool fp_elf_has_code(const struct fp_elf *elf)
{
	size_t count;

	if (elf_getphdrnum(elf->elf, &count) != 0)
		return false;
	for (size_t i = 0; i < count && i < SEGMENTS_MAX; i++) {
		GElf_Phdr header;

		if (gelf_getphdr(elf->elf, (int)i, &header) && header.p_type == PT_LOAD &&
		    (header.p_flags & PF_X) && header.p_filesz > 0)
			return true;
	}
	return false;
}

// In a debug file made by `objcopy --only-keep-debug` code segments have offset 0 and no
// bytes. Linkers lay segments out one after the other, each at the first offset that is
// congruent to its address modulo its alignment; so the offsets follow from the sizes.
static uint64_t offset_rebuilt(const GElf_Phdr *header, uint64_t end_of_previous)
{
	uint64_t align = header->p_align > 1 ? header->p_align : 1;

	return end_of_previous + (header->p_vaddr - end_of_previous) % align;
}

int fp_elf_segments(const struct fp_elf *elf, struct fp_symbol_segment **ret_segments,
		    uint32_t *ret_count)
{
	FP_AUTOFREE struct fp_symbol_segment *segments = calloc(SEGMENTS_MAX, sizeof(*segments));
	bool rebuild = !fp_elf_has_code(elf);
	uint64_t end = 0;
	uint32_t kept = 0;
	size_t count;

	if (!segments)
		return -ENOMEM;
	if (elf_getphdrnum(elf->elf, &count) != 0)
		return -EBADMSG;
	for (size_t i = 0; i < count && kept < SEGMENTS_MAX; i++) {
		GElf_Phdr header;
		uint64_t offset, size;

		if (!gelf_getphdr(elf->elf, (int)i, &header) || header.p_type != PT_LOAD)
			continue;
		offset = rebuild ? offset_rebuilt(&header, end) : header.p_offset;
		size = rebuild ? header.p_memsz : header.p_filesz;
		if (__builtin_add_overflow(offset, size, &end))
			return -EBADMSG;
		if (header.p_flags & PF_X)
			segments[kept++] =
			    (struct fp_symbol_segment){ offset, size, header.p_vaddr };
	}
	*ret_count = kept;
	*ret_segments = fp_take_ptr(segments);
	return 0;
}
