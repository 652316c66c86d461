// SPDX-License-Identifier: Apache-2.0
//
// resolve_labels: the label set of a stack record: {executable, thread}, off-CPU also
// {state}, and the static labels of the configuration; where one of those has a name that
// we give ourselves, ours holds. Thread names stay raw bytes. Threads: no state.
#pragma once

#include "resolve.h"

#define FP_STATIC_LABELS_MAX 32

int fp_resolve_labels(const struct fp_resolver *resolver, const struct fp_stack_record *record,
		      const char *executable, struct fp_profile *profile, uint32_t *ret_labels);
