/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * offcpu: time that tasks spend off the CPU. At a sched_switch the departure of the task that
 * leaves is noted and the interval of the one that comes is closed: its length is known, and the
 * lot is drawn. Only if it is kept, a stack is needed: it is taken in the context of the task that
 * has come back, where it is still what it blocked on: in an interrupt that the CPU sends itself,
 * or by a hook that every switch runs through (sched_exit_tp, 6.16+, or fexit of schedule). Where
 * the kernel has none of them, it is taken at the departure. bpf/threshold.h has the lots.
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

/* Notes time and reason of `task`, which is still current. */
static __always_inline enum fp_outcome note_departure(void *context, struct task_struct *task,
						      enum fp_away_reason reason, u32 epoch,
						      u64 now, struct fp_totals *totals)
{
	u64 word = fp_away_word(now, reason, know_more() ? 0 : tag_of(task));
	enum fp_outcome outcome = FP_OUTCOME_NOTED;
	struct place place;

	if (find_room(task, word, &place))
		totals->unclosed++; /* that interval is lost, and counted */
	if (!place.word)
		return FP_OUTCOME_NO_STORAGE;
	if (!place.away)
		return FP_OUTCOME_NOTED;
	*(volatile u64 *)place.word = 0;
	place.away->woken_ns = 0;
	place.away->waker_value = 0;
	if (fp_way_out)
		outcome = take_departing_stack(context, task, &place.away->kept[0], reason, epoch,
					       now, totals);
	if (outcome == FP_OUTCOME_NOTED)
		*(volatile u64 *)place.word = word;
	return outcome;
}

/* A task that dies leaves nothing for the next one with its id. One that leaves without blocking
 * has no departure, or one whose end was not seen. */
static __always_inline bool forget_departure(struct task_struct *task)
{
	struct place place;

	find_away(task, &place);
	return place.word && take_word(&place);
}

#define CLOCKS_APART_NS 20000 /* stamps of two CPUs may be */

/* An interval that has ended, in its two parts. */
struct ended {
	struct away *away; /* NULL: no more is known of it */
	u64 word, now;
	u64 blocked_ns, ready_ns;
	bool blocked, ready; /* there is such a part */
};

/* A task came back of which no wake-up was seen. */
static __always_inline void note_unseen_wake(u32 epoch)
{
	struct fp_totals *wakes = totals_row(epoch, ROW_WAKE);

	if (wakes)
		wakes->unclosed++;
}

/* Takes the departure of `task`, which came back at `now`; AGGREGATED: there is an interval. */
static __always_inline enum fp_outcome take_departure(struct task_struct *task, u64 now, u32 epoch,
						      struct ended *ret)
{
	struct place place;
	s64 elapsed, ready;

	find_away(task, &place);
	if (!place.word)
		return FP_OUTCOME_NOT_BLOCKED;
	ret->away = place.away;
	ret->word = take_word(&place);
	if (!ret->word)
		return FP_OUTCOME_NOT_BLOCKED;
	elapsed = fp_away_elapsed(ret->word, now);
	if (elapsed < 0) {
		/* The window was cut after the scheduler read its clock. */
		now = bpf_ktime_get_ns();
		elapsed = fp_away_elapsed(ret->word, now);
	}
	if (elapsed < 0) {
		if (elapsed < -CLOCKS_APART_NS)
			return FP_OUTCOME_CLOCK_BACKWARDS;
		elapsed = 0;
	}
	ret->now = now;
	ret->blocked = !away_ready(ret->word);
	ret->ready = !ret->blocked;
	ret->blocked_ns = ret->blocked ? elapsed : 0;
	ret->ready_ns = ret->ready ? elapsed : 0;
	if (!(fp_run_queue || fp_wakers) || !ret->blocked || !ret->away)
		return FP_OUTCOME_AGGREGATED;
	if (!ret->away->woken_ns) {
		note_unseen_wake(epoch);
		return FP_OUTCOME_AGGREGATED;
	}
	ready = now - ret->away->woken_ns;
	if (fp_run_queue && ready > 0 && ready < elapsed) {
		ret->ready = true;
		ret->ready_ns = ready;
		ret->blocked_ns -= ready;
	}
	return FP_OUTCOME_AGGREGATED;
}

/* A part of an interval has come to its end in the books. */
static __always_inline void settle(struct fp_totals *totals, bool part, enum fp_outcome outcome)
{
	totals->runs += part;
	totals->outcomes[outcome] += part;
}

/* Values of the parts under the stack the task left with. */
static __always_inline void close_way_out(struct task_struct *task, struct ended *ended, u32 epoch,
					  struct fp_totals *in, struct fp_totals *ready)
{
	struct away *away = ended->away;
	enum fp_outcome outcome;
	struct fp_scratch *scratch;
	const struct kept *kept;
	u32 zero = 0;

	if (!away)
		return; /* cannot be: this hook's departures are in storage */
	kept = kept_slot(away, ended->word);
	scratch = bpf_map_lookup_elem(&offcpu_scratch, &zero);
	if (!kept->weight || !scratch) {
		outcome = scratch ? FP_OUTCOME_NOT_KEPT : FP_OUTCOME_NO_SCRATCH;
		settle(in, ended->blocked, outcome);
		settle(ready, ended->ready, outcome);
		return;
	}
	if (ended->blocked) {
		outcome = count_kept(scratch, task, &kept->key, FP_SOURCE_OFFCPU, epoch,
				     ended->blocked_ns * kept->weight, in);
		settle(in, true, outcome);
	}
	if (ended->ready) {
		outcome =
		    count_kept(scratch, task, ended->blocked ? &kept->ready_key : &kept->key,
			       FP_SOURCE_RUNQUEUE, epoch, ended->ready_ns * kept->weight, ready);
		settle(ready, true, outcome);
	}
	if (fp_wakers && away->waker_value)
		count_waker(scratch, task, away->waker_value, &away->waker_key, &kept->key,
			    away_reason(ended->word), epoch);
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
		return 0; /* cannot be: the caller has it */
	set_state(scratch, reason_source(state), state);
	outcome = count_stack(scratch, task, epoch & 1, value != 0, value, totals);
	if (!value && outcome == FP_OUTCOME_AGGREGATED)
		outcome = FP_OUTCOME_NOT_KEPT;
	settle(totals, true, outcome);
	return 0;
}

static long ignore_message(void *message, void *context)
{
	return 1;
}

/*
 * Makes this CPU interrupt itself as soon as it may, which is when the switch is done: in the
 * context of the task that is back, and still within schedule. Looking into a ring buffer of user
 * space, with a wake-up forced, does that (irq_work); the ring is always empty.
 */
static __always_inline void kick(void)
{
	u32 index = bpf_get_smp_processor_id();
	void *ring = bpf_map_lookup_elem(&offcpu_kicks, &index);

	if (ring) /* else its stack is missed, and counted */
		bpf_user_ringbuf_drain(ring, ignore_message, NULL, BPF_RB_FORCE_WAKEUP);
}

/* Draws the lots. What is kept is owed until the stack is taken. */
static __always_inline void close_here(struct cpu_state *cpu, struct task_struct *task,
				       const struct ended *ended, struct fp_totals *in,
				       struct fp_totals *ready)
{
	u64 blocked_value = 0, ready_value = 0, waker_value = 0;

	if (ended->blocked)
		blocked_value = keep_interval(&cpu->lots, ended->blocked_ns, ended->now);
	if (ended->ready)
		ready_value = keep_interval(&cpu->lots, ended->ready_ns, ended->now);
	if (fp_wakers && ended->away && ended->blocked)
		waker_value = ended->away->waker_value;
	if (!blocked_value && !ready_value && !waker_value) {
		settle(in, ended->blocked, FP_OUTCOME_NOT_KEPT);
		settle(ready, ended->ready, FP_OUTCOME_NOT_KEPT);
		return;
	}
	cpu->pid = task->pid;
	cpu->reason = away_reason(ended->word);
	cpu->blocked = ended->blocked;
	cpu->ready = ended->ready;
	cpu->blocked_value = blocked_value;
	cpu->ready_value = ready_value;
	cpu->waker_value = waker_value;
	if (waker_value)
		cpu->waker_key = ended->away->waker_key;
	if (fp_kick)
		kick();
}

/* The task that comes back with this switch. */
static __always_inline void note_arrival(struct cpu_state *cpu, struct task_struct *task, u32 epoch,
					 u64 now)
{
	struct fp_totals *in = totals_row(epoch, ROW_IN), *ready = totals_row(epoch, ROW_READY);
	enum fp_outcome outcome;
	struct ended ended = {};

	if (!in || !ready)
		return; /* cannot be: the rows are within the array */
	if (!task->pid)
		outcome = FP_OUTCOME_IDLE;
	else if (fp_tgid && (u32)task->tgid != fp_tgid)
		outcome = FP_OUTCOME_OTHER_PROCESS;
	else if (!fp_kernel_threads && task->flags & PF_KTHREAD)
		outcome = FP_OUTCOME_KERNEL_THREAD;
	else
		outcome = take_departure(task, now, epoch, &ended);
	if (outcome != FP_OUTCOME_AGGREGATED) {
		settle(in, true, outcome);
		return;
	}
	if (ended.blocked)
		note_duration(epoch, FP_DURATIONS_BLOCKED, ended.blocked_ns);
	else
		settle(in, true, FP_OUTCOME_PREEMPTED);
	if (ended.ready)
		note_duration(epoch, FP_DURATIONS_READY, ended.ready_ns);
	if (fp_way_out)
		close_way_out(task, &ended, epoch, in, ready);
	else
		close_here(cpu, task, &ended, in, ready);
}

/* In the context of a task that is back: takes the stack that is owed for it. */
static __always_inline int take_owed(void *context)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();
	u32 epoch = fp_epoch & 1, zero = 0;
	struct cpu_state *cpu = bpf_map_lookup_elem(&offcpu_cpu, &zero);
	struct fp_scratch *scratch;
	struct fp_totals *in, *ready;
	struct cpu_state owed;

	if (!cpu || !cpu->pid || (u32)task->pid != cpu->pid)
		return 0;
	in = totals_row(epoch, ROW_IN);
	ready = totals_row(epoch, ROW_READY);
	scratch = bpf_map_lookup_elem(&offcpu_scratch, &zero);
	if (!in || !ready || !scratch)
		return 0; /* given up, and counted, at the next switch */
	owed = *cpu;	  /* a hook that may be preempted finds the next task's there */
	cpu->pid = 0;
	in->walks++;
	brake_walk(&fp_brake, &fp_control, bpf_ktime_get_ns());
	take_stack(context, scratch, task, epoch);
	if (owed.ready_value)
		fp_count_current(ROW_READY, epoch, owed.blocked ? FP_AWAY_WOKEN : owed.reason,
				 owed.ready_value);
	else
		settle(ready, owed.ready, FP_OUTCOME_NOT_KEPT);
	if (owed.blocked_value || owed.waker_value)
		fp_count_current(ROW_IN, epoch, owed.reason, owed.blocked_value);
	else
		settle(in, owed.blocked, FP_OUTCOME_NOT_KEPT);
	if (fp_wakers && owed.waker_value)
		count_waker(scratch, task, owed.waker_value, &owed.waker_key, &scratch->record.key,
			    owed.reason, epoch);
	return 0;
}

/* What is owed from this CPU's last switch was never taken. */
static __always_inline void give_up_owed(struct cpu_state *cpu, u32 epoch)
{
	struct fp_totals *in = totals_row(epoch, ROW_IN), *ready = totals_row(epoch, ROW_READY);

	cpu->pid = 0;
	if (!in || !ready)
		return; /* cannot be: the rows are within the array */
	settle(in, cpu->blocked, FP_OUTCOME_RETURN_UNSEEN);
	settle(ready, cpu->ready, FP_OUTCOME_RETURN_UNSEEN);
}

/* One time serves who leaves and who comes. */
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
	u64 now;

	if (!out || !cpu)
		return 0; /* cannot be: both are within their arrays */
	out->runs++;
	/* A task that is switched out again before its hook ran is still where it blocked, since
	 * schedule goes round again, unless by now it blocks elsewhere. */
	if (cpu->pid && !fp_way_out && (context[0] & 1 || !state))
		take_owed(context);
	if (cpu->pid)
		give_up_owed(cpu, epoch);
	now = switch_time(cpu, prev);
	outcome = judge_departure(prev, context[0] & 1, state, &reason);
	if (outcome == FP_OUTCOME_NOTED)
		outcome = note_departure(context, prev, reason, epoch, now, out);
	else if (outcome == FP_OUTCOME_EXITING || outcome == FP_OUTCOME_PREEMPTED)
		out->unclosed += forget_departure(prev);
	fp_outcome(out, outcome);
	note_arrival(cpu, next, epoch, now);
	return 0;
}

SEC("?tp_btf/irq_work_entry")
int offcpu_return_irq(u64 *context)
{
	return take_owed(context);
}

/* Whether a kick brings an interrupt here is tried before it is relied upon. */
volatile fp_u32 fp_kick_answered;

SEC("?syscall")
int offcpu_try_kick(void *context)
{
	kick();
	return 0;
}

SEC("?tp_btf/irq_work_entry")
int offcpu_kick_answer(u64 *context)
{
	fp_kick_answered = 1;
	return 0;
}

SEC("?tp_btf/sched_exit_tp")
int offcpu_return(u64 *context)
{
	return take_owed(context);
}

SEC("?fexit/schedule")
int offcpu_return_fexit(u64 *context)
{
	return take_owed(context);
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
