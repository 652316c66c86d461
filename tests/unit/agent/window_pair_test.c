// SPDX-License-Identifier: Apache-2.0
//
// Who woke whom: how two stacks become one, and what is said of those that never came or that a
// rule does not want. The profile's frames have names here, and a joined stack is written from
// its root, as people read it.
#include "../cases.h"

#include "agent/window_private.h"
#include "common/buf.h"
#include "proto/batch.h"

#include <string.h>

#define COUNT 3u
#define VALUE 7000u

static struct fp_window window;

static int begin(void **state)
{
	return fp_window_open(&window, 0, NULL);
}

static int end(void **state)
{
	fp_window_free(&window);
	return 0;
}

// names: leaf first, NULL at the end.
static uint32_t stack_of(const char *const *names)
{
	uint32_t frames[FP_MAX_FRAMES + FP_MAX_USER_FRAMES + 1], count = 0, stack;

	for (; names[count]; count++) {
		struct fp_frame frame = { .kind = FP_FRAME_NAMED, .build = FP_NO_BUILD };

		assert_int_equal(fp_profile_cstring(window.profile, names[count], &frame.name), 0);
		assert_int_equal(fp_profile_frame(window.profile, &frame, &frames[count]), 0);
	}
	assert_int_equal(fp_profile_stack(window.profile, frames, count, &stack), 0);
	return stack;
}

static struct fp_window_stack known(const char *comm, const char *const *names)
{
	struct fp_window_stack stack = { .known = true };
	struct fp_label label;

	snprintf(stack.comm, sizeof(stack.comm), "%s", comm);
	stack.resolved.stack = stack_of(names);
	stack.resolved.walk_end = FP_WALK_END_ROOT;
	stack.resolved.stop_build = FP_NO_BUILD;
	assert_int_equal(fp_profile_cstring(window.profile, "thread", &label.name), 0);
	assert_int_equal(fp_profile_cstring(window.profile, comm, &label.value), 0);
	assert_int_equal(fp_profile_labels(window.profile, &label, 1, &stack.resolved.labels), 0);
	return stack;
}

static const char *const reads[] = { "schedule", "pipe_read", "read_line", "main", NULL };
static const char *const writes[] = { "wake_up", "pipe_write", "answer", "serve", NULL };
static const char *const ticks[] = { "wake_up", "timer", "asm_sysvec_apic_timer_interrupt", NULL };

static void count_pair(const struct fp_window_pair *pair)
{
	const struct fp_count count = { .count = COUNT, .value = VALUE };

	assert_int_equal(fp_window_count_pair(&window, &count, pair), 0);
}

static uint64_t counter(enum fp_quality_counter index)
{
	return window.profile->quality[FP_PROFILE_WAKER].counters[index];
}

// The one sample there is: from the root to the top, ';' between; its thread in brackets before.
static void expect_sample(const char *expected)
{
	const struct fp_profile *profile = window.profile;
	const struct fp_sample *sample = &profile->samples[0];
	const struct fp_labels *labels = &profile->labels[sample->labels];
	const struct fp_stack *stack = &profile->stacks[sample->stack];
	FP_AUTOBUF struct fp_buf text = { 0 };

	assert_int_equal(profile->samples_count, 1);
	assert_int_equal(sample->type, FP_PROFILE_WAKER);
	assert_int_equal(sample->count, COUNT);
	assert_int_equal(sample->value, VALUE);
	for (uint32_t i = 0; i < labels->count; i++)
		fp_buf_printf(
		    &text, "(%s)",
		    fp_profile_str(profile, profile->label_pool[labels->first + i].value));
	for (uint32_t i = stack->count; i > 0; i--) {
		uint32_t index = profile->stack_frames[stack->first + i - 1];

		fp_buf_printf(&text, ";%s", fp_profile_str(profile, profile->frames[index].name));
	}
	fp_buf_byte(&text, '\0');
	assert_string_equal((const char *)text.data, expected);
}

static void test_joined(void **state)
{
	const struct fp_window_pair pair = { .sleeper = known("reader", reads),
					     .waker = known("writer", writes) };

	count_pair(&pair);
	expect_sample("(reader);main;read_line;pipe_read;schedule;[woken by writer];"
		      "wake_up;pipe_write;answer;serve");
	assert_int_equal(counter(FP_QUALITY_SAMPLES), COUNT);
	assert_int_equal(window.stacks_lost[FP_SOURCE_WAKER], 0);
	assert_int_equal(window.relabel_dropped[FP_SOURCE_WAKER], 0);
}

static void test_marker_is_an_explanation(void **state)
{
	const struct fp_window_pair pair = { .sleeper = known("reader", reads),
					     .waker = known("writer", writes) };
	const struct fp_stack *stack;

	count_pair(&pair);
	stack = &window.profile->stacks[window.profile->samples[0].stack];
	for (uint32_t i = 0; i < stack->count; i++) {
		uint32_t index = window.profile->stack_frames[stack->first + i];

		assert_int_equal(window.profile->frames[index].kind,
				 i == 4 ? FP_FRAME_ERROR : FP_FRAME_NAMED);
	}
}

static void test_unknown_waker(void **state)
{
	const struct fp_window_pair pair = { .sleeper = known("reader", reads) };

	count_pair(&pair);
	expect_sample("(reader);main;read_line;pipe_read;schedule;[woken by an unknown thread];"
		      "[stack lost]");
	assert_int_equal(counter(FP_QUALITY_SAMPLES), COUNT);
	assert_int_equal(window.stacks_lost[FP_SOURCE_WAKER], COUNT);
}

static void test_unwanted_waker(void **state)
{
	struct fp_window_pair pair = { .sleeper = known("reader", reads),
				       .waker = known("writer", writes) };

	pair.waker.resolved.unwanted = true;
	pair.waker.resolved.stack = pair.waker.resolved.labels = UINT32_MAX; // not set, by contract
	count_pair(&pair);
	expect_sample("(reader);main;read_line;pipe_read;schedule;[woken by writer]");
	assert_int_equal(counter(FP_QUALITY_SAMPLES), COUNT);
	assert_int_equal(window.stacks_lost[FP_SOURCE_WAKER], 0);
	assert_int_equal(window.relabel_dropped[FP_SOURCE_WAKER], 0);
}

static void test_interrupt(void **state)
{
	struct fp_window_pair pair = { .sleeper = known("reader", reads),
				       .waker = known("bystander", ticks) };

	pair.waker.resolved.interrupt = true;
	count_pair(&pair);
	expect_sample("(reader);main;read_line;pipe_read;schedule;[woken by an interrupt handler];"
		      "wake_up;timer;asm_sysvec_apic_timer_interrupt");
}

static void test_unknown_sleeper(void **state)
{
	const struct fp_window_pair pair = { .waker = known("writer", writes) };

	count_pair(&pair);
	expect_sample(";[stack lost]");
	assert_int_equal(counter(FP_QUALITY_SAMPLES), COUNT);
	assert_int_equal(counter(FP_QUALITY_FRAMES), 0);
	assert_int_equal(window.stacks_lost[FP_SOURCE_WAKER], COUNT);
}

static void test_both_unknown(void **state)
{
	const struct fp_window_pair pair = { 0 };

	count_pair(&pair);
	expect_sample(";[stack lost]");
	assert_int_equal(window.stacks_lost[FP_SOURCE_WAKER], COUNT); // once, not for each side
}

static void test_unwanted_sleeper(void **state)
{
	struct fp_window_pair pair = { .sleeper = known("reader", reads),
				       .waker = known("writer", writes) };

	pair.sleeper.resolved.unwanted = true;
	count_pair(&pair);
	pair.waker.known = false; // what is not wanted is not lost either
	count_pair(&pair);
	assert_int_equal(window.profile->samples_count, 0);
	assert_int_equal(counter(FP_QUALITY_SAMPLES), 0);
	assert_int_equal(window.stacks_lost[FP_SOURCE_WAKER], 0);
	assert_int_equal(window.relabel_dropped[FP_SOURCE_WAKER], 2 * COUNT);
}

// The waker's frames are in the picture too, but the books are kept of whose time it is.
static void test_quality_is_the_sleepers(void **state)
{
	struct fp_window_pair pair = { .sleeper = known("reader", reads),
				       .waker = known("writer", writes) };

	pair.sleeper.resolved.has_user = true;
	pair.sleeper.resolved.frames = 4;
	pair.sleeper.resolved.frames_anon = 1;
	pair.waker.resolved.has_user = true;
	pair.waker.resolved.walk_end = FP_WALK_END_BROKEN;
	pair.waker.resolved.frames = 100;
	pair.waker.resolved.process_unknown = true;
	count_pair(&pair);
	assert_int_equal(counter(FP_QUALITY_USER_STACKS), COUNT);
	assert_int_equal(counter(FP_QUALITY_USER_COMPLETE), COUNT);
	assert_int_equal(counter(FP_QUALITY_USER_BROKEN), 0);
	assert_int_equal(counter(FP_QUALITY_FRAMES), 4 * COUNT);
	assert_int_equal(counter(FP_QUALITY_FRAMES_ANON), COUNT);
	assert_int_equal(counter(FP_QUALITY_PROCESSES_UNKNOWN), 0);
	for (int type = 0; type < FP_PROFILE_TYPES; type++) // and of no other profile
		assert_true(type == FP_PROFILE_WAKER ||
			    window.profile->quality[type].counters[FP_QUALITY_SAMPLES] == 0);
}

static void test_same_pair_adds_up(void **state)
{
	const struct fp_window_pair pair = { .sleeper = known("reader", reads),
					     .waker = known("writer", writes) };
	const struct fp_window_pair other = { .sleeper = known("reader", reads),
					      .waker = known("another", writes) };

	count_pair(&pair);
	count_pair(&pair);
	assert_int_equal(window.profile->samples_count, 1);
	assert_int_equal(window.profile->samples[0].count, 2 * COUNT);
	assert_int_equal(window.profile->samples[0].value, 2 * VALUE);
	count_pair(&other); // the same stacks, but woken by another thread
	assert_int_equal(window.profile->samples_count, 2);
}

static void test_longest(void **state)
{
	// what the resolver makes of one record at most
	enum { MOST = FP_MAX_FRAMES + FP_MAX_USER_FRAMES + 1 };
	const char *names[MOST + 1] = { "leaf" };
	struct fp_window_pair pair;
	const struct fp_stack *stack;

	for (size_t i = 1; i < MOST; i++)
		names[i] = i % 2 ? "ping" : "pong";
	pair = (struct fp_window_pair){ .sleeper = known("a_name_of_15_by", names),
					.waker = known("another_name_15", names) };
	count_pair(&pair);
	stack = &window.profile->stacks[window.profile->samples[0].stack];
	assert_int_equal(stack->count, 2 * MOST + 1);
	assert_true(stack->count <= fp_batch_default_limits.stack_depth);
}

static void test_names(void **state)
{
	static const char *const rows[] = { "a", "a_name_of_15_by", "b;ad [na]me\n", "" };

	for (size_t i = 0; i < FP_ARRAY_SIZE(rows); i++) {
		const struct fp_window_pair pair = { .sleeper = known("reader", reads),
						     .waker = known(rows[i], writes) };
		const struct fp_stack *stack;
		char marker[64];
		uint32_t frame;

		count_pair(&pair);
		snprintf(marker, sizeof(marker), "[woken by %s]", rows[i]);
		stack = &window.profile->stacks[window.profile->samples[i].stack];
		frame = window.profile->stack_frames[stack->first + 4];
		assert_string_equal(
		    fp_profile_str(window.profile, window.profile->frames[frame].name), marker);
	}
}

static void test_no_record(void **state)
{
	struct fp_resolver resolver = { 0 };
	struct fp_window_stack stack;

	memset(&stack, 0xff, sizeof(stack));
	assert_int_equal(fp_window_pair_resolve(&window, &resolver, NULL, &stack), 0);
	assert_false(stack.known);
	assert_string_equal(stack.comm, "");
}

static void test_keys(void **state)
{
	struct {
		struct fp_stack_record record;
		fp_u64 words[FP_PAIR_WORDS];
	} pair = { .words = { 1, 2, 3, 4 } };
	const struct fp_key *sleeper = fp_pair_key(&pair.record, FP_PAIR_SLEEPER);
	const struct fp_key *waker = fp_pair_key(&pair.record, FP_PAIR_WAKER);

	assert_true(sleeper->hi == 1 && sleeper->lo == 2);
	assert_true(waker->hi == 3 && waker->lo == 4);
}

#define CASE(sentence, function)                                                                   \
	{                                                                                          \
		.name = sentence, .test_func = function, .setup_func = begin, .teardown_func = end \
	}

int main(void)
{
	const struct CMUnitTest cases[] = {
		CASE("the sleeper from its root, the marker, the waker from its leaf", test_joined),
		CASE("the marker is the one frame that explains", test_marker_is_an_explanation),
		CASE("a waker whose frames never came is said to be unknown, and counted as lost",
		     test_unknown_waker),
		CASE("of a waker that a rule does not want the name stays, and the time",
		     test_unwanted_waker),
		CASE("an interrupt has no name of whoever it met", test_interrupt),
		CASE("time of a sleeper whose frames never came is a lost stack",
		     test_unknown_sleeper),
		CASE("a pair of which nothing came is lost once", test_both_unknown),
		CASE("time of a sleeper that a rule does not want is dropped, and counted",
		     test_unwanted_sleeper),
		CASE("the quality record is about the sleepers", test_quality_is_the_sleepers),
		CASE("the same two stacks add up, another waker's do not", test_same_pair_adds_up),
		CASE("the longest stacks of both fit", test_longest),
		CASE("names stand as they are", test_names),
		CASE("no record is no stack, and no error", test_no_record),
		CASE("a pair's words are the two keys", test_keys),
	};

	return cmocka_run_group_tests(cases, NULL, NULL);
}
