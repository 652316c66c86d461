// SPDX-License-Identifier: Apache-2.0
//
// slice: a part of a profile as a profile of its own, with only the tables that its samples
// need. Splitting a window whose batch would be too large for its way is the use.
// Ownership: the part shares nothing with the whole. Threads: no state.
#pragma once

#include "profile.h"

// The sample rows [first, first + count) of the profile; the identity and the window are the
// whole's. The part that begins at row 0 carries the quality records, so that they stand
// once. Errors: -ENOMEM.
int fp_profile_slice(const struct fp_profile *profile, uint32_t first, uint32_t count,
		     struct fp_profile **ret_part);
// Sum of the samples' counts.
uint64_t fp_profile_count(const struct fp_profile *profile);
