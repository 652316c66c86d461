/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * waker: when a blocked task is woken, and by whom. The lot is drawn at the wake-up, with a
 * quantum and a brake of its own, since only there the waker's stack can be taken; the sleeper's
 * is taken when it is back. The two are counted under a key made of both keys.
 */
#ifndef FLEETPROF_WAKER_H
#define FLEETPROF_WAKER_H

#include "bpf/away.h"

FP_SCRATCH_MAP(waker_scratch); /* a wake-up may interrupt a return */

/* Takes the stack of the current task as that of a waker. */
static __always_inline enum fp_outcome take_waker(void *context, struct away *away, u64 value,
						  u32 epoch, u64 now, struct fp_totals *totals)
{
	struct task_struct *waker = (struct task_struct *)bpf_get_current_task_btf();
	struct fp_scratch *scratch;
	u32 zero = 0;

	scratch = bpf_map_lookup_elem(&waker_scratch, &zero);
	if (!scratch)
		return FP_OUTCOME_NO_SCRATCH;
	totals->walks++;
	brake_walk(&fp_waker_brake, &fp_waker_control, now);
	take_stack(context, scratch, waker, epoch);
	set_state(scratch, FP_SOURCE_WAKER, FP_AWAY_RUNNING);
	away->waker_key = scratch->record.key;
	away->waker_value = value;
	count_stack(scratch, waker, epoch, 0, 0, totals);
	return FP_OUTCOME_NOTED;
}

static __always_inline int wake(void *context, struct task_struct *task, u32 epoch)
{
	struct fp_totals *totals = totals_row(epoch, ROW_WAKE);
	enum fp_outcome outcome = FP_OUTCOME_NOTED;
	u64 word, now, value;
	s64 elapsed;
	struct away *away;

	if (!totals)
		return 0; /* cannot be: the row is within the array */
	totals->runs++;
	if (fp_tgid && (u32)task->tgid != fp_tgid)
		return fp_outcome(totals, FP_OUTCOME_OTHER_PROCESS);
	away = bpf_task_storage_get(&departures, task, 0, 0);
	word = away ? *(volatile u64 *)&away->word : 0;
	if (!away || !word || away_ready(word))
		return fp_outcome(totals, FP_OUTCOME_NOT_BLOCKED);
	now = bpf_ktime_get_ns();
	away->woken_ns = now;
	elapsed = fp_away_elapsed(word, now);
	if (!fp_wakers || elapsed <= 0)
		return fp_outcome(totals, FP_OUTCOME_NOTED);
	value = fp_keep_slowly(elapsed, now, 1);
	if (fp_way_out)
		value *= kept_slot(away, word)->weight;
	if (value)
		outcome = take_waker(context, away, value, epoch, now, totals);
	else
		outcome = FP_OUTCOME_NOT_KEPT;
	return fp_outcome(totals, outcome);
}

/* Counts `value`, which the wake-up of `task` was kept for, under the keys of the stack that
 * blocked and the one that woke it. The scratch's frames are overwritten. */
static __always_inline void count_waker(struct fp_scratch *scratch, struct task_struct *task,
					u64 value, const struct fp_key *waker_key,
					const struct fp_key *sleeper_key,
					enum fp_away_reason reason, u32 epoch)
{
	struct fp_totals *totals = totals_row(epoch, ROW_WAKER);
	struct fp_key blocked = *sleeper_key, waker = *waker_key;
	struct fp_hash hash;

	if (!totals)
		return; /* cannot be: the row is within the array */
	totals->runs++;
	fp_describe_task(&scratch->record, task, &hash);
	scratch->record.epoch = epoch;
	scratch->record.time_ns = bpf_ktime_get_ns();
	scratch->record.kernel_thread = (task->flags & PF_KTHREAD) != 0;
	scratch->record.kernel_len = 0;
	scratch->record.kernel_truncated = 0;
	fp_no_user_side(&scratch->record);
	scratch->record.user_len = FP_PAIR_WORDS;
	scratch->frames[0] = blocked.hi;
	scratch->frames[1] = blocked.lo;
	scratch->frames[2] = waker.hi;
	scratch->frames[3] = waker.lo;
	fp_hash_mix(&hash, blocked.hi);
	fp_hash_mix(&hash, blocked.lo);
	fp_hash_mix(&hash, waker.hi);
	fp_hash_mix(&hash, waker.lo);
	scratch->hash = hash;
	set_state(scratch, FP_SOURCE_WAKER, reason);
	fp_outcome(totals, count_stack(scratch, task, epoch, 1, value, totals));
}

#endif
