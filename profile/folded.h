// SPDX-License-Identifier: Apache-2.0
//
// folded: Brendan Gregg's folded-stack text, one line per stack: frames root first,
// separated by ';', a space, the value. Kernel frames end in _[k], JIT in _[j], inlined
// in _[i]. Inside a name ';', newline and other control bytes are written as \xNN, and so is
// whatever else would read back as something different (a backslash before such an escape,
// the bracket of a name that merely looks suffixed, a blank before a last word of digits), so
// that text → tree → text is the identity for what fp_folded_write wrote. Modules are not
// part of the text.
// Read back, `[name]` is an ERROR frame or one of the marks of mark.h, and `name+0x<hex>` an UNKNOWN one.
// Input is foreign text: bad lines are counted and skipped, CRLF and a missing final newline
// are fine, a second trailing number (differential) is a bad line with that reason.
#pragma once

#include "tree.h"

struct fp_folded_result {
	uint64_t lines;		      // lines that held a stack
	uint64_t bad_lines;	      // skipped
	uint64_t first_bad;	      // line number of the first, 0 when none
	const char *first_bad_reason; // static sentence, NULL when none
};

int fp_folded_parse(const char *text, size_t size, struct fp_tree *tree,
		    struct fp_folded_result *ret_result);
// Lines in byte order. The tree must be finished.
int fp_folded_write(const struct fp_tree *tree, struct fp_buf *ret_text);
