// SPDX-License-Identifier: Apache-2.0
#include "hashmap.h"

#include <errno.h>
#include <string.h>

#include <xxhash.h>

// A slot is [used flag, padded to 8][key, padded to 8][value, padded to 8], so that keys
// and values of 8-byte members can be read in place.
static size_t align8(size_t size)
{
	return (size + 7) & ~(size_t)7;
}

static size_t slot_size(const struct fp_hashmap *map)
{
	return 8 + align8(map->key_size) + align8(map->value_size);
}

static uint8_t *slot_at(const struct fp_hashmap *map, size_t index)
{
	return map->slots + index * slot_size(map);
}

static uint8_t *slot_key(uint8_t *slot)
{
	return slot + 8;
}

static uint8_t *slot_value(const struct fp_hashmap *map, uint8_t *slot)
{
	return slot + 8 + align8(map->key_size);
}

static size_t home_of(const struct fp_hashmap *map, const void *key)
{
	return (size_t)XXH3_64bits(key, map->key_size) & (map->capacity - 1);
}

// The slot that holds key, or the free one where it belongs. capacity must not be 0.
static uint8_t *find_slot(const struct fp_hashmap *map, const void *key)
{
	size_t index = home_of(map, key);

	for (;;) {
		uint8_t *slot = slot_at(map, index);

		if (!slot[0] || memcmp(slot_key(slot), key, map->key_size) == 0)
			return slot;
		index = (index + 1) & (map->capacity - 1);
	}
}

static int grow(struct fp_hashmap *map)
{
	struct fp_hashmap larger = *map;

	larger.capacity = map->capacity ? map->capacity * 2 : 16;
	larger.slots = calloc(larger.capacity, slot_size(map));
	if (!larger.slots)
		return -ENOMEM;
	for (size_t i = 0; i < map->capacity; i++) {
		uint8_t *slot = slot_at(map, i);

		if (slot[0])
			memcpy(find_slot(&larger, slot_key(slot)), slot, slot_size(map));
	}
	free(map->slots);
	*map = larger;
	return 0;
}

void fp_hashmap_free(struct fp_hashmap *map)
{
	free(map->slots);
	map->slots = NULL;
	map->count = 0;
	map->capacity = 0;
}

void fp_hashmap_clear(struct fp_hashmap *map)
{
	if (map->count > 0)
		memset(map->slots, 0, map->capacity * slot_size(map));
	map->count = 0;
}

void *fp_hashmap_get(const struct fp_hashmap *map, const void *key)
{
	uint8_t *slot;

	if (map->count == 0)
		return NULL;
	slot = find_slot(map, key);
	return slot[0] ? slot_value(map, slot) : NULL;
}

// The key's slot, claimed with a zero value when it was free.
static uint8_t *claim_slot(struct fp_hashmap *map, const void *key)
{
	uint8_t *slot = find_slot(map, key);

	if (!slot[0]) {
		slot[0] = 1;
		memcpy(slot_key(slot), key, map->key_size);
		memset(slot_value(map, slot), 0, map->value_size);
		map->count++;
	}
	return slot;
}

void *fp_hashmap_put(struct fp_hashmap *map, const void *key, bool *ret_inserted)
{
	void *value = fp_hashmap_get(map, key);
	bool inserted = !value;

	if (inserted) {
		// At most three quarters full: linear probing degrades quickly beyond.
		if (map->count + 1 > map->capacity / 4 * 3 && grow(map) < 0)
			return NULL;
		value = slot_value(map, claim_slot(map, key));
	}
	if (ret_inserted)
		*ret_inserted = inserted;
	return value;
}

// Backward-shift deletion: entries behind the hole move up as far as their home allows,
// so no tombstones are left to slow down later searches.
static void close_hole(struct fp_hashmap *map, size_t hole)
{
	size_t mask = map->capacity - 1;

	for (size_t next = (hole + 1) & mask;; next = (next + 1) & mask) {
		uint8_t *slot = slot_at(map, next);
		size_t home;

		if (!slot[0])
			break;
		home = home_of(map, slot_key(slot));
		if (((next - home) & mask) < ((next - hole) & mask))
			continue; // its home lies behind the hole
		memcpy(slot_at(map, hole), slot, slot_size(map));
		hole = next;
	}
	memset(slot_at(map, hole), 0, slot_size(map));
}

bool fp_hashmap_remove(struct fp_hashmap *map, const void *key)
{
	uint8_t *slot;

	if (map->count == 0)
		return false;
	slot = find_slot(map, key);
	if (!slot[0])
		return false;
	close_hole(map, (size_t)(slot - map->slots) / slot_size(map));
	map->count--;
	return true;
}

bool fp_hashmap_next(const struct fp_hashmap *map, size_t *position, const void **ret_key,
		     void **ret_value)
{
	for (; *position < map->capacity; (*position)++) {
		uint8_t *slot = slot_at(map, *position);

		if (!slot[0])
			continue;
		if (ret_key)
			*ret_key = slot_key(slot);
		if (ret_value)
			*ret_value = slot_value(map, slot);
		(*position)++;
		return true;
	}
	return false;
}

size_t fp_hashmap_bytes(const struct fp_hashmap *map)
{
	return map->capacity * slot_size(map);
}
