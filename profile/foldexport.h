// SPDX-License-Identifier: Apache-2.0
//
// foldexport: the state of one export of a profile as pprof, shared by its two halves:
// builds → mappings (foldmappings.c) and samples → locations (foldpprof.c). Every build gets
// an address range of its own, in which address = base + file offset, and a mapping over the
// pages in which offsets were seen. These lie inside the executable segment, as pprof wants
// it of a mapping when it looks a function up in a local binary. Private to these files.
// Ownership: the struct owns its arrays. Threads: none shared.
#pragma once

#include "framename.h"
#include "pprof.h"

#define FP_EXPORT_OFFSET_MAX ((uint64_t)1 << 44) // offsets past it are no file's

struct fp_build_place {
	uint64_t mapping;     // id, 0: none
	uint64_t first, last; // pages: smallest offset seen, and one past the largest
	uint64_t base;	      // address of file offset 0
};

struct fp_export {
	struct fp_frame_namer namer;
	const struct fp_fold_options *options;
	struct fp_pprof *pprof;
	struct fp_build_place *places; // by build
	uint64_t *locations;	       // by frame and whether it is a leaf, 0: not yet
	uint64_t *stack;
	size_t stack_count, stack_capacity;
	struct fp_pprof_label *labels;
	size_t labels_count, labels_capacity;
	bool named; // names go in; otherwise pprof finds them
};

// Gives every build that has frames its place and mapping, the main program first.
int fp_export_mappings(struct fp_export *export);
