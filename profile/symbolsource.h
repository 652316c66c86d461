// SPDX-License-Identifier: Apache-2.0
//
// symbolsource: where symbol tables come from, one row of a table per source, asked in
// order until one has the build. The cache that asks is symbols.c. Private to profile/.
// Trust: ELF files are foreign (elfsymbols.h); the kernel's files are trusted.
// Ownership: a table belongs to the caller. Threads: none shared.
#pragma once

#include "symbols.h"
#include "symboltable.h"

struct fp_symbol_request {
	const struct fp_build *build;
	const char *path;
	enum fp_frame_kind kind;
};

// Text of /proc/kallsyms, read once: it is 5 MB and every module of a host needs it.
struct fp_symbol_host {
	struct fp_buf kallsyms;
	bool kallsyms_read;
};

// Always sets *ret_status; *ret_table is set with FP_SYMBOLS_FOUND and NULL otherwise.
void fp_symbol_source_load(const struct fp_symbolizer_options *options, struct fp_symbol_host *host,
			   const struct fp_symbol_request *request,
			   struct fp_symbol_table **ret_table, enum fp_symbol_status *ret_status);

// The ELF files of a build (symbolelf.c): its debug file, with the binary where that is at hand; the
// binary. -ENOENT when there is none.
int fp_symbol_load_debug(const struct fp_symbolizer_options *options,
			 const struct fp_symbol_request *request,
			 struct fp_symbol_table **ret_table);
int fp_symbol_load_elf(const struct fp_symbolizer_options *options,
		       const struct fp_symbol_request *request, struct fp_symbol_table **ret_table);
// This process's own vDSO, if it is the build.
int fp_symbol_load_vdso(const struct fp_symbolizer_options *options,
			const struct fp_symbol_request *request,
			struct fp_symbol_table **ret_table);
// One ELF file with symbols and, for file offsets, segments. code: the file that holds the
// code, may be the same or NULL.
struct fp_elf;
int fp_symbol_elf_table(const struct fp_elf *symbols, const struct fp_elf *code,
			struct fp_symbol_table **ret_table);
