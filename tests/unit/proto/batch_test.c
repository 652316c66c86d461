// SPDX-License-Identifier: Apache-2.0
// Batches: what goes in comes out, and what is malformed or too large is refused with its
// reason before it can do harm.
#include "examples.h"
#include "fleetprof.pb-c.h"
#include "proto/batch.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <zstd.h>

#include <cmocka.h>

static const struct fp_batch_limits *const defaults = &fp_batch_default_limits;

static void encode(const struct fp_profile *profile, struct fp_buf *bytes)
{
	assert_int_equal(fp_batch_encode(profile, bytes), 0);
}

static void compress(const void *message, size_t size, struct fp_buf *ret_bytes)
{
	size_t bound = ZSTD_compressBound(size), got;

	assert_int_equal(fp_buf_reserve(ret_bytes, bound), 0);
	got = ZSTD_compress(ret_bytes->data, bound, message, size, 1);
	assert_false(ZSTD_isError(got));
	ret_bytes->len = got;
}

static void decompress(const struct fp_buf *bytes, struct fp_buf *ret_message)
{
	size_t size = ZSTD_getFrameContentSize(bytes->data, bytes->len);

	assert_int_equal(fp_buf_reserve(ret_message, size), 0);
	ret_message->len = ZSTD_decompress(ret_message->data, size, bytes->data, bytes->len);
	assert_int_equal(ret_message->len, size);
}

static int decode(const struct fp_buf *bytes, const struct fp_batch_limits *limits,
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

static void a_profile_comes_back_as_it_went(void **state)
{
	for (uint32_t seed = 0; seed < 40; seed++) {
		FP_AUTOPROFILE struct fp_profile *profile = example_random(seed * 7, seed);
		FP_AUTOPROFILE struct fp_profile *decoded = NULL;
		FP_AUTOBUF struct fp_buf bytes = { 0 };

		encode(profile, &bytes);
		assert_int_equal(decode(&bytes, defaults, &decoded), 0);
		assert_same_profile(profile, decoded);
	}
}

static void a_decoded_profile_can_be_added_to_and_sent_again(void **state)
{
	FP_AUTOPROFILE struct fp_profile *profile = example_random(100, 5), *decoded = NULL;
	FP_AUTOBUF struct fp_buf bytes = { 0 }, again = { 0 };
	uint32_t rows = profile->samples_count;

	encode(profile, &bytes);
	assert_int_equal(decode(&bytes, defaults, &decoded), 0);
	encode(decoded, &again);
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
	encode(profile, &bytes);
	assert_int_equal(decode(&bytes, defaults, &decoded), 0);
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
	uint32_t deepest = 0, longest = 0;

	for (uint32_t i = 0; i < profile->stacks_count; i++)
		deepest = profile->stacks[i].count > deepest ? profile->stacks[i].count : deepest;
	for (uint32_t i = 0; i < profile->strings.count; i++)
		longest = profile->strings.sizes[i] > longest ? profile->strings.sizes[i] : longest;
	for (int i = 0; i < FP_QUALITY_COUNT; i++)
		profile->quality[FP_PROFILE_CPU].counters[i] = 1 + i;
	encode(profile, &bytes);
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
	};
	for (size_t i = 0; i < FP_ARRAY_SIZE(cases); i++) {
		FP_AUTOPROFILE struct fp_profile *kept = NULL, *refused = NULL;
		struct fp_batch_limits limits = *defaults;
		uint32_t *limit = (uint32_t *)((char *)&limits + cases[i].offset);

		*limit = cases[i].needed;
		if (decode(&bytes, &limits, &kept))
			fail_msg("%s: refused at its limit", cases[i].name);
		*limit = cases[i].needed - 1;
		if (decode(&bytes, &limits, &refused) != -EMSGSIZE)
			fail_msg("%s: not refused above its limit", cases[i].name);
	}
}

static void sizes_in_bytes_are_limited(void **state)
{
	FP_AUTOPROFILE struct fp_profile *profile = example_documented();
	FP_AUTOPROFILE struct fp_profile *decoded = NULL;
	FP_AUTOBUF struct fp_buf bytes = { 0 };
	struct fp_batch_limits limits = *defaults;

	encode(profile, &bytes);
	limits.compressed_bytes = bytes.len - 1;
	assert_int_equal(decode(&bytes, &limits, &decoded), -EMSGSIZE);
	limits = *defaults;
	limits.message_bytes = ZSTD_getFrameContentSize(bytes.data, bytes.len) - 1;
	assert_int_equal(decode(&bytes, &limits, &decoded), -EMSGSIZE);
	limits.message_bytes++;
	assert_int_equal(decode(&bytes, &limits, &decoded), 0);
}

static void a_profile_above_the_limits_is_not_encoded(void **state)
{
	FP_AUTOPROFILE struct fp_profile *profile = NULL;
	FP_AUTOBUF struct fp_buf bytes = { 0 };
	uint32_t frames[1025] = { 0 }, stack = 0;
	struct fp_frame frame = { .kind = FP_FRAME_ANON };

	assert_int_equal(fp_profile_new(&profile), 0);
	assert_int_equal(fp_profile_frame(profile, &frame, &frames[0]), 0);
	assert_int_equal(fp_profile_stack(profile, frames, 1024, &stack), 0);
	encode(profile, &bytes);
	assert_int_equal(fp_profile_stack(profile, frames, 1025, &stack), 0);
	assert_int_equal(fp_batch_encode(profile, &bytes), -E2BIG);
}

static void a_batch_cut_anywhere_is_refused(void **state)
{
	FP_AUTOPROFILE struct fp_profile *profile = example_random(5, 2);
	FP_AUTOBUF struct fp_buf bytes = { 0 };

	encode(profile, &bytes);
	for (size_t size = 0; size < bytes.len; size++) {
		FP_AUTOPROFILE struct fp_profile *decoded = NULL;
		struct fp_buf cut = { .data = bytes.data, .len = size };

		assert_int_equal(decode(&cut, defaults, &decoded), -EBADMSG);
	}
	assert_int_equal(fp_buf_byte(&bytes, 0), 0);
	FP_AUTOPROFILE struct fp_profile *longer = NULL;
	assert_int_equal(decode(&bytes, defaults, &longer), -EBADMSG);
}

static void a_flipped_bit_is_noticed(void **state)
{
	FP_AUTOPROFILE struct fp_profile *profile = example_random(5, 2);
	FP_AUTOBUF struct fp_buf bytes = { 0 };
	size_t unnoticed = 0;

	encode(profile, &bytes);
	for (size_t bit = 0; bit < bytes.len * 8; bit++) {
		FP_AUTOPROFILE struct fp_profile *decoded = NULL;

		bytes.data[bit / 8] ^= 1u << bit % 8;
		if (decode(&bytes, defaults, &decoded) == 0) {
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

	encode(profile, &bytes);
	decompress(&bytes, &message);
	for (size_t bit = 0; bit < message.len * 8; bit++) {
		FP_AUTOPROFILE struct fp_profile *decoded = NULL;
		FP_AUTOBUF struct fp_buf damaged = { 0 }, again = { 0 };

		message.data[bit / 8] ^= 1u << bit % 8;
		compress(message.data, message.len, &damaged);
		if (decode(&damaged, defaults, &decoded) == 0)
			encode(decoded, &again);
		message.data[bit / 8] ^= 1u << bit % 8;
	}
}

typedef Fleetprof__V1__Batch batch_message;

static void short_host_id(batch_message *b)
{
	b->host_id.len = 15;
}
static void no_boot_id(batch_message *b)
{
	b->boot_id.len = 0;
}
static void backwards(batch_message *b)
{
	b->end_boottime_ns = b->start_boottime_ns - 1;
}
static void hostname_out(batch_message *b)
{
	b->hostname = (uint32_t)b->strings->n_size;
}
static void text_short(batch_message *b)
{
	b->strings->text.len--;
}
static void text_long(batch_message *b)
{
	b->strings->size[1]--;
}
static void first_string(batch_message *b)
{
	b->strings->size++, b->strings->n_size--;
}
static void build_kind(batch_message *b)
{
	b->builds->kind[0] = 4;
}
static void build_kind_wide(batch_message *b)
{
	b->builds->kind[0] = 256 + 1;
}
static void build_id_long(batch_message *b)
{
	b->builds->id_size[0] = 33;
}
static void build_id_past(batch_message *b)
{
	b->builds->id_size[1] = 32;
}
static void build_id_none(batch_message *b)
{
	b->builds->kind[0] = 0;
}
static void build_path(batch_message *b)
{
	b->builds->path[0] = UINT32_MAX;
}
static void build_columns(batch_message *b)
{
	b->builds->n_path--;
}
static void build_left(batch_message *b)
{
	b->builds->id_size[1]--;
}
static void frame_kind(batch_message *b)
{
	b->frames->kind[0] = 0;
}
static void frame_kind_wide(batch_message *b)
{
	b->frames->kind[0] = 256 + 1;
}
static void frame_build(batch_message *b)
{
	b->frames->build[0] = 2;
}
static void frame_twice(batch_message *b)
{
	b->frames->offset_delta[1] = 0;
}
static void frame_columns(batch_message *b)
{
	b->frames->n_name--;
}
static void frame_name(batch_message *b)
{
	b->frames->kind[0] = FP_FRAME_NAMED;
	b->frames->name[0] = (uint32_t)b->strings->n_size;
}
static void stack_past(batch_message *b)
{
	b->stacks->depth[1]++;
}
static void stack_left(batch_message *b)
{
	b->stacks->depth[1]--;
}
static void stack_frame(batch_message *b)
{
	b->stacks->frame[0] = 3;
}
static void stack_twice(batch_message *b)
{
	b->stacks->depth[1] = 2, b->stacks->n_frame = 4;
	b->stacks->frame[2] = b->stacks->frame[0], b->stacks->frame[3] = b->stacks->frame[1];
}
static void labels_past(batch_message *b)
{
	b->labels->size[0]++;
}
static void labels_huge(batch_message *b)
{
	b->labels->size[0] = UINT32_MAX;
}
static void labels_left(batch_message *b)
{
	b->labels->size[0] = 0;
}
static void labels_columns(batch_message *b)
{
	b->labels->n_value = 0;
}
static void labels_value(batch_message *b)
{
	b->labels->value[0] = UINT32_MAX;
}
static void sample_type(batch_message *b)
{
	b->samples->type[0] = 3;
}
static void sample_no_type(batch_message *b)
{
	b->samples->type[0] = 0;
}
static void sample_stack(batch_message *b)
{
	b->samples->stack[0] = 2;
}
static void sample_labels(batch_message *b)
{
	b->samples->labels[0] = 1;
}
static void sample_twice(batch_message *b)
{
	b->samples->stack[1] = b->samples->stack[0];
}
static void sample_columns(batch_message *b)
{
	b->samples->n_value--;
}
static void sample_sum(batch_message *b)
{
	b->samples->value[0] = 1ULL << 62;
}
static void sample_count(batch_message *b)
{
	b->samples->count[0] = UINT64_MAX;
}
static void quality_type(batch_message *b)
{
	b->quality[0]->type = 3;
}
static void quality_far_type(batch_message *b)
{
	b->quality[0]->type = 98;
}

static void quality_hook(batch_message *b)
{
	b->quality[0]->hook = UINT32_MAX;
}
static void quality_names(batch_message *b)
{
	b->quality[0]->counter_names.len--;
}
static void quality_left(batch_message *b)
{
	b->quality[0]->n_counter--;
}
static void quality_empty(batch_message *b)
{
	b->quality[0]->counter_names.data[0] = 0;
}
static void quality_build(batch_message *b)
{
	static uint32_t build = 2;
	static uint64_t stacks = 1;

	b->quality[0]->build = &build, b->quality[0]->n_build = 1;
	b->quality[0]->build_stacks = b->quality[0]->build_stopped = &stacks;
	b->quality[0]->n_build_stacks = b->quality[0]->n_build_stopped = 1;
}
static void quality_twice(batch_message *b)
{
	static Fleetprof__V1__Quality *rows[2];

	rows[0] = rows[1] = b->quality[0];
	b->quality = rows;
	b->n_quality = 2;
}

// Memory for one unpacked message. Changes put foreign pointers into it, so nothing is given
// back piece by piece.
struct arena {
	_Alignas(16) uint8_t bytes[1 << 14];
	size_t used;
};

static void *arena_alloc(void *arena_pointer, size_t size)
{
	struct arena *arena = arena_pointer;
	size_t at = arena->used;

	size = (size + 15) & ~(size_t)15;
	if (size > sizeof(arena->bytes) - at)
		return NULL;
	arena->used += size;
	return arena->bytes + at;
}

static void arena_free(void *arena, void *pointer) {}

static void change_message(const struct fp_buf *message, void (*change)(batch_message *),
			   struct fp_buf *ret_bytes)
{
	static struct arena arena;
	ProtobufCAllocator allocator = { arena_alloc, arena_free, &arena };
	FP_AUTOBUF struct fp_buf packed = { 0 };
	batch_message *batch;

	arena.used = 0;
	batch = fleetprof__v1__batch__unpack(&allocator, message->len, message->data);
	assert_non_null(batch);
	change(batch);
	assert_int_equal(fp_buf_reserve(&packed, fleetprof__v1__batch__get_packed_size(batch)), 0);
	packed.len = fleetprof__v1__batch__pack(batch, packed.data);
	compress(packed.data, packed.len, ret_bytes);
}

#define MALFORMED(change, reason)                                                                  \
	{                                                                                          \
#change, change, reason                                                            \
	}

static void a_malformed_message_is_refused_with_its_reason(void **state)
{
	static const struct {
		const char *name;
		void (*change)(batch_message *batch);
		const char *reason;
	} cases[] = {
		MALFORMED(short_host_id, "the host id or boot id has a wrong size"),
		MALFORMED(no_boot_id, "the host id or boot id has a wrong size"),
		MALFORMED(backwards, "the window ends before it starts"),
		MALFORMED(hostname_out, "a string index is out of range"),
		MALFORMED(text_short, "strings run past their text"),
		MALFORMED(text_long, "text is left over behind the strings"),
		MALFORMED(first_string, "a table holds an entry twice"),
		MALFORMED(build_kind, "a build's kind is unknown"),
		MALFORMED(build_kind_wide, "a build's kind is unknown"),
		MALFORMED(build_id_long, "a build's id has a wrong size"),
		MALFORMED(build_id_past, "a build's id has a wrong size"),
		MALFORMED(build_id_none, "a build's id has a wrong size"),
		MALFORMED(build_path, "an index is out of range"),
		MALFORMED(build_columns, "columns of the builds differ in length"),
		MALFORMED(build_left, "bytes are left over behind the ids"),
		MALFORMED(frame_kind, "a frame's kind is unknown"),
		MALFORMED(frame_kind_wide, "a frame's kind is unknown"),
		MALFORMED(frame_build, "a frame's build is out of range"),
		MALFORMED(frame_twice, "a table holds an entry twice"),
		MALFORMED(frame_columns, "columns of the frames differ in length"),
		MALFORMED(frame_name, "an index is out of range"),
		MALFORMED(stack_past, "stacks run past their frames"),
		MALFORMED(stack_left, "frames are left over behind the stacks"),
		MALFORMED(stack_frame, "an index is out of range"),
		MALFORMED(stack_twice, "a table holds an entry twice"),
		MALFORMED(labels_past, "label sets run past their labels"),
		MALFORMED(labels_huge, "label sets run past their labels"),
		MALFORMED(labels_left, "labels are left over"),
		MALFORMED(labels_columns, "columns of the labels differ in length"),
		MALFORMED(labels_value, "an index is out of range"),
		MALFORMED(sample_type, "an index is out of range"),
		MALFORMED(sample_no_type, "an index is out of range"),
		MALFORMED(sample_stack, "an index is out of range"),
		MALFORMED(sample_labels, "an index is out of range"),
		MALFORMED(sample_twice, "a table holds an entry twice"),
		MALFORMED(sample_columns, "columns of the samples differ in length"),
		MALFORMED(sample_sum, "the samples' sum is out of range"),
		MALFORMED(sample_count, "the samples' sum is out of range"),
		MALFORMED(quality_far_type, "a quality record's type is wrong"),
		MALFORMED(quality_type, "a quality record's type is wrong"),
		MALFORMED(quality_hook, "a quality record's hook is out of range"),
		MALFORMED(quality_names, "a quality counter has no proper name"),
		MALFORMED(quality_left, "names are left over behind the counters"),
		MALFORMED(quality_empty, "a quality counter has no proper name"),
		MALFORMED(quality_build, "a quality row's build is wrong"),
		MALFORMED(quality_twice, "a quality record's type is wrong"),
	};
	FP_AUTOPROFILE struct fp_profile *profile = example_documented();
	FP_AUTOBUF struct fp_buf bytes = { 0 }, message = { 0 };

	encode(profile, &bytes);
	decompress(&bytes, &message);
	for (size_t i = 0; i < FP_ARRAY_SIZE(cases); i++) {
		FP_AUTOPROFILE struct fp_profile *decoded = NULL;
		FP_AUTOBUF struct fp_buf changed = { 0 };
		const char *reason = "accepted";
		int error;

		change_message(&message, cases[i].change, &changed);
		error = fp_batch_decode(changed.data, changed.len, defaults, &decoded, &reason);
		if (error != -EBADMSG || strcmp(reason, cases[i].reason) != 0)
			fail_msg("%s: got \"%s\"", cases[i].name, reason);
	}
}

// Fields appended to a whole message: protobuf's rules allow what a batch does not.
static void what_would_cost_memory_is_refused_before_unpacking(void **state)
{
	static const struct {
		const char *claim;
		uint8_t bytes[4];
		size_t size, times;
		int error;
	} cases[] = {
		{ "an unknown field is fine", { 0xa8, 0x06, 1 }, 3, 1, 0 },
		{ "thousands are not", { 0xa8, 0x06, 1 }, 3, 1000, -EMSGSIZE },
		{ "thousands of quality records are not", { 0x9a, 0x01, 0 }, 3, 1000, -EMSGSIZE },
		{ "a table may not come twice", { 0x6a, 0 }, 2, 1, -EBADMSG },
		{ "a table must be a message", { 0x68, 0 }, 2, 1, -EBADMSG },
		{ "a group is not proto3", { 0xab, 0x06 }, 2, 1, -EBADMSG },
		{ "a field number of zero is none", { 0x00, 0x00 }, 2, 1, -EBADMSG },
		{ "a length past the end is refused", { 0xaa, 0x06, 0x7f }, 3, 1, -EBADMSG },
		{ "an unpacked column is refused", { 0x9a, 0x01, 0x02, 0x20 }, 4, 1, -EBADMSG },
	};
	FP_AUTOPROFILE struct fp_profile *profile = example_documented();
	FP_AUTOBUF struct fp_buf bytes = { 0 }, message = { 0 };

	encode(profile, &bytes);
	decompress(&bytes, &message);
	for (size_t i = 0; i < FP_ARRAY_SIZE(cases); i++) {
		FP_AUTOPROFILE struct fp_profile *decoded = NULL;
		FP_AUTOBUF struct fp_buf longer = { 0 }, packed = { 0 };
		int error;

		assert_int_equal(fp_buf_append(&longer, message.data, message.len), 0);
		for (size_t n = 0; n < cases[i].times; n++)
			fp_buf_append(&longer, cases[i].bytes, cases[i].size);
		if (cases[i].size == 4)
			fp_buf_byte(&longer, 7);
		compress(longer.data, longer.len, &packed);
		error = decode(&packed, defaults, &decoded);
		if (error != cases[i].error)
			fail_msg("not so: %s (%d)", cases[i].claim, error);
	}
}

static void a_frame_that_hides_its_size_is_refused(void **state)
{
	FP_AUTOPROFILE struct fp_profile *profile = example_documented(), *decoded = NULL;
	FP_AUTOBUF struct fp_buf bytes = { 0 }, message = { 0 }, hidden = { 0 };
	ZSTD_CCtx *context = ZSTD_createCCtx();
	size_t bound;

	encode(profile, &bytes);
	decompress(&bytes, &message);
	bound = ZSTD_compressBound(message.len);
	assert_int_equal(fp_buf_reserve(&hidden, bound), 0);
	ZSTD_CCtx_setParameter(context, ZSTD_c_contentSizeFlag, 0);
	hidden.len = ZSTD_compress2(context, hidden.data, bound, message.data, message.len);
	ZSTD_freeCCtx(context);
	assert_int_equal(decode(&hidden, defaults, &decoded), -EBADMSG);
}

static void a_counter_of_a_newer_agent_is_kept(void **state)
{
	FP_AUTOPROFILE struct fp_profile *profile = example_documented(), *decoded = NULL;
	FP_AUTOBUF struct fp_buf bytes = { 0 };
	const struct fp_quality *quality;

	assert_int_equal(fp_quality_set_named(profile, FP_PROFILE_CPU, "of_tomorrow", 12), 0);
	encode(profile, &bytes);
	assert_int_equal(decode(&bytes, defaults, &decoded), 0);
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
		cmocka_unit_test(a_malformed_message_is_refused_with_its_reason),
		cmocka_unit_test(what_would_cost_memory_is_refused_before_unpacking),
		cmocka_unit_test(a_frame_that_hides_its_size_is_refused),
		cmocka_unit_test(a_counter_of_a_newer_agent_is_kept),
		cmocka_unit_test(a_batch_id_depends_on_each_part_of_the_identity),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
