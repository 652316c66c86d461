/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * sample: what the CPU and off-CPU programs share: settings (rodata), the epoch index,
 * totals, and the steps describe task → kernel frames → user frames → key → count map →
 * announcement. Each program owns its maps and scratch, so that a tick that interrupts a
 * switch never meets half-written memory.
 * Invariant: a run takes the epoch once, at its start, and ends in exactly one outcome.
 */
#ifndef FLEETPROF_SAMPLE_H
#define FLEETPROF_SAMPLE_H

#include "bpf/kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "bpf/unwind.h"

/* The record's flexible frames[] and `frames` are the same memory. */
#pragma clang diagnostic ignored "-Wgnu-variable-sized-type-not-at-end"
struct fp_scratch {
	struct fp_stack_record record;
	u64 frames[FP_WALK_SLOTS + FP_MAX_FRAMES +
		   1];	     /* room for a helper's whole write at any slot */
	struct fp_hash hash; /* of task and frames, for keys that add to it */
	struct fp_walk walk;
};

#define FP_SCRATCH_MAP(map_name)                                                                   \
	struct {                                                                                   \
		__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);                                           \
		__uint(max_entries, 1);                                                            \
		__type(key, u32);                                                                  \
		__type(value, struct fp_scratch);                                                  \
	} map_name SEC(".maps")

#define FP_COUNT_MAP(map_name)                                                                     \
	struct {                                                                                   \
		__uint(type, BPF_MAP_TYPE_HASH);                                                   \
		__uint(max_entries, 16384);                                                        \
		__type(key, struct fp_key);                                                        \
		__type(value, struct fp_count);                                                    \
	} map_name SEC(".maps")

#define FP_STACK_RING(map_name)                                                                    \
	struct {                                                                                   \
		__uint(type, BPF_MAP_TYPE_RINGBUF);                                                \
		__uint(max_entries, 256 * 1024);                                                   \
	} map_name SEC(".maps")

/* Rows [epoch × programs of the object + program]; see each object for its own. */
#define FP_TOTALS_MAP(map_name, programs)                                                          \
	struct {                                                                                   \
		__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);                                           \
		__uint(max_entries, FP_EPOCHS *(programs));                                        \
		__type(key, u32);                                                                  \
		__type(value, struct fp_totals);                                                   \
	} map_name SEC(".maps")

/* Settings, fixed before load. */
const volatile fp_u32 fp_tgid __weak = 0; /* only this process; 0: all */
const volatile fp_u32 fp_max_user_frames __weak = FP_DEFAULT_USER_FRAMES;
const volatile bool fp_use_helper_walk __weak = false;
const volatile fp_u32 fp_ring_wakeup_bytes __weak = 128 * 1024;
/* Whose cgroup a record names: 0 the default (v2) hierarchy's, 1 + n that of controller n of
 * the running kernel (enum cgroup_subsys_id). */
const volatile fp_u32 fp_cgroup_subsystem __weak = 0;

/* The map set in use, 0 or 1; user space flips it. */
volatile fp_u32 fp_epoch __weak = 0;

/* What is known of the user registers in a scratch's walk. */
struct fp_user_registers {
	bool known;
	bool compat; /* a 32-bit program: our walk does not apply */
};

/* Returns the outcome's row incremented; for `return fp_outcome(totals, FP_OUTCOME_IDLE);` */
static __always_inline int fp_outcome(struct fp_totals *totals, enum fp_outcome outcome)
{
	totals->outcomes[outcome]++;
	return 0;
}

/*
 * Whether the task's saved registers say where its program is. An exiting task has no memory
 * any more. In an execve the registers are still those of the old program when the memory is
 * already the new one's: walked, they would give frames of whatever the new program has at the
 * old one's addresses. New memory has no end of code until just before the new registers are set.
 */
static __always_inline bool fp_has_user_side(struct task_struct *task, u32 flags)
{
	return !(flags & (PF_KTHREAD | PF_IO_WORKER | PF_USER_WORKER)) && task->mm != NULL &&
	       task->mm->end_code;
}

/* Fills the identity of the task into the record and starts the key with it. */
static __always_inline void fp_describe_task(struct fp_stack_record *record,
					     struct task_struct *task, struct fp_hash *hash)
{
	struct task_struct *leader = task->group_leader;
	u64 *comm = (u64 *)record->comm;

	record->tgid = task->tgid;
	record->tid = task->pid;
	record->exec_id = (u32)task->self_exec_id;
	record->start_ns = leader->start_time;
	record->start_boottime_ns = leader->start_boottime;
	bpf_core_read(record->comm, FP_COMM_LEN, &task->comm);
	hash->a = 0x27D4EB2F165667C5ULL;
	hash->b = 0x165667B19E3779F9ULL;
	fp_hash_mix(hash, ((u64)record->tgid << 32) | record->exec_id);
	fp_hash_mix(hash, record->start_boottime_ns);
	fp_hash_mix(hash, comm[0]);
	fp_hash_mix(hash, comm[1]);
}

struct fp_hash_loop {
	u64 *frames;
	u32 from;
	struct fp_hash hash;
};

static long hash_frame(u32 index, struct fp_hash_loop *loop)
{
	fp_hash_mix(&loop->hash, loop->frames[fp_walk_slot(loop->from + index)]);
	return 0;
}

/* Mixes frames [from, from + count) of the scratch into the hash. */
static __always_inline void fp_hash_frames(struct fp_scratch *scratch, u32 from, u32 count,
					   struct fp_hash *hash)
{
	struct fp_hash_loop loop = { .frames = scratch->frames, .from = from, .hash = *hash };

	bpf_loop(count & (FP_WALK_SLOTS - 1), hash_frame, &loop, 0);
	*hash = loop.hash;
}

/* Notes `bytes` of kernel frames at the head of the scratch, leaf first. Returns their number. */
static __always_inline u32 fp_note_kernel_stack(struct fp_scratch *scratch, long bytes,
						struct fp_hash *hash)
{
	u32 count = bytes > 0 ? (u32)bytes / sizeof(u64) : 0;

	scratch->record.kernel_len = count;
	scratch->record.kernel_truncated = count >= FP_MAX_FRAMES;
	fp_hash_mix(hash, count);
	fp_hash_frames(scratch, 0, count, hash);
	return count;
}

/* The kernel side of the current task. Returns its length. */
static __always_inline u32 fp_take_kernel_stack(void *context, struct fp_scratch *scratch,
						struct fp_hash *hash)
{
	long bytes = bpf_get_stack(context, scratch->frames, FP_MAX_FRAMES * sizeof(u64), 0);

	return fp_note_kernel_stack(scratch, bytes, hash);
}

/* What a walk needs at each step, on the BPF stack. */
struct fp_walk_loop {
	struct fp_walk *walk;
	u64 *frames;
};

static long step_user_frame(u32 index, struct fp_walk_loop *loop)
{
	return fp_unwind_step(loop->walk, loop->frames, index, NULL);
}

/*
 * Whose ranges the walk goes by: those of the process, or, as long as it has none, those of the
 * nearest forebear that it was forked from without an exec between. The same code lies at the same
 * places then, unless one of them has mapped other code since; user space holds frames against what
 * the process had mapped.
 */
#define FP_FOREBEARS 4
static __always_inline void fp_walk_whose(struct fp_scratch *scratch, struct task_struct *task)
{
	struct fp_walk *walk = &scratch->walk;
	const struct fp_unwind_ranges *ranges;
	u64 start;
	u32 tgid;

	walk->tgid = scratch->record.tgid;
	walk->exec_id = scratch->record.exec_id;
	walk->start_boottime_ns = scratch->record.start_boottime_ns;
	walk->start_ns = scratch->record.start_ns;
	walk->mm = (u64)task->mm;
	walk->is_forebear = 0;
	if (!fp_unwind_tables)
		return;
	ranges = fp_unwind_ranges_at(walk->tgid, 0);
	if (ranges && fp_unwind_belongs(walk, ranges))
		return;
	for (int i = 0; i < FP_FOREBEARS; i++) {
		task = BPF_CORE_READ(task, real_parent, group_leader);
		if ((u32)BPF_CORE_READ(task, self_exec_id) != walk->exec_id)
			return;
		tgid = BPF_CORE_READ(task, tgid);
		start = BPF_CORE_READ(task, start_boottime);
		ranges = fp_unwind_ranges_at(tgid, 0);
		if (ranges && ranges->start_boottime_ns == start &&
		    ranges->exec_id == walk->exec_id) {
			walk->tgid = tgid;
			walk->start_boottime_ns = start;
			walk->is_forebear = 1;
			return;
		}
	}
}

/* A walk at the registers that the scratch's walk has, first frame at `from`. Its limit is read
 * from memory again: kernels refuse a loop that they know to have no turns. */
static __always_inline void fp_walk_start(struct fp_scratch *scratch, u32 from)
{
	scratch->walk.limit = fp_max_user_frames - 1;
	fp_walk_begin(&scratch->walk, scratch->frames, from, &scratch->hash);
}

/* Notes what a walk of `steps` steps came to; the last counts unless it could not be taken. */
static __always_inline void fp_walk_done(struct fp_scratch *scratch, long steps)
{
	struct fp_walk *walk = &scratch->walk;

	scratch->hash = walk->hash;
	scratch->record.user_len = walk->end == FP_WALK_END_DEPTH ? steps + 1 : steps;
	scratch->record.walk_end = walk->end;
	scratch->record.cannot = walk->cannot;
	scratch->record.by_table = walk->by_table;
	scratch->record.end_has_table = fp_unwind_tables && walk->range_tag;
	for (int i = 0; i < FP_UNWIND_FILE_TAGS; i++)
		scratch->record.file_tags[i] = walk->file_tags[i];
	scratch->record.unwind_version = walk->version;
}

/*
 * Walks the current task from the registers that the scratch's walk has, with the scratch's hash.
 * A function to the verifier too, checked once for all its callers.
 */
__weak __attribute__((noinline)) int fp_walk_current(struct fp_scratch *scratch, u32 from)
{
	struct fp_walk_loop loop;

	if (!scratch)
		return 0; /* cannot be: callers have it */
	fp_walk_start(scratch, from);
	loop = (struct fp_walk_loop){ .walk = &scratch->walk, .frames = scratch->frames };
	fp_walk_done(scratch,
		     bpf_loop(*(volatile u32 *)&scratch->walk.limit, step_user_frame, &loop, 0));
	return 0;
}

static __always_inline void fp_note_root_gap(struct fp_scratch *scratch, struct task_struct *task)
{
	scratch->record.user_root_gap =
	    fp_walk_root_gap(scratch->walk.last_frame, task->mm->start_stack, task->thread.fsbase);
}

/* The kernel's own walk: for 32-bit programs, and for kernels where reading user memory in
 * the perf interrupt is known to hang. It does not say how it ended. */
static __always_inline void fp_take_user_stack(void *context, struct fp_scratch *scratch, u32 from,
					       struct fp_hash *hash)
{
	long bytes = bpf_get_stack(context, &scratch->frames[fp_walk_slot(from)],
				   FP_MAX_FRAMES * sizeof(u64), BPF_F_USER_STACK);
	u32 count = bytes > 0 ? (u32)bytes / sizeof(u64) : 0;

	if (count > fp_max_user_frames)
		count = fp_max_user_frames;
	scratch->record.user_len = count;
	scratch->record.walk_end =
	    count >= fp_max_user_frames ? FP_WALK_END_DEPTH : FP_WALK_END_UNKNOWN;
	fp_hash_frames(scratch, from, count, hash);
}

static __always_inline void fp_no_user_side(struct fp_stack_record *record)
{
	record->user_len = 0;
	record->walk_end = FP_WALK_END_NONE;
	record->user_root_gap = ~0ULL;
	record->by_table = 0;
	record->end_has_table = 0;
	for (int i = 0; i < FP_UNWIND_FILE_TAGS; i++)
		record->file_tags[i] = 0;
	record->unwind_version = 0;
	record->cannot = 0;
}

/* The user side, behind the kernel side. One place to put another walker. */
static __always_inline void fp_take_user_side(void *context, struct fp_scratch *scratch,
					      struct task_struct *task,
					      const struct fp_user_registers *registers, u32 from,
					      struct fp_hash *hash)
{
	fp_no_user_side(&scratch->record);
	if (!registers->known)
		return;
	if (fp_use_helper_walk || registers->compat) {
		fp_take_user_stack(context, scratch, from, hash);
		return;
	}
	scratch->hash = *hash;
	fp_walk_whose(scratch, task);
	fp_walk_current(scratch, from);
	*hash = scratch->hash;
	fp_note_root_gap(scratch, task);
}

/*
 * The last stretch of an execve: the new memory is complete and the registers are still the old
 * program's. Its stack pointer leads nowhere in the new memory, unless by chance; and at the very
 * end, when general registers and thread area are cleared, it is not yet where the new stack
 * begins.
 */
static __always_inline bool fp_registers_stale(struct task_struct *task, const struct fp_walk *walk)
{
	u64 word, sp = walk->registers[FP_RSP];

	if (!bpf_core_field_exists(task->in_execve) || !BPF_CORE_READ_BITFIELD(task, in_execve))
		return false;
	if (!walk->registers[FP_RBP] && !task->thread.fsbase && sp != task->mm->start_stack)
		return true;
	return !fp_use_helper_walk && bpf_probe_read_user(&word, sizeof(word), (const void *)sp);
}

/* User registers as they were when the task entered the kernel. */
static __always_inline void fp_saved_registers(struct task_struct *task, struct fp_walk *walk,
					       struct fp_user_registers *ret)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);

	walk->ip = regs->ip;
	FP_COPY_REGISTERS(walk->registers, regs);
	ret->compat = (regs->cs & 0xffff) == FP_USER32_CS;
	ret->known = walk->ip != 0 && !fp_registers_stale(task, walk);
}

/*
 * Adds count and value to the key's entry in the map of the run's epoch and source, made
 * when new. *ret_entry is NULL unless the outcome is AGGREGATED.
 */
static __always_inline enum fp_outcome fp_count_add(void *map, const struct fp_stack_record *record,
						    u64 count, u64 value,
						    struct fp_count **ret_entry)
{
	struct fp_key key = record->key;
	struct fp_count *entry = bpf_map_lookup_elem(map, &key);

	*ret_entry = NULL;
	if (!entry) {
		struct fp_count fresh = { .tgid = record->tgid, .source = record->source };
		/* int: before 6.3 map operations return 32 bits, and -7 would read as 2^32 - 7 */
		int error = (int)bpf_map_update_elem(map, &key, &fresh, BPF_NOEXIST);

		if (error && error != -FP_EEXIST)
			return error == -FP_E2BIG ? FP_OUTCOME_MAP_FULL : FP_OUTCOME_MAP_BUSY;
		entry = bpf_map_lookup_elem(map, &key);
		if (!entry)
			return FP_OUTCOME_MAP_BUSY;
	}
	__sync_fetch_and_add(&entry->count, count);
	__sync_fetch_and_add(&entry->value, value);
	*ret_entry = entry;
	return FP_OUTCOME_AGGREGATED;
}

/* Read for new records alone: it is no part of the key. */
static __always_inline u64 fp_cgroup_id(struct task_struct *task)
{
	struct css_set *set = BPF_CORE_READ(task, cgroups);
	struct cgroup_subsys_state *state = NULL;
	u64 place;

	if (!fp_cgroup_subsystem)
		return BPF_CORE_READ(set, dfl_cgrp, kn, id);
	place = (u64)set + bpf_core_field_offset(set->subsys) +
		(fp_cgroup_subsystem - 1) * sizeof(state);
	bpf_probe_read_kernel(&state, sizeof(state), (void *)place);
	return BPF_CORE_READ(state, cgroup, kn, id);
}

/* Sends the frames, unless they were already sent in this epoch. A record that does not fit
 * leaves the entry unannounced, so that the next hit tries again. task: NULL when the record has
 * its cgroup already. */
static __always_inline void fp_announce(void *ring, struct fp_scratch *scratch,
					struct task_struct *task, struct fp_count *entry,
					struct fp_totals *totals)
{
	u32 frames = scratch->record.kernel_len + scratch->record.user_len, length;
	u64 wakeup = BPF_RB_NO_WAKEUP;

	if (entry->announced)
		return;
	if (task)
		scratch->record.cgroup_id = fp_cgroup_id(task);
	length = sizeof(struct fp_stack_record) + fp_walk_slot(frames) * sizeof(u64);
	if (bpf_ringbuf_query(ring, BPF_RB_AVAIL_DATA) > fp_ring_wakeup_bytes)
		wakeup = BPF_RB_FORCE_WAKEUP;
	if (bpf_ringbuf_output(ring, scratch, length, wakeup)) {
		totals->announce_failed++;
		return;
	}
	entry->announced = 1;
	totals->announced++;
}

#endif
