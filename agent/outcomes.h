// SPDX-License-Identifier: Apache-2.0
//
// outcomes: names of programs, outcomes and their classes, generated from the one table in
// bpf/abi.h, for metrics, quality records and the documentation.
#pragma once

#include "bpf/abi.h"

enum fp_outcome_class { FP_CLASS_KEPT, FP_CLASS_FILTERED, FP_CLASS_DROPPED };

struct fp_outcome_row {
	enum fp_outcome_class class;
	const char *label; // "map_full"
	const char *text;
};

extern const struct fp_outcome_row fp_outcome_rows[FP_OUTCOME_COUNT];
extern const char *const fp_outcome_class_names[];	     // "kept", "filtered", "dropped"
extern const char *const fp_program_names[FP_PROGRAM_COUNT]; // "cpu", "switch_out", …

// Sum of one class over a program's outcomes.
fp_u64 fp_totals_class(const struct fp_totals *totals, enum fp_outcome_class class);
// Adds every counter of `more`.
void fp_totals_add(struct fp_totals *sum, const struct fp_totals *more);
// runs = kept + filtered + dropped
_Bool fp_totals_balanced(const struct fp_totals *totals);
// What a thread is off the CPU for, as the label `state` says it: "interruptible", "preempted", …
const char *fp_away_reason_name(fp_u32 reason);
