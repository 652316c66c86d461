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

/* The stretch of memory that a stack lies in, when it is safe to read: memory of a file can
 * be one on a server that never answers, and userfaultfd can hold a reader up as well. */
struct stack_memory {
	u64 start, end;
};

static long note_stack_memory(struct task_struct *task, struct vm_area_struct *area,
			      struct stack_memory *ret)
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
	struct fp_walk walk;
	struct stack_memory memory;
	struct task_struct *task;
};

static long step_other_frame(u32 index, struct other_walk *other)
{
	u64 pair[2];

	if (!fp_walk_goes_on(&other->walk))
		return 1;
	if (other->walk.frame < other->memory.start ||
	    other->walk.frame + sizeof(pair) > other->memory.end ||
	    bpf_copy_from_user_task(pair, sizeof(pair), (const void *)other->walk.frame,
				    other->task, 0)) {
		other->walk.end = FP_WALK_END_FAULT;
		return 1;
	}
	return fp_walk_take(&other->walk, index, pair);
}

/* The user side of a task that is away. A 32-bit program's is its instruction alone. */
static __always_inline void take_other_user_side(struct fp_scratch *scratch,
						 struct task_struct *task, u32 from,
						 struct fp_hash *hash)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
	struct fp_user_registers registers = { .ip = regs->ip, .sp = regs->sp, .bp = regs->bp };
	struct other_walk other = { .task = task };
	long steps = 0;

	scratch->record.user_len = 0;
	scratch->record.walk_end = FP_WALK_END_NONE;
	scratch->record.user_root_gap = ~0ULL;
	if (!registers.ip || !fp_has_user_side(task, task->flags) ||
	    (bpf_core_field_exists(task->in_execve) && BPF_CORE_READ_BITFIELD(task, in_execve)))
		return;
	fp_walk_begin(&other.walk, scratch, &registers, from, hash);
	if (fp_visit.kernel_only || (regs->cs & 0xffff) == FP_USER32_CS) {
		scratch->record.user_len = 1;
		scratch->record.walk_end = FP_WALK_END_UNKNOWN;
		*hash = other.walk.hash;
		return;
	}
	bpf_find_vma(task, registers.sp, note_stack_memory, &other.memory, 0);
	fp_visit.tgid = task->tgid;
	steps = bpf_loop(fp_max_user_frames - 1, step_other_frame, &other, 0);
	fp_visit.tgid = 0;
	fp_walk_done(&other.walk, scratch, task, steps, hash);
}

static __always_inline void take_other_stack(struct fp_scratch *scratch, struct task_struct *task,
					     u32 epoch)
{
	struct fp_hash hash;
	u32 kernel_len;
	long bytes;

	fp_describe_task(&scratch->record, task, &hash);
	scratch->record.epoch = epoch;
	scratch->record.time_ns = bpf_ktime_get_ns();
	scratch->record.kernel_thread = (task->flags & PF_KTHREAD) != 0;
	bytes = bpf_get_task_stack(task, scratch->frames, FP_MAX_FRAMES * sizeof(u64), 0);
	kernel_len = fp_note_kernel_stack(scratch, bytes, &hash);
	take_other_user_side(scratch, task, kernel_len, &hash);
	scratch->hash = hash;
}

/* The next part of an interval is kept or left out anew, with the stack as it is now. */
static __always_inline void keep_next_part(struct fp_scratch *scratch, struct task_struct *task,
					   struct kept *kept, enum fp_away_reason reason, u32 epoch,
					   struct fp_totals *totals)
{
	u64 weight = fp_visit.weight;

	kept->weight = 0;
	if (weight > 1 && lot() % weight)
		return;
	totals->walks++;
	take_other_stack(scratch, task, epoch);
	keep_stack(scratch, task, reason, epoch, kept, totals);
	kept->weight = weight ? weight : 1;
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

/* One that is blocked now and whose departure nobody saw is away from here on. It may wake up at
 * any moment: only if it is still blocked afterwards the mark stands. */
static __always_inline void mark(struct fp_scratch *scratch, struct task_struct *task, u32 epoch,
				 struct fp_totals *totals)
{
	enum fp_away_reason reason = away_as(task);
	struct place place;
	u64 word;

	if (reason == FP_AWAY_RUNNING || task_state(task) & TASK_DEAD)
		return;
	find_away(task, &place);
	if (place.word && *(volatile u64 *)place.word)
		return;
	word = fp_away_word(fp_visit.now_ns, reason, know_more() ? 0 : tag_of(task));
	find_room(task, word, &place);
	if (place.away) {
		place.away->woken_ns = 0;
		place.away->waker_value = 0;
		if (fp_way_out)
			keep_next_part(scratch, task, &place.away->kept[0], reason, epoch, totals);
		if (!move_word(&place, 0, word))
			return;
	}
	if (place.word && away_as(task) != reason)
		move_word(&place, word, 0);
}

/* The part of an interval up to the cut: its end, its reason and what stays. */
struct part {
	u64 word, next_word;
	u64 duration_ns;
	enum fp_away_reason reason;
};

static __always_inline enum fp_outcome cut_here(struct fp_scratch *scratch,
						struct task_struct *task, const struct place *place,
						const struct part *part, u32 epoch,
						struct fp_totals *totals)
{
	u64 value = fp_threshold_value(part->duration_ns, fp_visit.quantum_ns, lot());

	if (value) {
		totals->walks++;
		take_other_stack(scratch, task, epoch);
	}
	if (!move_word(place, part->word, part->next_word))
		return FP_OUTCOME_RETURNED;
	fp_visit.cut++;
	if (!value)
		return FP_OUTCOME_NOT_KEPT;
	set_state(scratch, reason_source(part->reason), part->reason);
	return count_stack(scratch, task, epoch, 1, value, totals);
}

static __always_inline enum fp_outcome cut_way_out(struct fp_scratch *scratch,
						   struct task_struct *task,
						   const struct place *place, struct part *part,
						   u32 epoch, struct fp_totals *totals)
{
	struct away *away = place->away;
	struct fp_key key;
	u64 weight;

	if (!away)
		return FP_OUTCOME_NO_STORAGE; /* cannot be: this hook's departures are there */
	weight = kept_slot(away, part->word)->weight;
	key = kept_slot(away, part->word)->key;
	part->next_word ^= 1ULL << FP_AWAY_TAG_SHIFT;
	keep_next_part(scratch, task, kept_slot(away, part->next_word),
		       away_reason(part->next_word), epoch, totals);
	if (!move_word(place, part->word, part->next_word))
		return FP_OUTCOME_RETURNED;
	fp_visit.cut++;
	if (!weight)
		return FP_OUTCOME_NOT_KEPT;
	return count_kept(scratch, task, &key, reason_source(part->reason), epoch,
			  part->duration_ns * weight, totals);
}

/* Ends the interval that `word` stands for at `until`, where the next part begins for `next`. */
static __always_inline int cut_part(struct fp_scratch *scratch, struct task_struct *task,
				    const struct place *place, u64 word, u64 until,
				    enum fp_away_reason next, u32 epoch, struct fp_totals *totals)
{
	u64 moved = fp_away_moved(word, until);
	enum fp_outcome outcome;
	struct part part = {
		.word = word,
		.next_word = (moved & ~FP_AWAY_REASON_MASK) | next,
		.duration_ns = fp_away_elapsed(word, until),
		.reason = away_reason(word),
	};

	totals->runs++;
	if (fp_way_out)
		outcome = cut_way_out(scratch, task, place, &part, epoch, totals);
	else
		outcome = cut_here(scratch, task, place, &part, epoch, totals);
	fp_outcome(totals, outcome);
	if (outcome == FP_OUTCOME_RETURNED)
		return 0;
	note_duration(epoch, away_ready(word) ? FP_DURATIONS_CUT_READY : FP_DURATIONS_CUT_BLOCKED,
		      part.duration_ns);
	return 0;
}

#define RUNNING_FOR_SURE_NS 1000000 /* longer than a switch takes */

static __always_inline int cut(struct fp_scratch *scratch, struct task_struct *task, u32 epoch,
			       struct fp_totals *totals)
{
	u64 word, now = fp_visit.now_ns, woken = 0, until;
	enum fp_away_reason next;
	struct place place;
	s64 elapsed;

	find_away(task, &place);
	if (!place.word)
		return 0;
	word = *(volatile u64 *)place.word;
	elapsed = fp_away_elapsed(word, now);
	if (!word || elapsed <= 0)
		return 0;
	if (task->on_cpu && elapsed > RUNNING_FOR_SURE_NS) {
		totals->unclosed += move_word(&place, word, 0); /* it came back unseen */
		return 0;
	}
	if (fp_visit.kind == FP_VISIT_SUM) {
		count_open(elapsed);
		return 0;
	}
	if (fp_run_queue && place.away && !away_ready(word))
		woken = place.away->woken_ns;
	until = now;
	next = away_reason(word);
	if (woken && woken < now && fp_away_elapsed(word, woken) > 0) {
		until = woken; /* ready from there on: that is for the next visit */
		next = FP_AWAY_WOKEN;
	}
	return cut_part(scratch, task, &place, word, until, next, epoch, totals);
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
	if (fp_visit.kind != FP_VISIT_MARK)
		return cut(scratch, task, epoch, totals);
	mark(scratch, task, epoch, totals);
	return 0;
}

#endif
