// SPDX-License-Identifier: Apache-2.0
// zstd frame → Batch message → profile. Tables are filled through the builder functions of
// the profile; that an entry gets the id of its place in the table proves at once that it
// stands there once and keeps the deduplication indexes right.
#include "decoder.h"
#include "wirescan.h"

#include <errno.h>
#include <string.h>
#include <zstd.h>

// The outcome of adding entry `index` to a table: `error` of the builder, the id it gave.
static int check_added(struct fp_decoder *decoder, int error, uint32_t id, size_t index)
{
	if (error == -EINVAL)
		return fp_decoder_refuse(decoder, -EBADMSG, "an index is out of range");
	if (!error && id != index)
		return fp_decoder_refuse(decoder, -EBADMSG, "a table holds an entry twice");
	return error;
}

static int decode_strings(struct fp_decoder *decoder)
{
	const Fleetprof__V1__Strings *strings = decoder->batch->strings;
	size_t at = 0;

	for (size_t i = 0; strings && i < strings->n_size; i++) {
		uint32_t id = 0, size = strings->size[i];
		int error;

		if (size > decoder->limits->string_bytes || size > FP_STRING_MAX)
			return fp_decoder_refuse(decoder, -EMSGSIZE,
						 "a string is longer than its limit");
		if (size > strings->text.len - at)
			return fp_decoder_refuse(decoder, -EBADMSG, "strings run past their text");
		error = fp_profile_string(
		    decoder->profile, size ? (const char *)strings->text.data + at : "", size, &id);
		error = check_added(decoder, error, id, i);
		if (error)
			return error;
		at += size;
	}
	if (strings && at != strings->text.len)
		return fp_decoder_refuse(decoder, -EBADMSG, "text is left over behind the strings");
	return 0;
}

static int decode_builds(struct fp_decoder *decoder)
{
	const Fleetprof__V1__Builds *builds = decoder->batch->builds;
	size_t at = 0;

	if (!builds)
		return 0;
	if (builds->n_id_size != builds->n_kind || builds->n_path != builds->n_kind)
		return fp_decoder_refuse(decoder, -EBADMSG,
					 "columns of the builds differ in length");
	for (size_t i = 0; i < builds->n_kind; i++) {
		struct fp_build build = { .kind = (uint8_t)builds->kind[i],
					  .path = builds->path[i] };
		uint32_t id = 0, size = builds->id_size[i];
		int error;

		if (builds->kind[i] > FP_BUILD_HASH)
			return fp_decoder_refuse(decoder, -EBADMSG, "a build's kind is unknown");
		if (size > FP_BUILD_ID_MAX || size > builds->ids.len - at ||
		    (size == 0) != (build.kind == FP_BUILD_NONE))
			return fp_decoder_refuse(decoder, -EBADMSG,
						 "a build's id has a wrong size");
		build.id_len = (uint8_t)size;
		if (size)
			memcpy(build.id, builds->ids.data + at, size);
		at += size;
		error = fp_profile_build(decoder->profile, &build, &id);
		error = check_added(decoder, error, id, i);
		if (error)
			return error;
	}
	return at == builds->ids.len
		   ? 0
		   : fp_decoder_refuse(decoder, -EBADMSG, "bytes are left over behind the ids");
}

static int decode_frame(struct fp_decoder *decoder, size_t index, uint64_t *last_offset)
{
	const Fleetprof__V1__Frames *frames = decoder->batch->frames;
	struct fp_frame frame = { .build = frames->build[index], .name = frames->name[index] };
	uint32_t id = 0;
	int error;

	if (frames->kind[index] < FP_FRAME_FILE || frames->kind[index] > FP_FRAME_ERROR)
		return fp_decoder_refuse(decoder, -EBADMSG, "a frame's kind is unknown");
	frame.kind = (uint8_t)frames->kind[index];
	if (fp_frame_kind_has_build(frame.kind)) {
		if (frame.build >= decoder->profile->builds_count)
			return fp_decoder_refuse(decoder, -EBADMSG,
						 "a frame's build is out of range");
		last_offset[frame.build] += (uint64_t)frames->offset_delta[index];
		frame.offset = last_offset[frame.build];
	}
	error = fp_profile_frame(decoder->profile, &frame, &id);
	return check_added(decoder, error, id, index);
}

static int decode_frames(struct fp_decoder *decoder)
{
	const Fleetprof__V1__Frames *frames = decoder->batch->frames;
	FP_AUTOFREE uint64_t *last_offset =
	    calloc((size_t)decoder->profile->builds_count + 1, sizeof(*last_offset));
	int error = last_offset ? 0 : -ENOMEM;

	if (error || !frames)
		return error;
	if (frames->n_build != frames->n_kind || frames->n_name != frames->n_kind ||
	    frames->n_offset_delta != frames->n_kind)
		return fp_decoder_refuse(decoder, -EBADMSG,
					 "columns of the frames differ in length");
	for (size_t i = 0; !error && i < frames->n_kind; i++)
		error = decode_frame(decoder, i, last_offset);
	return error;
}

static int decode_stacks(struct fp_decoder *decoder)
{
	const Fleetprof__V1__Stacks *stacks = decoder->batch->stacks;
	size_t at = 0;

	for (size_t i = 0; stacks && i < stacks->n_depth; i++) {
		uint32_t id = 0, depth = stacks->depth[i];
		int error;

		if (depth > decoder->limits->stack_depth)
			return fp_decoder_refuse(decoder, -EMSGSIZE,
						 "a stack is deeper than its limit");
		if (depth > stacks->n_frame - at)
			return fp_decoder_refuse(decoder, -EBADMSG, "stacks run past their frames");
		error = fp_profile_stack(decoder->profile, stacks->frame + at, depth, &id);
		error = check_added(decoder, error, id, i);
		if (error)
			return error;
		at += depth;
	}
	if (stacks && at != stacks->n_frame)
		return fp_decoder_refuse(decoder, -EBADMSG,
					 "frames are left over behind the stacks");
	return 0;
}

// Copies one set out of the columns; the builder sorts it in place.
static int decode_label_set(struct fp_decoder *decoder, size_t index, size_t first)
{
	const Fleetprof__V1__LabelSets *sets = decoder->batch->labels;
	uint32_t id = 0, size = sets->size[index];
	FP_AUTOFREE struct fp_label *labels = calloc((size_t)size + 1, sizeof(*labels));
	int error;

	if (!labels)
		return -ENOMEM;
	for (uint32_t i = 0; i < size; i++)
		labels[i] = (struct fp_label){ sets->name[first + i], sets->value[first + i] };
	error = fp_profile_labels(decoder->profile, labels, size, &id);
	error = check_added(decoder, error, id, index);
	if (error)
		return error;
	if (decoder->profile->labels[id].count != size)
		return fp_decoder_refuse(decoder, -EBADMSG, "a label set holds a name twice");
	for (uint32_t i = 0; i < size; i++)
		if (labels[i].name != sets->name[first + i])
			return fp_decoder_refuse(decoder, -EBADMSG, "a label set is not in order");
	return 0;
}

static int decode_labels(struct fp_decoder *decoder)
{
	const Fleetprof__V1__LabelSets *sets = decoder->batch->labels;
	size_t at = 0;

	if (!sets)
		return 0;
	if (sets->n_name != sets->n_value)
		return fp_decoder_refuse(decoder, -EBADMSG,
					 "columns of the labels differ in length");
	for (size_t i = 0; i < sets->n_size; i++) {
		int error;

		if (sets->size[i] > sets->n_name - at)
			return fp_decoder_refuse(decoder, -EBADMSG,
						 "label sets run past their labels");
		error = decode_label_set(decoder, i, at);
		if (error)
			return error;
		at += sets->size[i];
	}
	return at == sets->n_name ? 0
				  : fp_decoder_refuse(decoder, -EBADMSG, "labels are left over");
}

// Sums of one batch stay below 2^62, so that nobody who adds a few up can overflow. Times stay
// below nine years, which no window of any host comes near: one batch cannot drown a fleet's.
#define SUM_MAX	    (1ULL << 62)
#define TIME_MAX_NS (1ULL << 58)

// A period turns CPU samples into time, so it decides what sums of them come to.
#define PERIOD_MIN_NS 1000ULL
#define PERIOD_MAX_NS 10000000000ULL

// What the values of one type may sum up to: all but CPU samples are nanoseconds already.
static uint64_t most_of(int type, uint64_t period_ns)
{
	return type == FP_PROFILE_CPU && period_ns ? TIME_MAX_NS / period_ns : TIME_MAX_NS;
}

static int check_times(struct fp_decoder *decoder)
{
	const struct fp_profile *profile = decoder->profile;
	uint64_t period_ns = profile->period_ns, cpu_rows = 0, sums[FP_PROFILE_TYPES] = { 0 };

	for (uint32_t i = 0; i < profile->samples_count; i++) {
		const struct fp_sample *sample = &profile->samples[i];

		cpu_rows += sample->type == FP_PROFILE_CPU;
		sums[sample->type] += sample->value;
	}
	if (period_ns ? period_ns < PERIOD_MIN_NS || period_ns > PERIOD_MAX_NS : cpu_rows > 0)
		return fp_decoder_refuse(decoder, -EBADMSG, "the sampling period is out of range");
	for (int type = 1; type < FP_PROFILE_TYPES; type++)
		if (sums[type] > most_of(type, period_ns))
			return fp_decoder_refuse(decoder, -EBADMSG,
						 "the samples' time is out of range");
	return 0;
}

static int decode_samples(struct fp_decoder *decoder)
{
	const Fleetprof__V1__Samples *samples = decoder->batch->samples;
	uint64_t counts = 0, values = 0;

	if (!samples)
		return 0;
	if (samples->n_labels != samples->n_type || samples->n_stack != samples->n_type ||
	    samples->n_count != samples->n_type || samples->n_value != samples->n_type)
		return fp_decoder_refuse(decoder, -EBADMSG,
					 "columns of the samples differ in length");
	for (size_t i = 0; i < samples->n_type; i++) {
		struct fp_sample sample = { samples->type[i], samples->labels[i], samples->stack[i],
					    samples->count[i], samples->value[i] };
		int error;

		if (sample.count > SUM_MAX - counts || sample.value > SUM_MAX - values)
			return fp_decoder_refuse(decoder, -EBADMSG,
						 "the samples' sum is out of range");
		counts += sample.count;
		values += sample.value;
		error = fp_profile_sample(decoder->profile, &sample);
		error = check_added(decoder, error, decoder->profile->samples_count - 1, i);
		if (error)
			return error;
	}
	return 0;
}

static int decode_header(struct fp_decoder *decoder)
{
	const Fleetprof__V1__Batch *batch = decoder->batch;
	struct fp_profile *profile = decoder->profile;
	uint32_t strings = profile->strings.count;

	if (batch->host_id.len != sizeof(profile->host_id) ||
	    batch->boot_id.len != sizeof(profile->boot_id))
		return fp_decoder_refuse(decoder, -EBADMSG,
					 "the host id or boot id has a wrong size");
	if (batch->end_boottime_ns < batch->start_boottime_ns)
		return fp_decoder_refuse(decoder, -EBADMSG, "the window ends before it starts");
	if (batch->hostname >= strings || batch->kernel_release >= strings ||
	    batch->machine >= strings || batch->agent_version >= strings)
		return fp_decoder_refuse(decoder, -EBADMSG, "a string index is out of range");
	memcpy(profile->host_id, batch->host_id.data, sizeof(profile->host_id));
	memcpy(profile->boot_id, batch->boot_id.data, sizeof(profile->boot_id));
	profile->sequence = batch->sequence;
	profile->start_boottime_ns = batch->start_boottime_ns;
	profile->end_boottime_ns = batch->end_boottime_ns;
	profile->start_realtime_ns = batch->start_realtime_ns;
	profile->end_realtime_ns = batch->end_realtime_ns;
	profile->period_ns = batch->period_ns;
	profile->hostname = batch->hostname;
	profile->kernel_release = batch->kernel_release;
	profile->machine = batch->machine;
	profile->agent_version = batch->agent_version;
	return 0;
}

static int decode_message(struct fp_decoder *decoder)
{
	// Each step may rely on the tables before it. Counters add strings, so they come last.
	static int (*const steps[])(struct fp_decoder *) = {
		decode_strings, decode_header,	decode_builds, decode_frames,	  decode_stacks,
		decode_labels,	decode_samples, check_times,   fp_decode_quality,
	};
	int error = 0;

	for (size_t i = 0; !error && i < FP_ARRAY_SIZE(steps); i++)
		error = steps[i](decoder);
	return error;
}

// One complete frame that says how much it holds; nothing is allocated before that is known
// to be within the limit. The output itself serves as zstd's window.
static int decompress(const void *bytes, size_t size, const struct fp_batch_limits *limits,
		      struct fp_buf *message, const char **ret_reason)
{
	unsigned long long content = ZSTD_getFrameContentSize(bytes, size);
	size_t got;

	*ret_reason = "not one whole zstd frame that states its size";
	if (content == ZSTD_CONTENTSIZE_ERROR || content == ZSTD_CONTENTSIZE_UNKNOWN ||
	    ZSTD_findFrameCompressedSize(bytes, size) != size)
		return -EBADMSG;
	if (content > limits->message_bytes) {
		*ret_reason = "the decompressed message is larger than its limit";
		return -EMSGSIZE;
	}
	if (fp_buf_reserve(message, content))
		return -ENOMEM;
	got = ZSTD_decompress(message->data, content, bytes, size);
	if (ZSTD_isError(got) || got != content)
		return -EBADMSG;
	message->len = got;
	return 0;
}

static void free_message(Fleetprof__V1__Batch **batch)
{
	if (*batch)
		fleetprof__v1__batch__free_unpacked(*batch, NULL);
}

int fp_batch_decode(const void *bytes, size_t size, const struct fp_batch_limits *limits,
		    struct fp_profile **ret_profile, const char **ret_reason)
{
	FP_AUTOPROFILE struct fp_profile *profile = NULL;
	FP_CLEANUP(free_message) Fleetprof__V1__Batch *batch = NULL;
	FP_AUTOBUF struct fp_buf message = { 0 };
	struct fp_decoder decoder = { .limits = limits };
	int error;

	*ret_reason = "the batch is larger than its limit";
	if (size > limits->compressed_bytes)
		return -EMSGSIZE;
	error = decompress(bytes, size, limits, &message, ret_reason);
	if (!error)
		error = fp_wire_scan(message.data, message.len, limits, ret_reason);
	if (error)
		return error;
	*ret_reason = "not a fleetprof.v1.Batch message";
	batch = fleetprof__v1__batch__unpack(NULL, message.len, message.data);
	if (!batch)
		return -EBADMSG;
	fp_buf_free(&message);
	error = fp_profile_new(&profile);
	if (error)
		return error;
	decoder.batch = batch;
	decoder.profile = profile;
	error = decode_message(&decoder);
	*ret_reason = error == -ENOMEM ? "out of memory" : decoder.reason;
	if (!error)
		*ret_profile = fp_take_ptr(profile);
	return error;
}
