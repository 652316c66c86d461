// SPDX-License-Identifier: Apache-2.0
//
// aspect: what of a profile is looked at, one row each: the types of samples, and `wall`, the
// whole time of threads as one tree of CPU time, time blocked and time ready to run. Queries,
// file names, titles and buttons follow the table.
// Threads: constants.
#pragma once

#include "render.h"

#include "proto/profile.h"

#define FP_TYPE_BIT(type) (1u << (type))

struct fp_aspect {
	const char *name;	   // "off_cpu": in queries and file names
	const char *title;	   // "Off-CPU"
	enum fp_profile_type type; // of one type; 0: of several
	uint32_t types;		   // all of which it is made, as FP_TYPE_BIT
	enum fp_unit unit;
};
extern const struct fp_aspect fp_aspects[];
extern const size_t fp_aspects_count;
extern const struct fp_aspect *const fp_aspect_wall;

const struct fp_aspect *fp_aspect_find(const char *name); // NULL when unknown
const struct fp_aspect *fp_aspect_of(enum fp_profile_type type);
static inline bool fp_aspect_has(const struct fp_aspect *aspect, uint32_t type)
{
	return type < FP_PROFILE_TYPES && aspect->types & FP_TYPE_BIT(type);
}
