// SPDX-License-Identifier: Apache-2.0
#include "foldexport.h"

#include <errno.h>
#include <string.h>

#define PAGE	      ((uint64_t)4096)
#define MAPPING_ALIGN ((uint64_t)0x200000)
#define FIRST_MAPPING ((uint64_t)0x400000)

// The pages of every build in which offsets were seen.
static void measure_builds(struct fp_export *export)
{
	const struct fp_profile *profile = export->namer.profile;

	for (uint32_t i = 0; i < profile->frames_count; i++) {
		const struct fp_frame *frame = &profile->frames[i];
		uint64_t page = frame->offset / PAGE * PAGE;
		struct fp_build_place *place;

		if (frame->build >= profile->builds_count || frame->offset >= FP_EXPORT_OFFSET_MAX)
			continue;
		place = &export->places[frame->build];
		// A caller's address is one byte back, which may be on the page before.
		if (frame->offset == page && page > 0)
			page -= PAGE;
		if (place->last == 0 || page < place->first)
			place->first = page;
		if (frame->offset >= place->last)
			place->last = (frame->offset / PAGE + 1) * PAGE;
	}
}

static int export_mapping(struct fp_export *export, uint32_t build, uint64_t base)
{
	const struct fp_profile *profile = export->namer.profile;
	const struct fp_build *from = &profile->builds[build];
	struct fp_build_place *place = &export->places[build];
	const char *path = fp_profile_str(profile, from->path);
	struct fp_pprof_mapping mapping = { .has_functions = export->named };
	FP_AUTOBUF struct fp_buf id = { 0 };
	int error;

	for (size_t i = 0; i < from->id_len; i++)
		fp_buf_printf(&id, "%02x", from->id[i]);
	error = id.error;
	if (!error)
		error = fp_pprof_string(export->pprof, id.len ? (const char *)id.data : "", id.len,
					&mapping.build_id);
	if (!error)
		error = fp_pprof_string(export->pprof, path, strlen(path), &mapping.filename);
	if (error)
		return error;
	place->base = base;
	mapping.memory_start = base + place->first;
	mapping.memory_limit = base + place->last;
	mapping.file_offset = place->first;
	return fp_pprof_mapping(export->pprof, &mapping, &place->mapping);
}

// The value of the "executable" label that has most of the profile; "" when none has any.
static const char *main_executable(const struct fp_export *export)
{
	const struct fp_profile *profile = export->namer.profile;
	FP_CLEANUP(fp_hashmap_free)
	struct fp_hashmap values = FP_HASHMAP_INIT(uint32_t, uint64_t); // by label set
	const char *best = "";
	uint64_t best_value = 0;
	const void *key;
	void *value;

	for (uint32_t i = 0; i < profile->samples_count; i++) {
		const struct fp_sample *sample = &profile->samples[i];
		bool inserted;
		uint64_t *sum;

		if (!fp_fold_wants(export->options, sample))
			continue;
		sum = fp_hashmap_put(&values, &sample->labels, &inserted);
		if (sum)
			*sum += sample->value;
	}
	for (size_t position = 0; fp_hashmap_next(&values, &position, &key, &value);) {
		const char *name = fp_label_value(profile, *(const uint32_t *)key, "executable");

		if (name && *(const uint64_t *)value > best_value) {
			best = name;
			best_value = *(const uint64_t *)value;
		}
	}
	return best;
}

// pprof takes the first mapping for the program that the profile is about.
static uint32_t main_build(const struct fp_export *export)
{
	const struct fp_profile *profile = export->namer.profile;
	const char *executable = fp_path_basename(main_executable(export));

	for (uint32_t i = 0; i < profile->builds_count; i++) {
		const char *path = fp_profile_str(profile, profile->builds[i].path);

		if (export->places[i].last && strcmp(fp_path_basename(path), executable) == 0)
			return i;
	}
	return 0;
}

int fp_export_mappings(struct fp_export *export)
{
	uint32_t count = export->namer.profile->builds_count;
	uint32_t first;
	uint64_t base = FIRST_MAPPING;
	int error = 0;

	measure_builds(export);
	first = count ? main_build(export) : 0;
	for (uint32_t i = 0; !error && i < count; i++) {
		uint32_t build = i == 0 ? first : i <= first ? i - 1 : i;

		if (export->places[build].last == 0)
			continue;
		// The sum of 2^32 builds of 2^44 bytes would wrap; 2^63 is where pprof stops.
		if (base > INT64_MAX - FP_EXPORT_OFFSET_MAX - MAPPING_ALIGN)
			return -E2BIG;
		error = export_mapping(export, build, base);
		base += (export->places[build].last / MAPPING_ALIGN + 1) * MAPPING_ALIGN;
	}
	return error;
}
