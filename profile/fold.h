// SPDX-License-Identifier: Apache-2.0
//
// fold: profile + symbolizer → tree. Names are joined here, at the last moment, so that a
// symbol file that arrives late repairs everything already stored.
#pragma once

#include "aspect.h"
#include "symbols.h"
#include "tree.h"

struct fp_fold_options {
	enum fp_profile_type type; // not looked at with wall
	// The types of fp_aspect_wall in one tree, as nanoseconds; samples off the CPU end in a
	// frame that says how they were off (mark.h). CPU samples need the profile's period.
	bool wall;
	// Label whose value stands as the outermost frame ("thread", "executable"); NULL: none.
	const char *root_label;
	bool raw;	    // frames as they ship: `<build-id>+0x<offset>`, no symbolizer needed
	bool kernel_frames; // false: user side only
};

// Adds every sample of options->type (or wall) to the tree, in the profile's unit (samples or
// ns).
// symbolizer may be NULL only with raw. The caller finishes the tree.
int fp_fold_profile(const struct fp_profile *profile, const struct fp_fold_options *options,
		    struct fp_symbolizer *symbolizer, struct fp_tree *tree);
// One stack, for stores that keep stacks outside a profile: the frames are leaf first.
// label: outermost frame or NULL.
int fp_fold_stack(const struct fp_profile *profile, const uint32_t *frames, uint32_t count,
		  const char *label, const struct fp_fold_options *options,
		  struct fp_symbolizer *symbolizer, uint64_t value, struct fp_tree *tree);
static inline bool fp_fold_wants(const struct fp_fold_options *options,
				 const struct fp_sample *sample)
{
	return options->wall ? fp_aspect_has(fp_aspect_wall, sample->type)
			     : sample->type == (uint32_t)options->type;
}
// The profile's raw frames as pprof (gzip'ed profile.proto) with mappings and build-IDs and,
// with a symbolizer, names: for `--format pprof` and exports.
int fp_fold_pprof(const struct fp_profile *profile, const struct fp_fold_options *options,
		  struct fp_symbolizer *symbolizer, struct fp_buf *ret_bytes);
