// SPDX-License-Identifier: Apache-2.0
//
// selector: a label selector in the Prometheus form, `{host="a", executable=~"web.*"}`,
// with the operators =, !=, =~ and !~. Regular expressions are anchored at both ends. A label
// that a set lacks has the empty value, so `{pod=""}` finds sets without a pod and
// `{pod!="x"}` includes them. The empty selector, and "" or "{}", match everything.
// Input: foreign text. Regular expressions are PCRE2, compiled without JIT and run under
// match, depth and heap limits, so that no pattern can stall or exhaust the collector.
// Ownership: the selector owns copies of its parts. Threads: matching is read-only and any
// number of threads may match with one selector.
#pragma once

#include "common/buf.h"

enum fp_match_op { FP_MATCH_EQUAL, FP_MATCH_NOT_EQUAL, FP_MATCH_REGEX, FP_MATCH_NOT_REGEX };

struct fp_matcher {
	char *name;
	char *value; // literal, or the pattern as it was written
	size_t value_size;
	enum fp_match_op op;
	void *regex; // pcre2_code, for the regex operators
};

struct fp_selector {
	struct fp_matcher *matchers;
	size_t count;
};

#define FP_SELECTOR_MAX_BYTES	 4096 // text of one selector
#define FP_SELECTOR_MAX_MATCHERS 32

void fp_selector_free(struct fp_selector *selector);
#define FP_AUTOSELECTOR FP_CLEANUP(fp_selector_free)

// Errors: -EINVAL, and one sentence with the byte position is put into error; -ENOMEM.
int fp_selector_parse(const char *text, size_t size, struct fp_selector *ret_selector,
		      struct fp_buf *error);
// 1: the value satisfies the matcher, 0: not, -E2BIG: the expression exceeded its limits.
int fp_matcher_test(const struct fp_matcher *matcher, const char *value, size_t size);

struct fp_selector_label { // one label of a set under test
	const char *name;
	const char *value;
	size_t value_size;
};
// 1: the label set satisfies every matcher, 0: not, -E2BIG as above.
int fp_selector_match(const struct fp_selector *selector, const struct fp_selector_label *labels,
		      size_t count);
// Appends the canonical text.
int fp_selector_print(const struct fp_selector *selector, struct fp_buf *text);
