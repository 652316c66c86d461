/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * offcpu: time that tasks spend off the CPU. On the way out (sched_switch) only the time and the
 * reason are stored with the task. The interval is closed either in the context of the task
 * that has come back (sched_exit_tp, 6.16+, or fexit of schedule), where its stack is still what
 * it blocked on, or, where the kernel has neither, at the next sched_switch that brings it in,
 * with the stack taken on the way out. Which intervals are worth a walk: bpf/threshold.h.
 */
#include "bpf/away.h"
#include "bpf/blocked.h"
#include "bpf/waker.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* fp_way_out: the stack is taken and announced now and counted on return. */
static __always_inline enum fp_outcome take_departing_stack(void *context, struct task_struct *task,
							    struct kept *kept,
							    enum fp_away_reason reason, u32 epoch,
							    u64 now, struct fp_totals *totals)
{
	struct fp_scratch *scratch;
	u32 zero = 0;

	kept->weight = keep_departure(now);
	if (!kept->weight)
		return FP_OUTCOME_NOTED;
	scratch = bpf_map_lookup_elem(&offcpu_scratch, &zero);
	if (!scratch)
		return FP_OUTCOME_NO_SCRATCH;
	totals->walks++;
	brake_walk(&fp_brake, &fp_control, now);
	take_stack(context, scratch, task, epoch);
	keep_stack(scratch, task, reason, epoch, kept, totals);
	return FP_OUTCOME_NOTED;
}

/* Why a task that leaves the CPU is of no interest, or NOTED and for what it is away. */
static __always_inline enum fp_outcome judge_departure(struct task_struct *task, bool preempted,
						       u32 state, enum fp_away_reason *ret_reason)
{
	*ret_reason = preempted ? FP_AWAY_RUNNING : sleep_reason(state);
	if (!task->pid)
		return FP_OUTCOME_IDLE;
	if (fp_tgid && (u32)task->tgid != fp_tgid)
		return FP_OUTCOME_OTHER_PROCESS;
	if (!fp_kernel_threads && task->flags & PF_KTHREAD)
		return FP_OUTCOME_KERNEL_THREAD;
	if (state & TASK_DEAD)
		return FP_OUTCOME_EXITING;
	if (*ret_reason == FP_AWAY_RUNNING && fp_run_queue)
		*ret_reason = FP_AWAY_PREEMPTED;
	return *ret_reason == FP_AWAY_RUNNING ? FP_OUTCOME_PREEMPTED : FP_OUTCOME_NOTED;
}

/* Stores time and reason with `task`, which is still current. */
static __always_inline enum fp_outcome note_departure(void *context, struct task_struct *task,
						      enum fp_away_reason reason, u32 epoch,
						      u64 now, struct fp_totals *totals)
{
	struct away *away =
	    bpf_task_storage_get(&departures, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	enum fp_outcome outcome = FP_OUTCOME_NOTED;

	if (!away)
		return FP_OUTCOME_NO_STORAGE;
	if (away->word) {
		totals->unclosed++; /* it came back unseen: that interval is lost, and counted */
		away->word = 0;
	}
	if (fp_run_queue || fp_wakers) {
		away->woken_ns = 0;
		away->waker_value = 0;
	}
	if (fp_unsure_return)
		away->ran_ns = task->se.sum_exec_runtime;
	if (fp_way_out)
		outcome =
		    take_departing_stack(context, task, &away->kept[0], reason, epoch, now, totals);
	if (outcome == FP_OUTCOME_NOTED)
		*(volatile u64 *)&away->word = fp_away_word(now, reason, 0);
	return outcome;
}

/* An interval that has ended, in its two parts. */
struct ended {
	struct away *away;
	u64 word, now;
	u64 blocked_ns, ready_ns;
	bool blocked, ready; /* there is such a part */
};

/* Takes the departure of `task`, which came back at `now`; AGGREGATED: there is an interval. */
static __always_inline enum fp_outcome take_departure(struct task_struct *task, u64 now,
						      struct fp_totals *totals, struct ended *ret)
{
	struct away *away = bpf_task_storage_get(&departures, task, 0, 0);
	u64 left, woken = 0;

	if (!away || !away->word)
		return FP_OUTCOME_NOT_BLOCKED;
	ret->away = away;
	ret->word = __sync_lock_test_and_set(&away->word, 0);
	left = ret->word & FP_AWAY_TIME_MASK;
	if (!left)
		return FP_OUTCOME_NOT_BLOCKED;
	if (fp_unsure_return && task->se.sum_exec_runtime - away->ran_ns > 1000000) {
		totals->unclosed++; /* it has run since: this is not the return from there */
		return FP_OUTCOME_NOT_BLOCKED;
	}
	if (now < left) {
		if (left - now > 8) /* what rounding to units of 16 ns can make of it */
			return FP_OUTCOME_CLOCK_BACKWARDS;
		now = left;
	}
	ret->now = now;
	ret->blocked = !away_ready(ret->word);
	ret->ready = !ret->blocked;
	ret->blocked_ns = ret->blocked ? now - left : 0;
	ret->ready_ns = ret->ready ? now - left : 0;
	if (fp_run_queue)
		woken = away->woken_ns;
	if (woken > left && woken < now && ret->blocked) {
		ret->ready = true;
		ret->ready_ns = now - woken;
		ret->blocked_ns -= ret->ready_ns;
	}
	return FP_OUTCOME_AGGREGATED;
}

/* Values of the parts under the stack the task left with. */
static __always_inline void close_way_out(struct task_struct *task, const struct ended *ended,
					  u32 epoch, struct fp_totals *in, struct fp_totals *ready)
{
	const struct kept *kept = kept_slot(ended->away, ended->word);
	const struct fp_key *ready_key = ended->blocked ? &kept->ready_key : &kept->key;
	struct fp_scratch *scratch;
	u64 weight = kept->weight;
	u32 zero = 0;

	scratch = weight ? bpf_map_lookup_elem(&offcpu_scratch, &zero) : NULL;
	if (!scratch) {
		in->outcomes[weight ? FP_OUTCOME_NO_SCRATCH : FP_OUTCOME_NOT_KEPT] +=
		    ended->blocked;
		ready->outcomes[weight ? FP_OUTCOME_NO_SCRATCH : FP_OUTCOME_NOT_KEPT] +=
		    ended->ready;
		return;
	}
	if (ended->blocked)
		fp_outcome(in, count_kept(scratch, task, &kept->key, FP_SOURCE_OFFCPU, epoch,
					  ended->blocked_ns * weight, in));
	if (ended->ready)
		fp_outcome(ready, count_kept(scratch, task, ready_key, FP_SOURCE_RUNQUEUE, epoch,
					     ended->ready_ns * weight, ready));
	if (ended->away->waker_value)
		count_waker(scratch, task, ended->away, &kept->key, away_reason(ended->word),
			    epoch);
}

/*
 * Counts the stack in the scratch as one of `state` with `value`, and the outcome in the totals'
 * row. With a value of 0 its frames are sent all the same, for a count that is made of its key.
 * A function to the verifier too, checked once for all its callers.
 */
__attribute__((noinline)) int fp_count_current(u32 row, u32 epoch, u32 state, u64 value)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();
	struct fp_totals *totals = totals_row(epoch & 1, row);
	struct fp_scratch *scratch;
	enum fp_outcome outcome;
	u32 zero = 0;

	if (!totals)
		return 0; /* cannot be: the row is within the array */
	scratch = bpf_map_lookup_elem(&offcpu_scratch, &zero);
	if (!scratch)
		return fp_outcome(totals, FP_OUTCOME_NO_SCRATCH);
	set_state(scratch, reason_source(state), state);
	outcome = count_stack(scratch, task, epoch & 1, value != 0, value, totals);
	if (!value && outcome == FP_OUTCOME_AGGREGATED)
		outcome = FP_OUTCOME_NOT_KEPT;
	return fp_outcome(totals, outcome);
}

/* The same with the stack taken here, of what is kept. */
static __always_inline void close_kept(void *context, struct task_struct *task,
				       const struct ended *ended, u64 blocked_value,
				       u64 ready_value, u32 epoch, struct fp_totals *in,
				       struct fp_totals *ready)
{
	enum fp_away_reason reason = away_reason(ended->word);
	u64 waker_value = ended->away->waker_value;
	struct fp_scratch *scratch;
	u32 zero = 0;

	scratch = bpf_map_lookup_elem(&offcpu_scratch, &zero);
	if (!scratch) {
		in->outcomes[FP_OUTCOME_NO_SCRATCH] += ended->blocked;
		ready->outcomes[FP_OUTCOME_NO_SCRATCH] += ended->ready;
		return;
	}
	in->walks++;
	brake_walk(&fp_brake, &fp_control, ended->now);
	take_stack(context, scratch, task, epoch);
	if (ready_value)
		fp_count_current(ROW_READY, epoch, ended->blocked ? FP_AWAY_WOKEN : reason,
				 ready_value);
	else
		ready->outcomes[FP_OUTCOME_NOT_KEPT] += ended->ready;
	if (blocked_value || waker_value)
		fp_count_current(ROW_IN, epoch, reason, blocked_value);
	else
		in->outcomes[FP_OUTCOME_NOT_KEPT] += ended->blocked;
	if (waker_value)
		count_waker(scratch, task, ended->away, &scratch->record.key, reason, epoch);
}

static __always_inline void close_here(void *context, struct cpu_state *cpu,
				       struct task_struct *task, const struct ended *ended,
				       u32 epoch, struct fp_totals *in, struct fp_totals *ready)
{
	u64 blocked_value = 0, ready_value = 0;

	if (ended->blocked)
		blocked_value = keep_interval(cpu, ended->blocked_ns, ended->now);
	if (ended->ready)
		ready_value = keep_interval(cpu, ended->ready_ns, ended->now);
	if (blocked_value || ready_value || ended->away->waker_value) {
		close_kept(context, task, ended, blocked_value, ready_value, epoch, in, ready);
		return;
	}
	in->outcomes[FP_OUTCOME_NOT_KEPT] += ended->blocked;
	ready->outcomes[FP_OUTCOME_NOT_KEPT] += ended->ready;
}

static __always_inline int come_back(void *context, struct cpu_state *cpu, struct task_struct *task,
				     u32 epoch)
{
	struct fp_totals *in = totals_row(epoch, ROW_IN), *ready = totals_row(epoch, ROW_READY);
	enum fp_outcome outcome;
	struct ended ended;

	if (!in || !ready)
		return 0; /* cannot be: the rows are within the array */
	in->runs++;
	outcome = take_departure(task, cpu->switch_ns, in, &ended);
	if (outcome != FP_OUTCOME_AGGREGATED)
		return fp_outcome(in, outcome);
	if (!ended.blocked)
		fp_outcome(in, FP_OUTCOME_PREEMPTED);
	else
		note_duration(epoch, FP_DURATIONS_BLOCKED, ended.blocked_ns);
	if (ended.ready) {
		ready->runs++;
		note_duration(epoch, FP_DURATIONS_READY, ended.ready_ns);
	}
	if (fp_way_out)
		close_way_out(task, &ended, epoch, in, ready);
	else
		close_here(context, cpu, task, &ended, epoch, in, ready);
	return 0;
}

/* One reading of the clock serves who leaves and who comes: it is the dearest part of a run. */
SEC("tp_btf/sched_switch")
int offcpu_switch(u64 *context)
{
	struct task_struct *prev = (struct task_struct *)context[1];
	struct task_struct *next = (struct task_struct *)context[2];
	u32 epoch = fp_epoch & 1, zero = 0;
	struct fp_totals *out = totals_row(epoch, ROW_OUT);
	struct cpu_state *cpu = bpf_map_lookup_elem(&offcpu_cpu, &zero);
	u32 state = fp_has_prev_state ? (u32)context[3] : task_state(prev);
	enum fp_away_reason reason;
	enum fp_outcome outcome;

	if (!out || !cpu)
		return 0; /* cannot be: both are within their arrays */
	out->runs++;
	cpu->switch_ns = bpf_ktime_get_ns();
	outcome = judge_departure(prev, context[0] & 1, state, &reason);
	if (outcome == FP_OUTCOME_NOTED)
		outcome = note_departure(context, prev, reason, epoch, cpu->switch_ns, out);
	fp_outcome(out, outcome);
	if (fp_way_out)
		come_back(context, cpu, next, epoch);
	return 0;
}

/* In the context of the task that the CPU's last sched_switch brought in. */
static __always_inline int return_of_current(void *context)
{
	u32 zero = 0;
	struct cpu_state *cpu = bpf_map_lookup_elem(&offcpu_cpu, &zero);

	if (!cpu)
		return 0; /* cannot be: the index is within the array */
	return come_back(context, cpu, (struct task_struct *)bpf_get_current_task_btf(),
			 fp_epoch & 1);
}

SEC("?tp_btf/sched_exit_tp")
int offcpu_return(u64 *context)
{
	return return_of_current(context);
}

SEC("?fexit/schedule")
int offcpu_return_fexit(u64 *context)
{
	return return_of_current(context);
}

SEC("?tp_btf/sched_waking")
int offcpu_waking(u64 *context)
{
	return wake(context, (struct task_struct *)context[0], fp_epoch & 1);
}

SEC("?iter.s/task")
int offcpu_visit(struct bpf_iter__task *context)
{
	return visit(context->task);
}
