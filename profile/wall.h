// SPDX-License-Identifier: Apache-2.0
//
// wall: what a profile's samples come to as time, by what the threads were doing, and the words
// that stand beside wall time.
// Threads: no state.
#pragma once

#include "proto/profile.h"

struct fp_wall_time {
	uint64_t ns[FP_PROFILE_TYPES]; // of all samples of each type; CPU as samples × period
	bool period_unknown;	       // CPU samples are there, but what one stands for is not said
};
void fp_wall_time(const struct fp_profile *profile, struct fp_wall_time *ret_time);
// A sample as time: its value, for CPU samples × period. 0: the period is not known.
uint64_t fp_wall_sample_ns(const struct fp_profile *profile, const struct fp_sample *sample);

// Several lines, and one line, as in summary.h: the time of each part, what is missing in the
// sum, and how far the parts can be trusted. Nothing when the profile has no quality record.
int fp_wall_text(const struct fp_profile *profile, struct fp_buf *ret_text);
int fp_wall_line(const struct fp_profile *profile, struct fp_buf *ret_text);
