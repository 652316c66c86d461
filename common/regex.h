// SPDX-License-Identifier: Apache-2.0
//
// regex: regular expressions of selectors and relabel rules. PCRE2 without JIT, over bytes,
// anchored at both ends, with limits on pattern length, matching steps, depth and heap.
// Input: foreign pattern, foreign subject of any bytes.
// Threads: one expression may be matched by many threads at once.
#pragma once

#include "buf.h"

struct fp_regex;

// Errors: -EINVAL with a sentence in error, -ENOMEM.
int fp_regex_new(const char *pattern, size_t size, struct fp_regex **ret_regex,
		 struct fp_buf *error);
void fp_regex_free(struct fp_regex *regex);
// 1: the whole subject matches, 0: not, -E2BIG: over a limit, -ENOMEM.
int fp_regex_match(const struct fp_regex *regex, const char *subject, size_t size);

// Groups of the pattern, the whole match not counted.
uint32_t fp_regex_groups(const struct fp_regex *regex);
struct fp_regex_span { // a part of the subject
	size_t start, size;
};
// As fp_regex_match; on a match spans[0] is the whole and spans[n] group n, empty where the
// group took no part. count: of the spans, at most fp_regex_groups + 1 are set.
int fp_regex_capture(const struct fp_regex *regex, const char *subject, size_t size,
		     struct fp_regex_span *ret_spans, size_t count);
