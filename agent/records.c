// SPDX-License-Identifier: Apache-2.0
#include "records.h"

#include <errno.h>
#include <string.h>

typedef struct fp_stack_record *record_pointer;

static struct fp_hashmap empty_map(void)
{
	return FP_HASHMAP_INIT(struct fp_key, record_pointer);
}

void fp_records_init(struct fp_records *records, bool park)
{
	*records = (struct fp_records){ .live = { empty_map(), empty_map() },
					.parked = empty_map(),
					.parked_older = empty_map(),
					.park = park };
}

static void free_records(struct fp_hashmap *map)
{
	const void *key;
	size_t position = 0;
	void *value;

	while (fp_hashmap_next(map, &position, &key, &value))
		free(*(record_pointer *)value);
	fp_hashmap_clear(map);
}

void fp_records_free(struct fp_records *records)
{
	struct fp_hashmap *maps[] = { &records->live[0], &records->live[1], &records->parked,
				      &records->parked_older };

	for (size_t i = 0; i < FP_ARRAY_SIZE(maps); i++) {
		free_records(maps[i]);
		fp_hashmap_free(maps[i]);
	}
}

// Takes over the record; one that is there already gives way.
static int put(struct fp_hashmap *map, record_pointer record)
{
	record_pointer *slot = fp_hashmap_put(map, &record->key, NULL);

	if (!slot) {
		free(record);
		return -ENOMEM;
	}
	free(*slot);
	*slot = record;
	return 0;
}

int fp_records_add(struct fp_records *records, const struct fp_stack_record *record)
{
	size_t size =
	    sizeof(*record) + ((size_t)record->kernel_len + record->user_len) * sizeof(fp_u64);
	record_pointer copy = malloc(size);

	if (!copy)
		return -ENOMEM;
	memcpy(copy, record, size);
	return put(&records->live[record->epoch & 1], copy);
}

static record_pointer get(const struct fp_hashmap *map, const struct fp_key *key)
{
	record_pointer *slot = fp_hashmap_get(map, key);

	return slot ? *slot : NULL;
}

struct fp_stack_record *fp_records_own(struct fp_records *records, uint32_t set,
				       const struct fp_key *key)
{
	record_pointer record = get(&records->live[set & 1], key);

	if (!record)
		record = get(&records->live[(set & 1) ^ 1], key);
	if (!record)
		record = get(&records->parked, key);
	if (record)
		return record;
	record = get(&records->parked_older, key);
	if (record) { // used again: moves to the younger generation
		fp_hashmap_remove(&records->parked_older, key);
		if (put(&records->parked, record))
			return NULL;
	}
	return record;
}

const struct fp_stack_record *fp_records_find(struct fp_records *records, uint32_t set,
					      const struct fp_key *key)
{
	return fp_records_own(records, set, key);
}

static int park(struct fp_records *records, struct fp_hashmap *live)
{
	const void *key;
	size_t position = 0;
	void *value;
	int error = 0;

	while (fp_hashmap_next(live, &position, &key, &value)) {
		if (records->parked.count >= FP_RECORDS_PARKED) {
			struct fp_hashmap oldest = records->parked_older;

			free_records(&oldest);
			records->parked_older = records->parked;
			records->parked = oldest;
		}
		if (put(&records->parked, *(record_pointer *)value))
			error = -ENOMEM;
	}
	fp_hashmap_clear(live);
	return error;
}

int fp_records_end_epoch(struct fp_records *records, uint32_t set)
{
	struct fp_hashmap *live = &records->live[set & 1];

	if (records->park)
		return park(records, live);
	free_records(live);
	return 0;
}
