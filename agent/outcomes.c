// SPDX-License-Identifier: Apache-2.0
#include "outcomes.h"

#define OUTCOME_ROW(id, class, label, text) [FP_OUTCOME_##id] = { FP_CLASS_##class, label, text },
const struct fp_outcome_row fp_outcome_rows[FP_OUTCOME_COUNT] = { FP_OUTCOMES(OUTCOME_ROW) };

const char *const fp_outcome_class_names[] = { "kept", "filtered", "dropped" };

const char *const fp_program_names[FP_PROGRAM_COUNT] = {
	[FP_PROGRAM_CPU] = "cpu",
	[FP_PROGRAM_SWITCH_OUT] = "switch_out",
	[FP_PROGRAM_SWITCH_IN] = "switch_in",
	[FP_PROGRAM_RUN_QUEUE] = "run_queue",
	[FP_PROGRAM_BLOCKED] = "blocked",
	[FP_PROGRAM_WAKE] = "wake",
	[FP_PROGRAM_WAKER] = "waker",
};

fp_u64 fp_totals_class(const struct fp_totals *totals, enum fp_outcome_class class)
{
	fp_u64 sum = 0;

	for (int outcome = 0; outcome < FP_OUTCOME_COUNT; outcome++) {
		if (fp_outcome_rows[outcome].class == class)
			sum += totals->outcomes[outcome];
	}
	return sum;
}

_Bool fp_totals_balanced(const struct fp_totals *totals)
{
	return totals->runs == fp_totals_class(totals, FP_CLASS_KEPT) +
				   fp_totals_class(totals, FP_CLASS_FILTERED) +
				   fp_totals_class(totals, FP_CLASS_DROPPED);
}

void fp_totals_add(struct fp_totals *sum, const struct fp_totals *more)
{
	sum->runs += more->runs;
	sum->walks += more->walks;
	sum->value += more->value;
	sum->announced += more->announced;
	sum->announce_failed += more->announce_failed;
	sum->unclosed += more->unclosed;
	for (int outcome = 0; outcome < FP_OUTCOME_COUNT; outcome++)
		sum->outcomes[outcome] += more->outcomes[outcome];
}

const char *fp_away_reason_name(fp_u32 reason)
{
	static const char *const names[] = {
		[FP_AWAY_RUNNING] = "running",
		[FP_AWAY_INTERRUPTIBLE] = "interruptible",
		[FP_AWAY_UNINTERRUPTIBLE] = "uninterruptible",
		[FP_AWAY_STOPPED] = "stopped",
		[FP_AWAY_PREEMPTED] = "preempted",
		[FP_AWAY_WOKEN] = "woken",
	};

	return reason < sizeof(names) / sizeof(names[0]) ? names[reason] : "unknown";
}
