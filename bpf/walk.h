/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * walk: what is known while user frames are walked, and one step up a chain of frame pointers.
 * Frames lie at rising addresses. A step that cannot be taken says why, so that a stack's end is
 * known and not guessed. bpf/unwind.h has the steps by table.
 *
 * The walk lies in scratch memory, not on the BPF stack: of what is read from there the verifier
 * assumes nothing, so that every step looks alike to it.
 *
 * All user memory is reached through FP_READ_USER, which tests define natively. Its reader says
 * whose memory it is: NULL that of the current task.
 * Pure logic: also compiled natively by the tests.
 */
#ifndef FLEETPROF_WALK_H
#define FLEETPROF_WALK_H

#include "bpf/abi.h"
#include "bpf/hash.h"
#include "bpf/x86.h"

#ifndef FP_READ_USER
#include "bpf/reader.h"
#endif
struct fp_reader;

#define FP_WALK_SLOTS 1024 /* frames of a record in scratch: a power of two */
_Static_assert(FP_MAX_FRAMES + FP_MAX_USER_FRAMES < FP_WALK_SLOTS, "both sides, and the helper");

struct fp_vma {			   /* what is mapped somewhere: see bpf/vma.h */
	fp_u64 start, end, offset; /* of its start in the file */
	fp_u64 file;		   /* struct file *; 0: none */
};

struct fp_walk {
	fp_u64 ip;			/* of the frame that the next step leaves */
	fp_u64 registers[FP_REGISTERS]; /* of that frame, by DWARF number */
	/* Not 0: the register lies there in user memory, and is read when it is needed. */
	fp_u64 frame_pointer_at, rbx_at;
	fp_u64 last_frame; /* the last frame pointer followed; 0: the last step was by table */
	struct fp_hash hash;
	/* Of which program the ranges must be, and the one that the last address was in: see
	 * bpf/unwind.h. */
	fp_u64 start_boottime_ns;
	fp_u32 tgid, exec_id;
	fp_u64 range_start, range_size;
	fp_u32 range_at, range_tag; /* tag 0: code without a table */
	fp_u32 version;		    /* of the ranges; 0: none was found */
	fp_u32 by_table;	    /* frames */
	fp_u32 first;		    /* slot of the first step's frame */
	fp_u32 limit;		    /* steps; bpf/sample.h */
	fp_u16 known;		    /* registers, a bit each */
	fp_u8 exact;		    /* ip is of the frame's next instruction, not behind a call */
	fp_u8 end;		    /* enum fp_walk_end, set by the step that could not be taken */
	fp_u8 cannot;		    /* with FP_WALK_END_CANNOT */
	fp_u8 lookups;		    /* of files: see bpf/vma.h */
	fp_u8
	    is_forebear; /* tgid, exec_id and start are another process's, whose ranges are used */
	fp_u8 padding[5];
	fp_u64 mm;	 /* the task's memory, a kernel address */
	fp_u64 start_ns; /* of the process */
	fp_u64 node[32]; /* of the memory's tree, as read */
	struct fp_vma area;
	struct fp_unwind_file_key key;	       /* of what is mapped there */
	fp_u16 file_tags[FP_UNWIND_FILE_TAGS]; /* as in the record */
	fp_u64 file_tag_count;
	struct fp_signal_context context;
};

/* Keeps an index inside the slots in a way the compiler cannot prove away, since the
 * verifier must see the mask. */
static inline __attribute__((always_inline)) fp_u32 fp_walk_slot(fp_u32 index)
{
#ifdef __bpf__
	__asm__ volatile("%0 &= 1023" : "+r"(index));
	return index;
#else
	return index & (FP_WALK_SLOTS - 1);
#endif
}

/* The walk is over; for `return fp_walk_ends(…);` */
static inline __attribute__((always_inline)) long fp_walk_ends(struct fp_walk *walk,
							       enum fp_walk_end end)
{
	walk->end = end;
	return 1;
}

/*
 * Begins at the registers of a task as they are in the walk, all of them known; its first frame
 * goes into slot `from`. tgid, exec_id and start_boottime_ns say whose ranges are used.
 */
static inline __attribute__((always_inline)) void
fp_walk_begin(struct fp_walk *walk, fp_u64 *frames, fp_u32 from, const struct fp_hash *hash)
{
	walk->frame_pointer_at = walk->rbx_at = 0;
	walk->last_frame = 0;
	walk->hash = *hash;
	walk->range_start = walk->range_size = 0;
	walk->version = 0;
	walk->by_table = 0;
	walk->lookups = 0;
	walk->file_tag_count = 0;
	for (int i = 0; i < FP_UNWIND_FILE_TAGS; i++)
		walk->file_tags[i] = 0;
	walk->first = from + 1;
	walk->known = (1 << FP_REGISTERS) - 1;
	walk->exact = 1;
	walk->end = FP_WALK_END_DEPTH;
	walk->cannot = 0;
	frames[fp_walk_slot(from)] = walk->ip;
	fp_hash_mix(&walk->hash, walk->ip);
}

/* Reads a register that lies in memory. */
static inline __attribute__((always_inline)) long
fp_walk_fetch(struct fp_walk *walk, fp_u32 number, fp_u64 *at, const struct fp_reader *reader)
{
	fp_u64 value;

	if (!*at)
		return 0;
	if (FP_READ_USER(reader, &value, sizeof(value), *at))
		return fp_walk_ends(walk, FP_WALK_END_FAULT);
	walk->registers[number] = value;
	*at = 0;
	return 0;
}

/* Takes `frame` as that of step `index`, which the walk stands in from here on. */
static inline __attribute__((always_inline)) void fp_walk_take(struct fp_walk *walk, fp_u64 *frames,
							       fp_u32 index, fp_u64 frame)
{
	frames[fp_walk_slot(walk->first + index)] = frame;
	fp_hash_mix(&walk->hash, frame);
	walk->ip = frame;
	walk->exact = 0;
}

/* Whether a frame pointer can be followed; if not, the walk ends, and walk->end says why. Where
 * there are tables, a frame pointer that is none only tells that one is missing here. */
static inline __attribute__((always_inline)) int fp_walk_goes_on(struct fp_walk *walk)
{
	fp_u64 frame = walk->registers[FP_RBP];

	/* By the ABI the outermost frame has a frame pointer of 0. But a register that code without
	 * frame pointers left behind may be 0 by chance. */
	if (!frame && (!walk->by_table || walk->last_frame)) {
		walk->end = FP_WALK_END_ROOT;
		return 0;
	}
	if (!fp_frame_address(frame) || frame < walk->registers[FP_RSP]) {
		walk->end = walk->version ? FP_WALK_END_NO_TABLE : FP_WALK_END_BROKEN;
		return 0;
	}
	return 1;
}

/*
 * Step `index` (0, 1, 2, …) by frame pointer, which fills slot first + index. Returns 0 to go on,
 * 1 when the step could not be taken and walk->end says why. The slot comes from the loop's index
 * and not from a counter of ours: a counter would be a new constant in every iteration to the
 * verifier, which then walks all of them (over a million instructions on 6.18).
 */
static inline __attribute__((always_inline)) long fp_walk_by_pointer(struct fp_walk *walk,
								     fp_u64 *frames, fp_u32 index,
								     const struct fp_reader *reader)
{
	fp_u64 pair[FP_PAIR_LEN];

	if (!(walk->known >> FP_RBP & 1))
		return fp_walk_ends(walk, FP_WALK_END_NO_TABLE);
	if (fp_walk_fetch(walk, FP_RBP, &walk->frame_pointer_at, reader) || !fp_walk_goes_on(walk))
		return 1;
	if (FP_READ_USER(reader, pair, sizeof(pair), walk->registers[FP_RBP]))
		return fp_walk_ends(walk, FP_WALK_END_FAULT);
	/* What a frame pointer points to that nothing has proven is 0 by chance as well. */
	if (!pair[FP_PAIR_RETURN])
		return fp_walk_ends(walk, walk->by_table && !walk->last_frame ? FP_WALK_END_NO_TABLE
									      : FP_WALK_END_ROOT);
	if (!fp_user_address(pair[FP_PAIR_RETURN]))
		return fp_walk_ends(walk,
				    walk->version ? FP_WALK_END_NO_TABLE : FP_WALK_END_BROKEN);
	walk->last_frame = walk->registers[FP_RBP];
	walk->registers[FP_RSP] = walk->last_frame + sizeof(pair);
	walk->registers[FP_RBP] = pair[FP_PAIR_SAVED];
	walk->known = 1 << FP_RSP | 1 << FP_RBP;
	fp_walk_take(walk, frames, index, pair[FP_PAIR_RETURN]);
	return 0;
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
