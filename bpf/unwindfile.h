/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * unwindfile: the range of an address by the file that is mapped there. What the kernel has mapped
 * at this moment is always right; it costs more than ranges, which are therefore asked first.
 * A file that is not known is noted, so that user space finds out whose table it has.
 */
#ifndef FLEETPROF_UNWINDFILE_H
#define FLEETPROF_UNWINDFILE_H

#include "bpf/vma.h"

static __always_inline void fp_unwind_note_file(const struct fp_walk *walk,
						const struct fp_unwind_file_key *key,
						fp_u64 address)
{
	struct fp_unwind_met met = { .time_ns = bpf_ktime_get_ns(),
				     .start_ns = walk->start_ns,
				     .start_boottime_ns = walk->start_boottime_ns,
				     .address = address,
				     .offset = walk->area.offset + (address - walk->area.start),
				     .tgid = walk->tgid,
				     .exec_id = walk->exec_id };

	if (!walk->is_forebear)
		bpf_map_update_elem(&unwind_met, key, &met, BPF_NOEXIST);
}

/*
 * Two functions to the verifier, checked once for all their callers, and one after the other, since
 * the stacks of all that call each other may have 512 bytes together.
 */

/* Reads what is mapped at the address. 0: a file, whose key the walk has. */
__weak __attribute__((noinline)) int fp_unwind_read_mapping(struct fp_walk *walk, fp_u64 address)
{
	if (!walk || walk->lookups >= FP_VMA_LOOKUPS)
		return 1;
	walk->lookups++;
	if (!fp_vma_at(walk, address))
		return 1;
	if (!walk->version)
		walk->version = FP_UNWIND_BY_FILE;
	fp_unwind_no_range(walk, walk->area.start, walk->area.end - walk->area.start);
	return !fp_vma_key(walk);
}

__weak __attribute__((noinline)) int fp_unwind_take_mapping(struct fp_walk *walk, fp_u64 address)
{
	const struct fp_unwind_file *file;
	struct fp_unwind_file_key key;

	if (!walk)
		return 0; /* cannot be: callers have it */
	key = walk->key;
	file = bpf_map_lookup_elem(&unwind_files, &key);
	if (file)
		fp_unwind_take_file(walk, file, walk->area.start, walk->area.end, walk->area.offset,
				    address);
	else
		fp_unwind_note_file(walk, &key, address);
	return 0;
}

static __always_inline void fp_unwind_find_file(struct fp_walk *walk, fp_u64 address)
{
	if (!fp_unwind_read_mapping(walk, address))
		fp_unwind_take_mapping(walk, address);
}

#endif
