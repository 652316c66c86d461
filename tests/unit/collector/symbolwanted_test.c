// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/cases.h"

#include "collector/symbolwanted.h"

#include <errno.h>
#include <string.h>

#define MINUTE_NS (60 * FP_NS_PER_S)

struct bench {
	struct fp_symbol_wanted *wanted;
	struct fp_profile *profile;
	struct fp_symbol_look look;
	uint8_t here;	    // first byte of the id of the build that has a source; 0: none
	unsigned int looks; // for a source
};

static bool has_source(void *context, const struct fp_build *build)
{
	struct bench *bench = context;

	bench->looks++;
	return bench->here && build->id[0] == bench->here;
}

static int up_with(void **state, uint32_t builds)
{
	struct bench *bench = calloc(1, sizeof(*bench));

	if (!bench || fp_symbol_wanted_new(builds, &bench->wanted) ||
	    fp_profile_new(&bench->profile))
		return -1;
	bench->look = (struct fp_symbol_look){ has_source, bench, 1000 * MINUTE_NS };
	*state = bench;
	return 0;
}

static int up(void **state)
{
	return up_with(state, 1000);
}

static int up_small(void **state)
{
	return up_with(state, 4);
}

static int down(void **state)
{
	struct bench *bench = *state;

	fp_symbol_wanted_free(bench->wanted);
	fp_profile_free(bench->profile);
	free(bench);
	return 0;
}

static uint32_t add_build(struct bench *bench, uint8_t kind, uint8_t first)
{
	struct fp_build build = { .kind = kind, .id_len = kind ? 20 : 0, .id = { first } };
	uint32_t id;

	if (!kind)
		build.id[0] = 0;
	assert_int_equal(fp_profile_cstring(bench->profile, "/usr/bin/x", &build.path), 0);
	assert_int_equal(fp_profile_build(bench->profile, &build, &id), 0);
	return id;
}

static uint32_t add_frame(struct bench *bench, uint8_t kind, uint32_t build, uint64_t offset)
{
	struct fp_frame frame = { .kind = kind, .build = build, .offset = offset };
	uint32_t id;

	assert_int_equal(fp_profile_frame(bench->profile, &frame, &id), 0);
	return id;
}

static void add_samples(struct bench *bench, const uint32_t *frames, uint32_t count,
			uint64_t samples)
{
	struct fp_sample sample = { .type = FP_PROFILE_CPU, .count = samples, .value = samples };

	assert_int_equal(fp_profile_labels(bench->profile, NULL, 0, &sample.labels), 0);
	assert_int_equal(fp_profile_stack(bench->profile, frames, count, &sample.stack), 0);
	assert_int_equal(fp_profile_sample(bench->profile, &sample), 0);
}

// One stack of one frame in a GNU build whose id begins with `first`.
static void add_simple(struct bench *bench, uint8_t first, uint64_t samples)
{
	uint32_t frame =
	    add_frame(bench, FP_FRAME_FILE, add_build(bench, FP_BUILD_GNU, first), 0x1000);

	add_samples(bench, &frame, 1, samples);
}

// The first bytes of the ids picked, as text.
static const char *picked(struct bench *bench)
{
	static char text[3 * FP_SYMBOLS_WANTED_MAX + 1];
	struct fp_build builds[FP_SYMBOLS_WANTED_MAX];
	int count = fp_symbol_wanted_pick(bench->wanted, bench->profile, &bench->look, builds);

	assert_in_range(count, 0, FP_SYMBOLS_WANTED_MAX);
	text[0] = '\0';
	for (int i = 0; i < count; i++)
		sprintf(text + strlen(text), "%s%02x", i ? " " : "", builds[i].id[0]);
	return text;
}

static void the_hottest_build_comes_first(void **state)
{
	struct bench *bench = *state;
	uint32_t both[3];

	add_simple(bench, 0x11, 10);
	add_simple(bench, 0x22, 30);
	// Twice in one stack counts once; a stack counts for each build it passes through.
	both[0] = add_frame(bench, FP_FRAME_FILE, add_build(bench, FP_BUILD_GNU, 0x33), 1);
	both[1] = add_frame(bench, FP_FRAME_FILE, add_build(bench, FP_BUILD_GNU, 0x11), 2);
	both[2] = add_frame(bench, FP_FRAME_FILE, add_build(bench, FP_BUILD_GNU, 0x33), 3);
	add_samples(bench, both, 3, 15);
	assert_string_equal(picked(bench), "22 11 33");
}

static void sixteen_are_asked_for_and_the_others_with_the_next_batch(void **state)
{
	struct bench *bench = *state;

	for (uint8_t i = 1; i <= 20; i++)
		add_simple(bench, i, 100 - i);
	assert_string_equal(picked(bench), "01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f 10");
	assert_string_equal(picked(bench), "11 12 13 14");
	assert_string_equal(picked(bench), "");
}

static void a_build_is_asked_for_once_in_ten_minutes(void **state)
{
	struct bench *bench = *state;

	add_simple(bench, 0x11, 10);
	assert_string_equal(picked(bench), "11");
	bench->look.now_ns += 10 * MINUTE_NS - 1;
	assert_string_equal(picked(bench), "");
	bench->look.now_ns += 1;
	assert_string_equal(picked(bench), "11");
}

static void a_build_with_a_source_is_looked_for_as_rarely(void **state)
{
	struct bench *bench = *state;

	add_simple(bench, 0x11, 10);
	bench->here = 0x11;
	assert_string_equal(picked(bench), "");
	assert_string_equal(picked(bench), "");
	assert_int_equal(bench->looks, 1);
	bench->here = 0; // its file was removed
	bench->look.now_ns += 10 * MINUTE_NS;
	assert_string_equal(picked(bench), "11");
}

static void what_a_query_could_name_is_not_asked_for(void **state)
{
	struct bench *bench = *state;
	struct fp_build build = { .kind = FP_BUILD_GNU, .id_len = 20, .id = { 0x11 } };

	add_simple(bench, 0x11, 10);
	fp_symbol_wanted_note(bench->wanted, &build, true);
	assert_string_equal(picked(bench), "");
	bench->look.now_ns += 60 * MINUTE_NS;
	assert_string_equal(picked(bench), "");
	assert_int_equal(bench->looks, 0);
	fp_symbol_wanted_note(bench->wanted, &build, false);
	assert_string_equal(picked(bench), "11");
}

static void the_kinds_that_agents_can_answer_are_asked_for(void **state)
{
	static const struct {
		const char *claim;
		uint8_t frame, build;
		const char *picked;
	} cases[] = {
		{ "a file with a GNU id", FP_FRAME_FILE, FP_BUILD_GNU, "11" },
		{ "a file with a Go id", FP_FRAME_FILE, FP_BUILD_GO, "11" },
		{ "a file with a hash", FP_FRAME_FILE, FP_BUILD_HASH, "11" },
		{ "the vDSO", FP_FRAME_VDSO, FP_BUILD_GNU, "11" },
		{ "not a file without an id", FP_FRAME_FILE, FP_BUILD_NONE, "" },
		{ "not the kernel, whose table comes unasked", FP_FRAME_KERNEL, FP_BUILD_GNU, "" },
		{ "nor a module", FP_FRAME_MODULE, FP_BUILD_GNU, "" },
	};

	for (size_t i = 0; i < FP_ARRAY_SIZE(cases); i++) {
		void *own;
		struct bench *bench;
		uint32_t frame;

		assert_int_equal(up(&own), 0);
		bench = own;
		frame = add_frame(bench, cases[i].frame, add_build(bench, cases[i].build, 0x11), 1);
		add_samples(bench, &frame, 1, 5);
		if (strcmp(picked(bench), cases[i].picked) != 0)
			fail_msg("not so: %s", cases[i].claim);
		down(&own);
	}
	(void)state;
}

static void a_build_no_sample_passes_through_is_not_asked_for(void **state)
{
	struct bench *bench = *state;

	add_build(bench, FP_BUILD_GNU, 0x11);
	assert_string_equal(picked(bench), "");
}

static void the_builds_seen_longest_ago_are_forgotten(void **state)
{
	struct bench *bench = *state; // remembers four

	for (uint8_t i = 1; i <= 4; i++)
		add_simple(bench, i, 100 - i);
	assert_string_equal(picked(bench), "01 02 03 04");
	assert_string_equal(picked(bench), "");
	add_simple(bench, 9, 1); // takes the place of the first
	assert_string_equal(picked(bench), "09");
	fp_profile_free(bench->profile);
	assert_int_equal(fp_profile_new(&bench->profile), 0);
	add_simple(bench, 4, 3);
	add_simple(bench, 3, 2);
	assert_string_equal(picked(bench), "");
	add_simple(bench, 1, 1);
	assert_string_equal(picked(bench), "01");
}

#define ON(test) cmocka_unit_test_setup_teardown(test, up, down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(the_hottest_build_comes_first),
		ON(sixteen_are_asked_for_and_the_others_with_the_next_batch),
		ON(a_build_is_asked_for_once_in_ten_minutes),
		ON(a_build_with_a_source_is_looked_for_as_rarely),
		ON(what_a_query_could_name_is_not_asked_for),
		ON(the_kinds_that_agents_can_answer_are_asked_for),
		ON(a_build_no_sample_passes_through_is_not_asked_for),
		cmocka_unit_test_setup_teardown(the_builds_seen_longest_ago_are_forgotten, up_small,
						down),
	};

	return cmocka_run_group_tests_name("symbolwanted", tests, NULL, NULL);
}
