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
#include "bpf/walk.h"

/* The record's flexible frames[] and `frames` are the same memory. */
#pragma clang diagnostic ignored "-Wgnu-variable-sized-type-not-at-end"
struct fp_scratch {
	struct fp_stack_record record;
	u64 frames[FP_WALK_SLOTS + FP_MAX_FRAMES +
		   1];	     /* room for a helper's whole write at any slot */
	struct fp_hash hash; /* of task and frames, for keys that add to it */
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
const volatile fp_u32 fp_max_user_frames __weak = FP_MAX_FRAMES;
const volatile bool fp_use_helper_walk __weak = false;
const volatile fp_u32 fp_ring_wakeup_bytes __weak = 128 * 1024;
/* Whose cgroup a record names: 0 the default (v2) hierarchy's, 1 + n that of controller n of
 * the running kernel (enum cgroup_subsys_id). */
const volatile fp_u32 fp_cgroup_subsystem __weak = 0;

/* The map set in use, 0 or 1; user space flips it. */
volatile fp_u32 fp_epoch __weak = 0;

struct fp_user_registers {
	u64 ip, sp, bp;
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

static long step_user_frame(u32 index, struct fp_walk *walk)
{
	return fp_walk_step(walk, index);
}

/* A walk that has its first frame, at `from` of the scratch. */
static __always_inline void fp_walk_begin(struct fp_walk *walk, struct fp_scratch *scratch,
					  const struct fp_user_registers *registers, u32 from,
					  const struct fp_hash *hash)
{
	*walk = (struct fp_walk){ .frame = registers->bp,
				  .last_frame = registers->sp - 1,
				  .frames = scratch->frames,
				  .hash = *hash,
				  .first = from + 1,
				  .end = FP_WALK_END_DEPTH };
	scratch->frames[fp_walk_slot(from)] = registers->ip;
	fp_hash_mix(&walk->hash, registers->ip);
}

/* Notes what a walk of `steps` steps came to; the last counts unless it could not be taken. */
static __always_inline void fp_walk_done(struct fp_walk *walk, struct fp_scratch *scratch,
					 struct task_struct *task, long steps,
					 struct fp_hash *ret_hash)
{
	u64 main_top = task->mm->start_stack, thread_top = task->thread.fsbase;

	*ret_hash = walk->hash;
	scratch->record.user_len = walk->end == FP_WALK_END_DEPTH ? steps + 1 : steps;
	scratch->record.walk_end = walk->end;
	if (scratch->record.user_len == 1)
		walk->last_frame = 0;
	scratch->record.user_root_gap = fp_walk_root_gap(walk->last_frame, main_top, thread_top);
}

static __always_inline void fp_walk_user(struct fp_scratch *scratch, struct task_struct *task,
					 const struct fp_user_registers *registers, u32 from,
					 struct fp_hash *hash)
{
	struct fp_walk walk;
	long steps;

	fp_walk_begin(&walk, scratch, registers, from, hash);
	steps = bpf_loop(fp_max_user_frames - 1, step_user_frame, &walk, 0);
	fp_walk_done(&walk, scratch, task, steps, hash);
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

/* The user side, behind the kernel side. One place to put another walker. */
static __always_inline void fp_take_user_side(void *context, struct fp_scratch *scratch,
					      struct task_struct *task,
					      const struct fp_user_registers *registers, u32 from,
					      struct fp_hash *hash)
{
	scratch->record.user_len = 0;
	scratch->record.walk_end = FP_WALK_END_NONE;
	scratch->record.user_root_gap = ~0ULL;
	if (!registers->known)
		return;
	if (fp_use_helper_walk || registers->compat)
		fp_take_user_stack(context, scratch, from, hash);
	else
		fp_walk_user(scratch, task, registers, from, hash);
}

/*
 * The last stretch of an execve: the new memory is complete and the registers are still the old
 * program's. Its stack pointer leads nowhere in the new memory, unless by chance; and at the very
 * end, when general registers and thread area are cleared, it is not yet where the new stack
 * begins.
 */
static __always_inline bool fp_registers_stale(struct task_struct *task,
					       const struct fp_user_registers *registers)
{
	u64 word;

	if (!bpf_core_field_exists(task->in_execve) || !BPF_CORE_READ_BITFIELD(task, in_execve))
		return false;
	if (!registers->bp && !task->thread.fsbase && registers->sp != task->mm->start_stack)
		return true;
	return !fp_use_helper_walk &&
	       bpf_probe_read_user(&word, sizeof(word), (const void *)registers->sp);
}

/* User registers as they were when the task entered the kernel. */
static __always_inline void fp_saved_registers(struct task_struct *task,
					       struct fp_user_registers *ret)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);

	ret->ip = regs->ip;
	ret->sp = regs->sp;
	ret->bp = regs->bp;
	ret->compat = (regs->cs & 0xffff) == FP_USER32_CS;
	ret->known = ret->ip != 0 && !fp_registers_stale(task, ret);
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
 * leaves the entry unannounced, so that the next hit tries again. */
static __always_inline void fp_announce(void *ring, struct fp_scratch *scratch,
					struct task_struct *task, struct fp_count *entry,
					struct fp_totals *totals)
{
	u32 frames = scratch->record.kernel_len + scratch->record.user_len, length;
	u64 wakeup = BPF_RB_NO_WAKEUP;

	if (entry->announced)
		return;
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
