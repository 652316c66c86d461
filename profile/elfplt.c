// SPDX-License-Identifier: Apache-2.0
//
// Names for PLT slots. The relocations of .rela.plt stand in the order of the slots, so slot
// i calls the symbol of relocation i. x86-64 and AArch64 only, where slot sizes are fixed.
#include "elfhandle.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define SLOT_SIZE 16

struct plt {
	GElf_Shdr slots;
	uint64_t header_size; // bytes before the first slot
	Elf_Data *relocations, *symbols, *strings;
};

static bool plt_slots(const struct fp_elf *elf, struct plt *plt)
{
	size_t index;

	// With indirect-branch tracking the slots that are called stand in .plt.sec.
	plt->header_size = 0;
	if (elf->header.e_machine == EM_X86_64 &&
	    fp_elf_section_named(elf, ".plt.sec", &index, &plt->slots))
		return true;
	plt->header_size = elf->header.e_machine == EM_X86_64 ? SLOT_SIZE : 2 * SLOT_SIZE;
	return fp_elf_section_named(elf, ".plt", &index, &plt->slots);
}

static bool plt_find(const struct fp_elf *elf, struct plt *plt)
{
	GElf_Shdr relocations, symbols;
	size_t index;

	return plt_slots(elf, plt) &&
	       fp_elf_section_named(elf, ".rela.plt", &index, &relocations) &&
	       relocations.sh_type == SHT_RELA &&
	       fp_elf_section_data(elf, index, &plt->relocations) == 0 &&
	       fp_elf_section(elf, relocations.sh_link, &symbols) &&
	       symbols.sh_type == SHT_DYNSYM &&
	       fp_elf_section_data(elf, relocations.sh_link, &plt->symbols) == 0 &&
	       fp_elf_section_data(elf, symbols.sh_link, &plt->strings) == 0;
}

static int plt_slot(const struct plt *plt, size_t slot, struct fp_symbol_builder *builder)
{
	char text[FP_SYMBOL_NAME_MAX + 8];
	struct fp_symbol entry = { .size = SLOT_SIZE, .name = text, .rank = 1 };
	uint64_t place = plt->header_size + slot * SLOT_SIZE;
	const char *name = NULL;
	GElf_Rela relocation;
	GElf_Sym symbol;
	size_t size = 0;

	if (!gelf_getrela(plt->relocations, (int)slot, &relocation))
		return -EBADMSG;
	// Slots of local ifuncs have a relocation without a symbol.
	if (GELF_R_SYM(relocation.r_info) == 0 || GELF_R_SYM(relocation.r_info) > INT32_MAX ||
	    place + SLOT_SIZE > plt->slots.sh_size)
		return 0;
	if (gelf_getsym(plt->symbols, (int)GELF_R_SYM(relocation.r_info), &symbol))
		name = fp_elf_string(plt->strings, symbol.st_name, &size);
	if (!name || size == 0)
		return 0;
	entry.address = plt->slots.sh_addr + place;
	entry.limit = entry.address + SLOT_SIZE;
	entry.name_size = (size_t)snprintf(text, sizeof(text), "%.*s@plt", (int)size, name);
	return fp_symbol_builder_add(builder, &entry);
}

int fp_elf_plt(const struct fp_elf *elf, struct fp_symbol_builder *builder)
{
	struct plt plt;
	size_t count;
	int error = 0;

	if (elf->header.e_machine != EM_X86_64 && elf->header.e_machine != EM_AARCH64)
		return 0;
	if (!plt_find(elf, &plt))
		return 0;
	count = plt.relocations->d_size / gelf_fsize(elf->elf, ELF_T_RELA, 1, EV_CURRENT);
	for (size_t i = 0; !error && i < count && i < INT32_MAX; i++)
		error = plt_slot(&plt, i, builder);
	return error;
}
