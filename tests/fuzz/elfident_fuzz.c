// SPDX-License-Identifier: Apache-2.0
//
// elfident_fuzz: any bytes as a file that is asked what identifies it, and for its functions as
// table text. Every file but an empty one is identified, and is the build that it is said to
// be; the text that is made of it is read back without a bad line.
#include "fuzz.h"
#include "memfile.h"

#include "profile/elfident.h"
#include "profile/symbolwrite.h"
#include "profile/symbols.h"

#include <sys/mman.h>

#define TABLE_MAX ((uint64_t)16 << 20)

static void check_table(int fd, const struct fp_build *build)
{
	static int table = -1;
	struct fp_symbolizer_options options = { 0 };
	FP_CLEANUP(fp_symbolizer_freep) struct fp_symbolizer *symbolizer = NULL;
	FP_AUTOFREE char *text = NULL;
	uint64_t size = 0, bad_lines = 0;

	memfile_set(&table, "", 0);
	if (lseek(table, 0, SEEK_SET) < 0)
		abort();
	if (fp_symbol_write_elf(fd, build, table, TABLE_MAX, &size))
		return;
	text = malloc(size + 1);
	if (!text || pread(table, text, size, 0) != (ssize_t)size)
		abort();
	if (fp_symbolizer_new(&options, &symbolizer) ||
	    fp_symbolizer_add_table(symbolizer, build->id, build->id_len, text, size, &bad_lines) ||
	    bad_lines > 0)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int file = -1;
	struct fp_build build = { 0 };
	bool same = false;

	memfile_set(&file, data, size);
	if (fp_elf_identify(file, &build))
		abort();
	if ((build.kind == FP_BUILD_NONE) != (size == 0) || build.id_len > FP_BUILD_ID_MAX)
		abort();
	if (fp_elf_is_build(file, &build, &same) || same != (size > 0))
		abort();
	if (size > 0)
		check_table(file, &build);
	return 0;
}
