// SPDX-License-Identifier: Apache-2.0
//
// What is asked about files and JITed code, when, and what becomes of the answers. Whoever would
// answer is played (names_played.h).
#include "kernelmap_host.h"
#include "names_played.h"
#include "process_steps.h"

#include "agent/questions.h"
#include "agent/window.h"

#define CODE	0x400000u
#define NO_ID	0x7f0000100000u
#define MEMFD	0x7f0000300000u
#define SAMPLES 5u

static struct fp_kernel_map *kernel;
static struct fp_labeler *labeler;
static struct fp_resolver resolver;
static struct fp_window window;

// ---- the process and its stacks ----

static void map_file_at(uint64_t time, uint64_t start, const char *name, uint64_t inode)
{
	step(&(struct fp_event){ .kind = FP_EVENT_MMAP,
				 .time_ns = time * MS,
				 .tgid = SHELL,
				 .tid = SHELL,
				 .start = start,
				 .length = 0x1000,
				 .page_offset = 0x1000,
				 .major = 8,
				 .minor = 1,
				 .inode = inode,
				 .name = name });
}

static int begin(void **state)
{
	steps_begin(state);
	memset(&names, 0, sizeof(names));
	kernel = host_map();
	assert_int_equal(fp_labeler_new(&(struct fp_labeler_options){ 0 }, &labeler), 0);
	resolver = (struct fp_resolver){ .processes = table,
					 .kernel = kernel,
					 .labeler = labeler,
					 .names = (struct fp_names *)&names };
	assert_int_equal(fp_window_open(&window, 0, NULL), 0);
	fork_at(100, 1, SHELL);
	exec_at(110, SHELL, "prog");
	map_at(111, SHELL, CODE, 0x1000, "/usr/bin/prog", 1);
	map_file_at(113, NO_ID, "/opt/noid.so", 42);
	map_at(114, SHELL, JIT, 0x1000, "//anon", 0);
	map_file_at(115, MEMFD, "/memfd:code (deleted)", 43);
	return 0;
}

static int end(void **state)
{
	fp_window_free(&window);
	fp_labeler_freep(&labeler);
	fp_kernel_map_freep(&kernel);
	return steps_end(state);
}

struct stack {
	struct fp_stack_record record;
	uint64_t frames[4];
};

static struct stack stack_of(uint16_t count, const uint64_t *addresses)
{
	struct stack stack = { .record = record_at(200, SHELL, 99, 1) };

	stack.record.user_len = count;
	stack.record.user_root_gap = UINT64_MAX;
	stack.record.walk_end = FP_WALK_END_BROKEN;
	stack.record.key.lo = addresses[0];
	memcpy(stack.frames, addresses, count * sizeof(*addresses));
	return stack;
}

static const uint64_t everywhere[] = { JIT + 0x100, NO_ID + 0x10, CODE + 0x20, JIT + 0x180 };

static void count(const struct stack *stack)
{
	struct fp_count one = { .count = SAMPLES };

	assert_int_equal(fp_window_count(&window, &resolver, FP_SOURCE_CPU, &one, &stack->record),
			 0);
}

static uint64_t counter(enum fp_quality_counter which)
{
	return window.profile->quality[FP_PROFILE_CPU].counters[which];
}

// The frames of a sample, leaf first: names of JITed functions, else what they are.
static void expect_sample(uint32_t index, const char *expected)
{
	const struct fp_profile *profile = window.profile;
	const struct fp_stack *stack;
	char text[512] = "";

	assert_true(index < profile->samples_count);
	stack = &profile->stacks[profile->samples[index].stack];
	for (uint32_t i = 0; i < stack->count; i++) {
		const struct fp_frame *frame =
		    &profile->frames[profile->stack_frames[stack->first + i]];

		if (frame->kind == FP_FRAME_FILE)
			note(text, sizeof(text), "%d:%s+%llx;", profile->builds[frame->build].kind,
			     fp_profile_str(profile, profile->builds[frame->build].path),
			     (unsigned long long)frame->offset);
		else if (frame->kind == FP_FRAME_ANON)
			note(text, sizeof(text), "anon;");
		else
			note(text, sizeof(text), "%s;", fp_profile_str(profile, frame->name));
	}
	assert_string_equal(text, expected);
}

// ---- the cases ----

static void event(const char *name, uint8_t build_id_len)
{
	fp_questions_event(&resolver, &(struct fp_event){ .kind = FP_EVENT_MMAP,
							  .tgid = SHELL,
							  .start = NO_ID,
							  .length = 0x1000,
							  .major = 8,
							  .minor = 1,
							  .inode = 42,
							  .build_id_len = build_id_len,
							  .name = name });
}

static void test_at_the_mapping(void **state)
{
	event("/opt/x.so", 20);
	event("[vdso]", 0);
	event("//anon", 0); // no stack has told yet when the process started
	assert_string_equal(names.identities, "");
	assert_string_equal(names.watches, "");
	event("/opt/noid.so", 0);
	assert_string_equal(names.identities, "5000001/0 /opt/noid.so 7f0000100000-7f0000101000 "
					      "34359738369:42;");
	expect_at(120, SHELL, 99, CODE, "/usr/bin/prog");
	event("//anon", 0);
	assert_string_equal(names.watches, "5000001 99 110;");
}

static void ask_early(const struct stack *stack)
{
	struct fp_questions questions = { 0 };
	struct fp_records records;

	fp_records_init(&records, false);
	assert_int_equal(fp_records_add(&records, &stack->record), 0);
	assert_int_equal(fp_questions_note(&questions, &stack->record), 0);
	assert_int_equal(fp_questions_ask_early(&questions, &resolver, &records), 0);
	assert_int_equal(questions.count, 0);
	fp_questions_free(&questions);
	fp_records_free(&records);
}

static void test_at_the_first_stack(void **state)
{
	struct stack stack = stack_of(4, everywhere);

	ask_early(&stack);
	assert_string_equal(names.identities, "5000001/1 /opt/noid.so 7f0000100000-7f0000101000 "
					      "34359738369:42;");
	assert_string_equal(names.watches, "5000001 99 110;");
	assert_string_equal(names.addresses, "");
}

static void tell(enum fp_event_kind kind, uint64_t time, uint32_t tid)
{
	const struct fp_event event = {
		.kind = kind, .time_ns = time * MS, .tgid = SHELL, .tid = tid, .name = "prog"
	};

	step(&event);
	fp_questions_event(&resolver, &event);
}

static void test_at_the_end(void **state)
{
	thread_at(120, SHELL, CHILD);
	tell(FP_EVENT_EXIT, 130, SHELL); // the other thread goes on
	assert_string_equal(names.ends, "");
	tell(FP_EVENT_EXIT, 140, CHILD);
	assert_string_equal(names.ends, "5000001 exit 140;");
}

static void test_at_the_end_of_one_that_nobody_knows(void **state)
{
	fp_questions_event(&resolver, &(struct fp_event){ .kind = FP_EVENT_EXIT,
							  .time_ns = 150 * MS,
							  .tgid = OTHER,
							  .tid = OTHER });
	assert_string_equal(names.ends, "");
}

static void test_at_another_program(void **state)
{
	tell(FP_EVENT_COMM, 120, SHELL);
	tell(FP_EVENT_FORK, 121, CHILD);
	tell(FP_EVENT_EXEC, 130, SHELL);
	assert_string_equal(names.ends, "5000001 exec 130;");
}

// Its map is not looked for under the program that runs by now.
static void test_at_a_stack_of_the_program_before(void **state)
{
	struct stack stack = stack_of(4, everywhere);

	ask_early(&stack);
	assert_string_equal(names.ends, "");
	exec_at(300, SHELL, "next");
	ask_early(&stack);
	assert_string_equal(names.watches, "5000001 99 110;5000001 99 110;");
	assert_string_equal(names.ends, "5000001 exec 300;");
}

static void test_before_resolving(void **state)
{
	struct stack stack = stack_of(4, everywhere);

	assert_int_equal(fp_questions_ask(&resolver, &stack.record), 0);
	// The leaf as it is, a caller one byte before its return address.
	assert_string_equal(names.addresses, "7f0000200100;7f000020017f;");
}

static void test_stack_of_an_unknown_process(void **state)
{
	struct stack stack = stack_of(4, everywhere);

	stack.record.tgid = OTHER;
	ask_early(&stack);
	assert_string_equal(names.identities, "");
	stack.record.kernel_thread = 1;
	ask_early(&stack);
	assert_int_equal(fp_questions_ask(&resolver, &stack.record), 0);
}

static void test_nobody_to_ask(void **state)
{
	struct stack stack = stack_of(4, everywhere);

	resolver.names = NULL;
	event("/opt/noid.so", 0);
	ask_early(&stack);
	assert_int_equal(fp_questions_ask(&resolver, &stack.record), 0);
	names.jit_name = "never";
	count(&stack);
	expect_sample(0, "anon;0:/opt/noid.so+1010;1:/usr/bin/prog+1020;anon;");
	assert_true(fp_window_knows(&window, &stack.record));
	window.epochs++;
	assert_true(fp_window_knows(&window, &stack.record));
}

struct identity_case {
	const char *what;
	enum fp_names_state state;
	enum fp_build_kind kind;
	const char *expected;
	uint32_t unidentified;
	bool final; // not looked at again in the next epoch
};

static const struct identity_case identity_cases[] = {
	{ "the file's own note", FP_NAMES_KNOWN, FP_BUILD_GNU, "1:/opt/noid.so+1010;", 0, true },
	{ "Go's build-ID", FP_NAMES_KNOWN, FP_BUILD_GO, "2:/opt/noid.so+1010;", 0, true },
	{ "the file's hash", FP_NAMES_KNOWN, FP_BUILD_HASH, "3:/opt/noid.so+1010;", 0, true },
	{ "no answer yet", FP_NAMES_PENDING, FP_BUILD_NONE, "0:/opt/noid.so+1010;", 1, false },
	{ "nothing identifies it", FP_NAMES_NONE, FP_BUILD_NONE, "0:/opt/noid.so+1010;", 1, true },
};

static void test_identities(void **state)
{
	for (size_t i = 0; i < FP_ARRAY_SIZE(identity_cases); i++) {
		const struct identity_case *c = &identity_cases[i];
		struct stack stack = stack_of(1, (uint64_t[]){ NO_ID + 0x10 });

		print_message("  %s\n", c->what);
		end(state);
		begin(state);
		names.state = c->state;
		names.kind = c->kind;
		count(&stack);
		expect_sample(0, c->expected);
		assert_int_equal(counter(FP_QUALITY_FRAMES_NO_BUILD_ID), c->unidentified * SAMPLES);
		window.epochs++;
		assert_int_equal(fp_window_knows(&window, &stack.record), c->final);
	}
}

static void test_jit_names(void **state)
{
	struct stack stack = stack_of(4, everywhere);

	names.state = FP_NAMES_NONE;
	names.jit_name = "function one";
	count(&stack);
	expect_sample(0, "function one;0:/opt/noid.so+1010;1:/usr/bin/prog+1020;function one;");
	assert_int_equal(counter(FP_QUALITY_FRAMES_JIT), 2 * SAMPLES);
	assert_int_equal(counter(FP_QUALITY_FRAMES_ANON), 0);
	// In this epoch the name stands; in the next it may be another.
	names.jit_name = "function two";
	count(&stack);
	assert_int_equal(window.profile->samples_count, 1);
	window.epochs++;
	assert_false(fp_window_knows(&window, &stack.record));
	count(&stack);
	expect_sample(1, "function two;0:/opt/noid.so+1010;1:/usr/bin/prog+1020;function two;");
	assert_int_equal(window.profile->samples[0].count, 2 * SAMPLES);
	assert_int_equal(window.profile->samples[1].count, SAMPLES);
}

static void test_code_without_a_name(void **state)
{
	struct stack stack = stack_of(1, (uint64_t[]){ JIT + 0x900 });

	names.jit_name = "elsewhere";
	count(&stack);
	expect_sample(0, "anon;");
	assert_int_equal(counter(FP_QUALITY_FRAMES_ANON), SAMPLES);
	assert_int_equal(counter(FP_QUALITY_FRAMES_JIT), 0);
	window.epochs++;
	assert_false(fp_window_knows(&window, &stack.record)); // its name may come
}

static void test_file_in_memory(void **state)
{
	struct stack stack = stack_of(1, (uint64_t[]){ MEMFD + 0x10 });

	ask_early(&stack);
	assert_string_equal(names.watches, "5000001 99 110;");
	assert_non_null(strstr(names.identities, "/memfd:code"));
	names.state = FP_NAMES_KNOWN;
	names.kind = FP_BUILD_HASH;
	count(&stack);
	expect_sample(0, "3:/memfd:code (deleted)+1010;");
}

static void test_dropped_by_a_rule(void **state)
{
	struct fp_window_facts facts = { .hz_actual = 10,
					 .has_source = { true, false },
					 .hook = { "x", "y" } };
	struct stack stack = stack_of(1, (uint64_t[]){ CODE });
	struct fp_profile *profile FP_AUTOPROFILE = NULL;
	struct fp_quality *quality;

	fp_labeler_freep(&labeler);
	assert_int_equal(
	    fp_labeler_new(&(struct fp_labeler_options){ .relabel = "drop executable =~ prog" },
			   &labeler),
	    0);
	resolver.labeler = labeler;
	count(&stack);
	count(&stack);
	window.start.busy_ns = 0;
	fp_window_end(&window);
	window.end.busy_ns = 3000000000; // 30 samples
	assert_int_equal(fp_window_close(&window, &facts, &profile), 0);
	assert_int_equal(profile->samples_count, 0);
	assert_int_equal(profile->stacks_count, 0);
	quality = &profile->quality[FP_PROFILE_CPU];
	assert_int_equal(quality->counters[FP_QUALITY_SAMPLES], 0);
	assert_int_equal(quality->counters[FP_QUALITY_EXPECTED_SAMPLES], 30 - 2 * SAMPLES);
	for (uint32_t i = 0; i < quality->named_count; i++)
		if (!strcmp(fp_profile_str(profile, quality->named[i].name), "relabel.dropped")) {
			assert_int_equal(quality->named[i].value, 2 * SAMPLES);
			return;
		}
	fail_msg("the quality record does not say what was dropped");
}

#define CASE(sentence, function)                                                                   \
	{                                                                                          \
		.name = sentence, .test_func = function, .setup_func = begin, .teardown_func = end \
	}

int main(void)
{
	const struct CMUnitTest cases[] = {
		CASE("a file without a build-ID is asked about when it is mapped",
		     test_at_the_mapping),
		CASE("the first stack asks about files and has the perf map opened",
		     test_at_the_first_stack),
		CASE("the end of a process is told with that of its last thread", test_at_the_end),
		CASE("what ends is told of processes that are known",
		     test_at_the_end_of_one_that_nobody_knows),
		CASE("another program ends the one before", test_at_another_program),
		CASE("a stack of a program that is over tells that it is",
		     test_at_a_stack_of_the_program_before),
		CASE("the names of JITed code are asked for before resolving",
		     test_before_resolving),
		CASE("nothing is asked about a process that is not known",
		     test_stack_of_an_unknown_process),
		CASE("without anyone to ask, frames are what the kernel says", test_nobody_to_ask),
		CASE("a file's identity keeps its kind, and one still missing is looked for again",
		     test_identities),
		CASE("names of JITed code hold for an epoch", test_jit_names),
		CASE("JITed code without a name is memory of no file", test_code_without_a_name),
		CASE("a file in memory alone may be a program or JITed code", test_file_in_memory),
		CASE("what a relabel rule drops is counted, and not expected",
		     test_dropped_by_a_rule),
	};

	return cmocka_run_group_tests(cases, NULL, NULL);
}
