// SPDX-License-Identifier: Apache-2.0
//
// The mapping set against a model that is too simple to be wrong: for every page, the list of
// all that was ever mapped there; the last one not younger than the time asked for holds.
#include "../cases.h"
#include "../lots.h"

#include "agent/mapset.h"

#include <string.h>

#define PAGES	64u
#define STEPS	300u
#define PAGE	0x1000u
#define NO_FILE UINT32_MAX

static struct fp_mapset_pool pool;
static struct fp_mapset *set;

static int begin(void **state)
{
	memset(&pool, 0, sizeof(pool));
	fp_files_init(&pool.files);
	set = fp_mapset_new(&pool, 1);
	return 0;
}

static int end(void **state)
{
	fp_mapset_unref(&pool, set);
	assert_int_equal(pool.mappings, 0);
	assert_int_equal(pool.bytes, 0);
	assert_int_equal(fp_files_used(&pool.files), 0);
	fp_files_free(&pool.files);
	return 0;
}

static uint32_t file_number(uint32_t number, uint8_t build_id)
{
	char name[16];
	struct fp_file file = { .kind = FP_FILE_REGULAR, .name = name };
	uint32_t slot;

	snprintf(name, sizeof(name), "/lib/%u.so", number);
	if (build_id) {
		file.build_id_len = 20;
		memset(file.build_id, build_id, 20);
	}
	assert_int_equal(fp_files_add(&pool.files, &file, &slot), 0);
	return slot;
}

static struct fp_mapping mapping(uint32_t page, uint32_t pages, uint32_t number, uint64_t time)
{
	return (struct fp_mapping){ .start = (uint64_t)page * PAGE,
				    .end = (uint64_t)(page + pages) * PAGE,
				    .page_offset = (uint64_t)(1000 * number) * PAGE,
				    .file = file_number(number, 1),
				    .from_ns = time };
}

static void insert(uint32_t page, uint32_t pages, uint32_t number, uint64_t time)
{
	struct fp_mapping new = mapping(page, pages, number, time);

	assert_int_equal(fp_mapset_insert(&pool, set, &new), 0);
}

// What is at the address then: the number of the file, and where in it.
static uint32_t lookup(uint64_t address, uint64_t time, uint64_t *ret_offset)
{
	static struct fp_mapset_scratch scratch;
	const struct fp_mapping *mappings;
	uint32_t count, number = NO_FILE;

	assert_int_equal(fp_mapset_at(set, time, &scratch, &mappings, &count), 0);
	for (uint32_t i = 0; i < count; i++) {
		if (i > 0)
			assert_true(mappings[i - 1].end <= mappings[i].start);
		if (address < mappings[i].start || address >= mappings[i].end)
			continue;
		*ret_offset = address - mappings[i].start + mappings[i].page_offset;
		assert_int_equal(
		    sscanf(pool.files.files[mappings[i].file].name, "/lib/%u.so", &number), 1);
	}
	free(scratch.mappings);
	memset(&scratch, 0, sizeof(scratch));
	return number;
}

struct model {
	uint32_t number[PAGES][STEPS + 1]; // after step i
	uint32_t first_page[PAGES][STEPS + 1];
};
static struct model model;

static void compare_with_model(uint32_t first_step, uint32_t last_step)
{
	for (uint32_t step = first_step; step <= last_step; step++) {
		for (uint32_t page = 0; page < PAGES; page++) {
			uint64_t offset = 0;
			uint32_t number = lookup((uint64_t)page * PAGE + 7, 10 * step + 5, &offset);

			assert_int_equal(number, model.number[page][step]);
			if (number != NO_FILE)
				assert_int_equal(
				    offset, (1000 * number + page - model.first_page[page][step]) *
						    (uint64_t)PAGE +
						7);
		}
	}
}

static void random_run(uint64_t seed, bool clone)
{
	random_state = seed;
	for (uint32_t page = 0; page < PAGES; page++)
		model.number[page][0] = NO_FILE;
	for (uint32_t step = 1; step <= STEPS; step++) {
		uint32_t page = random_below(PAGES), pages = 1 + random_below(PAGES - page);
		uint32_t number = random_below(6);

		for (uint32_t i = 0; i < PAGES; i++) {
			bool covered = i >= page && i < page + pages;

			model.number[i][step] = covered ? number : model.number[i][step - 1];
			model.first_page[i][step] = covered ? page : model.first_page[i][step - 1];
		}
		insert(page, pages, number, 10 * step);
		if (clone && step == STEPS / 2) {
			struct fp_mapset *copy = fp_mapset_clone(&pool, set);

			assert_non_null(copy);
			fp_mapset_unref(&pool, set);
			set = copy;
		}
	}
}

static void test_random(void **state)
{
	for (uint64_t seed = 1; seed <= 6; seed++) {
		random_run(seed * 0x9e3779b97f4a7c15u, seed % 2);
		compare_with_model(0, STEPS);
		fp_mapset_prune(&pool, set, 10 * 200);
		compare_with_model(200, STEPS);
		end(state);
		begin(state);
	}
}

static void test_same_mapping_again(void **state)
{
	uint64_t offset;

	insert(1, 4, 3, 10);
	insert(1, 4, 3, 20);
	assert_int_equal(set->live_count, 1);
	assert_int_equal(set->old_count, 0);
	assert_int_equal(lookup(PAGE, 15, &offset), 3);
}

static void reconcile(struct fp_mapping *reading, uint32_t count, uint64_t since, uint64_t now)
{
	assert_int_equal(fp_mapset_reconcile(&pool, set, reading, count, since, now), 0);
}

static void test_reading(void **state)
{
	struct fp_mapping reading[3];
	uint64_t offset;

	insert(1, 1, 1, 10);  // still there
	insert(5, 2, 2, 20);  // replaced by 4 without an event
	insert(20, 1, 5, 25); // unmapped
	reading[0] = mapping(1, 1, 1, 0);
	reading[1] = mapping(5, 4, 4, 0);
	reading[2] = mapping(30, 1, 3, 0);
	reconcile(reading, 3, 50, 100);
	assert_true(set->complete);
	assert_int_equal(lookup(1 * PAGE, 9, &offset), NO_FILE);
	assert_int_equal(lookup(1 * PAGE, 10, &offset), 1);
	assert_int_equal(lookup(1 * PAGE, 200, &offset), 1);
	assert_int_equal(lookup(5 * PAGE, 49, &offset), 2);
	assert_int_equal(lookup(5 * PAGE, 50, &offset), NO_FILE); // one or the other
	assert_int_equal(lookup(5 * PAGE, 99, &offset), NO_FILE);
	assert_int_equal(lookup(5 * PAGE, 100, &offset), 4);
	assert_int_equal(lookup(8 * PAGE, 99, &offset), NO_FILE);
	assert_int_equal(lookup(8 * PAGE, 100, &offset), 4);
	assert_int_equal(lookup(20 * PAGE, 99, &offset), 5);
	assert_int_equal(lookup(20 * PAGE, 100, &offset), NO_FILE);
	assert_int_equal(lookup(30 * PAGE, 60, &offset), 3);
	fp_mapset_prune(&pool, set, 1000);
	assert_int_equal(set->old_count, 0);
	assert_int_equal(pool.mappings, 3);
}

// Events from before the reading that are handed in after it.
static void test_events_behind_a_reading(void **state)
{
	struct fp_mapping reading[3];
	uint64_t offset;

	insert(1, 1, 1, 10); // became 3, and then 2, before the reading
	reading[0] = mapping(1, 1, 2, 0);
	reading[1] = mapping(5, 1, 2, 0); // was 4 before it became 2
	reading[2] = mapping(9, 1, 5, 0); // mapped shortly before the reading
	reconcile(reading, 3, 0, 100);
	assert_int_equal(lookup(1 * PAGE, 99, &offset), 1);
	insert(1, 1, 3, 20);
	insert(1, 1, 2, 30);
	insert(5, 1, 4, 40);
	insert(5, 1, 2, 50);
	insert(9, 1, 5, 60);
	assert_int_equal(lookup(1 * PAGE, 19, &offset), 1);
	assert_int_equal(lookup(1 * PAGE, 29, &offset), 3);
	assert_int_equal(lookup(1 * PAGE, 30, &offset), 2);
	assert_int_equal(lookup(5 * PAGE, 39, &offset), NO_FILE); // not what came later
	assert_int_equal(lookup(5 * PAGE, 49, &offset), 4);
	assert_int_equal(lookup(5 * PAGE, 50, &offset), 2);
	assert_int_equal(lookup(9 * PAGE, 59, &offset), NO_FILE);
	assert_int_equal(lookup(9 * PAGE, 60, &offset), 5);
	insert(9, 1, 1, 110); // after the reading
	assert_int_equal(lookup(9 * PAGE, 109, &offset), 5);
	assert_int_equal(lookup(9 * PAGE, 110, &offset), 1);
}

// The kernel joins neighbours of the same file and parts what was one: nothing new.
static void test_reading_of_joined_and_parted(void **state)
{
	struct fp_mapping reading[2];
	uint64_t offset;

	insert(1, 1, 1, 10);
	insert(2, 1, 1, 20);
	insert(5, 3, 2, 30);
	reading[0] = mapping(1, 2, 1, 0);
	reading[1] = mapping(6, 1, 2, 0);
	reading[1].page_offset = set->live[set->live_count - 1].page_offset + PAGE;
	set->live[1].page_offset = set->live[0].page_offset + PAGE;
	reading[0].page_offset = set->live[0].page_offset;
	reconcile(reading, 2, 50, 100);
	for (uint64_t time = 45; time < 120; time += 10) {
		assert_int_equal(lookup(1 * PAGE, time, &offset), 1);
		assert_int_equal(lookup(2 * PAGE, time, &offset), 1);
		assert_int_equal(lookup(6 * PAGE, time, &offset), 2);
	}
	assert_int_equal(lookup(7 * PAGE, 99, &offset), 2);
	assert_int_equal(lookup(7 * PAGE, 100, &offset), NO_FILE);
}

static void test_reading_without_build_ids(void **state)
{
	struct fp_mapping reading[1];
	uint64_t offset;

	insert(1, 1, 1, 10);
	reading[0] = mapping(1, 1, 1, 0);
	fp_files_unref(&pool.files, reading[0].file);
	reading[0].file = file_number(1, 0);
	reconcile(reading, 1, 50, 100);
	assert_int_equal(lookup(PAGE, 10, &offset), 1); // the same mapping, known since 10
	assert_int_equal(pool.files.files[set->live[0].file].build_id_len, 20);
	assert_int_equal(set->old_count, 0);
}

static void test_event_after_reading_brings_build_id(void **state)
{
	struct fp_mapping reading[1];

	reading[0] = mapping(1, 1, 1, 0);
	fp_files_unref(&pool.files, reading[0].file);
	reading[0].file = file_number(1, 0);
	reconcile(reading, 1, 0, 100);
	insert(1, 1, 1, 90); // the event of what has been read already
	assert_int_equal(set->live_count, 1);
	assert_int_equal(pool.files.files[set->live[0].file].build_id_len, 20);
	assert_int_equal(fp_files_used(&pool.files), 1);
}

static void test_past_is_bounded(void **state)
{
	uint64_t offset;

	for (uint32_t i = 1; i <= 50000; i++)
		insert(1, 1, i % 7, 10 * i);
	assert_true(set->old_count <= 8192);
	assert_true(pool.mappings <= 8193);
	assert_int_equal(lookup(PAGE, 10 * 49990 + 5, &offset), 49990 % 7);
	assert_int_equal(lookup(PAGE, 15, &offset), NO_FILE);
}

#define CASE(sentence, function)                                                                   \
	{                                                                                          \
		.name = sentence, .test_func = function, .setup_func = begin, .teardown_func = end \
	}

int main(void)
{
	const struct CMUnitTest cases[] = {
		CASE("any sequence of mappings can be asked as of any time", test_random),
		CASE("the same mapping told twice is one", test_same_mapping_again),
		CASE("a reading keeps what is known and ends what has gone", test_reading),
		CASE("events of before a reading that come after it tell what was when",
		     test_events_behind_a_reading),
		CASE("neighbours that were joined, and what was parted, are nothing new",
		     test_reading_of_joined_and_parted),
		CASE("a reading without build-IDs does not lose those that events brought",
		     test_reading_without_build_ids),
		CASE("an event adds the build-ID that a reading could not",
		     test_event_after_reading_brings_build_id),
		CASE("what was mapped before is bounded", test_past_is_bounded),
	};

	return cmocka_run_group_tests(cases, NULL, NULL);
}
