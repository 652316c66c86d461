// SPDX-License-Identifier: Apache-2.0
//
// pprof: a builder of gzip'ed profile.proto, fed by the tree renderer (names only) and by
// the fold of a profile (build-IDs and offsets, names where known). Strings, functions and
// locations are deduplicated; everything stays in flat arrays until it is encoded.
// Source of the format: google/pprof proto/profile.proto; the fields used are in
// profile/pprof.proto. Private to profile/.
// Trust: names are foreign bytes and are made valid UTF-8.
// Ownership: the builder owns what it was given. Threads: none shared.
#pragma once

#include "common/buf.h"
#include "common/hashmap.h"
#include "common/intern.h"

#define FP_PPROF_TYPES_MAX 2

struct fp_pprof_type {
	const char *type, *unit; // "cpu", "nanoseconds"
};

struct fp_pprof_mapping {
	uint64_t memory_start, memory_limit, file_offset;
	uint32_t filename, build_id; // strings of the builder
	bool has_functions;
};

struct fp_pprof_label {
	uint32_t key, value; // strings of the builder
};

struct fp_pprof_sample {
	const uint64_t *locations; // ids, leaf first
	size_t locations_count;
	const int64_t *values; // one per sample type
	const struct fp_pprof_label *labels;
	size_t labels_count;
};

struct fp_pprof_head {
	struct fp_pprof_type types[FP_PPROF_TYPES_MAX]; // the last is the default
	size_t types_count;
	struct fp_pprof_type period_type;
	int64_t period, time_ns, duration_ns;
	const char *comment; // or NULL
};

struct fp_pprof;

int fp_pprof_new(const struct fp_pprof_head *head, struct fp_pprof **ret_pprof);
void fp_pprof_free(struct fp_pprof *pprof);
static inline void fp_pprof_freep(struct fp_pprof **pprof)
{
	fp_pprof_free(*pprof);
	*pprof = NULL;
}
#define FP_AUTOPPROF FP_CLEANUP(fp_pprof_freep)

int fp_pprof_string(struct fp_pprof *pprof, const char *string, size_t size, uint32_t *ret_id);
// Ids start at 1; the first mapping added is the main binary to pprof.
int fp_pprof_mapping(struct fp_pprof *pprof, const struct fp_pprof_mapping *mapping,
		     uint64_t *ret_id);
// name, filename: strings of the builder.
int fp_pprof_function(struct fp_pprof *pprof, uint32_t name, uint32_t filename, uint64_t *ret_id);
// mapping, function: 0 when there is none.
int fp_pprof_location(struct fp_pprof *pprof, uint64_t mapping, uint64_t address, uint64_t function,
		      uint64_t *ret_id);
int fp_pprof_sample(struct fp_pprof *pprof, const struct fp_pprof_sample *sample);
// Appends the gzip'ed message.
int fp_pprof_encode(const struct fp_pprof *pprof, struct fp_buf *ret_bytes);
