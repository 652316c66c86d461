// SPDX-License-Identifier: Apache-2.0
// What is malformed is refused with its reason, before it can do harm.
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
	b->samples->type[0] = FP_PROFILE_TYPES;
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
static void period_none(batch_message *b)
{
	b->period_ns = 0;
}
static void period_short(batch_message *b)
{
	b->period_ns = 999;
}
static void period_long(batch_message *b)
{
	b->period_ns = 10000000001;
}
static void period_huge(batch_message *b)
{
	b->period_ns = 1ULL << 63;
}
static void no_cpu_samples(batch_message *b)
{
	for (size_t i = 0; i < b->samples->n_type; i++)
		b->samples->type[i] = FP_PROFILE_OFF_CPU;
	b->period_ns = 0;
}
static void no_cpu_samples_period_huge(batch_message *b)
{
	no_cpu_samples(b);
	b->period_ns = 1ULL << 63;
}
static void cpu_time(batch_message *b)
{
	b->period_ns = 10000000000;
	b->samples->value[0] = 1ULL << 25;
}
static void off_cpu_time(batch_message *b)
{
	no_cpu_samples(b);
	b->samples->value[0] = 1ULL << 58;
}
static void run_queue_time(batch_message *b)
{
	off_cpu_time(b);
	b->samples->type[0] = b->samples->type[1] = FP_PROFILE_RUN_QUEUE;
}
static void waker_time(batch_message *b)
{
	off_cpu_time(b);
	b->samples->type[0] = b->samples->type[1] = FP_PROFILE_WAKER;
}
static void quality_type(batch_message *b)
{
	b->quality[0]->type = FP_PROFILE_TYPES;
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
	batch_compress(packed.data, packed.len, ret_bytes);
}

#define MALFORMED(change, reason)                                                                  \
	{                                                                                          \
#change, change, reason                                                            \
	}

static const struct {
	const char *name;
	void (*change)(batch_message *batch);
	const char *reason;
} malformed_cases[] = {
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
	MALFORMED(period_none, "the sampling period is out of range"),
	MALFORMED(period_short, "the sampling period is out of range"),
	MALFORMED(period_long, "the sampling period is out of range"),
	MALFORMED(period_huge, "the sampling period is out of range"),
	MALFORMED(no_cpu_samples_period_huge, "the sampling period is out of range"),
	MALFORMED(cpu_time, "the samples' time is out of range"),
	MALFORMED(off_cpu_time, "the samples' time is out of range"),
	MALFORMED(run_queue_time, "the samples' time is out of range"),
	MALFORMED(waker_time, "the samples' time is out of range"),
	MALFORMED(quality_far_type, "a quality record's type is wrong"),
	MALFORMED(quality_type, "a quality record's type is wrong"),
	MALFORMED(quality_hook, "a quality record's hook is out of range"),
	MALFORMED(quality_names, "a quality counter has no proper name"),
	MALFORMED(quality_left, "names are left over behind the counters"),
	MALFORMED(quality_empty, "a quality counter has no proper name"),
	MALFORMED(quality_build, "a quality row's build is wrong"),
	MALFORMED(quality_twice, "a quality record's type is wrong"),
};

static void a_malformed_message_is_refused_with_its_reason(void **state)
{
	FP_AUTOPROFILE struct fp_profile *profile = example_documented();
	FP_AUTOBUF struct fp_buf bytes = { 0 }, message = { 0 };

	batch_encode(profile, &bytes);
	batch_decompress(&bytes, &message);
	for (size_t i = 0; i < FP_ARRAY_SIZE(malformed_cases); i++) {
		FP_AUTOPROFILE struct fp_profile *decoded = NULL;
		FP_AUTOBUF struct fp_buf changed = { 0 };
		const char *reason = "accepted";
		int error;

		change_message(&message, malformed_cases[i].change, &changed);
		error = fp_batch_decode(changed.data, changed.len, defaults, &decoded, &reason);
		if (error != -EBADMSG || strcmp(reason, malformed_cases[i].reason) != 0)
			fail_msg("%s: got \"%s\"", malformed_cases[i].name, reason);
	}
}

static void only_cpu_samples_need_a_period(void **state)
{
	FP_AUTOPROFILE struct fp_profile *profile = example_documented(), *decoded = NULL;
	FP_AUTOBUF struct fp_buf bytes = { 0 }, message = { 0 }, changed = { 0 };

	batch_encode(profile, &bytes);
	batch_decompress(&bytes, &message);
	change_message(&message, no_cpu_samples, &changed);
	assert_int_equal(batch_decode(&changed, defaults, &decoded), 0);
	assert_int_equal(decoded->period_ns, 0);
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

	batch_encode(profile, &bytes);
	batch_decompress(&bytes, &message);
	for (size_t i = 0; i < FP_ARRAY_SIZE(cases); i++) {
		FP_AUTOPROFILE struct fp_profile *decoded = NULL;
		FP_AUTOBUF struct fp_buf longer = { 0 }, packed = { 0 };
		int error;

		assert_int_equal(fp_buf_append(&longer, message.data, message.len), 0);
		for (size_t n = 0; n < cases[i].times; n++)
			fp_buf_append(&longer, cases[i].bytes, cases[i].size);
		if (cases[i].size == 4)
			fp_buf_byte(&longer, 7);
		batch_compress(longer.data, longer.len, &packed);
		error = batch_decode(&packed, defaults, &decoded);
		if (error != cases[i].error)
			fail_msg("not so: %s (%d)", cases[i].claim, error);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_malformed_message_is_refused_with_its_reason),
		cmocka_unit_test(only_cpu_samples_need_a_period),
		cmocka_unit_test(what_would_cost_memory_is_refused_before_unpacking),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
