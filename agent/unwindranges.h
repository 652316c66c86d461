// SPDX-License-Identifier: Apache-2.0
//
// unwindranges: what code a process has mapped, as the BPF walker gets it (struct fp_unwind_ranges
// in bpf/abi.h), and whether a walk that went by it can be believed. The kernel tells of new
// mappings a moment after they are there, and of what is unmapped not at all: so a walk may go by
// ranges that no longer hold. Its record says which version it went by, and is held against what
// was mapped when it was taken.
// Input: a process view (agent/process.h), from the kernel, with foreign names. Pure logic.
// Ownership: arrays are the caller's unless said otherwise. Threads: no state.
#pragma once

#include "process.h"

#define FP_UNWIND_RANGES_MAX (FP_UNWIND_PARTS * FP_UNWIND_PART_RANGES)
#define FP_UNWIND_NO_BUILD   UINT32_MAX

struct fp_unwind_area { // mapped code; areas are sorted and do not overlap
	uint64_t start, end;
	uint64_t offset; // of its start in the file
	uint64_t file;	 // hash of what is known of the file
	uint32_t build;	 // the caller's number for it, or FP_UNWIND_NO_BUILD
	bool by_table;	 // its build has a table in the ranges that were made of the areas
};

// What identifies a file, as a number: build-ID and name, or else device, inode and name.
uint64_t fp_unwind_file_hash(const struct fp_file *file);
// Where in its file a mapping begins. The vDSO has no file: it begins with its image.
static inline uint64_t fp_unwind_offset_of(const struct fp_process_view *view,
					   const struct fp_mapping *mapping)
{
	return view->files[mapping->file].kind == FP_FILE_VDSO ? 0 : mapping->page_offset;
}

// Where the table of a build lies: see struct fp_unwind_place. heat: which to prefer when a process
// has more than FP_UNWIND_RANGES_MAX.
struct fp_unwind_located {
	uint32_t page, pages, file_page;
	uint16_t tag;
	uint64_t heat;
};
typedef bool (*fp_unwind_locate_fn)(uint32_t build, struct fp_unwind_located *ret, void *context);

// The ranges of the areas whose build has a table, at most FP_UNWIND_RANGES_MAX, sorted; notes in
// the areas which have. Neighbours that continue one another are one range. Returns their number,
// or -ENOMEM.
int fp_unwind_ranges_make(struct fp_unwind_area *areas, uint32_t count, fp_unwind_locate_fn locate,
			  void *context, struct fp_unwind_range ranges[FP_UNWIND_RANGES_MAX]);

struct fp_unwind_program { // whose ranges they are
	uint64_t start_boottime_ns;
	uint32_t exec_id;
	uint32_t version; // never 0
};
// 1 … FP_UNWIND_PARTS.
uint32_t fp_unwind_ranges_parts(uint32_t count);
void fp_unwind_ranges_part(const struct fp_unwind_program *program,
			   const struct fp_unwind_range *ranges, uint32_t count, uint32_t part,
			   struct fp_unwind_ranges *ret);

// The area at the address; NULL: none.
const struct fp_unwind_area *fp_unwind_area_at(const struct fp_unwind_area *areas, uint32_t count,
					       uint64_t address);
// How many of the record's user frames can be believed, when its walk went by ranges that were made
// of the areas and the process had mapped what the view says. A frame is found from the one before
// it: by table where the areas have one there, and that was the right one only if the view has the
// same place of the same file at the address. *ret_stale: it was not for the last that can be
// believed, so whatever the walk said of what comes next, its end included, cannot.
uint32_t fp_unwind_believed(const struct fp_unwind_area *areas, uint32_t count,
			    const struct fp_process_view *view,
			    const struct fp_stack_record *record, bool *ret_stale);
