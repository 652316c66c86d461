// SPDX-License-Identifier: Apache-2.0
//
// pprofstore: what the pprof builder (pprof.c) holds and the encoder (pprofwire.c) reads:
// flat arrays in the order of the message. Private to these two files.
// Ownership: the store owns its arrays. Threads: none shared.
#pragma once

#include "pprof.h"

struct fp_pprof_function_row {
	uint32_t name, filename;
};

struct fp_pprof_location_row {
	uint64_t mapping, address, function;
};

struct fp_pprof_sample_row {
	size_t locations, locations_count; // into location_ids
	size_t values;			   // into values
	size_t labels, labels_count;	   // into labels
};

struct fp_pprof {
	struct fp_pprof_head head;
	uint32_t comment;
	struct fp_intern strings;
	struct fp_pprof_mapping *mappings;
	size_t mappings_count, mappings_capacity;
	struct fp_pprof_function_row *functions;
	size_t functions_count, functions_capacity;
	struct fp_pprof_location_row *locations;
	size_t locations_count, locations_capacity;
	struct fp_pprof_sample_row *samples;
	size_t samples_count, samples_capacity;
	uint64_t *location_ids;
	size_t location_ids_count, location_ids_capacity;
	int64_t *values;
	size_t values_count, values_capacity;
	struct fp_pprof_label *labels;
	size_t labels_count, labels_capacity;
	struct fp_hashmap function_index, location_index;
};
