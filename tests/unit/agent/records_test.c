// SPDX-License-Identifier: Apache-2.0
//
// Stack records between their arrival and their count.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/records.h"

static struct fp_stack_record record_of(uint64_t key, uint8_t epoch, uint32_t tgid)
{
	return (struct fp_stack_record){ .key = { key, ~key }, .epoch = epoch, .tgid = tgid };
}

static uint32_t found(struct fp_records *records, uint32_t set, uint64_t key)
{
	struct fp_key k = { key, ~key };
	const struct fp_stack_record *record = fp_records_find(records, set, &k);

	return record ? record->tgid : 0;
}

static void records_live_as_long_as_their_set(void **state)
{
	struct fp_records records;
	struct fp_stack_record first = record_of(1, 0, 10), next = record_of(2, 1, 20);

	fp_records_init(&records, false);
	assert_int_equal(fp_records_add(&records, &first), 0);
	assert_int_equal(fp_records_add(&records, &next), 0);
	assert_int_equal(found(&records, 0, 1), 10);
	assert_int_equal(fp_records_end_epoch(&records, 0), 0);
	assert_int_equal(found(&records, 1, 1), 0);
	assert_int_equal(found(&records, 1, 2), 20);
	fp_records_free(&records);
}

static void the_same_key_again_replaces_and_does_not_leak(void **state)
{
	struct fp_records records;

	fp_records_init(&records, false);
	for (uint32_t tgid = 1; tgid <= 3; tgid++) {
		struct fp_stack_record record = record_of(1, 0, tgid);

		assert_int_equal(fp_records_add(&records, &record), 0);
	}
	assert_int_equal(found(&records, 0, 1), 3);
	fp_records_free(&records);
}

static void frames_are_kept_whole(void **state)
{
	struct {
		struct fp_stack_record record;
		fp_u64 frames[3];
	} sent = { .record = record_of(1, 0, 1), .frames = { 11, 22, 33 } };
	struct fp_key key = sent.record.key;
	struct fp_records records;

	sent.record.kernel_len = 1;
	sent.record.user_len = 2;
	fp_records_init(&records, false);
	assert_int_equal(fp_records_add(&records, &sent.record), 0);
	assert_memory_equal(fp_records_find(&records, 0, &key)->frames, sent.frames,
			    sizeof(sent.frames));
	fp_records_free(&records);
}

static void parked_records_outlive_their_epoch_while_used(void **state)
{
	struct fp_records records;

	fp_records_init(&records, true);
	for (uint64_t key = 1; key <= 3 * FP_RECORDS_PARKED; key++) {
		struct fp_stack_record record = record_of(key, key & 1, (uint32_t)key);

		assert_int_equal(fp_records_add(&records, &record), 0);
		if (key % 256 == 0) { // epochs end, and key 1 is asked for all the time
			assert_int_equal(fp_records_end_epoch(&records, 0), 0);
			assert_int_equal(fp_records_end_epoch(&records, 1), 0);
			assert_int_equal(found(&records, 0, 1), 1);
		}
	}
	assert_int_equal(found(&records, 0, 2), 0); // never asked for again: gone
	assert_true(records.parked.count + records.parked_older.count <= 2 * FP_RECORDS_PARKED);
	fp_records_free(&records);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(records_live_as_long_as_their_set),
		cmocka_unit_test(the_same_key_again_replaces_and_does_not_leak),
		cmocka_unit_test(frames_are_kept_whole),
		cmocka_unit_test(parked_records_outlive_their_epoch_while_used),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
