// SPDX-License-Identifier: Apache-2.0
#include "perfmap_file.h"

#include "agent/perfmap_index.h"
#include "proto/profile.h"

struct map_case {
	const char *sentence;
	const char *text;
	uint64_t bad_lines;
	struct {
		uint64_t address;
		const char *name; // NULL: none
	} looked_up[8];
};

static const struct map_case map_cases[] = {
	{ "a function covers its bytes and no others",
	  "1000 10 first\n",
	  0,
	  { { 0xfff, NULL }, { 0x1000, "first" }, { 0x100f, "first" }, { 0x1010, NULL } } },
	{ "numbers may begin with 0x and be in capitals",
	  "0x1000 0x10 a\n0XAB00 0XF b\n",
	  0,
	  { { 0x1001, "a" }, { 0xab0e, "b" }, { 0xab0f, NULL } } },
	{ "a name reaches to the end of the line, with all blanks in it",
	  "1000 10 LazyCompile:*run /srv/a b.js:1:2\n",
	  0,
	  { { 0x1000, "LazyCompile:*run /srv/a b.js:1:2" } } },
	{ "a carriage return belongs to the end of the line",
	  "1000 10 a\r\n",
	  0,
	  { { 0x1000, "a" } } },
	{ "tabs and several blanks separate", "1000\t10   a b\n", 0, { { 0x1000, "a b" } } },
	{ "any bytes are a name",
	  "1000 10 \xff\xfe;\x1b[31m\x01\n",
	  0,
	  { { 0x1000, "\xff\xfe;\x1b[31m\x01" } } },
	{ "of two lines for a range the later counts",
	  "1000 10 old\n1000 10 new\n",
	  0,
	  { { 0x1000, "new" }, { 0x100f, "new" } } },
	{ "a later line takes the middle of an earlier one",
	  "1000 100 old\n1040 10 new\n",
	  0,
	  { { 0x103f, "old" }, { 0x1040, "new" }, { 0x104f, "new" }, { 0x1050, "old" } } },
	{ "a later line takes the end of one and the beginning of the next",
	  "1000 100 a\n1100 100 b\n1080 100 c\n",
	  0,
	  { { 0x107f, "a" },
	    { 0x1080, "c" },
	    { 0x117f, "c" },
	    { 0x1180, "b" },
	    { 0x1200, NULL } } },
	{ "a later line takes several earlier ones whole",
	  "1000 10 a\n1010 10 b\n1020 10 c\n0ff0 100 all\n",
	  0,
	  { { 0xff0, "all" },
	    { 0x1000, "all" },
	    { 0x1018, "all" },
	    { 0x1028, "all" },
	    { 0x10ef, "all" },
	    { 0x10f0, NULL } } },
	{ "a smaller function that comes earlier does not shine through",
	  "1010 4 inner\n1000 100 outer\n",
	  0,
	  { { 0x1010, "outer" } } },
	{ "lines that are none are skipped and counted",
	  "123\nxxxx b n\n1234 yyy n\n1234 10\n1234 10 \n 1234 10 n\n-1 10 n\n\n1000 10 good\n",
	  7,
	  { { 0x1000, "good" }, { 0x1234, NULL } } },
	{ "numbers that do not fit, wrap or are nothing are skipped",
	  "11111111111111111 10 n\nfffffffffffffff0 11 n\n1000 0 n\n1000 100000000 n\n",
	  4,
	  { { 0x1000, NULL }, { UINT64_MAX, NULL } } },
	{ "the last address but one can be named",
	  "fffffffffffffff0 f n\n",
	  0,
	  { { UINT64_MAX - 1, "n" }, { UINT64_MAX, NULL } } },
	{ "a last line without its end is not there yet",
	  "1000 10 a\n2000 10 b",
	  0,
	  { { 0x1000, "a" }, { 0x2000, NULL } } },
	{ "nothing", "", 0, { { 0, NULL } } },
};

static void every_line_counts_as_the_format_says(void **state)
{
	for (size_t i = 0; i < FP_ARRAY_SIZE(map_cases); i++) {
		const struct map_case *c = &map_cases[i];
		AUTOFIXTURE fixture;

		print_message("  %s\n", c->sentence);
		open_fixture(&fixture);
		append(&fixture, c->text);
		assert_int_equal(fp_perf_map_refresh(fixture.map, WHOLE), 0);
		for (size_t j = 0; j < FP_ARRAY_SIZE(c->looked_up); j++)
			if (c->looked_up[j].address || c->looked_up[j].name)
				assert_name(&fixture, c->looked_up[j].address,
					    c->looked_up[j].name);
		assert_int_equal(fp_perf_map_stats(fixture.map).bad_lines, c->bad_lines);
	}
}

static void a_file_written_byte_by_byte_reads_as_one_written_at_once(void **state)
{
	static const char text[] = "1000 100 old one\nnonsense\n0x1040 0x10 new\r\n2000 8 z\n";
	AUTOFIXTURE fixture;

	open_fixture(&fixture);
	for (const char *byte = text; *byte; byte++) {
		const char one[] = { *byte, 0 };

		append(&fixture, one);
		assert_int_equal(fp_perf_map_refresh(fixture.map, WHOLE), 0);
	}
	assert_name(&fixture, 0x1000, "old one");
	assert_name(&fixture, 0x1040, "new");
	assert_name(&fixture, 0x1050, "old one");
	assert_name(&fixture, 0x2000, "z");
	assert_int_equal(fp_perf_map_stats(fixture.map).lines, 4);
	assert_int_equal(fp_perf_map_stats(fixture.map).bad_lines, 1);
}

static void a_large_file_is_read_in_steps(void **state)
{
	AUTOFIXTURE fixture;
	int steps = 1;

	open_fixture(&fixture);
	append(&fixture, "1000 10 a\n2000 10 b\n3000 10 c\n");
	while (fp_perf_map_refresh(fixture.map, 7) == -EAGAIN)
		steps++;
	assert_int_equal(steps, 5); // 30 bytes
	assert_name(&fixture, 0x1000, "a");
	assert_name(&fixture, 0x2000, "b");
	assert_name(&fixture, 0x3000, "c");
}

struct change_case {
	const char *sentence;
	const char *before, *after;
	uint64_t address;
	const char *name;
};

static const struct change_case change_cases[] = {
	{ "a shorter file", "1000 10 a\n2000 10 b\n", "1000 10 x\n", 0x1000, "x" },
	{ "a shorter file no longer names the rest", "1000 10 a\n2000 10 b\n", "1000 10 a\n",
	  0x2000, NULL },
	{ "a longer file with another beginning", "1000 10 a\n", "2000 10 b\n3000 10 c\n", 0x1000,
	  NULL },
	{ "a longer file with another beginning names what is in it", "1000 10 a\n",
	  "2000 10 b\n3000 10 c\n", 0x3000, "c" },
	{ "an emptied file", "1000 10 a\n", "", 0x1000, NULL },
};

static void a_file_written_anew_is_read_anew(void **state)
{
	for (size_t i = 0; i < FP_ARRAY_SIZE(change_cases); i++) {
		const struct change_case *c = &change_cases[i];
		AUTOFIXTURE fixture;

		print_message("  %s\n", c->sentence);
		open_fixture(&fixture);
		append(&fixture, c->before);
		assert_int_equal(fp_perf_map_refresh(fixture.map, WHOLE), 0);
		rewrite(&fixture, c->after);
		assert_int_equal(fp_perf_map_refresh(fixture.map, WHOLE), 0);
		assert_name(&fixture, c->address, c->name);
	}
}

// The ends of the file are as before, so only the line itself can tell.
static void a_line_that_has_changed_under_its_range_names_nothing(void **state)
{
	static const char filler[] =
	    "aaaa0000 10 a line that stands at both ends of the file, so that it "
	    "looks as if nothing had changed\n";
	FP_AUTOBUF struct fp_buf name = { 0 };
	AUTOFIXTURE fixture;

	open_fixture(&fixture);
	append(&fixture, filler);
	append(&fixture, "1000 10 before\n");
	append(&fixture, filler);
	assert_int_equal(fp_perf_map_refresh(fixture.map, WHOLE), 0);
	assert_name(&fixture, 0x1000, "before");
	rewrite(&fixture, filler);
	append(&fixture, "2000 10 after!\n");
	append(&fixture, filler);
	assert_int_equal(fp_perf_map_refresh(fixture.map, WHOLE), 0);
	assert_int_equal(fp_perf_map_name(fixture.map, 0x1000, &name), -ESTALE);
	assert_int_equal(fp_perf_map_refresh(fixture.map, WHOLE), 0);
	assert_name(&fixture, 0x1000, NULL);
	assert_name(&fixture, 0x2000, "after!");
}

static void names_are_cut_at_the_longest_string(void **state)
{
	FP_AUTOBUF struct fp_buf text = { 0 }, name = { 0 };
	AUTOFIXTURE fixture;

	open_fixture(&fixture);
	fp_buf_str(&text, "1000 10 ");
	for (int i = 0; i < 3 * FP_STRING_MAX; i++)
		fp_buf_byte(&text, (uint8_t)('a' + i % 26));
	fp_buf_str(&text, "\n2000 10 next\n");
	append(&fixture, (const char *)text.data);
	assert_int_equal(fp_perf_map_refresh(fixture.map, 1000), -EAGAIN);
	while (fp_perf_map_refresh(fixture.map, 1000) == -EAGAIN)
		;
	assert_int_equal(fp_perf_map_name(fixture.map, 0x1008, &name), 0);
	assert_int_equal(name.len, FP_STRING_MAX);
	assert_memory_equal(name.data, text.data + strlen("1000 10 "), name.len);
	assert_name(&fixture, 0x2000, "next");
}

static void a_huge_file_is_refused_without_being_read(void **state)
{
	FP_AUTOBUF struct fp_buf name = { 0 };
	AUTOFIXTURE fixture;

	open_fixture(&fixture);
	append(&fixture, "1000 10 a\n");
	assert_int_equal(fp_perf_map_refresh(fixture.map, WHOLE), 0);
	assert_int_equal(ftruncate(fixture.fd, (off_t)1 << 40), 0);
	assert_int_equal(fp_perf_map_refresh(fixture.map, WHOLE), -EFBIG);
	assert_int_equal(fp_perf_map_bytes(fixture.map), 0);
	assert_int_equal(fp_perf_map_name(fixture.map, 0x1000, &name), -ENOENT);
	assert_int_equal(fp_perf_map_refresh(fixture.map, WHOLE), -EFBIG);
	rewrite(&fixture, "1000 10 back\n"); // and taken when it is small again
	assert_int_equal(fp_perf_map_refresh(fixture.map, WHOLE), 0);
	assert_name(&fixture, 0x1000, "back");
}

static void what_is_no_regular_file_is_refused(void **state)
{
	struct fp_perf_map *map = NULL;
	int ends[2];

	assert_int_equal(pipe(ends), 0);
	assert_int_equal(fp_perf_map_new(ends[0], &map), -EINVAL);
	assert_null(map);
	close(ends[0]);
	close(ends[1]);
	assert_int_equal(fp_perf_map_new(-1, &map), -EBADF);
}

static void what_is_forgotten_is_read_again(void **state)
{
	AUTOFIXTURE fixture;

	open_fixture(&fixture);
	append(&fixture, "1000 10 a\n");
	assert_int_equal(fp_perf_map_refresh(fixture.map, WHOLE), 0);
	assert_true(fp_perf_map_bytes(fixture.map) > 0);
	fp_perf_map_forget(fixture.map);
	assert_int_equal(fp_perf_map_bytes(fixture.map), 0);
	assert_name(&fixture, 0x1000, NULL);
	assert_int_equal(fp_perf_map_refresh(fixture.map, WHOLE), 0);
	assert_name(&fixture, 0x1000, "a");
}

#define MODEL_SIZE 4096

static uint32_t next_random(uint32_t *seed)
{
	*seed = *seed * 1664525u + 1013904223u;
	return *seed >> 8;
}

// Against a model that is one array: address → last line that covered it.
static void any_order_of_overlapping_lines_leaves_the_last_on_top(void **state)
{
	static uint32_t model[MODEL_SIZE];

	for (uint32_t round = 0; round < 200; round++) {
		struct fp_perf_index index = { 0 };
		uint32_t seed = round, lines = 1 + next_random(&seed) % 300;

		memset(model, 0, sizeof(model));
		for (uint32_t line = 1; line <= lines; line++) {
			uint32_t start = next_random(&seed) % MODEL_SIZE;
			uint32_t longest = round % 2 ? 40 : MODEL_SIZE - start;
			uint32_t size = 1 + next_random(&seed) % longest;
			struct fp_perf_range range = { start, size, line };

			assert_int_equal(fp_perf_index_add(&index, &range), 0);
			for (uint32_t a = start; a < start + size && a < MODEL_SIZE; a++)
				model[a] = line;
		}
		for (uint32_t a = 0; a < MODEL_SIZE; a++) {
			uint32_t line = 0;

			assert_int_equal(fp_perf_index_find(&index, a, &line), model[a] != 0);
			assert_int_equal(line, model[a]);
		}
		assert_true(index.ranges <= 2 * lines);
		fp_perf_index_free(&index);
	}
}

static void there_are_never_more_ranges_than_the_bound(void **state)
{
	struct fp_perf_index index = { 0 };
	struct fp_perf_range range = { .size = 8 };
	int error = 0;

	for (size_t i = 0; !error && i <= FP_PERF_RANGES_MAX; i++) {
		range.start = 16 * i;
		error = fp_perf_index_add(&index, &range);
	}
	assert_int_equal(error, -EFBIG);
	assert_int_equal(index.ranges, FP_PERF_RANGES_MAX);
	fp_perf_index_free(&index);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_line_counts_as_the_format_says),
		cmocka_unit_test(a_file_written_byte_by_byte_reads_as_one_written_at_once),
		cmocka_unit_test(a_large_file_is_read_in_steps),
		cmocka_unit_test(a_file_written_anew_is_read_anew),
		cmocka_unit_test(a_line_that_has_changed_under_its_range_names_nothing),
		cmocka_unit_test(names_are_cut_at_the_longest_string),
		cmocka_unit_test(a_huge_file_is_refused_without_being_read),
		cmocka_unit_test(what_is_no_regular_file_is_refused),
		cmocka_unit_test(what_is_forgotten_is_read_again),
		cmocka_unit_test(any_order_of_overlapping_lines_leaves_the_last_on_top),
		cmocka_unit_test(there_are_never_more_ranges_than_the_bound),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
