// SPDX-License-Identifier: Apache-2.0
//
// hashmap: fixed-size binary keys to fixed-size binary values, open addressing with
// linear probing and backward-shift deletion, hashed with XXH3. Keys are compared byte by
// byte: zero the padding of struct keys. Pointers to values stay valid until the next
// insertion or removal.
// Ownership: the map owns its slots and copies keys and values in. Threads: none shared.
#pragma once

#include "cleanup.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fp_hashmap {
	uint8_t *slots; // capacity × (1 byte used flag … key … value), layout private
	size_t count;
	size_t capacity; // a power of two, or 0
	size_t key_size;
	size_t value_size;
};

#define FP_HASHMAP_INIT(key_type, value_type)                                                      \
	((struct fp_hashmap){ .key_size = sizeof(key_type), .value_size = sizeof(value_type) })

void fp_hashmap_free(struct fp_hashmap *map);
void fp_hashmap_clear(struct fp_hashmap *map); // forgets all entries, keeps the memory
void *fp_hashmap_get(const struct fp_hashmap *map, const void *key); // NULL when absent
// The value of key, inserted as zero bytes when absent (*ret_inserted tells). NULL: -ENOMEM.
void *fp_hashmap_put(struct fp_hashmap *map, const void *key, bool *ret_inserted);
bool fp_hashmap_remove(struct fp_hashmap *map, const void *key); // true when it was there
// Iteration: start with *position = 0; false at the end. Do not insert or remove meanwhile.
bool fp_hashmap_next(const struct fp_hashmap *map, size_t *position, const void **ret_key,
		     void **ret_value);
size_t fp_hashmap_bytes(const struct fp_hashmap *map); // memory held, in bytes
