// SPDX-License-Identifier: Apache-2.0
#include "profile.h"
#include "array.h"

#include <string.h>

static const char *const type_names[FP_PROFILE_TYPES] = {
	[FP_PROFILE_CPU] = "cpu",
	[FP_PROFILE_OFF_CPU] = "off_cpu",
	[FP_PROFILE_RUN_QUEUE] = "run_queue",
	[FP_PROFILE_WAKER] = "waker",
};

#define COUNTER_ROW(id, name, text) [FP_QUALITY_##id] = { name, text },
static const struct {
	const char *name, *text;
} counter_rows[FP_QUALITY_COUNT] = { FP_QUALITY_COUNTERS(COUNTER_ROW) };

const char *fp_profile_type_name(enum fp_profile_type type)
{
	return (unsigned int)type < FP_PROFILE_TYPES && type_names[type] ? type_names[type] : "?";
}

int fp_profile_type_from_name(const char *name)
{
	for (int type = 1; type < FP_PROFILE_TYPES; type++)
		if (strcmp(type_names[type], name) == 0)
			return type;
	return -ENOENT;
}

const char *fp_quality_name(enum fp_quality_counter counter)
{
	return counter_rows[counter].name;
}

const char *fp_quality_text(enum fp_quality_counter counter)
{
	return counter_rows[counter].text;
}

int fp_quality_from_name(const char *name)
{
	for (int counter = 0; counter < FP_QUALITY_COUNT; counter++)
		if (strcmp(counter_rows[counter].name, name) == 0)
			return counter;
	return -ENOENT;
}

int fp_quality_set_named(struct fp_profile *profile, enum fp_profile_type type, const char *name,
			 uint64_t value)
{
	struct fp_quality *quality = &profile->quality[type];
	int error, known = fp_quality_from_name(name);
	uint32_t string;

	quality->present = true;
	if (known >= 0) {
		quality->counters[known] = value;
		return 0;
	}
	error = fp_profile_cstring(profile, name, &string);
	if (error)
		return error;
	for (uint32_t i = 0; i < quality->named_count; i++) {
		if (quality->named[i].name != string)
			continue;
		quality->named[i].value = value;
		return 0;
	}
	error = fp_array_grow(&quality->named, &quality->named_capacity, quality->named_count, 1);
	if (error)
		return error;
	quality->named[quality->named_count++] = (struct fp_named_counter){ string, value };
	return 0;
}

struct fp_build_quality *fp_quality_build(struct fp_profile *profile, enum fp_profile_type type,
					  uint32_t build)
{
	struct fp_quality *quality = &profile->quality[type];

	for (uint32_t i = 0; i < quality->builds_count; i++)
		if (quality->builds[i].build == build)
			return quality->builds + i;
	if (build >= profile->builds_count ||
	    fp_array_grow(&quality->builds, &quality->builds_capacity, quality->builds_count, 1))
		return NULL;
	quality->present = true;
	quality->builds[quality->builds_count] = (struct fp_build_quality){ .build = build };
	return quality->builds + quality->builds_count++;
}
