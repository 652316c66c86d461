// SPDX-License-Identifier: Apache-2.0
#include "../cases.h"

#include "common/hashmap.h"

#include <string.h>

enum { KEYS = 700, STEPS = 200000 };

struct key {
	uint32_t number;
	uint8_t tail[3]; // an odd size, so that keys and values need padding
};

static struct key key_of(uint32_t number)
{
	struct key key;

	memset(&key, 0, sizeof(key));
	key.number = number;
	memset(key.tail, (int)number, sizeof(key.tail));
	return key;
}

static uint32_t next_random(uint32_t *seed)
{
	*seed = *seed * 1664525u + 1013904223u;
	return *seed >> 8;
}

static void compare_with_model(const struct fp_hashmap *map, const uint64_t *model)
{
	bool seen[KEYS] = { false };
	size_t position = 0, entries = 0, expected = 0;
	const void *key;
	void *value;

	while (fp_hashmap_next(map, &position, &key, &value)) {
		const struct key *k = key;
		uint64_t v;

		memcpy(&v, value, sizeof(v));
		assert_true(k->number < KEYS);
		assert_false(seen[k->number]);
		seen[k->number] = true;
		assert_int_equal(v, model[k->number]);
		entries++;
	}
	for (uint32_t i = 0; i < KEYS; i++) {
		struct key k = key_of(i);

		expected += model[i] != 0;
		assert_int_equal(fp_hashmap_get(map, &k) != NULL, model[i] != 0);
	}
	assert_int_equal(entries, expected);
	assert_int_equal(map->count, expected);
}

// Random insertions and removals beside a plain array that says what must be there.
static void test_against_model(void **state)
{
	struct fp_hashmap map = FP_HASHMAP_INIT(struct key, uint64_t);
	uint64_t model[KEYS] = { 0 };
	uint32_t seed = 1;

	for (uint32_t step = 1; step <= STEPS; step++) {
		// The live share swings between few and many, so that runs of slots form.
		bool remove = next_random(&seed) % 100 < (step / 20000 % 2 ? 60 : 35);
		uint32_t number = next_random(&seed) % KEYS;
		struct key key = key_of(number);
		bool inserted;
		uint64_t *value;

		if (remove) {
			assert_int_equal(fp_hashmap_remove(&map, &key), model[number] != 0);
			model[number] = 0;
		} else {
			value = fp_hashmap_put(&map, &key, &inserted);
			assert_non_null(value);
			assert_int_equal(inserted, model[number] == 0);
			assert_int_equal(*value, model[number]);
			*value = model[number] = step;
		}
		if (step % 10000 == 0)
			compare_with_model(&map, model);
	}
	compare_with_model(&map, model);
	fp_hashmap_free(&map);
}

static void test_empty(void **state)
{
	struct fp_hashmap map = FP_HASHMAP_INIT(uint32_t, uint32_t);
	size_t position = 0;
	uint32_t key = 1;

	assert_null(fp_hashmap_get(&map, &key));
	assert_false(fp_hashmap_remove(&map, &key));
	assert_false(fp_hashmap_next(&map, &position, NULL, NULL));
	assert_int_equal(fp_hashmap_bytes(&map), 0);
	fp_hashmap_clear(&map);
	fp_hashmap_free(&map);
}

static void test_clear(void **state)
{
	struct fp_hashmap map = FP_HASHMAP_INIT(uint32_t, uint32_t);
	size_t bytes;

	for (uint32_t i = 0; i < 1000; i++)
		*(uint32_t *)fp_hashmap_put(&map, &i, NULL) = i + 1;
	bytes = fp_hashmap_bytes(&map);
	assert_true(bytes > 1000 * 2 * sizeof(uint32_t));
	fp_hashmap_clear(&map);
	assert_int_equal(map.count, 0);
	assert_int_equal(fp_hashmap_bytes(&map), bytes);
	for (uint32_t i = 0; i < 1000; i++)
		assert_null(fp_hashmap_get(&map, &i));
	// A value is zero again when its key comes back.
	for (uint32_t i = 0; i < 1000; i++)
		assert_int_equal(*(uint32_t *)fp_hashmap_put(&map, &i, NULL), 0);
	fp_hashmap_free(&map);
}

static void test_value_zeroed_after_removal(void **state)
{
	struct fp_hashmap map = FP_HASHMAP_INIT(uint32_t, uint64_t);

	for (uint32_t i = 0; i < 12; i++)
		*(uint64_t *)fp_hashmap_put(&map, &i, NULL) = UINT64_MAX;
	for (uint32_t i = 0; i < 12; i++)
		assert_true(fp_hashmap_remove(&map, &i));
	for (uint32_t i = 0; i < 12; i++)
		assert_int_equal(*(uint64_t *)fp_hashmap_put(&map, &i, NULL), 0);
	fp_hashmap_free(&map);
}

int main(void)
{
	const struct CMUnitTest cases[] = {
		FP_CASE("random insertions and removals agree with a plain array",
			test_against_model),
		FP_CASE("an empty map answers without memory", test_empty),
		FP_CASE("clearing forgets the entries and keeps the memory", test_clear),
		FP_CASE("a key that comes back has a zero value", test_value_zeroed_after_removal),
	};

	return cmocka_run_group_tests(cases, NULL, NULL);
}
