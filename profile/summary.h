// SPDX-License-Identifier: Apache-2.0
//
// summary: a quality record in sentences, for agentctl's stderr and the page. Says how many
// samples of how many expected, the rate, what was dropped and why, the share of complete
// user stacks, and names the builds in which walks stopped, worst first.
#pragma once

#include "proto/profile.h"

// Several lines of text, each ended by a newline; nothing when quality is absent.
int fp_summary_text(const struct fp_profile *profile, enum fp_profile_type type,
		    struct fp_buf *ret_text);
// For time off the CPU also what was measured, how intervals were sampled and how coarse that is.
// One line for the foot of a flame graph.
int fp_summary_line(const struct fp_profile *profile, enum fp_profile_type type,
		    struct fp_buf *ret_text);
