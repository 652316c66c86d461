// SPDX-License-Identifier: Apache-2.0
//
// timerange: the `from` and `to` of a request. A time is unix seconds (`1764450000`, or with
// a fraction), `now`, or `now-<number><s|m|h|d>`. A range is half open: [from, to).
// Input: foreign text. Times are clamped to nothing: what cannot be meant is refused.
#pragma once

#include "common/buf.h"

struct fp_time_range {
	uint64_t from_ns, to_ns; // CLOCK_REALTIME
};

#define FP_TIME_RANGE_DEFAULT_NS (15ULL * 60 * 1000000000)

// Errors: -EINVAL with a sentence in error.
int fp_time_parse(const char *text, uint64_t now_ns, uint64_t *ret_ns, struct fp_buf *error);
// NULL texts take their default: now-15m and now. Refuses an empty or backward range.
int fp_time_range_parse(const char *from, const char *to, uint64_t now_ns,
			struct fp_time_range *ret_range, struct fp_buf *error);
