// SPDX-License-Identifier: Apache-2.0
//
// unwindtable_private: the steps from sections to a table's bytes, as its files and its tests
// share them.
// Trust, threads: as unwindtable.h.
#pragma once

#include "unwindcfi.h"
#include "unwindcode.h"
#include "unwindcrt.h"
#include "unwindrows.h"
#include "unwindrule.h"
#include "unwindtable.h"

#include "profile/symboltable.h"

struct fp_unwind_sources {			  // of one file; borrowed
	struct fp_cfi_section eh, debug;	  // size 0: there is none
	const struct fp_symbol_segment *segments; // executable; offsets below 4 GiB
	uint32_t segments_count;
	struct fp_unwind_code plt, entry;		    // entry: from the entry point on
	struct fp_unwind_code crt[FP_UNWIND_CRT_FUNCTIONS]; // size 0: there is none
	bool is_go;
};
// Errors: -ENODATA no entry describes code, -EFBIG too many rows, -ENOMEM.
int fp_unwind_table_of(const struct fp_unwind_sources *sources, struct fp_buf *ret);

struct fp_unwind_made {
	struct fp_unwind_rules rules;
	struct fp_unwind_rows rows; // at least one
	uint32_t entries, rejected;
};
// The bytes. Rules that no row has are left out; the others are numbered by use, most used
// first, since those at hand in a cache are mostly needed. -ENOMEM.
int fp_unwind_table_put(const struct fp_unwind_made *made, struct fp_buf *ret);
