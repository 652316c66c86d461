// SPDX-License-Identifier: Apache-2.0
#include "pprof.h"

#include "array.h"
#include "pprofstore.h"
#include "text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void fp_pprof_free(struct fp_pprof *pprof)
{
	if (!pprof)
		return;
	fp_intern_free(&pprof->strings);
	free(pprof->mappings);
	free(pprof->functions);
	free(pprof->locations);
	free(pprof->samples);
	free(pprof->location_ids);
	free(pprof->values);
	free(pprof->labels);
	fp_hashmap_free(&pprof->function_index);
	fp_hashmap_free(&pprof->location_index);
	free(pprof);
}

// The names of types enter the string table now, so that the encoder only reads.
static int pprof_intern_head(struct fp_pprof *pprof)
{
	const struct fp_pprof_head *head = &pprof->head;
	uint32_t id;
	int error = 0;

	for (size_t i = 0; !error && i < head->types_count; i++) {
		error = fp_intern_add(&pprof->strings, head->types[i].type,
				      strlen(head->types[i].type), &id);
		if (!error)
			error = fp_intern_add(&pprof->strings, head->types[i].unit,
					      strlen(head->types[i].unit), &id);
	}
	if (!error)
		error = fp_intern_add(&pprof->strings, head->period_type.type,
				      strlen(head->period_type.type), &id);
	if (!error)
		error = fp_intern_add(&pprof->strings, head->period_type.unit,
				      strlen(head->period_type.unit), &id);
	if (!error && head->comment)
		error =
		    fp_pprof_string(pprof, head->comment, strlen(head->comment), &pprof->comment);
	return error;
}

int fp_pprof_new(const struct fp_pprof_head *head, struct fp_pprof **ret_pprof)
{
	FP_AUTOPPROF struct fp_pprof *pprof = calloc(1, sizeof(*pprof));
	int error;

	if (!pprof)
		return -ENOMEM;
	pprof->head = *head;
	pprof->function_index = FP_HASHMAP_INIT(struct fp_pprof_function_row, uint64_t);
	pprof->location_index = FP_HASHMAP_INIT(struct fp_pprof_location_row, uint64_t);
	error = fp_intern_init(&pprof->strings);
	if (!error)
		error = pprof_intern_head(pprof);
	if (error)
		return error;
	*ret_pprof = fp_take_ptr(pprof);
	return 0;
}

int fp_pprof_string(struct fp_pprof *pprof, const char *string, size_t size, uint32_t *ret_id)
{
	FP_AUTOBUF struct fp_buf text = { 0 };

	fp_text_name(string, size, SIZE_MAX, &text);
	if (text.error)
		return text.error;
	return fp_intern_add(&pprof->strings, text.len ? (const char *)text.data : "", text.len,
			     ret_id);
}

int fp_pprof_mapping(struct fp_pprof *pprof, const struct fp_pprof_mapping *mapping,
		     uint64_t *ret_id)
{
	int error = FP_ARRAY_ROOM(pprof, mappings, 1);

	if (error)
		return error;
	pprof->mappings[pprof->mappings_count++] = *mapping;
	*ret_id = pprof->mappings_count;
	return 0;
}

int fp_pprof_function(struct fp_pprof *pprof, uint32_t name, uint32_t filename, uint64_t *ret_id)
{
	struct fp_pprof_function_row row = { name, filename };
	bool inserted;
	uint64_t *id;
	int error = FP_ARRAY_ROOM(pprof, functions, 1);

	if (error)
		return error;
	id = fp_hashmap_put(&pprof->function_index, &row, &inserted);
	if (!id)
		return -ENOMEM;
	if (inserted) {
		pprof->functions[pprof->functions_count++] = row;
		*id = pprof->functions_count;
	}
	*ret_id = *id;
	return 0;
}

int fp_pprof_location(struct fp_pprof *pprof, uint64_t mapping, uint64_t address, uint64_t function,
		      uint64_t *ret_id)
{
	struct fp_pprof_location_row row = { mapping, address, function };
	bool inserted;
	uint64_t *id;
	int error = FP_ARRAY_ROOM(pprof, locations, 1);

	if (error)
		return error;
	id = fp_hashmap_put(&pprof->location_index, &row, &inserted);
	if (!id)
		return -ENOMEM;
	if (inserted) {
		pprof->locations[pprof->locations_count++] = row;
		*id = pprof->locations_count;
	}
	*ret_id = *id;
	return 0;
}

int fp_pprof_sample(struct fp_pprof *pprof, const struct fp_pprof_sample *sample)
{
	struct fp_pprof_sample_row row = { pprof->location_ids_count, sample->locations_count,
					   pprof->values_count, pprof->labels_count,
					   sample->labels_count };
	size_t types = pprof->head.types_count;

	if (FP_ARRAY_ROOM(pprof, samples, 1) ||
	    FP_ARRAY_ROOM(pprof, location_ids, sample->locations_count) ||
	    FP_ARRAY_ROOM(pprof, values, types) ||
	    FP_ARRAY_ROOM(pprof, labels, sample->labels_count))
		return -ENOMEM;
	for (size_t i = 0; i < sample->locations_count; i++)
		pprof->location_ids[pprof->location_ids_count++] = sample->locations[i];
	for (size_t i = 0; i < types; i++)
		pprof->values[pprof->values_count++] = sample->values[i];
	for (size_t i = 0; i < sample->labels_count; i++)
		pprof->labels[pprof->labels_count++] = sample->labels[i];
	pprof->samples[pprof->samples_count++] = row;
	return 0;
}
