// SPDX-License-Identifier: Apache-2.0
//
// The 128-bit stack key of bpf/hash.h: what must differ differs, in each lane.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bpf/hash.h"

static struct fp_key key_of(const uint64_t *words, size_t count)
{
	struct fp_hash hash = { 1, 2 };
	struct fp_key key;

	for (size_t i = 0; i < count; i++)
		fp_hash_mix(&hash, words[i]);
	fp_hash_finish(&hash, &key);
	return key;
}

static void order_matters(void **state)
{
	uint64_t forward[] = { 0x401000, 0x402000 }, backward[] = { 0x402000, 0x401000 };
	struct fp_key a = key_of(forward, 2), b = key_of(backward, 2);

	assert_true(a.hi != b.hi);
	assert_true(a.lo != b.lo);
}

static void every_bit_of_a_word_matters(void **state)
{
	uint64_t words[] = { 0x401000, 0x7f1234567890ULL, 0 };
	struct fp_key plain = key_of(words, 3);

	for (int bit = 0; bit < 64; bit++) {
		for (size_t word = 0; word < 3; word++) {
			words[word] ^= 1ULL << bit;
			struct fp_key other = key_of(words, 3);

			words[word] ^= 1ULL << bit;
			assert_true(plain.hi != other.hi);
			assert_true(plain.lo != other.lo);
		}
	}
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

// Stacks that differ as real ones do: few distinct addresses in many orders. A lane of 64
// good bits over 200,000 keys meets itself with probability 1e-9.
static void similar_stacks_do_not_meet_in_a_lane(void **state)
{
	enum { KEYS = 200000, DEPTH = 12 };
	uint64_t *lanes[2] = { calloc(KEYS, 8), calloc(KEYS, 8) };

	assert_non_null(lanes[0]);
	assert_non_null(lanes[1]);
	for (uint32_t i = 0; i < KEYS; i++) {
		uint64_t words[DEPTH];

		for (uint32_t depth = 0; depth < DEPTH; depth++)
			words[depth] = 0x401000 + ((i >> (depth * 2)) & 3) * 0x10;
		if (i >> 24)
			fail();
		struct fp_key key = key_of(words, DEPTH);

		lanes[0][i] = key.hi;
		lanes[1][i] = key.lo;
	}
	for (int lane = 0; lane < 2; lane++) {
		qsort(lanes[lane], KEYS, 8, compare);
		for (uint32_t i = 1; i < KEYS; i++)
			assert_true(lanes[lane][i] != lanes[lane][i - 1]);
		free(lanes[lane]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(order_matters),
		cmocka_unit_test(every_bit_of_a_word_matters),
		cmocka_unit_test(similar_stacks_do_not_meet_in_a_lane),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
