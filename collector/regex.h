// SPDX-License-Identifier: Apache-2.0
//
// regex: regular expressions from strangers. PCRE2 without JIT, over bytes, anchored at both ends, with
// limits on pattern length, matching steps, depth and heap.
// Input: foreign pattern, foreign subject of any bytes.
// Threads: one expression may be matched by many threads at once.
#pragma once

#include "common/buf.h"

struct fp_regex;

// Errors: -EINVAL with a sentence in error, -ENOMEM.
int fp_regex_new(const char *pattern, size_t size, struct fp_regex **ret_regex,
		 struct fp_buf *error);
void fp_regex_free(struct fp_regex *regex);
// 1: the whole subject matches, 0: not, -E2BIG: over a limit, -ENOMEM.
int fp_regex_match(const struct fp_regex *regex, const char *subject, size_t size);
