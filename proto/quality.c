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

#define STOP_LABEL(id, label, text, fix) [FP_STOP_##id] = { label, text, fix },
static const struct {
	const char *label, *text, *fix;
} stops[FP_STOP_COUNT] = { FP_STOPS(STOP_LABEL) };

const char *fp_stop_label(enum fp_stop stop)
{
	return stops[stop].label;
}

const char *fp_stop_text(const char *label)
{
	for (int stop = 0; stop < FP_STOP_COUNT; stop++)
		if (strcmp(stops[stop].label, label) == 0)
			return stops[stop].text;
	return label;
}

const char *fp_stop_fix(const char *label)
{
	for (int stop = 0; stop < FP_STOP_COUNT; stop++)
		if (strcmp(stops[stop].label, label) == 0)
			return stops[stop].fix;
	return "";
}

// Where the row of a key is, among `count` rows; it is to be behind them when *ret_new. The index
// of a decoded record is made when it is first needed. NULL: -ENOMEM.
static uint32_t *find_row(struct fp_hashmap *index, const void *key, uint32_t count, bool *ret_new)
{
	uint32_t *place = fp_hashmap_put(index, key, ret_new);

	if (place && *ret_new)
		*place = count;
	return place;
}

static int index_builds(struct fp_quality *quality)
{
	if (quality->build_rows.key_size == 0)
		quality->build_rows = FP_HASHMAP_INIT(uint32_t, uint32_t);
	for (uint32_t i = (uint32_t)quality->build_rows.count; i < quality->builds_count; i++) {
		bool is_new;

		if (!find_row(&quality->build_rows, &quality->builds[i].build, i, &is_new))
			return -ENOMEM;
	}
	return 0;
}

struct fp_build_quality *fp_quality_build(struct fp_profile *profile, enum fp_profile_type type,
					  uint32_t build)
{
	struct fp_quality *quality = &profile->quality[type];
	uint32_t *place;
	bool is_new;

	if (build >= profile->builds_count || index_builds(quality) ||
	    fp_array_grow(&quality->builds, &quality->builds_capacity, quality->builds_count, 1))
		return NULL;
	place = find_row(&quality->build_rows, &build, quality->builds_count, &is_new);
	if (!place)
		return NULL;
	quality->present = true;
	if (is_new)
		quality->builds[quality->builds_count++] =
		    (struct fp_build_quality){ .build = build };
	return quality->builds + *place;
}

struct stop_key {
	uint32_t build, reason;
};

static int index_stops(struct fp_quality *quality)
{
	if (quality->stop_rows.key_size == 0)
		quality->stop_rows = FP_HASHMAP_INIT(struct stop_key, uint32_t);
	for (uint32_t i = (uint32_t)quality->stop_rows.count; i < quality->stops_count; i++) {
		struct stop_key key = { quality->stops[i].build, quality->stops[i].reason };
		bool is_new;

		if (!find_row(&quality->stop_rows, &key, i, &is_new))
			return -ENOMEM;
	}
	return 0;
}

int fp_quality_stop(struct fp_profile *profile, enum fp_profile_type type, uint32_t build,
		    uint32_t reason, uint64_t count)
{
	struct fp_quality *quality = &profile->quality[type];
	struct stop_key key = { build, reason };
	struct fp_build_stop *row;
	uint32_t *place;
	bool is_new;

	if (build >= profile->builds_count || reason >= profile->strings.count)
		return -EINVAL;
	if (index_stops(quality) ||
	    fp_array_grow(&quality->stops, &quality->stops_capacity, quality->stops_count, 1))
		return -ENOMEM;
	place = find_row(&quality->stop_rows, &key, quality->stops_count, &is_new);
	if (!place)
		return -ENOMEM;
	quality->present = true;
	if (is_new)
		quality->stops[quality->stops_count++] = (struct fp_build_stop){ build, reason, 0 };
	row = &quality->stops[*place];
	row->count = count > UINT64_MAX - row->count ? UINT64_MAX : row->count + count;
	return 0;
}

const char *fp_quality_worst_stop(const struct fp_profile *profile, enum fp_profile_type type,
				  uint32_t build)
{
	const struct fp_quality *quality = &profile->quality[type];
	const struct fp_build_stop *worst = NULL;

	for (uint32_t i = 0; i < quality->stops_count; i++)
		if (quality->stops[i].build == build &&
		    (!worst || quality->stops[i].count > worst->count))
			worst = &quality->stops[i];
	return worst ? fp_profile_str(profile, worst->reason) : NULL;
}
