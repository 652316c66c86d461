// SPDX-License-Identifier: Apache-2.0
//
// elfsymbols_fuzz: any bytes as an ELF file, through everything that reads one: build-ID,
// segments, symbols, PLT, table, lookups, demangling. The table that comes out is sorted and
// does not overlap.
#include "fuzz.h"

#include "profile/demangle.h"
#include "profile/elfsymbols.h"
#include "profile/symbolsource.h"

static void check_table(const struct fp_symbol_table *table)
{
	for (uint32_t i = 0; i < table->count; i++) {
		FP_AUTOBUF struct fp_buf name = { 0 };

		if (table->sizes[i] == 0 || fp_symbol_table_find(table, table->starts[i]) != i)
			abort();
		if (i > 0 && table->starts[i] - table->starts[i - 1] < table->sizes[i - 1])
			abort();
		if (fp_demangle(fp_symbol_table_name(table, i), &name) || name.len == 0)
			abort();
	}
}

static void check_lookups(const struct fp_symbol_table *table)
{
	static const uint64_t offsets[] = { 0, 1, 0x1000, 0x1040, UINT32_MAX, UINT64_MAX };

	for (size_t i = 0; i < FP_ARRAY_SIZE(offsets); i++) {
		uint64_t address;

		if (fp_symbol_table_address(table, offsets[i], &address))
			fp_symbol_table_find(table, address);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	FP_AUTOFREE uint8_t *image = malloc(size + 1);
	FP_AUTOELF struct fp_elf *elf = NULL;
	FP_AUTOSYMBOLTABLE struct fp_symbol_table *table = NULL;
	uint8_t id[FP_ELF_ID_MAX];

	if (!image)
		return 0;
	for (size_t i = 0; i < size; i++)
		image[i] = data[i];
	if (fp_elf_open_image(image, size, &elf))
		return 0;
	if (fp_elf_build_id(elf, id) > sizeof(id))
		abort();
	fp_elf_has_code(elf);
	if (fp_symbol_elf_table(elf, elf, &table))
		return 0;
	check_table(table);
	check_lookups(table);
	return 0;
}
