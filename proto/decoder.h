// SPDX-License-Identifier: Apache-2.0
//
// decoder: what decode.c and decodequality.c share while a message becomes a profile. Private to
// proto/. The message is foreign; its columns are within their limits. Threads: none shared.
#pragma once

#include "batch.h"
#include "fleetprof.pb-c.h"

struct fp_decoder {
	const Fleetprof__V1__Batch *batch;
	const struct fp_batch_limits *limits;
	struct fp_profile *profile;
	const char *reason;
};

static inline int fp_decoder_refuse(struct fp_decoder *decoder, int error, const char *reason)
{
	decoder->reason = reason;
	return error;
}

// The quality records, when the tables that they point into are there.
int fp_decode_quality(struct fp_decoder *decoder);
