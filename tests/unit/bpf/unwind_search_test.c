// SPDX-License-Identifier: Apache-2.0
//
// How bpf/unwind.h finds ranges, pages and rows, and that nothing that is in maps or memory leads
// out of them.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../lots.h"
#include "unwindsteps.h"

static void rows_are_found_in_pages_of_every_size(void **state)
{
	static uint16_t places[FP_UNWIND_CHUNK_ROWS];

	for (uint32_t count = 1; count <= 3000; count += count < 300 ? 1 : 97) {
		uint32_t row = 0, place = 0, first = random_below(FP_UNWIND_CHUNK_ROWS - count);

		for (uint32_t i = 0; i < FP_UNWIND_CHUNK_ROWS; i++)
			model.space.chunks[0]->rows[i] = random_below(2) ? 0xffff : 0;
		for (uint32_t i = 0; i < count; i++) {
			places[i] = (uint16_t)place;
			model.space.chunks[0]->rows[first + i] = place | i << 16;
			place += 1 + random_below(65536 / count - 1);
		}
		for (place = 0; place < 65536; place++) {
			if (row + 1 < count && places[row + 1] == place)
				row++;
			assert_int_equal(
			    fp_unwind_row_of(model.space.chunks[0], first, count, place) >> 16,
			    row);
		}
	}
}

static void a_chunk_may_be_one_page(void **state)
{
	for (uint32_t i = 0; i < FP_UNWIND_CHUNK_ROWS; i++)
		model.space.chunks[0]->rows[i] = 4 * i | i << 16;
	for (uint32_t place = 0; place < 65536; place++)
		assert_int_equal(
		    fp_unwind_row_of(model.space.chunks[0], 0, FP_UNWIND_CHUNK_ROWS, place) >> 16,
		    place / 4);
}

// The range that a walk has after a look at an address is the one that it lies in, or none; and it
// is the same whatever the walk had before.
static void check_address(const struct fp_unwind_range *ranges, uint32_t count, uint64_t address,
			  struct fp_walk *other)
{
	struct fp_walk fresh = model_walk(CODE, STACK), *walks[] = { &fresh, other };
	const struct fp_unwind_range *right = NULL;

	fp_walk_begin(&fresh, frames, 0, &(struct fp_hash){ 1, 2 });
	for (uint32_t i = 0; i < count; i++)
		if (address - ranges[i].start < ranges[i].size)
			right = &ranges[i];
	for (int i = 0; i < 2; i++) {
		fp_unwind_find(walks[i], address);
		assert_true(address - walks[i]->range_start < walks[i]->range_size);
		assert_int_equal(walks[i]->range_tag, right ? right->tag : 0);
		if (right) {
			assert_true(walks[i]->range_start == right->start);
			assert_int_equal(walks[i]->range_size, right->size);
			assert_int_equal(walks[i]->range_at, right->at);
		} else if (count > 0 && walks[i]->range_size > 1) { // no range lies in it
			for (uint32_t r = 0; r < count; r++)
				assert_false(ranges[r].start - walks[i]->range_start <
					     walks[i]->range_size);
		}
	}
}

static void ranges_are_found_in_processes_of_every_size(void **state)
{
	static struct fp_unwind_range ranges[FP_UNWIND_PARTS * FP_UNWIND_PART_RANGES];
	static const uint32_t counts[] = { 1, 2, 31, 32, 33, 63, 64, 65, 500, 1023, 1024 };

	for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
		struct fp_walk other = model_walk(CODE, STACK);
		uint64_t start = 0x1000;

		fp_walk_begin(&other, frames, 0, &(struct fp_hash){ 1, 2 });
		for (uint32_t i = 0; i < counts[c]; i++) {
			start += 0x1000ULL * random_below(3);
			ranges[i] = (struct fp_unwind_range){ .start = start,
							      .size = 0x1000 * (1 + i % 4),
							      .at = i,
							      .tag = (uint16_t)(1 + i % 60000) };
			start += ranges[i].size;
		}
		model_ranges(ranges, counts[c]);
		check_address(ranges, counts[c], 0, &other);
		check_address(ranges, counts[c], 0x00007fffffffffffULL, &other);
		for (uint32_t i = 0; i < counts[c]; i++) {
			uint64_t first = ranges[i].start, behind = first + ranges[i].size;

			check_address(ranges, counts[c], first - 1, &other);
			check_address(ranges, counts[c], first, &other);
			check_address(ranges, counts[c], behind - 1, &other);
			check_address(ranges, counts[c], behind, &other);
			check_address(ranges, counts[c], ranges[random_below(counts[c])].start + 7,
				      &other);
		}
		end(state);
		begin(state);
	}
}

// Of a mapping of three pages, from `offset` of its file on, and a table of some of the file's.
static void check_file(uint64_t offset, const struct fp_unwind_file *file)
{
	const uint64_t start = 0x7f0000000000ULL, size = 0x30000;
	uint64_t spaces = 0;

	for (uint64_t at = 0; at < size; at += 0x1000) {
		struct fp_walk one = model_walk(CODE, STACK);
		uint64_t in_file = offset + at - file->offset;
		bool covered = file->tag && in_file < file->size;

		fp_unwind_take_file(&one, file, start, start + size, offset, start + at);
		assert_true(start + at - one.range_start < one.range_size);
		assert_true(one.range_start >= start);
		assert_true(one.range_start + one.range_size <= start + size);
		assert_int_equal(one.range_tag, covered ? file->tag : 0);
		if (covered)
			assert_int_equal(start + at - one.range_start + one.range_at,
					 file->at + in_file);
		spaces += start + at == one.range_start; // each is found from anywhere in it
		for (uint64_t i = 0; i < one.range_size; i += 0x1000) {
			uint64_t other = one.range_start - start + i;

			assert_int_equal(covered,
					 file->tag && offset + other - file->offset < file->size);
		}
	}
	assert_true(spaces >= 1 && spaces <= 3);
}

static void a_file_covers_as_much_of_a_mapping_as_its_table_has(void **state)
{
	struct fp_unwind_file file = { .at = 0x50000 };

	for (uint64_t offset = 0; offset <= 0x60000; offset += 0x8000) {
		for (file.offset = 0; file.offset <= 0x60000; file.offset += 0x10000) {
			for (file.size = 0; file.size <= 0x40000; file.size += 0x10000) {
				file.tag = 9;
				check_file(offset, &file);
				file.tag = 0;
				check_file(offset, &file);
			}
		}
	}
}

static void parts_of_different_versions_are_not_mixed(void **state)
{
	static struct fp_unwind_range ranges[40];
	struct fp_walk fresh = model_walk(CODE, STACK);

	for (uint32_t i = 0; i < 40; i++)
		ranges[i] = (struct fp_unwind_range){ 0x10000 * (i + 1ULL), 0x1000, 0, TAG, { 0 } };
	model_ranges(ranges, 40);
	model.parts[1]->version++;
	fp_walk_begin(&fresh, frames, 0, &(struct fp_hash){ 1, 2 });
	assert_null(fp_unwind_find(&fresh, ranges[35].start));
	assert_int_equal(fresh.version, 0);
	fresh.range_size = 0;
	assert_non_null(&fresh);
	fp_unwind_find(&fresh, ranges[3].start); // that part is what it says
	assert_int_equal(fresh.range_tag, TAG);
	assert_int_equal(fresh.version, 1);
	fresh.range_size = 0;
	model.parts[0]->version = model.parts[1]->version = 2; // in the middle of a walk
	assert_null(fp_unwind_find(&fresh, ranges[3].start));
	assert_int_equal(fresh.range_tag, 0);
	assert_int_equal(fresh.version, 1);
}

#define CODE_BOUND (1u << 24)

static void fill_randomly(void *memory, size_t size)
{
	for (size_t i = 0; i < size; i++)
		((uint8_t *)memory)[i] = (uint8_t)random_below(256);
}

// Rules that lead on, in maps of nonsense: most walks go many steps.
static void make_hostile_maps(void)
{
	for (uint32_t i = 0; i < MODEL_CHUNKS; i++) {
		fill_randomly(model.space.chunks[i], sizeof(*model.space.chunks[i]));
		for (uint32_t row = 0; row < FP_UNWIND_CHUNK_ROWS; row++)
			if (row % 8) // of rules that there are
				model.space.chunks[i]->rows[row] &= ~(FP_UNWIND_RULES << 16);
	}
	for (uint32_t i = 0; i < FP_UNWIND_PAGES; i++) {
		fill_randomly(&model.space.pages[i], sizeof(model.space.pages[i]));
		if (random_below(16))
			model.space.pages[i] =
			    FP_UNWIND_PAGE(random_below(MODEL_CHUNKS + 1), random_below(65536),
					   random_below(65536), TAG);
	}
	fill_randomly(model.space.rules, FP_UNWIND_RULES * sizeof(*model.space.rules));
	for (uint32_t i = 0; i < FP_UNWIND_RULES; i++) {
		model.space.rules[i].cfa = random_below(2)
					       ? (uint8_t)FP_UNWIND_RSP
					       : (uint8_t)random_below(FP_UNWIND_CFA_COUNT + 1);
		model.space.rules[i].offset = (int32_t)random_below(16) * 8 - 16;
		model.space.rules[i].reg = (uint8_t)random_below(20);
		if (random_below(8))
			model.space.rules[i].return_reg = FP_UNWIND_RETURN_AT_CFA;
	}
}

static void make_hostile_process(void)
{
	struct fp_unwind_range ranges[64];
	uint32_t count = random_below(4) ? 64 : random_below(64) + 1;
	uint64_t start = 0;

	for (uint32_t i = 0; i < count; i++) {
		start += random_below(CODE_BOUND / 32);
		ranges[i] = (struct fp_unwind_range){
			start, CODE_BOUND / 32, random_below(1u << 31), TAG, { 0 }
		};
	}
	model_ranges(ranges, count);
	if (random_below(8) == 0)
		fill_randomly(model.parts[0]->ranges, sizeof(model.parts[0]->ranges));
	if (random_below(8) == 0)
		fill_randomly(model.parts[0]->part_start, sizeof(model.parts[0]->part_start));
	for (size_t word = 0; word < STACK_WORDS; word++)
		put((uint32_t)word,
		    random_below(2) ? AT(random_below(STACK_WORDS)) : random_below(CODE_BOUND));
}

static void nothing_leads_out_of_the_maps(void **state)
{
	uint32_t total = 0, ended[FP_WALK_END_COUNT] = { 0 };

	make_hostile_maps();
	for (uint32_t run = 0; run < 20000; run++) {
		if (run % 100 == 0)
			make_hostile_process();
		walk = model_walk(random_below(CODE_BOUND), AT(random_below(STACK_WORDS)));
		for (int i = 0; i < FP_REGISTERS; i++)
			if (i != FP_RSP)
				walk.registers[i] = random_below(2) ? AT(random_below(STACK_WORDS))
								    : random_below(CODE_BOUND);
		total += model_take_steps(&walk, frames, FP_MAX_USER_FRAMES - 1);
		assert_true(walk.end < FP_WALK_END_COUNT);
		assert_true(walk.cannot < FP_UNWIND_CANNOT_COUNT);
		ended[walk.end]++;
	}
	print_message("%u steps; ends:", total);
	for (int i = 0; i < FP_WALK_END_COUNT; i++)
		print_message(" %u", ended[i]);
	print_message("\n");
	assert_true(total > 10000); // it is about walks that go on
	assert_true(ended[FP_WALK_END_OUTERMOST] > 0 && ended[FP_WALK_END_CANNOT] > 0 &&
		    ended[FP_WALK_END_FAULT] > 0 && ended[FP_WALK_END_ASTRAY] > 0 &&
		    ended[FP_WALK_END_NO_TABLE] > 0);
}

#define CASE(function) cmocka_unit_test_setup_teardown(function, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(rows_are_found_in_pages_of_every_size),
		CASE(a_chunk_may_be_one_page),
		CASE(ranges_are_found_in_processes_of_every_size),
		CASE(a_file_covers_as_much_of_a_mapping_as_its_table_has),
		CASE(parts_of_different_versions_are_not_mixed),
		CASE(nothing_leads_out_of_the_maps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
