// SPDX-License-Identifier: Apache-2.0
//
// control_request: one line of JSON → a request. Strict: unknown verbs and members, wrong
// types and values out of bounds are refused with a sentence.
// Input: foreign bytes, at most FP_CONTROL_REQUEST_MAX. Threads: no state.
#pragma once

#include "common/buf.h"

enum fp_control_verb { FP_CONTROL_STATUS, FP_CONTROL_SNAPSHOT, FP_CONTROL_STOP };

struct fp_control_request {
	enum fp_control_verb verb;
	// SNAPSHOT
	uint32_t pid;
	uint32_t hz;
	uint64_t duration_ns;
	bool cpu, off_cpu;
	bool run_queue, waker; // only with off_cpu
};

// -EINVAL and one sentence in error.
int fp_control_request_parse(const char *line, size_t size, struct fp_control_request *ret,
			     struct fp_buf *error);
