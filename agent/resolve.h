// SPDX-License-Identifier: Apache-2.0
//
// resolve: stack record + process table + kernel map → stack and labels in a profile.
// Stage: drain → resolve → fold. User addresses become (build, file offset), kernel
// addresses (kernel or module build, offset); what cannot be is an explained exception.
// Frames are leaf first, kernel side before user side.
// Threads: one owner.
#pragma once

#include "kernelmap.h"
#include "process.h"

struct fp_labeler;

struct fp_resolver {
	struct fp_process_table *processes;
	struct fp_kernel_map *kernel;
	struct fp_labeler *labeler; // who a sample belongs to; NULL: static_labels only
	const char *static_labels; // `name=value, …` from the configuration, or NULL
};

struct fp_resolved {
	uint32_t stack;	 // in the profile
	uint32_t labels; // {executable, thread, static labels…}; off-CPU also {state}
	// What the caller adds to the quality record, times the sample's count.
	uint32_t frames, frames_no_build_id, frames_anon, frames_unmapped;
	enum fp_walk_end walk_end; // ROOT only if the walk is proven whole
	uint32_t stop_build;	   // build of the last user frame, FP_NO_BUILD when none
	bool has_user;
	bool process_unknown;
};

int fp_resolver_resolve(struct fp_resolver *resolver, const struct fp_stack_record *record,
			struct fp_profile *profile, struct fp_resolved *ret);
