// SPDX-License-Identifier: Apache-2.0
// Batches: what goes in comes out, limits hold at their edges, and damage is noticed.
#include "batches.h"
#include "examples.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <zstd.h>

#include <cmocka.h>

static void a_profile_comes_back_as_it_went(void **state)
{
	for (uint32_t seed = 0; seed < 40; seed++) {
		FP_AUTOPROFILE struct fp_profile *profile = example_random(seed * 7, seed);
		FP_AUTOPROFILE struct fp_profile *decoded = NULL;
		FP_AUTOBUF struct fp_buf bytes = { 0 };

		batch_encode(profile, &bytes);
		assert_int_equal(batch_decode(&bytes, defaults, &decoded), 0);
		assert_same_profile(profile, decoded);
	}
}

static void a_decoded_profile_can_be_added_to_and_sent_again(void **state)
{
	FP_AUTOPROFILE struct fp_profile *profile = example_random(100, 5), *decoded = NULL;
	FP_AUTOBUF struct fp_buf bytes = { 0 }, again = { 0 };
	uint32_t rows = profile->samples_count;

	batch_encode(profile, &bytes);
	assert_int_equal(batch_decode(&bytes, defaults, &decoded), 0);
	batch_encode(decoded, &again);
	assert_int_equal(bytes.len, again.len);
	assert_memory_equal(bytes.data, again.data, bytes.len);
	for (uint32_t i = 0; i < rows; i++)
		assert_int_equal(fp_profile_sample(decoded, profile->samples + i), 0);
	assert_int_equal(decoded->samples_count, rows);
	assert_int_equal(decoded->samples[0].count, 2 * profile->samples[0].count);
}

static void an_empty_profile_can_be_sent(void **state)
{
	FP_AUTOPROFILE struct fp_profile *profile = NULL, *decoded = NULL;
	FP_AUTOBUF struct fp_buf bytes = { 0 };

	assert_int_equal(fp_profile_new(&profile), 0);
	batch_encode(profile, &bytes);
	assert_int_equal(batch_decode(&bytes, defaults, &decoded), 0);
	assert_same_profile(profile, decoded);
}

// Limit, its place, and the number that the profile needs: that is enough, one less is not.
#define LIMIT(field, needed)                                                                       \
	{                                                                                          \
#field, offsetof(struct fp_batch_limits, field), needed                            \
	}

static void every_limit_holds_at_its_edge(void **state)
{
	FP_AUTOPROFILE struct fp_profile *profile = example_random(150, 3);
	FP_AUTOBUF struct fp_buf bytes = { 0 };
	const struct fp_quality *quality = profile->quality;
	uint32_t deepest = 0, longest = 0, stops = 0;

	for (uint32_t i = 0; i < profile->stacks_count; i++)
		deepest = profile->stacks[i].count > deepest ? profile->stacks[i].count : deepest;
	for (uint32_t i = 0; i < profile->strings.count; i++)
		longest = profile->strings.sizes[i] > longest ? profile->strings.sizes[i] : longest;
	for (int type = 0; type < FP_PROFILE_TYPES; type++)
		stops = quality[type].stops_count > stops ? quality[type].stops_count : stops;
	for (int i = 0; i < FP_QUALITY_COUNT; i++)
		profile->quality[FP_PROFILE_CPU].counters[i] = 1 + i;
	batch_encode(profile, &bytes);
	const struct {
		const char *name;
		size_t offset;
		uint32_t needed;
	} cases[] = {
		LIMIT(strings, profile->strings.count),
		LIMIT(builds, profile->builds_count),
		LIMIT(frames, profile->frames_count),
		LIMIT(stacks, profile->stacks_count),
		LIMIT(labels, profile->labels_count),
		LIMIT(samples, profile->samples_count),
		LIMIT(stack_frames, profile->stack_frames_count),
		LIMIT(label_pool, profile->label_pool_count),
		LIMIT(stack_depth, deepest),
		LIMIT(string_bytes, longest),
		LIMIT(counters, FP_QUALITY_COUNT + 5),
		LIMIT(stops, stops),
	};
	for (size_t i = 0; i < FP_ARRAY_SIZE(cases); i++) {
		FP_AUTOPROFILE struct fp_profile *kept = NULL, *refused = NULL;
		struct fp_batch_limits limits = *defaults;
		uint32_t *limit = (uint32_t *)((char *)&limits + cases[i].offset);

		*limit = cases[i].needed;
		if (batch_decode(&bytes, &limits, &kept))
			fail_msg("%s: refused at its limit", cases[i].name);
		*limit = cases[i].needed - 1;
		if (batch_decode(&bytes, &limits, &refused) != -EMSGSIZE)
			fail_msg("%s: not refused above its limit", cases[i].name);
	}
}

static void sizes_in_bytes_are_limited(void **state)
{
	FP_AUTOPROFILE struct fp_profile *profile = example_documented();
	FP_AUTOPROFILE struct fp_profile *decoded = NULL;
	FP_AUTOBUF struct fp_buf bytes = { 0 };
	struct fp_batch_limits limits = *defaults;

	batch_encode(profile, &bytes);
	limits.compressed_bytes = bytes.len - 1;
	assert_int_equal(batch_decode(&bytes, &limits, &decoded), -EMSGSIZE);
	limits = *defaults;
	limits.message_bytes = ZSTD_getFrameContentSize(bytes.data, bytes.len) - 1;
	assert_int_equal(batch_decode(&bytes, &limits, &decoded), -EMSGSIZE);
	limits.message_bytes++;
	assert_int_equal(batch_decode(&bytes, &limits, &decoded), 0);
}

static void a_profile_above_the_limits_is_not_encoded(void **state)
{
	FP_AUTOPROFILE struct fp_profile *profile = NULL;
	FP_AUTOBUF struct fp_buf bytes = { 0 };
	uint32_t frames[2049] = { 0 }, stack = 0;
	struct fp_frame frame = { .kind = FP_FRAME_ANON };

	assert_int_equal(fp_profile_new(&profile), 0);
	assert_int_equal(fp_profile_frame(profile, &frame, &frames[0]), 0);
	assert_int_equal(fp_profile_stack(profile, frames, 2048, &stack), 0);
	batch_encode(profile, &bytes);
	assert_int_equal(fp_profile_stack(profile, frames, 2049, &stack), 0);
	assert_int_equal(fp_batch_encode(profile, &bytes), -E2BIG);
}

static void a_batch_cut_anywhere_is_refused(void **state)
{
	FP_AUTOPROFILE struct fp_profile *profile = example_random(5, 2);
	FP_AUTOBUF struct fp_buf bytes = { 0 };

	batch_encode(profile, &bytes);
	for (size_t size = 0; size < bytes.len; size++) {
		FP_AUTOPROFILE struct fp_profile *decoded = NULL;
		struct fp_buf cut = { .data = bytes.data, .len = size };

		assert_int_equal(batch_decode(&cut, defaults, &decoded), -EBADMSG);
	}
	assert_int_equal(fp_buf_byte(&bytes, 0), 0);
	FP_AUTOPROFILE struct fp_profile *longer = NULL;
	assert_int_equal(batch_decode(&bytes, defaults, &longer), -EBADMSG);
}

static void a_flipped_bit_is_noticed(void **state)
{
	FP_AUTOPROFILE struct fp_profile *profile = example_random(5, 2);
	FP_AUTOBUF struct fp_buf bytes = { 0 };
	size_t unnoticed = 0;

	batch_encode(profile, &bytes);
	for (size_t bit = 0; bit < bytes.len * 8; bit++) {
		FP_AUTOPROFILE struct fp_profile *decoded = NULL;

		bytes.data[bit / 8] ^= 1u << bit % 8;
		if (batch_decode(&bytes, defaults, &decoded) == 0) {
			// Some bits of the frame carry nothing; then the content must be untouched.
			assert_same_profile(profile, decoded);
			unnoticed++;
		}
		bytes.data[bit / 8] ^= 1u << bit % 8;
	}
	assert_true(unnoticed < bytes.len * 8 / 20);
}

// Below zstd's checksum every damage must still end in a refusal or a profile that is whole.
static void a_damaged_message_never_breaks_the_decoder(void **state)
{
	FP_AUTOPROFILE struct fp_profile *profile = example_random(1, 9);
	FP_AUTOBUF struct fp_buf bytes = { 0 }, message = { 0 };

	batch_encode(profile, &bytes);
	batch_decompress(&bytes, &message);
	for (size_t bit = 0; bit < message.len * 8; bit++) {
		FP_AUTOPROFILE struct fp_profile *decoded = NULL;
		FP_AUTOBUF struct fp_buf damaged = { 0 }, again = { 0 };

		message.data[bit / 8] ^= 1u << bit % 8;
		batch_compress(message.data, message.len, &damaged);
		if (batch_decode(&damaged, defaults, &decoded) == 0)
			batch_encode(decoded, &again);
		message.data[bit / 8] ^= 1u << bit % 8;
	}
}

static void a_frame_that_hides_its_size_is_refused(void **state)
{
	FP_AUTOPROFILE struct fp_profile *profile = example_documented(), *decoded = NULL;
	FP_AUTOBUF struct fp_buf bytes = { 0 }, message = { 0 }, hidden = { 0 };
	ZSTD_CCtx *context = ZSTD_createCCtx();
	size_t bound;

	batch_encode(profile, &bytes);
	batch_decompress(&bytes, &message);
	bound = ZSTD_compressBound(message.len);
	assert_int_equal(fp_buf_reserve(&hidden, bound), 0);
	ZSTD_CCtx_setParameter(context, ZSTD_c_contentSizeFlag, 0);
	hidden.len = ZSTD_compress2(context, hidden.data, bound, message.data, message.len);
	ZSTD_freeCCtx(context);
	assert_int_equal(batch_decode(&hidden, defaults, &decoded), -EBADMSG);
}

static void a_counter_of_a_newer_agent_is_kept(void **state)
{
	FP_AUTOPROFILE struct fp_profile *profile = example_documented(), *decoded = NULL;
	FP_AUTOBUF struct fp_buf bytes = { 0 };
	const struct fp_quality *quality;

	assert_int_equal(fp_quality_set_named(profile, FP_PROFILE_CPU, "of_tomorrow", 12), 0);
	batch_encode(profile, &bytes);
	assert_int_equal(batch_decode(&bytes, defaults, &decoded), 0);
	quality = decoded->quality + FP_PROFILE_CPU;
	assert_int_equal(quality->named_count, 2);
	assert_string_equal(fp_profile_str(decoded, quality->named[1].name), "of_tomorrow");
	assert_int_equal(quality->named[1].value, 12);
}

static void a_batch_id_depends_on_each_part_of_the_identity(void **state)
{
	FP_AUTOPROFILE struct fp_profile *profile = example_documented();
	uint8_t ids[5][FP_BATCH_ID_LEN];

	fp_batch_id(profile, ids[0]);
	profile->sequence++;
	fp_batch_id(profile, ids[1]);
	profile->host_id[15]++;
	fp_batch_id(profile, ids[2]);
	profile->boot_id[0]++;
	fp_batch_id(profile, ids[3]);
	profile->samples[0].count++;
	profile->end_boottime_ns++;
	fp_batch_id(profile, ids[4]);
	assert_memory_equal(ids[3], ids[4], FP_BATCH_ID_LEN);
	for (int i = 0; i < 4; i++)
		for (int j = 0; j < i; j++)
			assert_memory_not_equal(ids[i], ids[j], FP_BATCH_ID_LEN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_profile_comes_back_as_it_went),
		cmocka_unit_test(a_decoded_profile_can_be_added_to_and_sent_again),
		cmocka_unit_test(an_empty_profile_can_be_sent),
		cmocka_unit_test(every_limit_holds_at_its_edge),
		cmocka_unit_test(sizes_in_bytes_are_limited),
		cmocka_unit_test(a_profile_above_the_limits_is_not_encoded),
		cmocka_unit_test(a_batch_cut_anywhere_is_refused),
		cmocka_unit_test(a_flipped_bit_is_noticed),
		cmocka_unit_test(a_damaged_message_never_breaks_the_decoder),
		cmocka_unit_test(a_frame_that_hides_its_size_is_refused),
		cmocka_unit_test(a_counter_of_a_newer_agent_is_kept),
		cmocka_unit_test(a_batch_id_depends_on_each_part_of_the_identity),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
