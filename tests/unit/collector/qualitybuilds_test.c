// SPDX-License-Identifier: Apache-2.0
// Why user stacks are short, as the page is told: builds worst first with their share of all user
// stacks, reasons most frequent first and in words, several types added up.
#include "collector/view.h"

#include "tests/unit/cases.h"

#include <string.h>

static struct fp_view view;
static struct fp_buf json;

static int begin(void **state)
{
	view = (struct fp_view){ .aspect = fp_aspect_of(FP_PROFILE_CPU) };
	json = (struct fp_buf){ 0 };
	return fp_profile_new(&view.answer.profile);
}

static int end(void **state)
{
	fp_profile_free(view.answer.profile);
	fp_buf_free(&json);
	return 0;
}

static uint32_t text(const char *string)
{
	uint32_t id;

	assert_int_equal(fp_profile_cstring(view.answer.profile, string, &id), 0);
	return id;
}

static uint32_t build_of(uint8_t number, const char *path)
{
	struct fp_build build = {
		.kind = FP_BUILD_GNU, .id_len = 2, .id = { 0xab, number }, .path = text(path)
	};
	uint32_t id;

	assert_int_equal(fp_profile_build(view.answer.profile, &build, &id), 0);
	return id;
}

static void stopped(enum fp_profile_type type, uint32_t build, const char *reason, uint64_t stacks)
{
	struct fp_build_quality *row = fp_quality_build(view.answer.profile, type, build);

	assert_non_null(row);
	row->stacks += 2 * stacks;
	row->stopped += stacks;
	view.answer.profile->quality[type].present = true;
	assert_int_equal(fp_quality_stop(view.answer.profile, type, build, text(reason), stacks),
			 0);
}

static void stacks(enum fp_profile_type type, uint64_t count)
{
	view.answer.profile->quality[type].present = true;
	view.answer.profile->quality[type].counters[FP_QUALITY_USER_STACKS] = count;
}

static const char *written(void)
{
	assert_int_equal(fp_view_json_worst_builds(&view, &json), 0);
	assert_int_equal(fp_buf_byte(&json, '\0'), 0);
	return (const char *)json.data;
}

static unsigned int occurrences(const char *string, const char *part)
{
	unsigned int count = 0;

	while ((string = strstr(string, part))) {
		string += strlen(part);
		count++;
	}
	return count;
}

static void the_worst_comes_first_with_its_share_and_reasons(void **state)
{
	uint32_t few = build_of(1, "/few"), many = build_of(2, "/many \"quoted\"");

	stacks(FP_PROFILE_CPU, 80);
	stopped(FP_PROFILE_CPU, few, "no_room", 1);
	stopped(FP_PROFILE_CPU, many, "not_loaded", 2);
	stopped(FP_PROFILE_CPU, many, "of <tomorrow>", 8);
	assert_string_equal(
	    written(),
	    "\"worst_builds\":[{\"path\":\"/many \\\"quoted\\\"\",\"build_id\":\"ab02\","
	    "\"stacks\":20,\"stopped\":10,\"share\":0.125000,\"reasons\":["
	    "{\"reason\":\"of <tomorrow>\",\"text\":\"of <tomorrow>\",\"fix\":\"\",\"stacks\":8},"
	    "{\"reason\":\"not_loaded\",\"text\":\"its unwind table was not loaded yet\","
	    "\"fix\":\"nothing need be done: a table is loaded within seconds of its build being "
	    "met\",\"stacks\":2}]},"
	    "{\"path\":\"/"
	    "few\",\"build_id\":\"ab01\",\"stacks\":2,\"stopped\":1,\"share\":0.012500,"
	    "\"reasons\":[{\"reason\":\"no_room\",\"text\":\"there was no room for its unwind "
	    "table\",\"fix\":\"raise unwind.memory\",\"stacks\":1}]}]");
}

static void several_types_are_added_up(void **state)
{
	uint32_t build = build_of(1, "/both");

	view.aspect = fp_aspect_wall;
	stacks(FP_PROFILE_CPU, 10);
	stacks(FP_PROFILE_OFF_CPU, 30);
	stacks(FP_PROFILE_WAKER, 1000); // no part of wall time
	stopped(FP_PROFILE_CPU, build, "stale", 3);
	stopped(FP_PROFILE_OFF_CPU, build, "stale", 4);
	stopped(FP_PROFILE_OFF_CPU, build, "memory", 1);
	stopped(FP_PROFILE_WAKER, build, "astray", 100);
	assert_non_null(strstr(written(), "\"stacks\":16,\"stopped\":8,\"share\":0.200000,"
					  "\"reasons\":[{\"reason\":\"stale\""));
	assert_non_null(strstr((char *)json.data, "\"stacks\":7},{\"reason\":\"memory\""));
	assert_null(strstr((char *)json.data, "astray"));
}

static void builds_and_reasons_are_few(void **state)
{
	stacks(FP_PROFILE_CPU, 1000);
	for (uint8_t i = 0; i < 30; i++) {
		char reason[] = { 'r', (char)('A' + i), '\0' };

		stopped(FP_PROFILE_CPU, build_of(i, "/one"), "stale", 1);
		stopped(FP_PROFILE_CPU, build_of(30, "/worst"), reason, 1);
	}
	assert_int_equal(occurrences(written(), "\"path\""), 10);
	assert_int_equal(occurrences((char *)json.data, "\"reason\":\"r"), 5);
}

static void builds_in_which_none_stopped_are_left_out(void **state)
{
	stacks(FP_PROFILE_CPU, 0);
	stopped(FP_PROFILE_CPU, build_of(1, "/fine"), "stale", 0);
	assert_string_equal(written(), "\"worst_builds\":[]");
}

static void agents_that_gave_no_reason_are_told_of(void **state)
{
	struct fp_build_quality *row =
	    fp_quality_build(view.answer.profile, FP_PROFILE_CPU, build_of(1, "/old"));

	stacks(FP_PROFILE_CPU, 0);
	row->stacks = row->stopped = 5;
	assert_non_null(strstr(written(), "\"stopped\":5,\"share\":0.000000,\"reasons\":[]}"));
}

#define CASE(sentence, function)                                                                   \
	{                                                                                          \
		.name = sentence, .test_func = function, .setup_func = begin, .teardown_func = end \
	}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE("the worst comes first, with its share and reasons",
		     the_worst_comes_first_with_its_share_and_reasons),
		CASE("several types are added up", several_types_are_added_up),
		CASE("builds and reasons are few", builds_and_reasons_are_few),
		CASE("builds in which none stopped are left out",
		     builds_in_which_none_stopped_are_left_out),
		CASE("agents that gave no reason are told of",
		     agents_that_gave_no_reason_are_told_of),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
