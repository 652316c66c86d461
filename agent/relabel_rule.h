// SPDX-License-Identifier: Apache-2.0
//
// relabel_rule: one relabel rule and its text form. Private to relabel.c.
// Ownership: the struct owns everything in it. Threads: no state.
#pragma once

#include "common/regex.h"

#define FP_RELABEL_RULES_MAX   128
#define FP_RELABEL_SOURCES_MAX 8
#define FP_RELABEL_GROUPS_MAX  10 // $0 to $9

enum fp_relabel_action { FP_RELABEL_KEEP, FP_RELABEL_DROP, FP_RELABEL_REPLACE };

struct fp_relabel_rule {
	enum fp_relabel_action action;
	bool negated;  // !~
	bool is_empty; // the expression
	char *sources[FP_RELABEL_SOURCES_MAX];
	uint32_t sources_count;
	struct fp_regex *regex;
	char *target, *replacement; // of replace
};

// line: terminated, without its newline. -EINVAL: cause says what is wrong.
int fp_relabel_rule_parse(const char *line, struct fp_relabel_rule *ret, struct fp_buf *cause);
void fp_relabel_rule_free(struct fp_relabel_rule *rule);
