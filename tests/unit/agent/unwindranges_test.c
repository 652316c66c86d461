// SPDX-License-Identifier: Apache-2.0
//
// From mapped code to ranges: what an address finds through the parts, and whether a walk that went
// by them is believed.
#include "unwindload_bench.h"

#include "agent/unwindranges.h"

#define PAGE 0x10000u

struct table { // by number of the build; pages 0: none
	struct fp_unwind_located at;
};
static const struct table *tables;

static bool locate(uint32_t build, struct fp_unwind_located *ret, void *context)
{
	const struct table *all = context;

	*ret = all[build].at;
	return ret->pages > 0;
}

static struct fp_unwind_range ranges[FP_UNWIND_RANGES_MAX];

static uint32_t make(struct fp_unwind_area *areas, uint32_t count)
{
	int made = fp_unwind_ranges_make(areas, count, locate, (void *)tables, ranges);

	assert_in_range(made, 0, FP_UNWIND_RANGES_MAX);
	return (uint32_t)made;
}

static const struct fp_unwind_program program = { 1234, 5, 77 };

// The range that a program finds for an address: part, then range.
static const struct fp_unwind_range *find(uint32_t count, uint64_t address)
{
	static struct fp_unwind_ranges entry;
	uint32_t part = 0, index = 0;

	fp_unwind_ranges_part(&program, ranges, count, 0, &entry);
	assert_int_equal(entry.parts, fp_unwind_ranges_parts(count));
	while (part + 1 < FP_UNWIND_PARTS && entry.part_start[part + 1] <= address)
		part++;
	fp_unwind_ranges_part(&program, ranges, count, part, &entry);
	assert_int_equal(entry.start_boottime_ns, program.start_boottime_ns);
	assert_int_equal(entry.exec_id, program.exec_id);
	assert_int_equal(entry.version, program.version);
	while (index + 1 < FP_UNWIND_PART_RANGES && entry.ranges[index + 1].start <= address)
		index++;
	if (address - entry.ranges[index].start >= entry.ranges[index].size)
		return NULL;
	return &entry.ranges[index];
}

static uint64_t place_of(uint32_t count, uint64_t address)
{
	const struct fp_unwind_range *range = find(count, address);

	return range ? address - range->start + range->at : UINT64_MAX;
}

static void test_places(void **state)
{
	static const struct table all[] = {
		{ { .page = 7, .pages = 3, .file_page = 2, .tag = 9 } }
	};
	struct fp_unwind_area area = {
		.start = 0x7f0000028000, .end = 0x7f0000058000, .offset = 0x28000, .build = 0
	};
	uint32_t count;

	tables = all;
	count = make(&area, 1);
	assert_int_equal(count, 1);
	assert_true(area.by_table);
	assert_int_equal(ranges[0].tag, 9);
	// Offset 0x28000 lies 0x8000 into the file's page 2, which is the space's page 7.
	assert_int_equal(place_of(count, 0x7f0000028000), 7 * PAGE + 0x8000);
	// The table ends with the file's page 4.
	assert_int_equal(place_of(count, 0x7f000004ffff), 9 * PAGE + 0xffff);
	assert_null(find(count, 0x7f0000050000));
	assert_null(find(count, 0x7f0000027fff));
}

static void test_mapped_before_the_table(void **state)
{
	static const struct table all[] = {
		{ { .page = 1, .pages = 1, .file_page = 5, .tag = 3 } }
	};
	struct fp_unwind_area area = { .start = 0x1000, .end = 0x1000 + 8 * PAGE, .build = 0 };
	uint32_t count;

	tables = all;
	count = make(&area, 1);
	assert_int_equal(count, 1);
	assert_int_equal(ranges[0].start, 0x1000 + 5 * PAGE);
	assert_int_equal(ranges[0].size, PAGE);
	assert_int_equal(ranges[0].at, PAGE);
}

static void test_without_tables(void **state)
{
	static const struct table all[] = { { { .pages = 0 } },
					    { { .page = 4, .pages = 1, .tag = 1 } } };
	struct fp_unwind_area areas[] = {
		{ .start = 0x10000, .end = 0x20000, .build = 0 },
		{ .start = 0x20000, .end = 0x30000, .build = FP_UNWIND_NO_BUILD },
		{ .start = 0x30000, .end = 0x40000, .build = 1 },
		{ .start = 0x50000, .end = 0x60000, .offset = 40 * PAGE, .build = 1 },
	};
	uint32_t count;

	tables = all;
	areas[0].by_table = true; // of a version before
	count = make(areas, 4);
	assert_int_equal(count, 1);
	assert_false(areas[0].by_table);
	assert_false(areas[1].by_table);
	assert_true(areas[2].by_table);
	assert_false(areas[3].by_table); // beyond the table
	assert_int_equal(make(areas, 0), 0);
	assert_int_equal(fp_unwind_ranges_parts(0), 1); // an entry that says that there is nothing
	assert_null(find(0, 0x30000));
}

static void test_neighbours(void **state)
{
	static const struct table all[] = { { { .page = 4, .pages = 4, .tag = 1 } },
					    { { .page = 8, .pages = 4, .tag = 2 } } };
	struct fp_unwind_area areas[] = {
		{ .start = 0x10000, .end = 0x20000, .build = 0 },
		{ .start = 0x20000, .end = 0x30000, .offset = 0x10000, .build = 0 },
		{ .start = 0x30000,
		  .end = 0x40000,
		  .offset = 0x30000,
		  .build = 0 }, // a gap in the file
		{ .start = 0x40000, .end = 0x50000, .offset = 0, .build = 1 },
	};

	tables = all;
	assert_int_equal(make(areas, 4), 3);
	assert_int_equal(ranges[0].size, 0x20000);
	assert_int_equal(place_of(3, 0x2fff8), 4 * PAGE + 0x1fff8);
	assert_int_equal(place_of(3, 0x30008), 7 * PAGE + 8);
	assert_int_equal(find(3, 0x40008)->tag, 2);
}

#define MANY (FP_UNWIND_RANGES_MAX + 200)

// All parts are full, and of more areas than fit the hottest are taken.
static void test_many(void **state)
{
	static struct table all[MANY];
	static struct fp_unwind_area areas[MANY];
	uint32_t count;

	tables = all;
	for (uint32_t i = 0; i < MANY; i++) {
		all[i].at = (struct fp_unwind_located){
			.page = i, .pages = 1, .tag = 1, .heat = i < 200 ? 0 : 1
		};
		areas[i] = (struct fp_unwind_area){ .start = (uint64_t)(i + 1) << 20,
						    .end = ((uint64_t)(i + 1) << 20) + 0x1000,
						    .build = i };
	}
	count = make(areas, MANY);
	assert_int_equal(count, FP_UNWIND_RANGES_MAX);
	assert_int_equal(fp_unwind_ranges_parts(count), FP_UNWIND_PARTS);
	for (uint32_t i = 0; i < MANY; i++) {
		assert_int_equal(areas[i].by_table, i >= 200);
		if (i < 200)
			assert_null(find(count, areas[i].start));
		else
			assert_int_equal(place_of(count, areas[i].start + 0xfff), i * PAGE + 0xfff);
		assert_null(find(count, areas[i].end));
	}
	for (uint32_t some = 1; some < 70; some++)
		assert_int_equal(fp_unwind_ranges_parts(some), (some + 31) / 32);
}

// ---- what is believed ----

static struct fp_file files[] = {
	{ .kind = FP_FILE_REGULAR, .build_id = "one", .build_id_len = 20, .name = "/lib/one" },
	{ .kind = FP_FILE_REGULAR, .build_id = "two", .build_id_len = 20, .name = "/lib/two" },
	{ .kind = FP_FILE_ANON, .name = "" },
	{ .kind = FP_FILE_VDSO, .name = "[vdso]" },
};
static struct fp_mapping mappings[4];
static struct fp_process_view view = { .mappings = mappings, .files = files };
static struct fp_unwind_area areas[3];
static struct {
	struct fp_stack_record record;
	uint64_t frames[8];
} stack;

static struct fp_mapping mapping(uint64_t start, uint64_t page_offset, uint32_t file)
{
	return (struct fp_mapping){
		.start = start, .end = start + PAGE, .page_offset = page_offset, .file = file
	};
}

static struct fp_unwind_area area(uint64_t start, uint64_t offset, uint32_t file, bool by_table)
{
	return (struct fp_unwind_area){ .start = start,
					.end = start + PAGE,
					.offset = offset,
					.file = fp_unwind_file_hash(&files[file]),
					.by_table = by_table };
}

// Two kernel frames; then, outwards: one, the vDSO, code by frame pointer, two, one.
static int begin_belief(void **state)
{
	const uint64_t frames[] = { 0xffffffff81000000, 0xffffffff81000010, 0x100010, 0x300020,
				    0x400000,		0x200030,	    0x110000 };

	mappings[0] = mapping(0x100000, 0x5000, 0);
	mappings[1] = mapping(0x200000, 0, 1);
	mappings[2] = mapping(0x300000, 0x300000, 3); // as some kernels have it
	mappings[3] = mapping(0x3f0000, 0, 2);
	view.count = 4;
	areas[0] = area(0x100000, 0x5000, 0, true);
	areas[1] = area(0x200000, 0, 1, true);
	areas[2] = area(0x300000, 0, 3, true);
	stack.record = (struct fp_stack_record){ .kernel_len = 2, .user_len = 5, .by_table = 4 };
	memcpy(stack.frames, frames, sizeof(frames));
	return 0;
}

static bool stale;

static uint32_t believed(void)
{
	return fp_unwind_believed(areas, 3, &view, &stack.record, &stale);
}

static void test_believed(void **state)
{
	assert_int_equal(believed(), 5);
	assert_false(stale);
}

static void test_other_file(void **state)
{
	mappings[1].file = 0;
	assert_int_equal(believed(), 4); // where it stood is true, what it was led to is not
	assert_true(stale);
	mappings[0].file = 2; // a compiler's memory
	assert_int_equal(believed(), 1);
	view.count = 0;
	assert_int_equal(believed(), 1);
}

static void test_other_place(void **state)
{
	mappings[0].page_offset += 0x1000;
	assert_int_equal(believed(), 1);
}

// A mapping that was cut or has grown shows the same code at the address.
static void test_same_place_otherwise(void **state)
{
	mappings[0].start += 8;
	mappings[0].page_offset += 8;
	mappings[1].end -= 0x1000;
	assert_int_equal(believed(), 5);
}

static void test_by_frame_pointer(void **state)
{
	areas[1].by_table = false;
	mappings[1].file = 0;
	assert_int_equal(believed(), 5); // no table had a say there
	mappings[3].file = 1;		 // nor in what the areas do not have
	assert_int_equal(believed(), 5);
}

static void test_last_frame(void **state)
{
	areas[0].by_table = false;
	stack.record.user_len = 4;
	mappings[1].file = 2;
	assert_int_equal(believed(), 4);
	assert_true(stale); // its table has said how the walk ends
}

static void test_hashes(void **state)
{
	struct fp_file file = files[0];

	assert_int_equal(fp_unwind_file_hash(&file), fp_unwind_file_hash(&files[0]));
	file.name = (char *)"/lib/other";
	assert_int_not_equal(fp_unwind_file_hash(&file), fp_unwind_file_hash(&files[0]));
	file = files[0];
	file.build_id[19] ^= 1;
	assert_int_not_equal(fp_unwind_file_hash(&file), fp_unwind_file_hash(&files[0]));
	file.build_id_len = 0;
	file.inode = 1;
	struct fp_file other = file;
	other.inode = 2;
	assert_int_not_equal(fp_unwind_file_hash(&file), fp_unwind_file_hash(&other));
}

int main(void)
{
#define BELIEF_CASE(sentence, function)                                                            \
	{                                                                                          \
		.name = sentence, .test_func = function, .setup_func = begin_belief                \
	}
	const struct CMUnitTest cases[] = {
		FP_CASE("an address finds its place in the space", test_places),
		FP_CASE("what lies before a table's first page has none",
			test_mapped_before_the_table),
		FP_CASE("code without a table has no range", test_without_tables),
		FP_CASE("neighbours that continue one another are one", test_neighbours),
		FP_CASE("of more than fit the hottest are taken", test_many),
		BELIEF_CASE("what was mapped as the ranges said is believed", test_believed),
		BELIEF_CASE("another file ends it behind the frame", test_other_file),
		BELIEF_CASE("so does another part of the file", test_other_place),
		BELIEF_CASE("the same code in a smaller mapping does not",
			    test_same_place_otherwise),
		BELIEF_CASE("nor what no table covered", test_by_frame_pointer),
		BELIEF_CASE("what other code's table said of the end is not believed",
			    test_last_frame),
		FP_CASE("files are told apart", test_hashes),
	};

	return cmocka_run_group_tests(cases, NULL, NULL);
}
