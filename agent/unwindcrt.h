// SPDX-License-Identifier: Apache-2.0
//
// unwindcrt: rows for the functions that every program and library takes from the compiler's and
// the C library's crt files, of which no entry tells: _init, _fini, frame_dummy and
// __do_global_dtors_aux. Short-lived programs are met there: the pages they lie on are touched for
// the first time when a program starts or ends.
// Private to agent/unwind*. Trust: the code is foreign. Threads: none shared.
#pragma once

#include "unwindcode.h"

#define FP_UNWIND_CRT_FUNCTIONS 4
#define FP_UNWIND_CRT_BYTES	96 // of one; the longest has 53

// function: from its first instruction on, as far as no entry tells of it; what lies behind it may
// follow. Rows, when all of its instructions are of the few that such functions have and it leaves
// the stack as it found it, else none. Errors: those of fp_unwind_rows_add and
// fp_unwind_rules_number.
int fp_unwind_crt_rows(const struct fp_unwind_code *function, struct fp_unwind_rules *rules,
		       struct fp_unwind_rows *rows);
