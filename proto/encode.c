// SPDX-License-Identifier: Apache-2.0
// profile → Batch message → zstd frame. The message's columns live in one list of blocks and
// go together; only the packed message and its compressed form outlive build_message().
#include "batch.h"
#include "fleetprof.pb-c.h"

#include <errno.h>
#include <string.h>
#include <zstd.h>

#define COLUMNS_MAX	  64
#define COMPRESSION_LEVEL 3 // level 9 takes five times the CPU for a tenth of the bytes

struct columns {
	void *blocks[COLUMNS_MAX];
	size_t count;
	bool failed; // a block could not be had: -ENOMEM
};

static void columns_free(struct columns *columns)
{
	for (size_t i = 0; i < columns->count; i++)
		free(columns->blocks[i]);
}

// A zeroed column, or NULL with `failed` set. A fill function makes all its columns first and
// returns if any failed; its message then stays empty and is not packed.
static void *column(struct columns *columns, size_t count, size_t size)
{
	void *block = columns->count < COLUMNS_MAX ? calloc(count ? count : 1, size) : NULL;

	if (block)
		columns->blocks[columns->count++] = block;
	else
		columns->failed = true;
	return block;
}

#define U32_COLUMN(columns, count) ((uint32_t *)column((columns), (count), sizeof(uint32_t)))
#define U64_COLUMN(columns, count) ((uint64_t *)column((columns), (count), sizeof(uint64_t)))

static void fill_strings(const struct fp_profile *profile, Fleetprof__V1__Strings *message,
			 struct columns *columns)
{
	const struct fp_intern *strings = &profile->strings;
	size_t total = 0, at = 0;
	uint8_t *text;

	for (uint32_t i = 0; i < strings->count; i++)
		total += strings->sizes[i];
	text = column(columns, total, 1);
	message->size = U32_COLUMN(columns, strings->count);
	if (columns->failed)
		return;
	for (uint32_t i = 0; i < strings->count; i++) {
		memcpy(text + at, strings->strings[i], strings->sizes[i]);
		message->size[i] = strings->sizes[i];
		at += strings->sizes[i];
	}
	message->n_size = strings->count;
	message->text = (ProtobufCBinaryData){ total, text };
}

static void fill_builds(const struct fp_profile *profile, Fleetprof__V1__Builds *message,
			struct columns *columns)
{
	uint32_t count = profile->builds_count;
	uint8_t *ids = column(columns, count, FP_BUILD_ID_MAX);
	size_t at = 0;

	message->kind = U32_COLUMN(columns, count);
	message->id_size = U32_COLUMN(columns, count);
	message->path = U32_COLUMN(columns, count);
	if (columns->failed)
		return;
	for (uint32_t i = 0; i < count; i++) {
		const struct fp_build *build = profile->builds + i;

		message->kind[i] = build->kind;
		message->id_size[i] = build->id_len;
		message->path[i] = build->path;
		memcpy(ids + at, build->id, build->id_len);
		at += build->id_len;
	}
	message->n_kind = message->n_id_size = message->n_path = count;
	message->ids = (ProtobufCBinaryData){ at, ids };
}

static void fill_frames(const struct fp_profile *profile, Fleetprof__V1__Frames *message,
			struct columns *columns)
{
	uint64_t *last_offset = U64_COLUMN(columns, profile->builds_count);
	uint32_t count = profile->frames_count;

	message->kind = U32_COLUMN(columns, count);
	message->build = U32_COLUMN(columns, count);
	message->name = U32_COLUMN(columns, count);
	message->offset_delta = (int64_t *)U64_COLUMN(columns, count);
	if (columns->failed)
		return;
	for (uint32_t i = 0; i < count; i++) {
		const struct fp_frame *frame = profile->frames + i;

		message->kind[i] = frame->kind;
		message->name[i] = frame->name;
		if (!fp_frame_kind_has_build(frame->kind))
			continue;
		message->build[i] = frame->build;
		message->offset_delta[i] = (int64_t)(frame->offset - last_offset[frame->build]);
		last_offset[frame->build] = frame->offset;
	}
	message->n_kind = message->n_build = message->n_name = message->n_offset_delta = count;
}

static void fill_stacks(const struct fp_profile *profile, Fleetprof__V1__Stacks *message,
			struct columns *columns)
{
	message->depth = U32_COLUMN(columns, profile->stacks_count);
	if (columns->failed)
		return;
	for (uint32_t i = 0; i < profile->stacks_count; i++)
		message->depth[i] = profile->stacks[i].count;
	message->n_depth = profile->stacks_count;
	message->frame = profile->stack_frames; // stacks lie in the pool in order, without gaps
	message->n_frame = profile->stack_frames_count;
}

static void fill_labels(const struct fp_profile *profile, Fleetprof__V1__LabelSets *message,
			struct columns *columns)
{
	uint32_t pool = profile->label_pool_count;

	message->size = U32_COLUMN(columns, profile->labels_count);
	message->name = U32_COLUMN(columns, pool);
	message->value = U32_COLUMN(columns, pool);
	if (columns->failed)
		return;
	for (uint32_t i = 0; i < profile->labels_count; i++)
		message->size[i] = profile->labels[i].count;
	for (uint32_t i = 0; i < pool; i++) {
		message->name[i] = profile->label_pool[i].name;
		message->value[i] = profile->label_pool[i].value;
	}
	message->n_size = profile->labels_count;
	message->n_name = message->n_value = pool;
}

static void fill_samples(const struct fp_profile *profile, Fleetprof__V1__Samples *message,
			 struct columns *columns)
{
	uint32_t count = profile->samples_count;

	message->type = U32_COLUMN(columns, count);
	message->labels = U32_COLUMN(columns, count);
	message->stack = U32_COLUMN(columns, count);
	message->count = U64_COLUMN(columns, count);
	message->value = U64_COLUMN(columns, count);
	if (columns->failed)
		return;
	for (uint32_t i = 0; i < count; i++) {
		const struct fp_sample *sample = profile->samples + i;

		message->type[i] = sample->type;
		message->labels[i] = sample->labels;
		message->stack[i] = sample->stack;
		message->count[i] = sample->count;
		message->value[i] = sample->value;
	}
	message->n_type = message->n_labels = message->n_stack = count;
	message->n_count = message->n_value = count;
}

// The names of the counters that are set, each with its NUL, into names; NULL measures.
static size_t fill_counters(const struct fp_profile *profile, const struct fp_quality *quality,
			    char *names, Fleetprof__V1__Quality *message)
{
	size_t at = 0;

	for (uint32_t i = 0; i < FP_QUALITY_COUNT + quality->named_count; i++) {
		bool known = i < FP_QUALITY_COUNT;
		const struct fp_named_counter *named = quality->named + (i - FP_QUALITY_COUNT);
		const char *name =
		    known ? fp_quality_name(i) : fp_profile_str(profile, named->name);

		if (known && !quality->counters[i])
			continue;
		if (names) {
			memcpy(names + at, name, strlen(name) + 1);
			message->counter[message->n_counter++] =
			    known ? quality->counters[i] : named->value;
		}
		at += strlen(name) + 1;
	}
	return at;
}

static void fill_stops(const struct fp_quality *quality, Fleetprof__V1__Quality *message,
		       struct columns *columns)
{
	message->stop_build = U32_COLUMN(columns, quality->stops_count);
	message->stop_reason = U32_COLUMN(columns, quality->stops_count);
	message->stop_count = U64_COLUMN(columns, quality->stops_count);
	if (columns->failed)
		return;
	for (uint32_t i = 0; i < quality->stops_count; i++) {
		message->stop_build[i] = quality->stops[i].build;
		message->stop_reason[i] = quality->stops[i].reason;
		message->stop_count[i] = quality->stops[i].count;
	}
	message->n_stop_build = message->n_stop_reason = message->n_stop_count =
	    quality->stops_count;
}

static void fill_quality(const struct fp_profile *profile, enum fp_profile_type type,
			 Fleetprof__V1__Quality *message, struct columns *columns)
{
	const struct fp_quality *quality = &profile->quality[type];
	size_t names_size = fill_counters(profile, quality, NULL, NULL);
	char *names = column(columns, names_size, 1);

	fleetprof__v1__quality__init(message);
	message->type = type;
	message->hook = quality->hook;
	message->counter = U64_COLUMN(columns, FP_QUALITY_COUNT + quality->named_count);
	message->build = U32_COLUMN(columns, quality->builds_count);
	message->build_stacks = U64_COLUMN(columns, quality->builds_count);
	message->build_stopped = U64_COLUMN(columns, quality->builds_count);
	if (columns->failed)
		return;
	fill_counters(profile, quality, names, message);
	message->counter_names = (ProtobufCBinaryData){ names_size, (uint8_t *)names };
	for (uint32_t i = 0; i < quality->builds_count; i++) {
		message->build[i] = quality->builds[i].build;
		message->build_stacks[i] = quality->builds[i].stacks;
		message->build_stopped[i] = quality->builds[i].stopped;
	}
	message->n_build = message->n_build_stacks = message->n_build_stopped =
	    quality->builds_count;
	fill_stops(quality, message, columns);
}

static void fill_header(const struct fp_profile *profile, Fleetprof__V1__Batch *batch)
{
	fleetprof__v1__batch__init(batch);
	batch->host_id =
	    (ProtobufCBinaryData){ sizeof(profile->host_id), (uint8_t *)profile->host_id };
	batch->boot_id =
	    (ProtobufCBinaryData){ sizeof(profile->boot_id), (uint8_t *)profile->boot_id };
	batch->sequence = profile->sequence;
	batch->start_boottime_ns = profile->start_boottime_ns;
	batch->end_boottime_ns = profile->end_boottime_ns;
	batch->start_realtime_ns = profile->start_realtime_ns;
	batch->end_realtime_ns = profile->end_realtime_ns;
	batch->period_ns = profile->period_ns;
	batch->hostname = profile->hostname;
	batch->kernel_release = profile->kernel_release;
	batch->machine = profile->machine;
	batch->agent_version = profile->agent_version;
}

static int pack(const Fleetprof__V1__Batch *batch, struct fp_buf *message)
{
	size_t size = fleetprof__v1__batch__get_packed_size(batch);
	int error;

	if (size > fp_batch_default_limits.message_bytes)
		return -E2BIG;
	error = fp_buf_reserve(message, size);
	if (!error)
		message->len += fleetprof__v1__batch__pack(batch, message->data + message->len);
	return error;
}

// Fills the message's tables from the profile and packs it.
static int build_message(const struct fp_profile *profile, struct fp_buf *message)
{
	FP_CLEANUP(columns_free) struct columns columns = { .count = 0 };
	Fleetprof__V1__Strings strings = FLEETPROF__V1__STRINGS__INIT;
	Fleetprof__V1__Builds builds = FLEETPROF__V1__BUILDS__INIT;
	Fleetprof__V1__Frames frames = FLEETPROF__V1__FRAMES__INIT;
	Fleetprof__V1__Stacks stacks = FLEETPROF__V1__STACKS__INIT;
	Fleetprof__V1__LabelSets labels = FLEETPROF__V1__LABEL_SETS__INIT;
	Fleetprof__V1__Samples samples = FLEETPROF__V1__SAMPLES__INIT;
	Fleetprof__V1__Quality quality[FP_PROFILE_TYPES], *quality_rows[FP_PROFILE_TYPES];
	Fleetprof__V1__Batch batch;

	fill_header(profile, &batch);
	fill_strings(profile, batch.strings = &strings, &columns);
	fill_builds(profile, batch.builds = &builds, &columns);
	fill_frames(profile, batch.frames = &frames, &columns);
	fill_stacks(profile, batch.stacks = &stacks, &columns);
	fill_labels(profile, batch.labels = &labels, &columns);
	fill_samples(profile, batch.samples = &samples, &columns);
	batch.quality = quality_rows;
	for (int type = 1; type < FP_PROFILE_TYPES; type++) {
		if (!profile->quality[type].present)
			continue;
		quality_rows[batch.n_quality] = quality + batch.n_quality;
		fill_quality(profile, type, quality + batch.n_quality++, &columns);
	}
	return columns.failed ? -ENOMEM : pack(&batch, message);
}

static bool within_limits(const struct fp_profile *profile, const struct fp_batch_limits *limits)
{
	if (profile->strings.count > limits->strings || profile->builds_count > limits->builds ||
	    profile->frames_count > limits->frames || profile->stacks_count > limits->stacks ||
	    profile->labels_count > limits->labels || profile->samples_count > limits->samples ||
	    profile->stack_frames_count > limits->stack_frames ||
	    profile->label_pool_count > limits->label_pool)
		return false;
	for (uint32_t i = 0; i < profile->stacks_count; i++)
		if (profile->stacks[i].count > limits->stack_depth)
			return false;
	for (int type = 1; type < FP_PROFILE_TYPES; type++)
		if (FP_QUALITY_COUNT + profile->quality[type].named_count > limits->counters ||
		    profile->quality[type].stops_count > limits->stops)
			return false;
	return true;
}

static void free_context(ZSTD_CCtx **context)
{
	ZSTD_freeCCtx(*context);
}

static int compress(const struct fp_buf *message, struct fp_buf *ret_bytes)
{
	FP_CLEANUP(free_context) ZSTD_CCtx *context = ZSTD_createCCtx();
	size_t bound = ZSTD_compressBound(message->len), size;

	if (!context || fp_buf_reserve(ret_bytes, bound))
		return -ENOMEM;
	ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, COMPRESSION_LEVEL);
	ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
	size = ZSTD_compress2(context, ret_bytes->data + ret_bytes->len, bound, message->data,
			      message->len);
	if (ZSTD_isError(size))
		return -ENOMEM; // with a sufficient bound, memory is all that can be missing
	if (size > fp_batch_default_limits.compressed_bytes)
		return -E2BIG;
	ret_bytes->len += size;
	return 0;
}

int fp_batch_encode(const struct fp_profile *profile, struct fp_buf *ret_bytes)
{
	FP_AUTOBUF struct fp_buf message = { 0 };
	int error;

	if (!within_limits(profile, &fp_batch_default_limits))
		return -E2BIG;
	error = build_message(profile, &message);
	return error ? error : compress(&message, ret_bytes);
}
