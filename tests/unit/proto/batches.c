// SPDX-License-Identifier: Apache-2.0
#include "batches.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <zstd.h>

#include <cmocka.h>

void batch_encode(const struct fp_profile *profile, struct fp_buf *bytes)
{
	assert_int_equal(fp_batch_encode(profile, bytes), 0);
}

void batch_compress(const void *message, size_t size, struct fp_buf *ret_bytes)
{
	size_t bound = ZSTD_compressBound(size), got;

	assert_int_equal(fp_buf_reserve(ret_bytes, bound), 0);
	got = ZSTD_compress(ret_bytes->data, bound, message, size, 1);
	assert_false(ZSTD_isError(got));
	ret_bytes->len = got;
}

void batch_decompress(const struct fp_buf *bytes, struct fp_buf *ret_message)
{
	size_t size = ZSTD_getFrameContentSize(bytes->data, bytes->len);

	assert_int_equal(fp_buf_reserve(ret_message, size), 0);
	ret_message->len = ZSTD_decompress(ret_message->data, size, bytes->data, bytes->len);
	assert_int_equal(ret_message->len, size);
}

int batch_decode(const struct fp_buf *bytes, const struct fp_batch_limits *limits,
		 struct fp_profile **ret_profile)
{
	const char *reason = NULL;
	int error = fp_batch_decode(bytes->data, bytes->len, limits, ret_profile, &reason);

	assert_true(error == 0 || error == -EBADMSG || error == -EMSGSIZE);
	assert_true(!error == (*ret_profile != NULL));
	if (error)
		assert_non_null(reason);
	return error;
}
