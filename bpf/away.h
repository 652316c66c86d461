/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * away: what is known of a task that has left the CPU: its departure, the durations of all
 * intervals, and the way of a kept part into the count map.
 * Invariant: whoever takes a departure's word (return, cut) owns the interval up to then; the
 * word changes hands atomically, so no time is counted twice.
 *
 * Task storage costs as much as everything else a switch needs, since its lookup is a call. So
 * the word alone stands in an array of 65,536 slots, by the lower bits of the task's id, with the
 * upper ones as its tag; the slot belongs to whoever is away in it. Who finds it taken, and
 * sessions that must know more than the word, use task storage. A dying task gives its slot back.
 */
#ifndef FLEETPROF_AWAY_H
#define FLEETPROF_AWAY_H

#include "bpf/keep.h"
#include "bpf/sample.h"
#include "bpf/threshold.h"

enum { ROW_OUT, ROW_IN, ROW_READY, ROW_BLOCKED, ROW_WAKE, ROW_WAKER, ROWS };

FP_COUNT_MAP(offcpu_counts_0);
FP_COUNT_MAP(offcpu_counts_1);
FP_STACK_RING(offcpu_stacks);
FP_SCRATCH_MAP(offcpu_scratch);
FP_TOTALS_MAP(offcpu_totals, ROWS);

/* fp_kick: a ring for every CPU, since each has one wake-up that can be under way. */
struct kick_ring {
	__uint(type, BPF_MAP_TYPE_USER_RINGBUF);
	__uint(max_entries, 4096);
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1); /* possible CPUs, set and filled by user space */
	__type(key, u32);
	__array(values, struct kick_ring);
} offcpu_kicks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, FP_EPOCHS *FP_DURATIONS_ROWS);
	__type(key, u32);
	__type(value, struct fp_durations);
} offcpu_durations SEC(".maps");

/* What this CPU's programs hand on to one another. */
struct cpu_state {
	u64 lots;		       /* state of the generator of random numbers */
	struct fp_offset clock_offset; /* see switch_time */
	/* What a task counts for that has come back, until the hook in its context takes its
	 * stack: in part or not at all 0. */
	u64 blocked_value, ready_value, waker_value;
	struct fp_key waker_key;
	u32 pid; /* whose; 0: nothing is owed */
	u32 reason;
	bool blocked, ready; /* there is such a part */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct cpu_state);
} offcpu_cpu SEC(".maps");

/* Settings, fixed before load. */
const volatile bool fp_way_out;	       /* stacks on the way out, no hook on the way in */
const volatile bool fp_kick;	       /* an interrupt of our own is the hook on the way in */
const volatile bool fp_has_prev_state; /* sched_switch passes prev_state (5.18+) */
const volatile bool fp_kernel_threads; /* count kernel threads too */
const volatile bool fp_run_queue;      /* time ready to run is a profile of its own */
const volatile bool fp_wakers;	       /* who wakes is a profile of its own */

/* fp_way_out: the stack a task left with. */
struct kept {
	struct fp_key key;	 /* of its blocked part */
	struct fp_key ready_key; /* of the part after the wake-up */
	u64 weight;		 /* 0: left out */
};

struct away {
	u64 word; /* fp_away_word; its tag is the index into `kept` */
	u64 woken_ns;
	u64 waker_value; /* what the interval counts for under its waker; 0: not kept */
	struct fp_key waker_key;
	struct kept kept[2];
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct away);
} departures SEC(".maps");

#define SLOTS	  65536 /* a power of two; task ids are below 2^22, so tags below 64 */
#define SLOT_BITS 16

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SLOTS);
	__type(key, u32);
	__type(value, u64);
} away_slots SEC(".maps");

fp_u64 fp_crowded; /* 1: there has been a departure in task storage for want of a slot */

/* Whether departures need more than a word. */
static __always_inline bool know_more(void)
{
	return fp_way_out || fp_run_queue || fp_wakers;
}

static __always_inline struct fp_totals *totals_row(u32 epoch, u32 row)
{
	u32 index = epoch * ROWS + row;

	return bpf_map_lookup_elem(&offcpu_totals, &index);
}

static __always_inline u32 away_reason(u64 word)
{
	return word & FP_AWAY_REASON_MASK;
}

static __always_inline bool away_ready(u64 word)
{
	return away_reason(word) >= FP_AWAY_PREEMPTED;
}

static __always_inline struct kept *kept_slot(struct away *away, u64 word)
{
	return fp_away_tag(word) ? &away->kept[1] : &away->kept[0];
}

/* Where the word of a task is or would be. */
struct place {
	u64 *word;	   /* NULL: nowhere */
	struct away *away; /* what is known besides; NULL: it is a slot */
};

static __always_inline u64 *slot_of(struct task_struct *task)
{
	u32 index = (u32)task->pid & (SLOTS - 1);

	return bpf_map_lookup_elem(&away_slots, &index);
}

static __always_inline u32 tag_of(struct task_struct *task)
{
	return (u32)task->pid >> SLOT_BITS;
}

static __always_inline void find_stored(struct task_struct *task, u64 flags, struct place *ret)
{
	ret->away = bpf_task_storage_get(&departures, task, 0, flags);
	ret->word = ret->away ? &ret->away->word : NULL;
}

/* The place of a task that may be away. */
static __always_inline void find_away(struct task_struct *task, struct place *ret)
{
	u64 word;

	ret->away = NULL;
	ret->word = know_more() ? NULL : slot_of(task);
	if (ret->word) {
		word = *(volatile u64 *)ret->word;
		if (word && fp_away_tag(word) == tag_of(task))
			return;
	}
	ret->word = NULL;
	if (know_more() || fp_crowded)
		find_stored(task, 0, ret);
}

/*
 * A place for the departure `word` of a task: a free slot, which then holds it, or storage, which
 * does not yet. Returns whether the task was still away in it: it came back unseen.
 */
static __always_inline bool find_room(struct task_struct *task, u64 word, struct place *ret)
{
	u64 old;

	ret->away = NULL;
	ret->word = know_more() ? NULL : slot_of(task);
	if (ret->word) {
		old = __sync_val_compare_and_swap(ret->word, 0, word);
		if (!old)
			return false;
		if (fp_away_tag(old) == tag_of(task)) {
			__sync_lock_test_and_set(ret->word, word);
			return true;
		}
	}
	find_stored(task, BPF_LOCAL_STORAGE_GET_F_CREATE, ret);
	if (!ret->word)
		return false;
	if (!fp_crowded)
		fp_crowded = 1; /* for good: it is read at every switch, and counting is dear */
	return *(volatile u64 *)ret->word != 0;
}

/* Empties the place; the word that was in it. */
static __always_inline u64 take_word(const struct place *place)
{
	return __sync_lock_test_and_set(place->word, 0);
}

/* FP_AWAY_RUNNING: not blocked. */
static __always_inline enum fp_away_reason sleep_reason(u32 state)
{
	if (state & TASK_UNINTERRUPTIBLE && !(state & TASK_NOLOAD))
		return FP_AWAY_UNINTERRUPTIBLE;
	if (state & (TASK_STOPPED | TASK_TRACED))
		return FP_AWAY_STOPPED;
	return state ? FP_AWAY_INTERRUPTIBLE : FP_AWAY_RUNNING;
}

static __always_inline u32 task_state(struct task_struct *task)
{
	struct task_struct___before_5_14 *old = (void *)task;

	if (bpf_core_field_exists(task->__state))
		return task->__state;
	return (u32)BPF_CORE_READ(old, state);
}

/*
 * The time of this switch, CLOCK_MONOTONIC. Reading that clock is the dearest part of a run, above
 * all in a virtual machine, and the scheduler has just read its own: rq->clock, of this CPU. What
 * lies between the two is found out now and then. Where an idle CPU goes to work the scheduler keeps
 * to the time of the wake-up (it marks its clock as not to be read again, RQCF_REQ_SKIP), which is
 * early by some microseconds and can be by 100: there the clock is read.
 */
static __always_inline u64 switch_time(struct cpu_state *cpu, struct task_struct *prev)
{
	u64 clock, now;

	if (!prev->pid || !bpf_core_field_exists(prev->se.cfs_rq) ||
	    !bpf_core_field_exists(prev->se.cfs_rq->rq) ||
	    !bpf_core_field_exists(prev->se.cfs_rq->rq->clock))
		return bpf_ktime_get_ns();
	clock = prev->se.cfs_rq->rq->clock;
	if (!fp_offset_due(&cpu->clock_offset, clock))
		return clock + cpu->clock_offset.value;
	now = bpf_ktime_get_ns();
	fp_offset_read(&cpu->clock_offset, clock, now);
	return now;
}

/* Every interval, kept or not: what the estimates can be held against. */
static __always_inline void note_duration(u32 epoch, enum fp_duration_row row, u64 duration_ns)
{
	u32 index = epoch * FP_DURATIONS_ROWS + row, bucket = fp_duration_bucket(duration_ns);
	struct fp_durations *durations = bpf_map_lookup_elem(&offcpu_durations, &index);

	if (!durations || bucket >= FP_DURATION_BUCKETS)
		return; /* cannot be: both are within their arrays */
	durations->count[bucket]++;
	durations->sum_ns[bucket] += duration_ns;
}

/* Describes the current task and walks its stack; keys begin with the scratch's hash. */
static __always_inline void take_stack(void *context, struct fp_scratch *scratch,
				       struct task_struct *task, u32 epoch)
{
	struct fp_user_registers registers = {};
	struct fp_hash hash;
	u32 kernel_len;

	fp_describe_task(&scratch->record, task, &hash);
	scratch->record.epoch = epoch;
	scratch->record.time_ns = bpf_ktime_get_ns();
	scratch->record.kernel_thread = (task->flags & PF_KTHREAD) != 0;
	kernel_len = fp_take_kernel_stack(context, scratch, &hash);
	if (fp_has_user_side(task, task->flags))
		fp_saved_registers(task, &scratch->walk, &registers);
	fp_take_user_side(context, scratch, task, &registers, kernel_len, &hash);
	scratch->hash = hash;
}

/* Completes record and key of a stack that was taken: the same frames in another state are
 * another key. */
static __always_inline void set_state(struct fp_scratch *scratch, enum fp_source source,
				      enum fp_away_reason state)
{
	struct fp_hash hash = scratch->hash;

	scratch->record.source = source;
	scratch->record.state = state;
	fp_hash_mix(&hash, ((u64)source << 32) | state);
	fp_hash_finish(&hash, &scratch->record.key);
}

static __always_inline enum fp_source reason_source(enum fp_away_reason reason)
{
	return reason >= FP_AWAY_PREEMPTED ? FP_SOURCE_RUNQUEUE : FP_SOURCE_OFFCPU;
}

static __always_inline enum fp_outcome count_interval(const struct fp_stack_record *record,
						      u32 epoch, u64 count, u64 value,
						      struct fp_count **ret_entry)
{
	return epoch ? fp_count_add(&offcpu_counts_1, record, count, value, ret_entry)
		     : fp_count_add(&offcpu_counts_0, record, count, value, ret_entry);
}

/* Counts one interval under the key of the scratch's record, whose frames are sent when new.
 * A count of 0 sends them all the same, for a count that comes later. */
static __always_inline enum fp_outcome count_stack(struct fp_scratch *scratch,
						   struct task_struct *task, u32 epoch, u64 count,
						   u64 value, struct fp_totals *totals)
{
	struct fp_count *entry;
	enum fp_outcome outcome = count_interval(&scratch->record, epoch, count, value, &entry);

	if (entry) {
		totals->value += value;
		fp_announce(&offcpu_stacks, scratch, task, entry, totals);
	}
	return outcome;
}

/* The same where the frames were sent when the task left. */
static __always_inline enum fp_outcome count_kept(struct fp_scratch *scratch,
						  struct task_struct *task,
						  const struct fp_key *key, enum fp_source source,
						  u32 epoch, u64 value, struct fp_totals *totals)
{
	struct fp_count *entry;
	enum fp_outcome outcome;

	scratch->record.key = *key;
	scratch->record.tgid = task->tgid;
	scratch->record.source = source;
	outcome = count_interval(&scratch->record, epoch, 1, value, &entry);
	totals->value += entry ? value : 0;
	return outcome;
}

/* fp_way_out: sends the frames taken of a task that is away, and notes their keys. */
static __always_inline void keep_stack(struct fp_scratch *scratch, struct task_struct *task,
				       enum fp_away_reason reason, u32 epoch, struct kept *kept,
				       struct fp_totals *totals)
{
	set_state(scratch, reason_source(reason), reason);
	kept->key = scratch->record.key;
	count_stack(scratch, task, epoch, 0, 0, totals);
	if (!fp_run_queue || reason >= FP_AWAY_PREEMPTED)
		return;
	set_state(scratch, FP_SOURCE_RUNQUEUE, FP_AWAY_WOKEN);
	kept->ready_key = scratch->record.key;
	count_stack(scratch, task, epoch, 0, 0, totals);
}

#endif
