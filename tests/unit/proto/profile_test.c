// SPDX-License-Identifier: Apache-2.0
// The builder functions: every table holds an entry once and refuses what does not fit.
#include "examples.h"

#include "proto/slice.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static uint32_t string_of(struct fp_profile *profile, const char *text)
{
	uint32_t id = 0;

	assert_int_equal(fp_profile_cstring(profile, text, &id), 0);
	return id;
}

static void an_entry_added_again_gets_its_first_id(void **state)
{
	FP_AUTOPROFILE struct fp_profile *profile = example_random(200, 1);
	uint32_t id = 0;

	for (uint32_t i = 0; i < profile->builds_count; i++) {
		struct fp_build build = profile->builds[i];

		assert_int_equal(fp_profile_build(profile, &build, &id), 0);
		assert_int_equal(id, i);
	}
	for (uint32_t i = 0; i < profile->frames_count; i++) {
		struct fp_frame frame = profile->frames[i];

		assert_int_equal(fp_profile_frame(profile, &frame, &id), 0);
		assert_int_equal(id, i);
	}
	for (uint32_t i = 0; i < profile->stacks_count; i++) {
		struct fp_stack stack = profile->stacks[i];

		assert_int_equal(fp_profile_stack(profile, profile->stack_frames + stack.first,
						  stack.count, &id),
				 0);
		assert_int_equal(id, i);
	}
}

static void fields_that_mean_nothing_do_not_make_frames_differ(void **state)
{
	FP_AUTOPROFILE struct fp_profile *profile = NULL;
	struct fp_frame a = { .kind = FP_FRAME_ANON }, b = { FP_FRAME_ANON, 77, 88, 99 };
	struct fp_frame c = { .kind = FP_FRAME_NAMED }, d = { FP_FRAME_NAMED, 77, 0, 99 };
	uint32_t first = 0, second = 1;

	assert_int_equal(fp_profile_new(&profile), 0);
	assert_int_equal(fp_profile_frame(profile, &a, &first), 0);
	assert_int_equal(fp_profile_frame(profile, &b, &second), 0);
	assert_int_equal(first, second);
	c.name = d.name = string_of(profile, "jit");
	assert_int_equal(fp_profile_frame(profile, &c, &first), 0);
	assert_int_equal(fp_profile_frame(profile, &d, &second), 0);
	assert_int_equal(first, second);
}

static void indexes_out_of_range_are_refused(void **state)
{
	FP_AUTOPROFILE struct fp_profile *profile = example_documented();
	const struct fp_frame frames[] = {
		{ .kind = 0 },
		{ .kind = 8 },
		{ .kind = FP_FRAME_FILE, .build = profile->builds_count },
		{ .kind = FP_FRAME_KERNEL, .build = FP_NO_BUILD },
		{ .kind = FP_FRAME_ERROR, .name = profile->strings.count },
	};
	const struct fp_sample samples[] = {
		{ 0, 0, 0, 1, 1 },
		{ FP_PROFILE_TYPES, 0, 0, 1, 1 },
		{ FP_PROFILE_CPU, profile->labels_count, 0, 1, 1 },
		{ FP_PROFILE_CPU, 0, profile->stacks_count, 1, 1 },
	};
	struct fp_build build = { .path = profile->strings.count };
	struct fp_label label = { 0, profile->strings.count };
	uint32_t id = 42;

	for (size_t i = 0; i < FP_ARRAY_SIZE(frames); i++)
		assert_int_equal(fp_profile_frame(profile, frames + i, &id), -EINVAL);
	for (size_t i = 0; i < FP_ARRAY_SIZE(samples); i++)
		assert_int_equal(fp_profile_sample(profile, samples + i), -EINVAL);
	assert_int_equal(fp_profile_build(profile, &build, &id), -EINVAL);
	assert_int_equal(fp_profile_labels(profile, &label, 1, &id), -EINVAL);
	assert_int_equal(fp_profile_stack(profile, &profile->frames_count, 1, &id), -EINVAL);
	assert_int_equal(id, 42);
	assert_null(fp_quality_build(profile, FP_PROFILE_CPU, profile->builds_count));
}

static void labels_are_sorted_and_the_last_of_a_name_wins(void **state)
{
	FP_AUTOPROFILE struct fp_profile *profile = NULL;
	struct fp_label given[4], again[2];
	uint32_t set = 9, same = 8;
	const struct fp_label *stored;

	assert_int_equal(fp_profile_new(&profile), 0);
	given[0] = (struct fp_label){ string_of(profile, "thread"), string_of(profile, "old") };
	given[1] = (struct fp_label){ string_of(profile, "exe"), string_of(profile, "x") };
	given[2] = (struct fp_label){ string_of(profile, "thread"), string_of(profile, "new") };
	given[3] = (struct fp_label){ string_of(profile, "th"), string_of(profile, "short") };
	again[0] = given[2];
	assert_int_equal(fp_profile_labels(profile, given, 4, &set), 0);
	assert_int_equal(profile->labels[set].count, 3);
	stored = profile->label_pool + profile->labels[set].first;
	assert_string_equal(fp_profile_str(profile, stored[0].name), "exe");
	assert_string_equal(fp_profile_str(profile, stored[1].name), "th");
	assert_string_equal(fp_profile_str(profile, stored[2].value), "new");
	memcpy(again, stored, sizeof(again));
	assert_int_equal(fp_profile_labels(profile, again, 2, &same), 0);
	assert_int_not_equal(set, same);
	assert_int_equal(fp_profile_labels(profile, given, 3, &same), 0);
	assert_int_equal(set, same);
}

static void samples_of_one_row_add_up(void **state)
{
	FP_AUTOPROFILE struct fp_profile *profile = example_documented();
	uint32_t rows = profile->samples_count;
	struct fp_sample more = { FP_PROFILE_CPU, 0, 0, 5, 6 };
	struct fp_sample other = { FP_PROFILE_OFF_CPU, 0, 0, 1, 1000 };

	assert_int_equal(fp_profile_sample(profile, &more), 0);
	assert_int_equal(profile->samples_count, rows);
	assert_int_equal(profile->samples[0].count, 19 + 5);
	assert_int_equal(profile->samples[0].value, 19 + 6);
	assert_int_equal(fp_profile_sample(profile, &other), 0);
	assert_int_equal(profile->samples_count, rows + 1);
}

static void a_string_that_is_too_long_is_cut(void **state)
{
	FP_AUTOPROFILE struct fp_profile *profile = NULL;
	FP_AUTOFREE char *text = malloc(FP_STRING_MAX + 1);
	uint32_t whole = 0, cut = 0;

	assert_int_equal(fp_profile_new(&profile), 0);
	assert_non_null(text);
	memset(text, 'x', FP_STRING_MAX + 1);
	assert_int_equal(fp_profile_string(profile, text, FP_STRING_MAX, &whole), 0);
	assert_int_equal(fp_profile_string(profile, text, FP_STRING_MAX + 1, &cut), 0);
	assert_int_equal(whole, cut);
	assert_int_equal(profile->strings.sizes[whole], FP_STRING_MAX);
}

// The id of a stack of one frame in a new profile.
static void id_of(const struct fp_frame *frame, const struct fp_build *build, const char *path,
		  uint32_t strings_before, uint8_t ret_id[FP_STACK_ID_LEN])
{
	FP_AUTOPROFILE struct fp_profile *profile = NULL;
	struct fp_frame copy = *frame;
	struct fp_build build_copy = *build;
	uint32_t index = 0, stack = 0;

	assert_int_equal(fp_profile_new(&profile), 0);
	for (uint32_t i = 0; i < strings_before; i++) {
		char text[16];

		snprintf(text, sizeof(text), "other %u", i);
		string_of(profile, text);
	}
	build_copy.path = copy.name = string_of(profile, path);
	assert_int_equal(fp_profile_build(profile, &build_copy, &copy.build), 0);
	assert_int_equal(fp_profile_frame(profile, &copy, &index), 0);
	assert_int_equal(fp_profile_stack(profile, &index, 1, &stack), 0);
	memcpy(ret_id, profile->stacks[stack].id, FP_STACK_ID_LEN);
}

static void a_stack_id_follows_from_content_alone(void **state)
{
	static const struct {
		const char *claim;
		struct fp_frame a_frame, b_frame;
		struct fp_build a_build, b_build;
		const char *a_path, *b_path;
		bool same;
	} cases[] = {
		{ "numbering of strings plays no part",
		  { .kind = 1, .offset = 5 },
		  { .kind = 1, .offset = 5 },
		  { 1, 1, { 9 }, 0 },
		  { 1, 1, { 9 }, 0 },
		  "p",
		  "p",
		  true },
		{ "the path of an identified build plays no part",
		  { .kind = 1, .offset = 5 },
		  { .kind = 1, .offset = 5 },
		  { 1, 1, { 9 }, 0 },
		  { 1, 1, { 9 }, 0 },
		  "p",
		  "q",
		  true },
		{ "the path of a build without id does",
		  { .kind = 1, .offset = 5 },
		  { .kind = 1, .offset = 5 },
		  { 0 },
		  { 0 },
		  "p",
		  "q",
		  false },
		{ "the offset does",
		  { .kind = 1, .offset = 5 },
		  { .kind = 1, .offset = 6 },
		  { 1, 1, { 9 }, 0 },
		  { 1, 1, { 9 }, 0 },
		  "p",
		  "p",
		  false },
		{ "the kind of frame does",
		  { .kind = 1, .offset = 5 },
		  { .kind = 3, .offset = 5 },
		  { 1, 1, { 9 }, 0 },
		  { 1, 1, { 9 }, 0 },
		  "p",
		  "p",
		  false },
		{ "the kind of build-ID does",
		  { .kind = 1, .offset = 5 },
		  { .kind = 1, .offset = 5 },
		  { 1, 1, { 9 }, 0 },
		  { 2, 1, { 9 }, 0 },
		  "p",
		  "p",
		  false },
		{ "the name of a JIT frame does",
		  { .kind = 5 },
		  { .kind = 5 },
		  { 0 },
		  { 0 },
		  "f",
		  "g",
		  false },
		{ "a name as JIT frame is not the same as an error",
		  { .kind = 5 },
		  { .kind = 7 },
		  { 0 },
		  { 0 },
		  "f",
		  "f",
		  false },
	};

	for (size_t i = 0; i < FP_ARRAY_SIZE(cases); i++) {
		uint8_t a[FP_STACK_ID_LEN], b[FP_STACK_ID_LEN];

		id_of(&cases[i].a_frame, &cases[i].a_build, cases[i].a_path, 0, a);
		id_of(&cases[i].b_frame, &cases[i].b_build, cases[i].b_path, 3, b);
		if ((memcmp(a, b, sizeof(a)) == 0) != cases[i].same)
			fail_msg("not so: %s", cases[i].claim);
	}
}

static void names_lead_back_to_their_values(void **state)
{
	for (int i = 0; i < FP_QUALITY_COUNT; i++)
		assert_int_equal(fp_quality_from_name(fp_quality_name(i)), i);
	assert_int_equal(fp_quality_from_name("nonsense"), -ENOENT);
	assert_int_equal(fp_profile_type_from_name("cpu"), FP_PROFILE_CPU);
	assert_int_equal(fp_profile_type_from_name("off_cpu"), FP_PROFILE_OFF_CPU);
	assert_int_equal(fp_profile_type_from_name("run_queue"), FP_PROFILE_RUN_QUEUE);
	assert_int_equal(fp_profile_type_from_name("waker"), FP_PROFILE_WAKER);
	for (int type = 1; type < FP_PROFILE_TYPES; type++)
		assert_int_equal(fp_profile_type_from_name(fp_profile_type_name(type)), type);
	assert_int_equal(fp_profile_type_from_name(""), -ENOENT);
}

static void a_named_counter_is_set_not_added(void **state)
{
	FP_AUTOPROFILE struct fp_profile *profile = NULL;
	struct fp_quality *quality;

	assert_int_equal(fp_profile_new(&profile), 0);
	quality = profile->quality + FP_PROFILE_CPU;
	assert_int_equal(fp_quality_set_named(profile, FP_PROFILE_CPU, "cpu.runs", 1), 0);
	assert_int_equal(fp_quality_set_named(profile, FP_PROFILE_CPU, "cpu.runs", 2), 0);
	assert_int_equal(fp_quality_set_named(profile, FP_PROFILE_CPU, "samples", 3), 0);
	assert_int_equal(quality->named_count, 1);
	assert_int_equal(quality->named[0].value, 2);
	assert_int_equal(quality->counters[FP_QUALITY_SAMPLES], 3);
	assert_true(quality->present);
}

static void stops_of_one_build_and_reason_add_up(void **state)
{
	FP_AUTOPROFILE struct fp_profile *profile = example_documented();
	const enum fp_profile_type type = FP_PROFILE_CPU;
	uint32_t here, there;

	assert_int_equal(fp_profile_cstring(profile, "no_room", &here), 0);
	assert_int_equal(fp_profile_cstring(profile, "later_agent", &there), 0);
	assert_int_equal(fp_quality_stop(profile, type, 1, here, 5), 0);
	assert_int_equal(fp_quality_stop(profile, type, 1, there, 7), 0);
	assert_int_equal(fp_quality_stop(profile, type, 1, here, 3), 0);
	assert_int_equal(profile->quality[type].stops_count, 2);
	assert_int_equal(profile->quality[type].stops[0].count, 8);
	assert_string_equal(fp_quality_worst_stop(profile, type, 1), "no_room");
	assert_null(fp_quality_worst_stop(profile, type, 0));
	assert_string_equal(fp_stop_fix("no_room"), "raise unwind.memory");
	assert_string_equal(fp_stop_text("later_agent"), "later_agent");
	assert_string_equal(fp_stop_fix("later_agent"), "");
	assert_int_equal(fp_quality_stop(profile, type, profile->builds_count, here, 1), -EINVAL);
	assert_int_equal(fp_quality_stop(profile, type, 0, profile->strings.count, 1), -EINVAL);
}

// Whoever adds the parts up again, as the collector does, must not count an interval twice.
static void the_quality_of_a_sliced_profile_stands_once(void **state)
{
	FP_AUTOPROFILE struct fp_profile *whole = example_random(50, 3), *first = NULL,
					 *rest = NULL;

	assert_int_equal(fp_profile_slice(whole, 0, 20, &first), 0);
	assert_int_equal(fp_profile_slice(whole, 20, whole->samples_count - 20, &rest), 0);
	for (int type = 1; type < FP_PROFILE_TYPES; type++) {
		assert_memory_equal(first->quality[type].counters, whole->quality[type].counters,
				    sizeof(whole->quality[type].counters));
		assert_string_equal(fp_profile_str(first, first->quality[type].hook),
				    fp_profile_str(whole, whole->quality[type].hook));
		assert_int_equal(first->quality[type].stops_count,
				 whole->quality[type].stops_count);
		for (uint32_t i = 0; i < whole->quality[type].stops_count; i++)
			assert_int_equal(first->quality[type].stops[i].count,
					 whole->quality[type].stops[i].count);
		assert_false(rest->quality[type].present);
	}
	assert_int_equal(fp_profile_count(first) + fp_profile_count(rest), fp_profile_count(whole));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_entry_added_again_gets_its_first_id),
		cmocka_unit_test(fields_that_mean_nothing_do_not_make_frames_differ),
		cmocka_unit_test(indexes_out_of_range_are_refused),
		cmocka_unit_test(labels_are_sorted_and_the_last_of_a_name_wins),
		cmocka_unit_test(samples_of_one_row_add_up),
		cmocka_unit_test(a_string_that_is_too_long_is_cut),
		cmocka_unit_test(a_stack_id_follows_from_content_alone),
		cmocka_unit_test(names_lead_back_to_their_values),
		cmocka_unit_test(a_named_counter_is_set_not_added),
		cmocka_unit_test(stops_of_one_build_and_reason_add_up),
		cmocka_unit_test(the_quality_of_a_sliced_profile_stands_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
