// SPDX-License-Identifier: Apache-2.0
#include "aspect.h"

#include <string.h>

#define ONE(profile_type) .type = (profile_type), .types = FP_TYPE_BIT(profile_type)

// A row per type, at its number, then what several make together.
enum { WALL = FP_PROFILE_TYPES - 1, ASPECTS };
const struct fp_aspect fp_aspects[] = {
	{ "cpu", "CPU", ONE(FP_PROFILE_CPU), .unit = FP_UNIT_SAMPLES },
	{ "off_cpu", "Off-CPU", ONE(FP_PROFILE_OFF_CPU), .unit = FP_UNIT_NANOSECONDS },
	{ "run_queue", "Run queue", ONE(FP_PROFILE_RUN_QUEUE), .unit = FP_UNIT_NANOSECONDS },
	{ "waker", "Wakers", ONE(FP_PROFILE_WAKER), .unit = FP_UNIT_NANOSECONDS },
	// Wakers hold the time of off-CPU again, under another stack, so they are no part.
	[WALL] = { "wall", "Wall time",
		   .types = FP_TYPE_BIT(FP_PROFILE_CPU) | FP_TYPE_BIT(FP_PROFILE_OFF_CPU) |
			    FP_TYPE_BIT(FP_PROFILE_RUN_QUEUE),
		   .unit = FP_UNIT_NANOSECONDS },
};
const size_t fp_aspects_count = FP_ARRAY_SIZE(fp_aspects);
const struct fp_aspect *const fp_aspect_wall = &fp_aspects[WALL];

_Static_assert(FP_ARRAY_SIZE(fp_aspects) == ASPECTS, "a row for every type");

const struct fp_aspect *fp_aspect_find(const char *name)
{
	for (size_t i = 0; i < fp_aspects_count; i++)
		if (strcmp(fp_aspects[i].name, name) == 0)
			return &fp_aspects[i];
	return NULL;
}

const struct fp_aspect *fp_aspect_of(enum fp_profile_type type)
{
	return &fp_aspects[type - 1];
}
