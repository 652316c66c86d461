// SPDX-License-Identifier: Apache-2.0
#include "elfhandle.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct symbol_section {
	size_t index;
	GElf_Shdr header;
};

struct section_range {
	uint64_t start, end;
	bool executable;
};

struct symbol_reader {
	const struct fp_elf *elf;
	struct section_range *ranges; // by section index
	Elf_Data *symbols, *strings;
	bool thumb; // 32-bit ARM keeps the instruction set in bit 0 of the address
};

static bool find_section(const struct fp_elf *elf, uint32_t type, struct symbol_section *ret)
{
	for (size_t i = 1; i < elf->sections_count; i++) {
		GElf_Shdr header;

		if (fp_elf_section(elf, i, &header) && header.sh_type == type) {
			*ret = (struct symbol_section){ i, header };
			return true;
		}
	}
	return false;
}

static struct section_range *read_ranges(const struct fp_elf *elf)
{
	struct section_range *ranges = calloc(elf->sections_count + 1, sizeof(*ranges));

	for (size_t i = 0; ranges && i < elf->sections_count; i++) {
		GElf_Shdr header;

		if (!fp_elf_section(elf, i, &header))
			continue;
		ranges[i].start = header.sh_addr;
		if (__builtin_add_overflow(header.sh_addr, header.sh_size, &ranges[i].end))
			ranges[i].end = UINT64_MAX;
		ranges[i].executable = header.sh_flags & SHF_EXECINSTR;
	}
	return ranges;
}

// Lower wins. A name other objects can see is what people know the function by.
static uint8_t symbol_rank(const GElf_Sym *symbol)
{
	uint8_t rank = GELF_ST_BIND(symbol->st_info) == STB_LOCAL ? 1 : 0;

	return GELF_ST_TYPE(symbol->st_info) == STT_NOTYPE ? rank + 2 : rank;
}

// Assemblers and linkers leave marks that name no function: ARM's mapping symbols ($x, $d)
// and local labels.
static bool is_mark(const char *name, size_t size)
{
	return name[0] == '$' || (size >= 2 && name[0] == '.' && name[1] == 'L');
}

// `memcpy@@GLIBC_2.14` is memcpy.
static size_t without_version(const char *name, size_t size)
{
	const char *at = size > 1 ? memchr(name + 1, '@', size - 1) : NULL;

	return at ? (size_t)(at - name) : size;
}

static int read_symbol(const struct symbol_reader *reader, const GElf_Sym *symbol,
		       struct fp_symbol_builder *builder)
{
	unsigned int type = GELF_ST_TYPE(symbol->st_info);
	const struct section_range *range;
	struct fp_symbol entry = { .size = symbol->st_size, .rank = symbol_rank(symbol) };

	if (type != STT_FUNC && type != STT_GNU_IFUNC && type != STT_NOTYPE)
		return 0;
	// SHN_XINDEX needs more than 65,280 sections, which no linked file has.
	if (symbol->st_shndx == SHN_UNDEF || symbol->st_shndx >= reader->elf->sections_count)
		return 0;
	range = &reader->ranges[symbol->st_shndx];
	entry.address = reader->thumb ? symbol->st_value & ~1ULL : symbol->st_value;
	if (!range->executable || entry.address < range->start || entry.address >= range->end)
		return 0;
	entry.limit = range->end;
	if (entry.size > range->end - entry.address)
		entry.size = range->end - entry.address;
	entry.name = fp_elf_string(reader->strings, symbol->st_name, &entry.name_size);
	if (!entry.name || entry.name_size == 0 || is_mark(entry.name, entry.name_size))
		return 0;
	entry.name_size = without_version(entry.name, entry.name_size);
	return fp_symbol_builder_add(builder, &entry);
}

static int read_section(struct symbol_reader *reader, const struct symbol_section *section,
			struct fp_symbol_builder *builder)
{
	size_t count;
	int error = fp_elf_section_data(reader->elf, section->index, &reader->symbols);

	if (!error)
		error = fp_elf_section_data(reader->elf, section->header.sh_link, &reader->strings);
	if (error)
		return error;
	count = reader->symbols->d_size / gelf_fsize(reader->elf->elf, ELF_T_SYM, 1, EV_CURRENT);
	for (size_t i = 1; !error && i < count && i < INT32_MAX; i++) {
		GElf_Sym symbol;

		if (!gelf_getsym(reader->symbols, (int)i, &symbol))
			return -EBADMSG;
		error = read_symbol(reader, &symbol, builder);
	}
	return error;
}

int fp_elf_symbols(const struct fp_elf *elf, struct fp_symbol_builder *builder)
{
	FP_AUTOFREE struct section_range *ranges = read_ranges(elf);
	struct symbol_reader reader = { .elf = elf,
					.ranges = ranges,
					.thumb = elf->header.e_machine == EM_ARM };
	struct symbol_section section;

	if (!ranges)
		return -ENOMEM;
	// .symtab holds all that .dynsym does, and the static functions.
	if (!find_section(elf, SHT_SYMTAB, &section) && !find_section(elf, SHT_DYNSYM, &section))
		return 0;
	return read_section(&reader, &section, builder);
}
