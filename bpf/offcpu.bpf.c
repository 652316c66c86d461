/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * offcpu: time that tasks spend blocked. On the way out (sched_switch) only the time and the
 * state are stored with the task. The interval is closed either in the context of the task
 * that has come back (sched_exit_tp, 6.16+), where its stack is still what it blocked on, or,
 * where the kernel has no such hook, at the next sched_switch that brings it in, with the
 * stack taken on the way out. `keep_interval` is the one place that decides which intervals are
 * worth a stack walk.
 */
#include "bpf/sample.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

enum { ROW_OUT, ROW_IN, ROWS };

FP_COUNT_MAP(offcpu_counts_0);
FP_COUNT_MAP(offcpu_counts_1);
FP_STACK_RING(offcpu_stacks);
FP_SCRATCH_MAP(offcpu_scratch);
FP_TOTALS_MAP(offcpu_totals, ROWS);

/* Settings, fixed before load. */
const volatile bool fp_way_out;	       /* stacks on the way out, no hook on the way in */
const volatile bool fp_has_prev_state; /* sched_switch passes prev_state (5.18+) */
const volatile bool fp_kernel_threads; /* count kernel threads too */

struct departure {
	u64 time_ns;	   /* 0: none noted */
	struct fp_key key; /* fp_way_out: the stack it left with */
	u32 state;
	u32 padding;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct departure);
} departures SEC(".maps");

static __always_inline struct fp_totals *totals_row(u32 epoch, u32 row)
{
	u32 index = epoch * ROWS + row;

	return bpf_map_lookup_elem(&offcpu_totals, &index);
}

/* 1 interruptible, 2 uninterruptible, 3 stopped or traced; 0: not blocked. */
static __always_inline u32 sleep_state(u32 state)
{
	if (state & TASK_UNINTERRUPTIBLE)
		return 2;
	if (state & (TASK_STOPPED | TASK_TRACED))
		return 3;
	return state ? 1 : 0;
}

static __always_inline u32 task_state(struct task_struct *task)
{
	struct task_struct___before_5_14 *old = (void *)task;

	if (bpf_core_field_exists(task->__state))
		return task->__state;
	return (u32)BPF_CORE_READ(old, state);
}

/* The value an interval counts for; 0: not kept. Every interval is, at its own length. */
static __always_inline u64 keep_interval(u64 duration_ns)
{
	return duration_ns;
}

/* Describes the current task, walks its stack and makes the key. */
static __always_inline void take_stack(void *context, struct fp_scratch *scratch,
				       struct task_struct *task, u32 state, u32 epoch)
{
	struct fp_user_registers registers = {};
	struct fp_hash hash;
	u32 kernel_len;

	fp_describe_task(&scratch->record, task, &hash);
	scratch->record.source = FP_SOURCE_OFFCPU;
	scratch->record.state = state;
	scratch->record.epoch = epoch;
	scratch->record.time_ns = bpf_ktime_get_ns();
	scratch->record.kernel_thread = (task->flags & PF_KTHREAD) != 0;
	fp_hash_mix(&hash, state);
	kernel_len = fp_take_kernel_stack(context, scratch, &hash);
	if (fp_has_user_side(task, task->flags))
		fp_saved_registers(task, &registers);
	fp_take_user_side(context, scratch, task, &registers, kernel_len, &hash);
	fp_hash_finish(&hash, &scratch->record.key);
}

static __always_inline enum fp_outcome count_interval(const struct fp_stack_record *record,
						      u32 epoch, u64 count, u64 value,
						      struct fp_count **ret_entry)
{
	return epoch ? fp_count_add(&offcpu_counts_1, record, count, value, ret_entry)
		     : fp_count_add(&offcpu_counts_0, record, count, value, ret_entry);
}

/* fp_way_out: the stack is taken and announced now and counted on return. */
static __always_inline enum fp_outcome take_departing_stack(void *context, struct task_struct *task,
							    struct departure *departure, u32 epoch,
							    struct fp_totals *totals)
{
	struct fp_scratch *scratch;
	struct fp_count *entry;
	u32 zero = 0;

	scratch = bpf_map_lookup_elem(&offcpu_scratch, &zero);
	if (!scratch)
		return FP_OUTCOME_NO_SCRATCH;
	take_stack(context, scratch, task, departure->state, epoch);
	departure->key = scratch->record.key;
	count_interval(&scratch->record, epoch, 0, 0, &entry);
	if (entry)
		fp_announce(&offcpu_stacks, scratch, task, entry, totals);
	return FP_OUTCOME_NOTED;
}

/* Why a task that leaves the CPU is of no interest, or NOTED. */
static __always_inline enum fp_outcome judge_departure(struct task_struct *task, bool preempted,
						       u32 state)
{
	if (!task->pid)
		return FP_OUTCOME_IDLE;
	if (fp_tgid && (u32)task->tgid != fp_tgid)
		return FP_OUTCOME_OTHER_PROCESS;
	if (!fp_kernel_threads && task->flags & PF_KTHREAD)
		return FP_OUTCOME_KERNEL_THREAD;
	if (state & TASK_DEAD)
		return FP_OUTCOME_EXITING;
	if (preempted || !sleep_state(state))
		return FP_OUTCOME_PREEMPTED;
	return FP_OUTCOME_NOTED;
}

/* Stores time and state with `task`, which is still current. */
static __always_inline enum fp_outcome note_departure(void *context, struct task_struct *task,
						      u32 state, u32 epoch,
						      struct fp_totals *totals)
{
	struct departure *departure =
	    bpf_task_storage_get(&departures, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	enum fp_outcome outcome = FP_OUTCOME_NOTED;

	if (!departure)
		return FP_OUTCOME_NO_STORAGE;
	if (departure->time_ns)
		totals->unclosed++; /* it came back unseen: that interval is lost, and counted */
	departure->state = sleep_state(state);
	if (fp_way_out)
		outcome = take_departing_stack(context, task, departure, epoch, totals);
	if (outcome == FP_OUTCOME_NOTED)
		departure->time_ns = bpf_ktime_get_ns();
	return outcome;
}

/* Takes the noted departure of `task`; 0 when there is none. */
static __always_inline struct departure *take_departure(struct task_struct *task, u64 *ret_left_ns)
{
	struct departure *departure = bpf_task_storage_get(&departures, task, 0, 0);

	if (!departure || !departure->time_ns)
		return NULL;
	*ret_left_ns = departure->time_ns;
	departure->time_ns = 0; /* used once, whatever happens next */
	return departure;
}

static __always_inline enum fp_outcome close_interval(void *context, struct task_struct *task,
						      struct fp_totals *totals, u32 epoch)
{
	u64 now = bpf_ktime_get_ns(), left_ns, value;
	struct departure *departure = take_departure(task, &left_ns);
	enum fp_outcome outcome;
	struct fp_scratch *scratch;
	struct fp_count *entry;
	u32 zero = 0;

	if (!departure)
		return FP_OUTCOME_NOT_BLOCKED;
	if (now < left_ns)
		return FP_OUTCOME_CLOCK_BACKWARDS;
	value = keep_interval(now - left_ns);
	scratch = bpf_map_lookup_elem(&offcpu_scratch, &zero);
	if (!scratch)
		return FP_OUTCOME_NO_SCRATCH;
	if (fp_way_out) {
		scratch->record.key = departure->key;
		scratch->record.tgid = task->tgid;
	} else {
		take_stack(context, scratch, task, departure->state, epoch);
	}
	outcome = count_interval(&scratch->record, epoch, 1, value, &entry);
	if (entry) {
		totals->value += value;
		if (!fp_way_out)
			fp_announce(&offcpu_stacks, scratch, task, entry, totals);
	}
	return outcome;
}

SEC("tp_btf/sched_switch")
int offcpu_switch(u64 *context)
{
	struct task_struct *prev = (struct task_struct *)context[1];
	struct task_struct *next = (struct task_struct *)context[2];
	u32 epoch = fp_epoch & 1;
	struct fp_totals *out = totals_row(epoch, ROW_OUT), *in = totals_row(epoch, ROW_IN);
	u32 state = fp_has_prev_state ? (u32)context[3] : task_state(prev);
	enum fp_outcome outcome;

	if (!out || !in)
		return 0; /* cannot be: the rows are within the array */
	out->runs++;
	outcome = judge_departure(prev, context[0] & 1, state);
	if (outcome == FP_OUTCOME_NOTED)
		outcome = note_departure(context, prev, state, epoch, out);
	fp_outcome(out, outcome);
	if (fp_way_out) {
		in->runs++;
		fp_outcome(in, close_interval(context, next, in, epoch));
	}
	return 0;
}

SEC("?tp_btf/sched_exit_tp")
int offcpu_return(u64 *context)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();
	u32 epoch = fp_epoch & 1;
	struct fp_totals *totals = totals_row(epoch, ROW_IN);

	if (!totals)
		return 0; /* cannot be: the row is within the array */
	totals->runs++;
	return fp_outcome(totals, close_interval(context, task, totals, epoch));
}
