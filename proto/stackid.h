// SPDX-License-Identifier: Apache-2.0
//
// stackid: the content address of a stack: XXH3-128, big-endian, over the canonical bytes
// of its frames, leaf first (layout in docs/wire.md). Indexes and paths of identified
// builds take no part, so that hosts which number their tables differently, or map one
// build from different places, agree on the id.
// Input: frames of the profile, indexes in range. Threads: no state.
#pragma once

#include "profile.h"

void fp_stack_id(const struct fp_profile *profile, const uint32_t *frames, uint32_t count,
		 uint8_t ret_id[FP_STACK_ID_LEN]);
