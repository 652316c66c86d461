// SPDX-License-Identifier: Apache-2.0
// The decoder of batches. Input is the message below zstd, whose checksum would keep every
// mutation away from it; an input that is a zstd frame is taken as it is. What is accepted
// must encode and come back as the same bytes.
#include "fuzz.h"
#include "proto/batch.h"

#include <string.h>
#include <zstd.h>

static const uint8_t zstd_magic[] = { 0x28, 0xb5, 0x2f, 0xfd };

static void decode(const uint8_t *bytes, size_t size)
{
	FP_AUTOPROFILE struct fp_profile *profile = NULL, *again = NULL;
	FP_AUTOBUF struct fp_buf first = { 0 }, second = { 0 };
	const char *reason = NULL;

	if (fp_batch_decode(bytes, size, &fp_batch_default_limits, &profile, &reason)) {
		if (profile || !reason)
			abort();
		return;
	}
	if (fp_batch_encode(profile, &first) ||
	    fp_batch_decode(first.data, first.len, &fp_batch_default_limits, &again, &reason) ||
	    fp_batch_encode(again, &second))
		abort();
	if (first.len != second.len || memcmp(first.data, second.data, first.len) != 0)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	FP_AUTOBUF struct fp_buf frame = { 0 };
	size_t bound = ZSTD_compressBound(size);

	if (size >= sizeof(zstd_magic) && memcmp(data, zstd_magic, sizeof(zstd_magic)) == 0) {
		decode(data, size);
		return 0;
	}
	if (fp_buf_reserve(&frame, bound))
		return 0;
	frame.len = ZSTD_compress(frame.data, bound, data, size, 1);
	if (!ZSTD_isError(frame.len))
		decode(frame.data, frame.len);
	return 0;
}
