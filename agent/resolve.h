// SPDX-License-Identifier: Apache-2.0
//
// resolve: stack record + process table + kernel map → stack and labels in a profile.
// Stage: drain → resolve → fold. User addresses become (build, file offset), kernel
// addresses (kernel or module build, offset); what a perf map names gets its name; what cannot be
// told is an explained exception. What fp_names knows was asked before (agent/questions.h).
// Frames are leaf first, kernel side before user side.
// Threads: one owner.
#pragma once

#include "kernelmap.h"
#include "labels.h"
#include "names.h"
#include "process.h"

struct fp_resolver {
	struct fp_process_table *processes;
	struct fp_kernel_map *kernel;
	struct fp_labeler *labeler;
	struct fp_names *names; // NULL: the kernel's build-IDs only, no JIT names
	bool by_table;		// walks go by unwind tables
};

struct fp_resolved {
	uint32_t stack;	 // in the profile
	uint32_t labels; // agent/labels.h
	// What the caller adds to the quality record, times the sample's count.
	uint32_t frames, frames_no_build_id, frames_anon, frames_unmapped;
	uint32_t frames_jit;	   // named by a perf map
	enum fp_walk_end walk_end; // ROOT or OUTERMOST only if the walk is whole
	uint32_t frames_by_table;  // user frames that an unwind table led to
	uint32_t stop_build;	   // build of the last user frame, FP_NO_BUILD when none
	enum fp_stop stop;	   // why the walk stopped there, when it stopped short
	bool stop_jit;		   // it is JITed code
	bool has_user;
	bool process_unknown;
	bool provisional; // to be resolved anew in the next epoch: names may come or change
	bool interrupt;	  // a waker's stack that is an interrupt's: up to its entry alone
	bool unwanted;	  // a relabel rule drops it; stack and labels are not set
};

int fp_resolver_resolve(struct fp_resolver *resolver, const struct fp_stack_record *record,
			struct fp_profile *profile, struct fp_resolved *ret);
// How a process, and a file that it has mapped, are named to fp_names.
struct fp_names_file fp_resolver_file(const struct fp_stack_record *record,
				      const struct fp_process_view *view,
				      const struct fp_mapping *mapping);
struct fp_names_process fp_resolver_process(const struct fp_stack_record *record,
					    const struct fp_process_view *view);
