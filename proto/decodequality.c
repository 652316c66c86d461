// SPDX-License-Identifier: Apache-2.0
//
// The quality records of a message.
#include "decoder.h"

#include <errno.h>
#include <string.h>

static int decode_counters(struct fp_decoder *decoder, const Fleetprof__V1__Quality *row)
{
	const char *name = (const char *)row->counter_names.data;
	size_t left = row->counter_names.len;
	int error = 0;

	for (size_t i = 0; !error && i < row->n_counter; i++) {
		const char *end = left ? memchr(name, 0, left) : NULL;

		if (!end || end == name || (size_t)(end - name) > decoder->limits->string_bytes)
			return fp_decoder_refuse(decoder, -EBADMSG,
						 "a quality counter has no proper name");
		error = fp_quality_set_named(decoder->profile, row->type, name, row->counter[i]);
		left -= (size_t)(end - name) + 1;
		name = end + 1;
	}
	if (!error && left)
		return fp_decoder_refuse(decoder, -EBADMSG,
					 "names are left over behind the counters");
	return error;
}

static int decode_stopped_builds(struct fp_decoder *decoder, const Fleetprof__V1__Quality *row)
{
	struct fp_profile *profile = decoder->profile;
	FP_AUTOFREE bool *seen = calloc((size_t)profile->builds_count + 1, sizeof(*seen));
	FP_AUTOFREE struct fp_build_quality *builds = calloc(row->n_build + 1, sizeof(*builds));

	if (!seen || !builds)
		return -ENOMEM;
	if (row->n_build_stacks != row->n_build || row->n_build_stopped != row->n_build)
		return fp_decoder_refuse(decoder, -EBADMSG,
					 "columns of the quality differ in length");
	for (size_t i = 0; i < row->n_build; i++) {
		uint32_t build = row->build[i];

		if (build >= profile->builds_count || seen[build])
			return fp_decoder_refuse(decoder, -EBADMSG,
						 "a quality row's build is wrong");
		seen[build] = true;
		builds[i] =
		    (struct fp_build_quality){ build, row->build_stacks[i], row->build_stopped[i] };
	}
	free(profile->quality[row->type].builds);
	profile->quality[row->type].builds = fp_take_ptr(builds);
	profile->quality[row->type].builds_count = (uint32_t)row->n_build;
	profile->quality[row->type].builds_capacity = (uint32_t)row->n_build + 1;
	return 0;
}

// Rows of the same build and reason are added up.
static int decode_stops(struct fp_decoder *decoder, const Fleetprof__V1__Quality *row)
{
	int error = 0;

	if (row->n_stop_reason != row->n_stop_build || row->n_stop_count != row->n_stop_build)
		return fp_decoder_refuse(decoder, -EBADMSG,
					 "columns of the stops differ in length");
	for (size_t i = 0; !error && i < row->n_stop_build; i++) {
		error = fp_quality_stop(decoder->profile, row->type, row->stop_build[i],
					row->stop_reason[i], row->stop_count[i]);
		if (error == -EINVAL)
			return fp_decoder_refuse(decoder, -EBADMSG,
						 "a stop's build or reason is wrong");
	}
	return error;
}

int fp_decode_quality(struct fp_decoder *decoder)
{
	int error = 0;

	for (size_t i = 0; !error && i < decoder->batch->n_quality; i++) {
		const Fleetprof__V1__Quality *row = decoder->batch->quality[i];
		struct fp_quality *quality;

		if (!row->type || row->type >= FP_PROFILE_TYPES ||
		    decoder->profile->quality[row->type].present)
			return fp_decoder_refuse(decoder, -EBADMSG,
						 "a quality record's type is wrong");
		if (row->hook >= decoder->profile->strings.count)
			return fp_decoder_refuse(decoder, -EBADMSG,
						 "a quality record's hook is out of range");
		quality = decoder->profile->quality + row->type;
		quality->present = true;
		quality->hook = row->hook;
		error = decode_counters(decoder, row);
		if (!error)
			error = decode_stopped_builds(decoder, row);
		if (!error)
			error = decode_stops(decoder, row);
	}
	return error;
}
