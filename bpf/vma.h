/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * vma: which file is mapped at a user address, as the kernel knows it at this moment. For walks
 * through code that user space has written no ranges for: of a program that has just begun, or of
 * what it has just mapped.
 *
 * A mm keeps its mappings in a maple tree (lib/maple_tree.c; from 6.1 on), a B-tree of nodes of 256
 * bytes: rising pivots, and between them slots, which hold nodes and at last mappings. It is read
 * without its lock, which an interrupt cannot wait for: every read is one that fails instead of
 * faulting, and a mapping that is found has to contain the address. What is walked is the memory
 * of a task that is in this very code, so that only another thread's change of just this mapping
 * could mislead us, and then to a file that was mapped here a moment ago.
 */
#ifndef FLEETPROF_VMA_H
#define FLEETPROF_VMA_H

#include "bpf/walk.h"
#include <bpf/bpf_core_read.h>

#define FP_VMA_DEPTH	6  /* levels; with ten branches a node that is more than memory has pages */
#define FP_VMA_LOOKUPS	32 /* of one walk, each a microsecond or less */
#define FP_MAPLE_NODE	256 /* bytes, and what they are aligned to */
#define FP_MAPLE_LEAF	1   /* enum maple_type: maple_leaf_64, */
#define FP_MAPLE_ARANGE 3   /* maple_arange_64; the one between is maple_range_64 */
#define FP_MAPLE_PIVOTS 15

/* Of the node in walk->node. A count of bytes of the node as they lie there; constants after
 * loading. */
static __always_inline u64 fp_maple_word(const struct fp_walk *walk, u64 at)
{
	at /= sizeof(u64);
#ifdef __bpf__
	__asm__ volatile("%0 &= 31" : "+r"(at));
#endif
	return walk->node[at];
}

/* The index of the last slot in use. Where all pivots are, the one behind them. */
static __always_inline u64 fp_maple_end(const struct fp_walk *walk, bool is_arange)
{
	u64 last_pivot = bpf_core_field_offset(struct maple_range_64, pivot) +
			 (FP_MAPLE_PIVOTS - 1) * sizeof(u64);
	u64 range_meta = bpf_core_field_offset(struct maple_range_64, meta.end);
	u64 arange_meta = bpf_core_field_offset(struct maple_arange_64, meta.end);

	if (is_arange)
		return fp_maple_word(walk, arange_meta) & 0xff;
	if (fp_maple_word(walk, last_pivot))
		return FP_MAPLE_PIVOTS;
	return fp_maple_word(walk, range_meta) & 0xff;
}

/* What the node has for the address: pivots are the last addresses of their slots. Without
 * branches, since every one doubles what the verifier walks. */
static __always_inline u64 fp_maple_slot(const struct fp_walk *walk, bool is_arange, u64 address)
{
	u64 pivots = bpf_core_field_offset(struct maple_range_64, pivot);
	u64 slots = bpf_core_field_offset(struct maple_range_64, slot);
	u64 end = fp_maple_end(walk, is_arange), index = 0;

	if (is_arange) {
		pivots = bpf_core_field_offset(struct maple_arange_64, pivot);
		slots = bpf_core_field_offset(struct maple_arange_64, slot);
	}
	for (u64 i = 0; i < FP_MAPLE_PIVOTS; i++) {
		u64 pivot = fp_maple_word(walk, pivots + i * sizeof(u64));

		/* both below 2^63; the largest pivot of all is not */
		index += ((pivot - address) & ~pivot) >> 63 & (i - end) >> 63;
	}
	return fp_maple_word(walk, slots + index * sizeof(u64));
}

/* The mapping that contains the address. 0: none, or what was read makes no sense. */
static __always_inline u64 fp_vma_find(struct fp_walk *walk, u64 address)
{
	struct mm_struct *mm = (void *)walk->mm;
	u64 entry = (u64)BPF_CORE_READ(mm, mm_mt.ma_root);

#pragma clang loop unroll(disable)
	for (int depth = 0; depth < FP_VMA_DEPTH; depth++) {
		u64 node = entry & ~(u64)(FP_MAPLE_NODE - 1), type = entry >> 3 & 15;

		if (type < FP_MAPLE_LEAF || type > FP_MAPLE_ARANGE ||
		    bpf_probe_read_kernel(walk->node, FP_MAPLE_NODE, (void *)node))
			return 0;
		entry = fp_maple_slot(walk, type == FP_MAPLE_ARANGE, address);
		if (type == FP_MAPLE_LEAF)
			return entry;
	}
	return 0;
}

/* Makes the walk's mapping the one at the address. */
static __always_inline bool fp_vma_at(struct fp_walk *walk, u64 address)
{
	struct fp_vma *ret = &walk->area;
	struct vm_area_struct *area;

	if (!bpf_core_type_exists(struct maple_arange_64) || !walk->mm)
		return false;
	area = (void *)fp_vma_find(walk, address);
	if (!area)
		return false;
	ret->start = BPF_CORE_READ(area, vm_start);
	ret->end = BPF_CORE_READ(area, vm_end);
	ret->offset = BPF_CORE_READ(area, vm_pgoff) << 12;
	ret->file = (u64)BPF_CORE_READ(area, vm_file);
	return ret->start <= address && address < ret->end;
}

/* Bit 31 of the nanoseconds is the kernel's own from 6.13 on: whether somebody has asked since
 * (I_CTIME_QUERIED). */
static __always_inline u64 fp_changed(s64 seconds, u64 nanoseconds)
{
	return (u64)seconds << 30 | (nanoseconds & ((1 << 30) - 1));
}

static __always_inline u64 fp_inode_changed(struct inode *inode)
{
	const struct inode___before_6_11 *before_6_11 = (void *)inode;
	const struct inode___before_6_6 *before_6_6 = (void *)inode;

	if (bpf_core_field_exists(inode->i_ctime_sec))
		return fp_changed(BPF_CORE_READ(inode, i_ctime_sec),
				  BPF_CORE_READ(inode, i_ctime_nsec));
	if (bpf_core_field_exists(before_6_11->__i_ctime))
		return fp_changed(BPF_CORE_READ(before_6_11, __i_ctime.tv_sec),
				  BPF_CORE_READ(before_6_11, __i_ctime.tv_nsec));
	if (bpf_core_field_exists(before_6_6->i_ctime))
		return fp_changed(BPF_CORE_READ(before_6_6, i_ctime.tv_sec),
				  BPF_CORE_READ(before_6_6, i_ctime.tv_nsec));
	return 0;
}

/* Which file the walk's mapping is of. False: of none, or of one that says too little of itself. */
static __always_inline bool fp_vma_key(struct fp_walk *walk)
{
	struct fp_unwind_file_key *ret = &walk->key;
	struct fp_vma *area = &walk->area;
	struct mm_struct *mm = (void *)walk->mm;
	struct file *file = (void *)area->file;
	struct inode *inode;

	__builtin_memset(ret, 0, sizeof(*ret));
	if (!file) {
		area->offset = 0; /* whatever it says */
		return area->start == (u64)BPF_CORE_READ(mm, context.vdso);
	}
	inode = BPF_CORE_READ(file, f_inode);
	ret->inode = BPF_CORE_READ(inode, i_ino);
	ret->device = BPF_CORE_READ(inode, i_sb, s_dev);
	ret->generation = BPF_CORE_READ(inode, i_generation);
	ret->changed = fp_inode_changed(inode);
	return ret->inode && ret->changed;
}

#endif
