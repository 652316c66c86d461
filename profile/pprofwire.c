// SPDX-License-Identifier: Apache-2.0
//
// The pprof builder's arrays → protobuf → gzip. protobuf-c wants an array of pointers for
// every repeated message; each kind gets one array of messages and one of pointers.
#include "pprofstore.h"

#include "pprof.pb-c.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define GZIP_WINDOW 31 // 15 bits of window, plus 16: gzip framing

typedef Fleetprof__Pprof__Profile message_profile;
typedef Fleetprof__Pprof__ValueType message_type;
typedef Fleetprof__Pprof__Sample message_sample;
typedef Fleetprof__Pprof__Label message_label;
typedef Fleetprof__Pprof__Mapping message_mapping;
typedef Fleetprof__Pprof__Location message_location;
typedef Fleetprof__Pprof__Line message_line;
typedef Fleetprof__Pprof__Function message_function;

struct encoder {
	message_profile profile;
	message_type types[FP_PPROF_TYPES_MAX], period_type;
	message_type *type_pointers[FP_PPROF_TYPES_MAX];
	int64_t comment;
	message_sample *samples;
	message_label *labels;
	message_label **label_pointers;
	message_mapping *mappings;
	message_location *locations;
	message_line *lines;
	message_line **line_pointers;
	message_function *functions;
};

static void encoder_free(struct encoder *encoder)
{
	free(encoder->profile.sample);
	free(encoder->profile.mapping);
	free(encoder->profile.location);
	free(encoder->profile.function);
	free(encoder->samples);
	free(encoder->labels);
	free(encoder->label_pointers);
	free(encoder->mappings);
	free(encoder->locations);
	free(encoder->lines);
	free(encoder->line_pointers);
	free(encoder->functions);
}
#define AUTOENCODER FP_CLEANUP(encoder_free)

static int64_t string_index(const struct fp_pprof *pprof, const char *string)
{
	return fp_intern_find(&pprof->strings, string, strlen(string));
}

static void encode_type(const struct fp_pprof *pprof, const struct fp_pprof_type *type,
			message_type *ret_message)
{
	fleetprof__pprof__value_type__init(ret_message);
	ret_message->type = string_index(pprof, type->type);
	ret_message->unit = string_index(pprof, type->unit);
}

static void encode_head(const struct fp_pprof *pprof, struct encoder *encoder)
{
	message_profile *profile = &encoder->profile;
	const struct fp_pprof_head *head = &pprof->head;

	for (size_t i = 0; i < head->types_count; i++) {
		encode_type(pprof, &head->types[i], &encoder->types[i]);
		encoder->type_pointers[i] = &encoder->types[i];
	}
	profile->sample_type = encoder->type_pointers;
	profile->n_sample_type = head->types_count;
	profile->default_sample_type = encoder->types[head->types_count - 1].type;
	encode_type(pprof, &head->period_type, &encoder->period_type);
	profile->period_type = &encoder->period_type;
	profile->period = head->period;
	profile->time_nanos = head->time_ns;
	profile->duration_nanos = head->duration_ns;
	profile->string_table = pprof->strings.strings;
	profile->n_string_table = pprof->strings.count;
	if (pprof->comment) {
		encoder->comment = pprof->comment;
		profile->comment = &encoder->comment;
		profile->n_comment = 1;
	}
}

static int encode_mappings(const struct fp_pprof *pprof, struct encoder *encoder)
{
	size_t count = pprof->mappings_count;

	encoder->mappings = calloc(count + 1, sizeof(*encoder->mappings));
	encoder->profile.mapping = calloc(count + 1, sizeof(*encoder->profile.mapping));
	if (!encoder->mappings || !encoder->profile.mapping)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		const struct fp_pprof_mapping *row = &pprof->mappings[i];
		message_mapping *message = &encoder->mappings[i];

		fleetprof__pprof__mapping__init(message);
		message->id = i + 1;
		message->memory_start = row->memory_start;
		message->memory_limit = row->memory_limit;
		message->file_offset = row->file_offset;
		message->filename = row->filename;
		message->build_id = row->build_id;
		message->has_functions = row->has_functions;
		encoder->profile.mapping[i] = message;
	}
	encoder->profile.n_mapping = count;
	return 0;
}

static int encode_functions(const struct fp_pprof *pprof, struct encoder *encoder)
{
	size_t count = pprof->functions_count;

	encoder->functions = calloc(count + 1, sizeof(*encoder->functions));
	encoder->profile.function = calloc(count + 1, sizeof(*encoder->profile.function));
	if (!encoder->functions || !encoder->profile.function)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		message_function *message = &encoder->functions[i];

		fleetprof__pprof__function__init(message);
		message->id = i + 1;
		message->name = pprof->functions[i].name;
		message->system_name = pprof->functions[i].name;
		message->filename = pprof->functions[i].filename;
		encoder->profile.function[i] = message;
	}
	encoder->profile.n_function = count;
	return 0;
}

static int encode_locations(const struct fp_pprof *pprof, struct encoder *encoder)
{
	size_t count = pprof->locations_count;

	encoder->locations = calloc(count + 1, sizeof(*encoder->locations));
	encoder->lines = calloc(count + 1, sizeof(*encoder->lines));
	encoder->line_pointers = calloc(count + 1, sizeof(*encoder->line_pointers));
	encoder->profile.location = calloc(count + 1, sizeof(*encoder->profile.location));
	if (!encoder->locations || !encoder->lines || !encoder->line_pointers ||
	    !encoder->profile.location)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		const struct fp_pprof_location_row *row = &pprof->locations[i];
		message_location *message = &encoder->locations[i];

		fleetprof__pprof__location__init(message);
		message->id = i + 1;
		message->mapping_id = row->mapping;
		message->address = row->address;
		fleetprof__pprof__line__init(&encoder->lines[i]);
		encoder->lines[i].function_id = row->function;
		encoder->line_pointers[i] = &encoder->lines[i];
		message->line = &encoder->line_pointers[i];
		message->n_line = row->function ? 1 : 0;
		encoder->profile.location[i] = message;
	}
	encoder->profile.n_location = count;
	return 0;
}

static int encode_labels(const struct fp_pprof *pprof, struct encoder *encoder)
{
	size_t count = pprof->labels_count;

	encoder->labels = calloc(count + 1, sizeof(*encoder->labels));
	encoder->label_pointers = calloc(count + 1, sizeof(*encoder->label_pointers));
	if (!encoder->labels || !encoder->label_pointers)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		fleetprof__pprof__label__init(&encoder->labels[i]);
		encoder->labels[i].key = pprof->labels[i].key;
		encoder->labels[i].str = pprof->labels[i].value;
		encoder->label_pointers[i] = &encoder->labels[i];
	}
	return 0;
}

static int encode_samples(const struct fp_pprof *pprof, struct encoder *encoder)
{
	size_t count = pprof->samples_count;

	encoder->samples = calloc(count + 1, sizeof(*encoder->samples));
	encoder->profile.sample = calloc(count + 1, sizeof(*encoder->profile.sample));
	if (!encoder->samples || !encoder->profile.sample)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		const struct fp_pprof_sample_row *row = &pprof->samples[i];
		message_sample *message = &encoder->samples[i];

		fleetprof__pprof__sample__init(message);
		message->location_id =
		    row->locations_count ? pprof->location_ids + row->locations : NULL;
		message->n_location_id = row->locations_count;
		message->value = pprof->values + row->values;
		message->n_value = pprof->head.types_count;
		message->label = encoder->label_pointers + row->labels;
		message->n_label = row->labels_count;
		encoder->profile.sample[i] = message;
	}
	encoder->profile.n_sample = count;
	return 0;
}

static int gzip_append(const void *bytes, size_t size, struct fp_buf *ret_bytes)
{
	z_stream stream = { 0 };
	uLong bound;
	int result;

	if (size > UINT32_MAX / 2)
		return -E2BIG;
	if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, GZIP_WINDOW, 8,
			 Z_DEFAULT_STRATEGY) != Z_OK)
		return -ENOMEM;
	bound = deflateBound(&stream, size);
	if (fp_buf_reserve(ret_bytes, bound)) {
		deflateEnd(&stream);
		return -ENOMEM;
	}
	stream.next_in = (Bytef *)bytes;
	stream.avail_in = (uInt)size;
	stream.next_out = ret_bytes->data + ret_bytes->len;
	stream.avail_out = (uInt)bound;
	result = deflate(&stream, Z_FINISH);
	ret_bytes->len += stream.total_out;
	deflateEnd(&stream);
	return result == Z_STREAM_END ? 0 : -EIO;
}

int fp_pprof_encode(const struct fp_pprof *pprof, struct fp_buf *ret_bytes)
{
	AUTOENCODER struct encoder encoder = { .profile = FLEETPROF__PPROF__PROFILE__INIT };
	FP_AUTOFREE uint8_t *message = NULL;
	size_t size;

	encode_head(pprof, &encoder);
	if (encode_mappings(pprof, &encoder) || encode_functions(pprof, &encoder) ||
	    encode_locations(pprof, &encoder) || encode_labels(pprof, &encoder) ||
	    encode_samples(pprof, &encoder))
		return -ENOMEM;
	size = fleetprof__pprof__profile__get_packed_size(&encoder.profile);
	message = malloc(size);
	if (!message)
		return -ENOMEM;
	fleetprof__pprof__profile__pack(&encoder.profile, message);
	return gzip_append(message, size, ret_bytes);
}
