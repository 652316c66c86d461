// SPDX-License-Identifier: Apache-2.0
#include "../cases.h"

#include "common/intern.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static void test_dense_ids(void **state)
{
	struct fp_intern intern;
	char name[32];
	uint32_t id;

	assert_int_equal(fp_intern_init(&intern), 0);
	for (uint32_t round = 0; round < 2; round++) {
		for (uint32_t i = 1; i <= 20000; i++) {
			int size = snprintf(name, sizeof(name), "string %u", i);

			assert_int_equal(fp_intern_add(&intern, name, (size_t)size, &id), 0);
			assert_int_equal(id, i);
			assert_string_equal(fp_intern_get(&intern, id), name);
			assert_int_equal(fp_intern_find(&intern, name, (size_t)size), i);
		}
	}
	assert_int_equal(intern.count, 20001);
	fp_intern_free(&intern);
}

static void test_empty_is_zero(void **state)
{
	struct fp_intern intern;
	uint32_t id = 9;

	assert_int_equal(fp_intern_init(&intern), 0);
	assert_int_equal(fp_intern_add(&intern, NULL, 0, &id), 0);
	assert_int_equal(id, 0);
	assert_int_equal(fp_intern_find(&intern, "", 0), 0);
	assert_string_equal(fp_intern_get(&intern, 0), "");
	fp_intern_free(&intern);
}

static void test_any_bytes(void **state)
{
	struct fp_intern intern;
	uint32_t a, b, c;

	assert_int_equal(fp_intern_init(&intern), 0);
	assert_int_equal(fp_intern_add(&intern, "x\0y", 3, &a), 0);
	assert_int_equal(fp_intern_add(&intern, "x\0z", 3, &b), 0);
	assert_int_equal(fp_intern_add(&intern, "x", 1, &c), 0);
	assert_int_not_equal(a, b);
	assert_int_not_equal(a, c);
	assert_int_equal(intern.sizes[a], 3);
	assert_memory_equal(fp_intern_get(&intern, a), "x\0y", 4);
	fp_intern_free(&intern);
}

static void test_find_absent(void **state)
{
	struct fp_intern intern;

	assert_int_equal(fp_intern_init(&intern), 0);
	assert_int_equal(fp_intern_find(&intern, "absent", 6), FP_INTERN_NONE);
	assert_int_equal(intern.count, 1);
	fp_intern_free(&intern);
	assert_int_equal(fp_intern_find(&intern, "", 0), FP_INTERN_NONE);
}

static void test_pointers_stay(void **state)
{
	struct fp_intern intern;
	const char *first;
	uint32_t id;

	assert_int_equal(fp_intern_init(&intern), 0);
	assert_int_equal(fp_intern_add(&intern, "first", 5, &id), 0);
	first = fp_intern_get(&intern, id);
	for (uint32_t i = 0; i < 1000; i++) {
		uint32_t other;

		assert_int_equal(fp_intern_add(&intern, (char *)&i, sizeof(i), &other), 0);
	}
	assert_ptr_equal(fp_intern_get(&intern, id), first);
	assert_string_equal(first, "first");
	fp_intern_free(&intern);
}

static void test_too_long(void **state)
{
	struct fp_intern intern;
	uint32_t id = 7;

	assert_int_equal(fp_intern_init(&intern), 0);
	// The bytes are never read: the size alone is out of what an entry can note.
	assert_int_equal(fp_intern_add(&intern, "", (size_t)UINT32_MAX, &id), -ENOMEM);
	assert_int_equal(id, 7);
	fp_intern_free(&intern);
}

int main(void)
{
	const struct CMUnitTest cases[] = {
		FP_CASE("ids are dense, in order of first sight, and found again", test_dense_ids),
		FP_CASE("the empty string is id 0", test_empty_is_zero),
		FP_CASE("strings may hold any byte", test_any_bytes),
		FP_CASE("looking for an absent string adds nothing", test_find_absent),
		FP_CASE("pointers stay valid while the table grows", test_pointers_stay),
		FP_CASE("a string of 4 GiB is refused", test_too_long),
	};

	return cmocka_run_group_tests(cases, NULL, NULL);
}
