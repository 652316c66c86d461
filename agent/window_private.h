// SPDX-License-Identifier: Apache-2.0
//
// window_private: the inside of a window, shared by window.c (filling it), window_pair.c (who woke
// whom) and window_quality.c (what the profile says of itself).
#pragma once

#include "window.h"

struct known { // what a stack was resolved to
	struct fp_resolved resolved;
	uint32_t epoch;
};

enum fp_profile_type fp_window_type(enum fp_source source);
// The record's stack and labels in the window's profile, resolved once per window. *ret is valid
// until the next call.
int fp_window_resolve(struct fp_window *window, struct fp_resolver *resolver,
		      const struct fp_stack_record *record, struct fp_resolved **ret);
// Adds `count` samples of the stack to the type's quality counters.
int fp_window_count_quality(struct fp_window *window, enum fp_profile_type type,
			    const struct fp_resolved *resolved, uint64_t count);
// Points the sample at the stack that stands for a lost one.
int fp_window_lost_stack(struct fp_profile *profile, struct fp_sample *sample);
// Completes the quality records of all sources that ran.
int fp_window_complete(struct fp_window *window, const struct fp_window_facts *facts);
