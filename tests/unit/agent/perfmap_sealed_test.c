// SPDX-License-Identifier: Apache-2.0
// Perf maps whose program has ended, and files that the next one writes to.
#include "perfmap_file.h"

#include "common/clock.h"

#define BEFORE (1000 * FP_NS_PER_S + 5)
#define ENDED  (2000 * FP_NS_PER_S + 5)
#define AFTER  (2000 * FP_NS_PER_S + 6)

static void set_time(struct fixture *fixture, uint64_t time_ns)
{
	struct timespec time = { .tv_sec = (time_t)(time_ns / FP_NS_PER_S),
				 .tv_nsec = (long)(time_ns % FP_NS_PER_S) };

	assert_int_equal(futimens(fixture->fd, (const struct timespec[]){ time, time }), 0);
}

struct seal_case {
	const char *sentence;
	const char *read;    // while the program ran
	const char *written; // since, behind that or anew
	bool anew;
	uint64_t written_ns, ended_ns;
	int error;
	uint64_t address;
	const char *name;
};

static const struct seal_case seal_cases[] = {
	{ "what was read", "1000 10 a\n", "", false, BEFORE, ENDED, 0, 0x1000, "a" },
	{ "what was written since", "1000 10 a\n", "2000 10 b\n", false, ENDED, ENDED, 0, 0x2000,
	  "b" },
	{ "all of it, where nothing had been read", "", "2000 10 b\n", false, BEFORE, ENDED, 0,
	  0x2000, "b" },
	{ "what the program itself wrote anew", "1000 10 a\n2000 10 b\n", "1000 10 x\n", true,
	  BEFORE, ENDED, 0, 0x1000, "x" },
	{ "nothing of a file that another wrote anew", "1000 10 a\n", "1000 10 x\n2000 10 y\n",
	  true, AFTER, ENDED, -ESTALE, 0x1000, NULL },
	{ "nothing of a shorter one", "1000 10 a\n2000 10 b\n", "1000 10 x\n", true, AFTER, ENDED,
	  -ESTALE, 0x1000, NULL },
	{ "nothing where another wrote on, perhaps over what was there", "1000 10 a\n",
	  "2000 10 y\n", false, AFTER, ENDED, -ESTALE, 0x1000, NULL },
	{ "nothing of what another wrote where nothing had been read", "", "2000 10 y\n", false,
	  AFTER, ENDED, -ESTALE, 0x2000, NULL },
	{ "what was written since, at an end that nobody knows", "1000 10 a\n", "2000 10 b\n",
	  false, AFTER, 0, 0, 0x2000, "b" },
	{ "nothing of a file written anew, at an end that nobody knows", "1000 10 a\n",
	  "1000 10 x\n2000 10 y\n", true, BEFORE, 0, -ESTALE, 0x1000, NULL },
	{ "nothing of an unread one, at an end that nobody knows", "", "2000 10 y\n", false, BEFORE,
	  0, -ESTALE, 0x2000, NULL },
	{ "what was written since, where files know seconds", "1000 10 a\n", "2000 10 b\n", false,
	  ENDED / FP_NS_PER_S *FP_NS_PER_S, ENDED, 0, 0x2000, "b" },
	{ "nothing of a file written anew, where files know seconds", "1000 10 a\n",
	  "1000 10 x\n2000 10 y\n", true, ENDED / FP_NS_PER_S *FP_NS_PER_S, ENDED, -ESTALE, 0x1000,
	  NULL },
};

static void a_sealed_map_names_what_its_program_wrote_and_nothing_else(void **state)
{
	for (size_t i = 0; i < FP_ARRAY_SIZE(seal_cases); i++) {
		const struct seal_case *c = &seal_cases[i];
		AUTOFIXTURE fixture;

		print_message("  %s\n", c->sentence);
		open_fixture(&fixture);
		append(&fixture, c->read);
		assert_int_equal(fp_perf_map_refresh(fixture.map, WHOLE), 0);
		(c->anew ? rewrite : append)(&fixture, c->written);
		set_time(&fixture, c->written_ns);
		assert_int_equal(fp_perf_map_seal(fixture.map, c->ended_ns, WHOLE), c->error);
		assert_name(&fixture, c->address, c->name);
		// Another program begins, and none of its text is ever seen.
		rewrite(&fixture, "1000 10 wrong\n2000 10 wrong\n3000 10 wrong\n");
		assert_int_equal(fp_perf_map_refresh(fixture.map, WHOLE), c->error);
		assert_int_equal(fp_perf_map_seal(fixture.map, 0, WHOLE), c->error);
		assert_name(&fixture, c->address, c->name);
		assert_name(&fixture, 0x3000, NULL);
		assert_int_equal(fp_perf_map_bytes(fixture.map) > 0, c->error == 0);
		// What is kept needs no file.
		assert_int_equal(fcntl(fixture.copy, F_GETFD), c->error ? 0 : -1);
		fp_perf_map_forget(fixture.map);
		assert_name(&fixture, c->address, NULL);
		assert_int_equal(fp_perf_map_refresh(fixture.map, WHOLE), -ESTALE);
		assert_int_equal(fp_perf_map_bytes(fixture.map), 0);
	}
}

static void a_large_map_is_sealed_in_steps(void **state)
{
	AUTOFIXTURE fixture;
	int steps = 1;

	open_fixture(&fixture);
	append(&fixture, "1000 10 a\n2000 10 b\n3000 10 c\n");
	set_time(&fixture, BEFORE);
	while (fp_perf_map_seal(fixture.map, ENDED, 7) == -EAGAIN)
		steps++;
	assert_int_equal(steps, 5); // 30 bytes
	assert_name(&fixture, 0x3000, "c");
	assert_true(fp_perf_map_bytes(fixture.map) >= 30);
}

#define MIDDLE ((off_t)1 << 20)

// "first", "middle" and "last", with empty lines between them.
static void open_too_large_to_keep(struct fixture *fixture)
{
	size_t size = FP_PERF_MAP_TEXT_MAX;
	FP_AUTOFREE char *lines = malloc(size);

	assert_non_null(lines);
	memset(lines, '\n', size);
	open_fixture(fixture);
	append(fixture, "1000 10 first\n");
	assert_int_equal(fp_write_all(fixture->fd, lines, size), 0);
	assert_int_equal(pwrite(fixture->fd, "2000 10 middle\n", 15, MIDDLE), 15);
	append(fixture, "3000 10 last\n");
	set_time(fixture, BEFORE);
	assert_int_equal(fp_perf_map_seal(fixture->map, ENDED, WHOLE), 0);
	assert_true(fp_perf_map_bytes(fixture->map) < 1 << 20); // not the text
}

static void one_too_large_to_keep_is_named_from_its_file_while_that_stands(void **state)
{
	FP_AUTOBUF struct fp_buf name = { 0 };
	AUTOFIXTURE fixture;

	open_too_large_to_keep(&fixture);
	append(&fixture, "1000 10 wrong\n4000 10 wrong\n");
	assert_int_equal(fp_perf_map_refresh(fixture.map, WHOLE), 0);
	assert_name(&fixture, 0x1000, "first");
	assert_name(&fixture, 0x2000, "middle");
	assert_name(&fixture, 0x3000, "last");
	assert_name(&fixture, 0x4000, NULL);
	assert_int_equal(pwrite(fixture.fd, "4000 10 others\n", 15, MIDDLE), 15);
	assert_int_equal(fp_perf_map_name(fixture.map, 0x2000, &name), -ESTALE);
	assert_int_equal(fp_perf_map_refresh(fixture.map, WHOLE), -ESTALE);
	assert_name(&fixture, 0x1000, NULL);
	assert_name(&fixture, 0x4000, NULL);
}

static void one_too_large_to_keep_is_gone_when_its_file_is_written_anew(void **state)
{
	AUTOFIXTURE fixture;

	open_too_large_to_keep(&fixture);
	rewrite(&fixture, "1000 10 first\n");
	assert_int_equal(fp_perf_map_refresh(fixture.map, WHOLE), -ESTALE);
	assert_name(&fixture, 0x1000, NULL);
	assert_int_equal(fp_perf_map_bytes(fixture.map), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_sealed_map_names_what_its_program_wrote_and_nothing_else),
		cmocka_unit_test(a_large_map_is_sealed_in_steps),
		cmocka_unit_test(one_too_large_to_keep_is_named_from_its_file_while_that_stands),
		cmocka_unit_test(one_too_large_to_keep_is_gone_when_its_file_is_written_anew),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
