// SPDX-License-Identifier: Apache-2.0
//
// batches: bytes for the tests of the encoder and decoder, each step asserted.
#pragma once

#include "proto/batch.h"

static const struct fp_batch_limits *const defaults = &fp_batch_default_limits;

void batch_encode(const struct fp_profile *profile, struct fp_buf *bytes);
void batch_compress(const void *message, size_t size, struct fp_buf *ret_bytes);
void batch_decompress(const struct fp_buf *bytes, struct fp_buf *ret_message);
// Returns what fp_batch_decode does, after checking that the result fits the return value.
int batch_decode(const struct fp_buf *bytes, const struct fp_batch_limits *limits,
		 struct fp_profile **ret_profile);
