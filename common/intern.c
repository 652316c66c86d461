// SPDX-License-Identifier: Apache-2.0
#include "intern.h"

#include <errno.h>
#include <string.h>

#include <xxhash.h>

static int grow_strings(struct fp_intern *intern)
{
	uint32_t capacity = intern->capacity ? intern->capacity * 2 : 16;
	uint32_t *sizes;
	char **strings;

	if (intern->count < intern->capacity)
		return 0;
	if (intern->capacity > UINT32_MAX / 4)
		return -ENOMEM; // ids would come near FP_INTERN_NONE
	strings = realloc(intern->strings, capacity * sizeof(*strings));
	if (!strings)
		return -ENOMEM;
	intern->strings = strings;
	sizes = realloc(intern->sizes, capacity * sizeof(*sizes));
	if (!sizes)
		return -ENOMEM;
	intern->sizes = sizes;
	intern->capacity = capacity;
	return 0;
}

// The index cell of the string, or the free one where it belongs.
static uint32_t *find_cell(const struct fp_intern *intern, const char *string, size_t size)
{
	uint32_t mask = intern->index_capacity - 1;
	uint32_t position = (uint32_t)XXH3_64bits(string, size) & mask;

	for (;; position = (position + 1) & mask) {
		uint32_t *cell = &intern->index[position];

		if (*cell == 0)
			return cell;
		// size == 0: memcmp may not be given the NULL an empty string can come as.
		if (intern->sizes[*cell - 1] == size &&
		    (size == 0 || memcmp(intern->strings[*cell - 1], string, size) == 0))
			return cell;
	}
}

static int grow_index(struct fp_intern *intern)
{
	uint32_t capacity = intern->index_capacity ? intern->index_capacity * 2 : 32;
	uint32_t *index;

	if (intern->count + 1 <= intern->index_capacity / 4 * 3)
		return 0;
	index = calloc(capacity, sizeof(*index));
	if (!index)
		return -ENOMEM;
	free(intern->index);
	intern->index = index;
	intern->index_capacity = capacity;
	for (uint32_t id = 0; id < intern->count; id++)
		*find_cell(intern, intern->strings[id], intern->sizes[id]) = id + 1;
	return 0;
}

int fp_intern_init(struct fp_intern *intern)
{
	uint32_t empty_id;
	int r;

	*intern = (struct fp_intern){ 0 };
	r = fp_intern_add(intern, "", 0, &empty_id);
	if (r < 0)
		fp_intern_free(intern);
	return r;
}

void fp_intern_free(struct fp_intern *intern)
{
	for (uint32_t id = 0; id < intern->count; id++)
		free(intern->strings[id]);
	free(intern->strings);
	free(intern->sizes);
	free(intern->index);
	*intern = (struct fp_intern){ 0 };
}

int fp_intern_add(struct fp_intern *intern, const char *string, size_t size, uint32_t *ret_id)
{
	FP_AUTOFREE char *copy = NULL;
	uint32_t *cell;

	if (size >= UINT32_MAX || grow_strings(intern) < 0 || grow_index(intern) < 0)
		return -ENOMEM;
	cell = find_cell(intern, string, size);
	if (*cell != 0) {
		*ret_id = *cell - 1;
		return 0;
	}
	copy = malloc(size + 1);
	if (!copy)
		return -ENOMEM;
	if (size > 0)
		memcpy(copy, string, size);
	copy[size] = '\0';
	intern->strings[intern->count] = fp_take_ptr(copy);
	intern->sizes[intern->count] = (uint32_t)size;
	intern->bytes += size + 1;
	*ret_id = intern->count++;
	*cell = intern->count;
	return 0;
}

uint32_t fp_intern_find(const struct fp_intern *intern, const char *string, size_t size)
{
	uint32_t *cell;

	if (intern->index_capacity == 0 || size >= UINT32_MAX)
		return FP_INTERN_NONE;
	cell = find_cell(intern, string, size);
	return *cell ? *cell - 1 : FP_INTERN_NONE;
}
