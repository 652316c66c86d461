// SPDX-License-Identifier: Apache-2.0
//
// symboltext_fuzz: any bytes as each of the text tables. The first byte chooses which.
#include "fuzz.h"

#include "profile/symboltext.h"

static int read_table(uint8_t which, const char *text, size_t size,
		      struct fp_symbol_builder *builder)
{
	uint64_t bad_lines, base = 0;

	switch (which % 3) {
	case 0:
		return fp_symbol_text(text, size, builder, &bad_lines);
	case 1:
		return fp_kallsyms_kernel(text, size, builder);
	default:
		if (fp_modules_base(text, size, "xfs", &base) == 0 && base == 0)
			abort();
		return fp_kallsyms_module(text, size, "xfs", base, builder);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	FP_AUTOSYMBOLS struct fp_symbol_builder builder = { 0 };
	FP_AUTOSYMBOLTABLE struct fp_symbol_table *table = NULL;

	if (size == 0 || read_table(data[0], (const char *)data + 1, size - 1, &builder))
		return 0;
	if (fp_symbol_builder_finish(&builder, &table))
		abort();
	for (uint32_t i = 0; i < table->count; i++) {
		if (fp_symbol_table_find(table, table->starts[i]) != i ||
		    fp_symbol_table_name(table, i)[0] == '\0')
			abort();
	}
	return 0;
}
