// SPDX-License-Identifier: Apache-2.0
//
// batch: profile ↔ bytes. A batch is the zstd frame of one fleetprof.v1.Batch message
// (proto/fleetprof.proto, docs/wire.md): column-packed, self-contained.
// Input of decode is hostile: sizes are checked before anything of that size is allocated,
// every index is range-checked, and a refused batch says why.
#pragma once

#include "profile.h"

// Bounds of one batch; reasons and defaults in docs/wire.md. Encode keeps the defaults,
// decode checks every one before it allocates anything of that size.
struct fp_batch_limits {
	size_t compressed_bytes;
	size_t message_bytes;					   // after decompression
	uint32_t strings, builds, frames, stacks, labels, samples; // entries of each table
	uint32_t stack_frames; // frame indexes of all stacks together
	uint32_t label_pool;   // labels of all label sets together
	uint32_t stack_depth;  // frames in one stack
	uint32_t string_bytes; // one string; at most FP_STRING_MAX
	uint32_t counters;     // quality counters of one profile type
	uint32_t stops;	       // reasons for which walks stopped, by build, of one profile type
};
extern const struct fp_batch_limits fp_batch_default_limits;

#define FP_BATCH_ID_LEN 16
// Deterministic identity: XXH3-128 over (host id, boot id, sequence).
void fp_batch_id(const struct fp_profile *profile, uint8_t ret_id[FP_BATCH_ID_LEN]);

// Appends the encoded, compressed batch to ret_bytes. Errors: -ENOMEM, -E2BIG when it
// would exceed the default limits.
int fp_batch_encode(const struct fp_profile *profile, struct fp_buf *ret_bytes);
// Errors: -EBADMSG malformed, -EMSGSIZE over a limit, -ENOMEM. On error *ret_reason is a
// static sentence for the answer to the sender.
int fp_batch_decode(const void *bytes, size_t size, const struct fp_batch_limits *limits,
		    struct fp_profile **ret_profile, const char **ret_reason);
