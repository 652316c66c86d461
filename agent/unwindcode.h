// SPDX-License-Identifier: Apache-2.0
//
// unwindcode: rows for code of which no entry tells and that is known by its instructions: a
// procedure linkage table as lld writes it (System V ABI, AMD64 supplement, 5.2), and where a
// program or its loader begins (3.4.1), as in the C libraries' dynamic loaders.
// Private to agent/unwind*. Trust: the code is foreign. Threads: none shared.
#pragma once

#include "unwindrows.h"
#include "unwindrule.h"

#define FP_UNWIND_ENTRY_MAX 64 // bytes behind the entry point that belong to it: ld.so's are all

struct fp_unwind_code {
	const uint8_t *bytes; // borrowed
	size_t size;	      // 0: there is none
	uint32_t offset;      // in the file
};

// plt: 16-aligned in the program. Rows, when all of the code is one header and entries as that ABI shows them, else none. Errors:
// those of fp_unwind_rows_add and fp_unwind_rules_number.
int fp_unwind_plt_rows(const struct fp_unwind_code *plt, struct fp_unwind_rules *rules,
		       struct fp_unwind_rows *rows);
// entry: from the entry point on, as far as no entry tells of it. Where it makes itself the outermost frame, or hands the stack of
// arguments on, it is.
int fp_unwind_entry_rows(const struct fp_unwind_code *entry, struct fp_unwind_rules *rules,
			 struct fp_unwind_rows *rows);
