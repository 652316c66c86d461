// SPDX-License-Identifier: Apache-2.0
//
// relabel: rules of the configuration that keep, drop or rewrite what a sample is labelled,
// one a line, in order, with the meaning of Prometheus' relabel_config of the same action:
//   keep NAME[,NAME…] =~ REGEX          only samples that match stay (or !~, that do not)
//   drop NAME[,NAME…] =~ REGEX          samples that match go
//   replace NAME[,NAME…] =~ REGEX -> TARGET = REPLACEMENT
// The regular expression must match the whole value; several values are joined by ';'; a label
// that is missing is empty; $1 or ${1} in a replacement is a group, $$ a dollar; an empty
// replacement removes the label. Expressions and replacements with spaces stand in "quotes".
// Input: text of an administrator. Threads: one owner.
#pragma once

#include "labels_set.h"

struct fp_relabel;

// -EINVAL: error says which rule is wrong, and what.
int fp_relabel_new(const char *rules, struct fp_relabel **ret, struct fp_buf *error);
void fp_relabel_free(struct fp_relabel *relabel);
static inline void fp_relabel_freep(struct fp_relabel **relabel)
{
	fp_relabel_free(*relabel);
	*relabel = NULL;
}
uint32_t fp_relabel_count(const struct fp_relabel *relabel); // rules
// *ret_dropped: the sample is not wanted; the set is then in between. An expression that takes
// too long on a value counts as no match, a label beyond FP_LABELS_MAX is not added; both are
// counted in fp_relabel_overruns.
int fp_relabel_apply(struct fp_relabel *relabel, struct fp_label_set *set, bool *ret_dropped);
uint64_t fp_relabel_overruns(const struct fp_relabel *relabel);
