// SPDX-License-Identifier: Apache-2.0
// Why walks stopped, on the wire: what is malformed is refused with its reason.
#include "batches.h"
#include "examples.h"
#include "fleetprof.pb-c.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <zstd.h>

#include <cmocka.h>

static const struct {
	uint32_t build, reason;
	size_t counts;
	const char *refusal; // NULL: accepted
} cases[] = {
	{ 0, 0, 1, NULL },
	{ UINT32_MAX, 0, 1, "a stop's build or reason is wrong" },
	{ 0, UINT32_MAX, 1, "a stop's build or reason is wrong" },
	{ 0, 0, 0, "columns of the stops differ in length" },
};

// The message with one stop, compressed.
static void with_stop(const struct fp_buf *message, size_t i, struct fp_buf *ret)
{
	Fleetprof__V1__Batch *batch =
	    fleetprof__v1__batch__unpack(NULL, message->len, message->data);
	Fleetprof__V1__Quality *quality = batch->quality[0], kept = *quality;
	uint32_t build = cases[i].build, reason = cases[i].reason;
	FP_AUTOBUF struct fp_buf packed = { 0 };
	uint64_t count = 7;

	quality->stop_build = &build, quality->n_stop_build = 1;
	quality->stop_reason = &reason, quality->n_stop_reason = 1;
	quality->stop_count = &count, quality->n_stop_count = cases[i].counts;
	assert_int_equal(fp_buf_reserve(&packed, fleetprof__v1__batch__get_packed_size(batch)), 0);
	packed.len = fleetprof__v1__batch__pack(batch, packed.data);
	*quality = kept;
	fleetprof__v1__batch__free_unpacked(batch, NULL);
	assert_int_equal(fp_buf_reserve(ret, ZSTD_compressBound(packed.len)), 0);
	ret->len =
	    ZSTD_compress(ret->data, ZSTD_compressBound(packed.len), packed.data, packed.len, 1);
}

static void stops_are_checked(void **state)
{
	FP_AUTOPROFILE struct fp_profile *profile = example_documented();
	FP_AUTOBUF struct fp_buf bytes = { 0 }, message = { 0 };

	batch_encode(profile, &bytes);
	batch_decompress(&bytes, &message);
	for (size_t i = 0; i < FP_ARRAY_SIZE(cases); i++) {
		FP_AUTOPROFILE struct fp_profile *decoded = NULL;
		FP_AUTOBUF struct fp_buf changed = { 0 };
		const char *reason = NULL;
		int error;

		with_stop(&message, i, &changed);
		error = fp_batch_decode(changed.data, changed.len, &fp_batch_default_limits,
					&decoded, &reason);
		assert_int_equal(error, cases[i].refusal ? -EBADMSG : 0);
		if (cases[i].refusal)
			assert_string_equal(reason, cases[i].refusal);
		else
			assert_int_equal(decoded->quality[FP_PROFILE_CPU].stops[0].count, 7);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stops_are_checked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
