// SPDX-License-Identifier: Apache-2.0
//
// framename: one frame of a profile → what people read: name, module, kind. Shared by the
// fold into a tree and the export as pprof, so that both call things the same. Private to
// profile/.
// Trust: strings of the profile are foreign bytes; every name is only ever carried on.
// Ownership: names live as long as the namer, the profile and the symbolizer.
// Threads: none shared.
#pragma once

#include "fold.h"

struct fp_frame_namer {
	const struct fp_profile *profile;
	struct fp_symbolizer *symbolizer; // NULL: frames as they ship
	bool raw;
	struct fp_intern made; // names put together here, e.g. "libx.so+0x12"
};

int fp_frame_namer_init(struct fp_frame_namer *namer, const struct fp_profile *profile,
			const struct fp_fold_options *options, struct fp_symbolizer *symbolizer);
void fp_frame_namer_free(struct fp_frame_namer *namer);
#define FP_AUTONAMER FP_CLEANUP(fp_frame_namer_free)

// is_leaf: the offset is where the code stood, not where a call returns to.
int fp_frame_name(struct fp_frame_namer *namer, const struct fp_frame *frame, bool is_leaf,
		  struct fp_tree_frame *ret_frame);
// The same for an explanation of our own, such as "[no stack]".
void fp_frame_error(const char *text, struct fp_tree_frame *ret_frame);

static inline bool fp_frame_is_kernel(const struct fp_frame *frame)
{
	return frame->kind == FP_FRAME_KERNEL || frame->kind == FP_FRAME_MODULE;
}

// What of a stack (leaf first) is shown, and where its sides are. A waker's stack lies before
// the sleeper's, turned around, with a mark between them (mark.h).
struct fp_frame_parts {
	uint32_t mark;	    // index of the mark, UINT32_MAX: there is none
	uint32_t waker_end; // [0, waker_end) is shown of the waker
	uint32_t start;	    // [start, count) is shown of the stack, or of the sleeper
};
void fp_frame_parts(const struct fp_profile *profile, const uint32_t *frames, uint32_t count,
		    bool kernel_frames, struct fp_frame_parts *ret_parts);
static inline bool fp_frame_is_shown(const struct fp_frame_parts *parts, uint32_t i)
{
	return i >= parts->start || i == parts->mark || i < parts->waker_end;
}
// Whether frames[i] (leaf first) is where code stood: the leaf, and the user frame that
// entered the kernel.
bool fp_frame_is_leaf(const struct fp_profile *profile, const uint32_t *frames, uint32_t i,
		      const struct fp_frame_parts *parts);
// "/usr/lib/libc.so.6" → "libc.so.6".
const char *fp_path_basename(const char *path);
// Value of the label of that name in the set, NULL when it has none.
const char *fp_label_value(const struct fp_profile *profile, uint32_t labels, const char *name);
