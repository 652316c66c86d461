/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * blocked: a visit of all tasks, by a task iterator that user space reads: marks those that are
 * away when sampling begins, and cuts the intervals that go on when a window closes, so that
 * each window holds its own part of a long one. Sleepable, since the stacks are other tasks'.
 * Only one visit of a session runs at a time, so it has one scratch and one state.
 */
#ifndef FLEETPROF_BLOCKED_H
#define FLEETPROF_BLOCKED_H

#include "bpf/away.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct fp_scratch);
} visit_scratch SEC(".maps");

struct fp_visit fp_visit;

/* Lets the memory be read that a stack lies in, when that is safe: memory of a file can be one on a
 * server that never answers, and userfaultfd can hold a reader up as well. */
static long note_stack_memory(struct task_struct *task, struct vm_area_struct *area,
			      struct fp_reader *ret)
{
	if (area->vm_file)
		return 0;
	if (bpf_core_field_exists(area->vm_userfaultfd_ctx.ctx) &&
	    BPF_CORE_READ(area, vm_userfaultfd_ctx.ctx))
		return 0;
	ret->start = area->vm_start;
	ret->end = area->vm_end;
	return 0;
}

struct other_walk {
	struct fp_walk_loop loop;
	struct fp_reader reader;
};

static long step_other_frame(u32 index, struct other_walk *other)
{
	return fp_unwind_step(other->loop.walk, other->loop.frames, index, &other->reader);
}

/* The user side of a task that is away. A 32-bit program's is its instruction alone. */
static __always_inline void take_other_user_side(struct fp_scratch *scratch,
						 struct task_struct *task, u32 from)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
	struct fp_walk *walk = &scratch->walk;
	struct other_walk other = { .loop = { .walk = walk, .frames = scratch->frames },
				    .reader = { .task = task } };

	fp_no_user_side(&scratch->record);
	walk->ip = regs->ip;
	if (!walk->ip || !fp_has_user_side(task, task->flags) ||
	    (bpf_core_field_exists(task->in_execve) && BPF_CORE_READ_BITFIELD(task, in_execve)))
		return;
	FP_COPY_REGISTERS(walk->registers, regs);
	fp_walk_whose(scratch, task);
	fp_walk_start(scratch, from);
	if (fp_visit.kernel_only || (regs->cs & 0xffff) == FP_USER32_CS) {
		fp_walk_done(scratch, 1);
		scratch->record.user_len = 1;
		scratch->record.walk_end = FP_WALK_END_UNKNOWN;
		return;
	}
	bpf_find_vma(task, walk->registers[FP_RSP], note_stack_memory, &other.reader, 0);
	fp_visit.tgid = task->tgid;
	fp_walk_done(scratch, bpf_loop(*(volatile u32 *)&walk->limit, step_other_frame, &other, 0));
	fp_visit.tgid = 0;
	fp_note_root_gap(scratch, task);
}

static __always_inline void take_other_stack(struct fp_scratch *scratch, struct task_struct *task,
					     u32 epoch)
{
	struct fp_hash hash;
	u32 kernel_len;
	long bytes;

	fp_describe_task(&scratch->record, task, &hash);
	scratch->record.cgroup_id = fp_cgroup_id(task);
	scratch->record.epoch = epoch;
	scratch->record.time_ns = bpf_ktime_get_ns();
	scratch->record.kernel_thread = (task->flags & PF_KTHREAD) != 0;
	bytes = bpf_get_task_stack(task, scratch->frames, FP_MAX_FRAMES * sizeof(u64), 0);
	kernel_len = fp_note_kernel_stack(scratch, bytes, &hash);
	scratch->hash = hash;
	take_other_user_side(scratch, task, kernel_len);
}

/*
 * Counts the stack in the scratch as one of `state` with `value`, and the outcome. With a value of
 * 0 its frames are sent all the same, for counts that come later, and there is no outcome yet. A
 * function to the verifier too, checked once for all its callers.
 */
__attribute__((noinline)) int fp_count_visited(u32 epoch, u32 state, u64 value)
{
	struct fp_totals *totals = totals_row(epoch & 1, ROW_BLOCKED);
	struct fp_scratch *scratch;
	enum fp_outcome outcome;
	u32 zero = 0;

	scratch = bpf_map_lookup_elem(&visit_scratch, &zero);
	if (!scratch || !totals)
		return 0; /* cannot be: the caller has both */
	set_state(scratch, reason_source(state), state);
	outcome = count_stack(scratch, NULL, epoch & 1, value != 0, value, totals);
	return value ? fp_outcome(totals, outcome) : 0;
}

/*
 * What a visit has decided before it walks a stack. It lies in memory and not in variables, so that
 * to the verifier there is one way to the walk, whatever led to it; and a static variable would be
 * taken apart by the compiler.
 */
struct {
	fp_u64 word;	  /* of the departure that is marked or ended */
	fp_u64 next_word; /* what replaces it */
	fp_u64 duration_ns;
	fp_u64 value;  /* of the ended part, 0: not kept; not on the way out */
	fp_u64 weight; /* on the way out: of the part that begins; 0: left out */
	fp_u32 reason; /* of the part that a stack is taken for */
	fp_u32 ready;  /* the ended part is one of time ready to run */
} plan;

/* On the way out the next part is kept or left out anew, with the stack as it is now. */
static __always_inline void draw_next_part(enum fp_away_reason reason)
{
	u64 weight = fp_visit.weight;

	plan.reason = reason;
	plan.weight = weight ? weight : 1;
	if (weight > 1 && lot() % weight)
		plan.weight = 0;
}

/* The stack that was taken becomes the next part's. */
static __always_inline void keep_next_part(struct fp_scratch *scratch, struct kept *kept, u32 epoch)
{
	u32 reason = plan.reason;

	kept->weight = 0;
	if (!plan.weight)
		return;
	fp_count_visited(epoch, reason, 0);
	kept->key = scratch->record.key;
	if (fp_run_queue && reason < FP_AWAY_PREEMPTED) {
		fp_count_visited(epoch, FP_AWAY_WOKEN, 0);
		kept->ready_key = scratch->record.key;
	}
	kept->weight = plan.weight;
}

static __always_inline bool move_word(const struct place *place, u64 from, u64 to)
{
	return __sync_val_compare_and_swap(place->word, from, to) == from;
}

static __always_inline void count_open(u64 duration_ns)
{
	u32 bucket = fp_duration_bucket(duration_ns);

	if (bucket >= FP_DURATION_BUCKETS)
		return;
	fp_visit.open.count[bucket]++;
	fp_visit.open.sum_ns[bucket] += duration_ns;
}

/* What a task is away for as it looks from outside; FP_AWAY_RUNNING: not at all, or nobody asked. */
static __always_inline enum fp_away_reason away_as(struct task_struct *task)
{
	if (task->on_cpu)
		return FP_AWAY_RUNNING;
	if (task->on_rq)
		return fp_run_queue ? FP_AWAY_PREEMPTED : FP_AWAY_RUNNING;
	return sleep_reason(task_state(task));
}

/* Whether the task is away and nobody saw it leave. */
static __always_inline bool plan_mark(struct task_struct *task)
{
	enum fp_away_reason reason = away_as(task);
	struct place place;

	if (reason == FP_AWAY_RUNNING || task_state(task) & TASK_DEAD)
		return false;
	find_away(task, &place);
	if (place.word && *(volatile u64 *)place.word)
		return false;
	plan.word = fp_away_word(fp_visit.now_ns, reason, know_more() ? 0 : tag_of(task));
	plan.weight = plan.value = 0;
	plan.reason = reason;
	if (fp_way_out)
		draw_next_part(reason);
	return true;
}

/* It is away from here on. It may wake up at any moment: only if it is still blocked afterwards the
 * mark stands. */
static __always_inline void mark(struct fp_scratch *scratch, struct task_struct *task, u32 epoch)
{
	u64 word = plan.word;
	struct place place;

	find_room(task, word, &place);
	if (place.away) {
		place.away->woken_ns = 0;
		place.away->waker_value = 0;
		if (fp_way_out)
			keep_next_part(scratch, &place.away->kept[0], epoch);
		if (!move_word(&place, 0, word))
			return;
	}
	if (place.word && away_as(task) != plan.reason)
		move_word(&place, word, 0);
}

#define RUNNING_FOR_SURE_NS 1000000 /* longer than a switch takes */

/* Ends the interval that `word` stands for at `until`, where the next part begins for `next`. */
static __always_inline void plan_part(u64 word, u64 until, enum fp_away_reason next)
{
	u64 moved = fp_away_moved(word, until), duration = fp_away_elapsed(word, until);

	plan.word = word;
	plan.next_word = (moved & ~FP_AWAY_REASON_MASK) | next;
	plan.duration_ns = duration;
	plan.ready = away_ready(word);
	plan.value = 0;
	plan.reason = away_reason(word);
	if (fp_way_out) {
		plan.next_word ^= 1ULL << FP_AWAY_TAG_SHIFT;
		draw_next_part(next);
	} else {
		plan.value = fp_threshold_value(duration, fp_visit.quantum_ns, lot());
	}
}

/* Whether there is an interval to cut. */
static __always_inline bool plan_cut(struct task_struct *task, struct fp_totals *totals)
{
	u64 word, now = fp_visit.now_ns, woken = 0;
	struct place place;
	s64 elapsed;

	find_away(task, &place);
	if (!place.word)
		return false;
	word = *(volatile u64 *)place.word;
	elapsed = fp_away_elapsed(word, now);
	if (!word || elapsed <= 0)
		return false;
	if (task->on_cpu && elapsed > RUNNING_FOR_SURE_NS) {
		totals->unclosed += move_word(&place, word, 0); /* it came back unseen */
		return false;
	}
	if (fp_visit.kind == FP_VISIT_SUM) {
		count_open(elapsed);
		return false;
	}
	if (fp_run_queue && place.away && !away_ready(word))
		woken = place.away->woken_ns;
	if (woken && woken < now && fp_away_elapsed(word, woken) > 0)
		plan_part(word, woken, FP_AWAY_WOKEN); /* from there on: for the next visit */
	else
		plan_part(word, now, away_reason(word));
	return true;
}

/* On the way out: the part that ended counts under the stack that it began with. */
static __always_inline enum fp_outcome count_ended(struct fp_scratch *scratch,
						   struct task_struct *task,
						   const struct away *away, u32 epoch,
						   struct fp_totals *totals)
{
	const struct kept *kept = kept_slot((struct away *)away, plan.word);
	struct fp_key key = kept->key;

	if (!kept->weight)
		return FP_OUTCOME_NOT_KEPT;
	return count_kept(scratch, task, &key, reason_source(away_reason(plan.word)), epoch,
			  plan.duration_ns * kept->weight, totals);
}

static __always_inline int cut(struct fp_scratch *scratch, struct task_struct *task, u32 epoch,
			       struct fp_totals *totals)
{
	struct place place;

	totals->runs++;
	find_away(task, &place);
	if (place.away && fp_way_out)
		keep_next_part(scratch, kept_slot(place.away, plan.next_word), epoch);
	if (!place.word || !move_word(&place, plan.word, plan.next_word))
		return fp_outcome(totals, FP_OUTCOME_RETURNED);
	fp_visit.cut++;
	note_duration(epoch, plan.ready ? FP_DURATIONS_CUT_READY : FP_DURATIONS_CUT_BLOCKED,
		      plan.duration_ns);
	if (place.away && fp_way_out)
		return fp_outcome(totals, count_ended(scratch, task, place.away, epoch, totals));
	if (!plan.value)
		return fp_outcome(totals, FP_OUTCOME_NOT_KEPT);
	return fp_count_visited(epoch, plan.reason, plan.value);
}

static __always_inline int visit(struct task_struct *task)
{
	u32 epoch = fp_epoch & 1, zero = 0;
	struct fp_totals *totals = totals_row(epoch, ROW_BLOCKED);
	struct fp_scratch *scratch = bpf_map_lookup_elem(&visit_scratch, &zero);

	if (!task || !totals || !scratch || !task->pid)
		return 0;
	if (fp_tgid && (u32)task->tgid != fp_tgid)
		return 0;
	if (!fp_kernel_threads && task->flags & PF_KTHREAD)
		return 0;
	if (fp_visit.kind == FP_VISIT_MARK ? !plan_mark(task) : !plan_cut(task, totals))
		return 0;
	if (fp_way_out ? plan.weight : plan.value) {
		totals->walks++;
		take_other_stack(scratch, task, epoch);
	}
	if (fp_visit.kind != FP_VISIT_MARK)
		return cut(scratch, task, epoch, totals);
	mark(scratch, task, epoch);
	return 0;
}

#endif
