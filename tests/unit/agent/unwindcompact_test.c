// SPDX-License-Identifier: Apache-2.0
// Holes that tables have left are closed when there are more chunks than there may be.
#include "unwindpool_made.h"

// Every other of many tables goes, and with the holes closed the others fit half the chunks.
static void test_compaction(void **state)
{
	static struct made made[256];
	uint32_t count = 0, before;

	while (count < 256) {
		made[count].bytes = many_rows(700, 4, 3, (int32_t)count, &made[count].size);
		if (add(&made[count]) < 0)
			break;
		count++;
	}
	assert_true(count > 64 && count < 256 && stats_now().chunks == CHUNKS);
	for (uint32_t i = 0; i < count; i += 2) {
		take_out(&made[i]);
		forget(&made[i]);
	}
	fp_unwind_pool_grace(pool);
	assert_int_equal(stats_now().chunks, CHUNKS); // each has some left
	before = stats_now().blocks;
	fp_unwind_pool_set_chunks(pool, CHUNKS / 2);
	assert_true(fp_unwind_pool_compact(pool));
	for (uint32_t i = 1; i < count; i += 2)
		check_all(&made[i]); // at every moment
	assert_true(fp_unwind_pool_waits(pool));
	fp_unwind_pool_grace(pool);
	assert_int_equal(stats_now().chunks, CHUNKS / 2);
	assert_int_equal(stats_now().blocks, before);
	for (uint32_t i = 1; i < count; i += 2)
		check_all(&made[i]);
	fp_unwind_pool_set_chunks(pool, CHUNKS / 4); // and these do not fit so few
	assert_false(fp_unwind_pool_compact(pool));
	fp_unwind_pool_grace(pool);
	for (uint32_t i = 1; i < count; i += 2)
		check_all(&made[i]);
	for (uint32_t i = 1; i < count; i += 2) {
		take_out(&made[i]);
		forget(&made[i]);
	}
	forget(&made[count]);
	fp_unwind_pool_grace(pool);
	assert_int_equal(stats_now().chunks, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_compaction, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
