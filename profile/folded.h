// SPDX-License-Identifier: Apache-2.0
//
// folded: Brendan Gregg's folded-stack text, one line per stack: frames root first,
// separated by ';', a space, the value. Kernel frames end in _[k], JIT in _[j], inlined
// in _[i]. Inside a name ';', newline and other control bytes are written as \xNN, so that
// text → tree → text is the identity.
// Input is foreign text: bad lines are counted and skipped, CRLF and a missing final newline
// are fine, a second trailing number (differential) is refused with a reason.
#pragma once

#include "tree.h"

struct fp_folded_result {
	uint64_t lines;	    // lines that held a stack
	uint64_t bad_lines; // skipped
	uint64_t first_bad; // line number of the first, 0 when none
};

int fp_folded_parse(const char *text, size_t size, struct fp_tree *tree,
		    struct fp_folded_result *ret_result);
// Lines in byte order. The tree must be finished.
int fp_folded_write(const struct fp_tree *tree, struct fp_buf *ret_text);
