/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * walk: one step up a chain of frame pointers on x86-64. A frame pointer addresses
 * {caller's frame pointer, return address}; frames lie at rising addresses. A step that
 * cannot be taken says why, so that a stack's end is known and not guessed.
 * All user memory is reached through FP_READ_USER, which the tests define natively.
 * Pure logic: also compiled natively by the tests.
 */
#ifndef FLEETPROF_WALK_H
#define FLEETPROF_WALK_H

#include "bpf/abi.h"
#include "bpf/hash.h"

#ifndef FP_READ_USER
#define FP_READ_USER(destination, size, address)                                                   \
	bpf_probe_read_user(destination, size, (const void *)(address))
#endif

#define FP_USER_LOW   0x1000ULL		    /* below: never code or stack (vm.mmap_min_addr) */
#define FP_USER_HIGH  0x00fffffffffff000ULL /* above: not user space, also with 5-level paging */
#define FP_WALK_SLOTS 256		    /* frames of a record in scratch: a power of two */

struct fp_walk {
	fp_u64 frame;	   /* frame pointer of the next step */
	fp_u64 last_frame; /* last one followed; before the first step: stack pointer - 1 */
	struct fp_hash hash;
	fp_u64 *frames; /* FP_WALK_SLOTS entries */
	fp_u32 first;	/* slot of the first step's frame */
	fp_u32 end;	/* enum fp_walk_end, set by the step that could not be taken */
};

/* Keeps an index inside the slots in a way the compiler cannot prove away, since the
 * verifier must see the mask. */
static inline __attribute__((always_inline)) fp_u32 fp_walk_slot(fp_u32 index)
{
#ifdef __bpf__
	__asm__ volatile("%0 &= 255" : "+r"(index));
	return index;
#else
	return index & (FP_WALK_SLOTS - 1);
#endif
}

/* Whether the frame pointer can be one; if not, the walk ends, and walk->end says why. */
static inline __attribute__((always_inline)) int fp_walk_goes_on(struct fp_walk *walk)
{
	if (!walk->frame) {
		walk->end = FP_WALK_END_ROOT;
		return 0;
	}
	if ((walk->frame & 7) || walk->frame <= walk->last_frame || walk->frame < FP_USER_LOW ||
	    walk->frame > FP_USER_HIGH) {
		walk->end = FP_WALK_END_BROKEN;
		return 0;
	}
	return 1;
}

/* Takes the pair that was read at the frame pointer as step `index`. */
static inline __attribute__((always_inline)) long fp_walk_take(struct fp_walk *walk, fp_u32 index,
							       const fp_u64 pair[2])
{
	if (pair[1] < FP_USER_LOW || pair[1] > FP_USER_HIGH) {
		walk->end = pair[1] ? FP_WALK_END_BROKEN : FP_WALK_END_ROOT;
		return 1;
	}
	walk->frames[fp_walk_slot(walk->first + index)] = pair[1];
	fp_hash_mix(&walk->hash, pair[1]);
	walk->last_frame = walk->frame;
	walk->frame = pair[0];
	return 0;
}

/*
 * Takes step `index` (0, 1, 2, …), which fills slot first + index. Returns 0 to go on, 1 when
 * the step could not be taken and walk->end says why. The slot comes from the loop's index
 * and not from a counter of ours: a counter would be a new constant in every iteration to
 * the verifier, which then walks all of them (over a million instructions on 6.18).
 */
static inline __attribute__((always_inline)) long fp_walk_step(struct fp_walk *walk, fp_u32 index)
{
	fp_u64 pair[2];

	if (!fp_walk_goes_on(walk))
		return 1;
	if (FP_READ_USER(pair, sizeof(pair), walk->frame)) {
		walk->end = FP_WALK_END_FAULT;
		return 1;
	}
	return fp_walk_take(walk, index, pair);
}

/* Bytes from the last frame pointer followed to the nearer of the two places where a stack is
 * known to begin: the main thread's (mm->start_stack) and a pthread's (its thread control
 * block lies on top of its stack). ~0 when the last frame is below neither. */
static inline __attribute__((always_inline)) fp_u64
fp_walk_root_gap(fp_u64 last_frame, fp_u64 main_top, fp_u64 thread_top)
{
	fp_u64 main_gap = main_top > last_frame ? main_top - last_frame : ~0ULL;
	fp_u64 thread_gap = thread_top > last_frame ? thread_top - last_frame : ~0ULL;

	if (!last_frame)
		return ~0ULL;
	return main_gap < thread_gap ? main_gap : thread_gap;
}

#endif
