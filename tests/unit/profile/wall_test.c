// SPDX-License-Identifier: Apache-2.0
#include "profiles.h"

#include "trees.h"

#include "profile/aspect.h"
#include "profile/wall.h"

enum { LEAF, CALLER, SYSCALL, STOP };

struct wall_profile {
	struct fp_profile *profile;
	uint32_t frames[3];
};

static void add(struct wall_profile *wall, enum fp_profile_type type, const char *state,
		bool in_kernel, uint64_t value)
{
	struct fp_profile *p = wall->profile;
	uint32_t stack[] = { wall->frames[SYSCALL], wall->frames[LEAF], wall->frames[CALLER] };
	struct fp_label label = { profile_string(p, "state"),
				  profile_string(p, state ? state : "") };
	struct fp_sample sample = { .type = type, .count = 1, .value = value };

	assert_int_equal(fp_profile_labels(p, &label, state ? 1 : 0, &sample.labels), 0);
	assert_int_equal(
	    fp_profile_stack(p, stack + !in_kernel, 3 - (uint32_t)!in_kernel, &sample.stack), 0);
	assert_int_equal(fp_profile_sample(p, &sample), 0);
}

// Five samples at 1 µs each; 1,027 ns blocked, 43 ns ready, and the wakers of the former.
static struct wall_profile wall_profile_new(void)
{
	struct sample_profile sample = { 0 };
	struct wall_profile wall = { 0 };
	struct fp_profile *p;

	assert_int_equal(fp_profile_new(&sample.profile), 0);
	sample_profile_builds(&sample);
	wall.profile = p = sample.profile;
	p->period_ns = 1000;
	wall.frames[LEAF] = profile_frame(p, FP_FRAME_FILE, sample.builds[APP], NULL, 0x1100);
	wall.frames[CALLER] = profile_frame(p, FP_FRAME_FILE, sample.builds[LIBC], NULL, 0x2010);
	wall.frames[SYSCALL] =
	    profile_frame(p, FP_FRAME_KERNEL, sample.builds[KERNEL], NULL, 0x150);
	add(&wall, FP_PROFILE_CPU, NULL, false, 3);
	add(&wall, FP_PROFILE_CPU, NULL, true, 2);
	add(&wall, FP_PROFILE_OFF_CPU, "interruptible", true, 700);
	add(&wall, FP_PROFILE_OFF_CPU, "uninterruptible", true, 300);
	add(&wall, FP_PROFILE_OFF_CPU, "stopped", true, 20);
	add(&wall, FP_PROFILE_OFF_CPU, NULL, true, 7);
	add(&wall, FP_PROFILE_RUN_QUEUE, "preempted", false, 40);
	add(&wall, FP_PROFILE_RUN_QUEUE, "woken", true, 2);
	add(&wall, FP_PROFILE_RUN_QUEUE, "renamed by a rule", true, 1);
	add(&wall, FP_PROFILE_WAKER, NULL, true, 1027);
	return wall;
}

static struct fp_tree *fold(const struct fp_profile *profile, const struct fp_fold_options *options)
{
	FP_AUTOSYMBOLIZER struct fp_symbolizer *symbolizer = sample_symbolizer();
	struct fp_tree *tree = NULL;

	assert_int_equal(fp_tree_new(&tree), 0);
	assert_int_equal(fp_fold_profile(profile, options, symbolizer, tree), 0);
	assert_int_equal(fp_tree_finish(tree), 0);
	return tree;
}

static void test_tree(void **state)
{
	struct wall_profile wall = wall_profile_new();
	FP_AUTOPROFILE struct fp_profile *profile = wall.profile;
	struct fp_fold_options options = { .wall = true, .kernel_frames = true };
	FP_AUTOTREE struct fp_tree *tree = fold(profile, &options);
	uint32_t leaf = child_of(tree, child_of(tree, FP_TREE_ROOT, "start_thread"), "leaf");
	uint32_t call = child_of(tree, leaf, "do_syscall");

	assert_folded(tree, "start_thread;leaf 3000\n"
			    "start_thread;leaf;[preempted] 40\n"
			    "start_thread;leaf;do_syscall_[k] 2000\n"
			    "start_thread;leaf;do_syscall_[k];[blocked: interruptible] 700\n"
			    "start_thread;leaf;do_syscall_[k];[blocked: uninterruptible] 300\n"
			    "start_thread;leaf;do_syscall_[k];[blocked] 7\n"
			    "start_thread;leaf;do_syscall_[k];[ready] 1\n"
			    "start_thread;leaf;do_syscall_[k];[stopped] 20\n"
			    "start_thread;leaf;do_syscall_[k];[woken] 2\n");
	assert_int_equal(tree->nodes[FP_TREE_ROOT].total, 5000 + 1027 + 43);
	// On and off the CPU are one rectangle.
	assert_int_equal(tree->nodes[call].total, 2000 + 1027 + 3);
	assert_int_equal(tree->nodes[call].self, 2000);
	assert_int_equal(tree->nodes[child_of(tree, call, "[blocked: interruptible]")].kind,
			 FP_NODE_WAIT);
	assert_int_equal(tree->nodes[child_of(tree, leaf, "[preempted]")].kind, FP_NODE_READY);
}

static void test_user_side(void **state)
{
	struct wall_profile wall = wall_profile_new();
	FP_AUTOPROFILE struct fp_profile *profile = wall.profile;
	struct fp_fold_options options = { .wall = true };
	FP_AUTOTREE struct fp_tree *tree = fold(profile, &options);

	assert_folded(tree, "start_thread;leaf 5000\n"
			    "start_thread;leaf;[blocked: interruptible] 700\n"
			    "start_thread;leaf;[blocked: uninterruptible] 300\n"
			    "start_thread;leaf;[blocked] 7\n"
			    "start_thread;leaf;[preempted] 40\n"
			    "start_thread;leaf;[ready] 1\n"
			    "start_thread;leaf;[stopped] 20\n"
			    "start_thread;leaf;[woken] 2\n");
}

// Alone, a type has no marks: there the state is a label to select by.
static void test_one_type(void **state)
{
	struct wall_profile wall = wall_profile_new();
	FP_AUTOPROFILE struct fp_profile *profile = wall.profile;
	struct fp_fold_options options = { .type = FP_PROFILE_OFF_CPU, .kernel_frames = true };
	FP_AUTOTREE struct fp_tree *tree = fold(profile, &options);

	assert_folded(tree, "start_thread;leaf;do_syscall_[k] 1027\n");
}

// Leaf first: the waker from its root to its leaf, the mark, the sleeper from its leaf to its
// root. Names tell where code stood from where a call returns to: 0x1100 is `leaf` or `caller`.
static void test_waker(void **state)
{
	static const struct {
		bool kernel_frames;
		const char *expected;
	} cases[] = {
		{ true, "start_thread;leaf;do_syscall_[k];[woken by a\\x3bb];do_syscall_[k];leaf;"
			"caller 5\n" },
		{ false, "start_thread;leaf;[woken by a\\x3bb];leaf;caller 5\n" },
	};
	struct wall_profile wall = wall_profile_new();
	FP_AUTOPROFILE struct fp_profile *p = wall.profile;
	uint32_t woken = profile_frame(p, FP_FRAME_ERROR, FP_NO_BUILD, "[woken by a;b]", 0);
	uint32_t code = wall.frames[LEAF], call = wall.frames[SYSCALL];
	uint32_t frames[] = { code, code, call, woken, call, code, wall.frames[CALLER] };
	struct fp_sample sample = { .type = FP_PROFILE_WAKER, .count = 1, .value = 5 };

	p->samples_count--; // the plain stack of the example
	assert_int_equal(fp_profile_labels(p, NULL, 0, &sample.labels), 0);
	assert_int_equal(fp_profile_stack(p, frames, FP_ARRAY_SIZE(frames), &sample.stack), 0);
	sample.value = 5;
	assert_int_equal(fp_profile_sample(p, &sample), 0);
	for (size_t i = 0; i < FP_ARRAY_SIZE(cases); i++) {
		struct fp_fold_options options = { .type = FP_PROFILE_WAKER,
						   .kernel_frames = cases[i].kernel_frames };
		FP_AUTOTREE struct fp_tree *tree = fold(p, &options);

		assert_folded(tree, cases[i].expected);
		for (uint32_t node = 1; node < tree->count; node++)
			if (fp_intern_get(&tree->names, tree->nodes[node].name)[1] == 'w')
				assert_int_equal(tree->nodes[node].kind, FP_NODE_WAKE);
	}
}

static void assert_words(const struct fp_profile *profile, const char *text, const char *line)
{
	FP_AUTOBUF struct fp_buf got_text = { 0 }, got_line = { 0 };

	assert_int_equal(fp_wall_text(profile, &got_text), 0);
	assert_int_equal(fp_wall_line(profile, &got_line), 0);
	fp_buf_byte(&got_text, 0);
	fp_buf_byte(&got_line, 0);
	assert_string_equal((const char *)got_text.data, text);
	assert_string_equal((const char *)got_line.data, line);
}

static void test_words(void **state)
{
	struct wall_profile wall = wall_profile_new();
	FP_AUTOPROFILE struct fp_profile *profile = wall.profile;
	struct fp_quality *quality = profile->quality;

	assert_words(profile, "", "");
	quality[FP_PROFILE_CPU].present = quality[FP_PROFILE_OFF_CPU].present = true;
	quality[FP_PROFILE_RUN_QUEUE].present = true;
	quality[FP_PROFILE_CPU].counters[FP_QUALITY_SAMPLES] = 5;
	quality[FP_PROFILE_CPU].counters[FP_QUALITY_STACKS_LOST] = 1;
	quality[FP_PROFILE_OFF_CPU].counters[FP_QUALITY_SAMPLES] = 4;
	quality[FP_PROFILE_OFF_CPU].counters[FP_QUALITY_STACKS_LOST] = 2;
	quality[FP_PROFILE_RUN_QUEUE].counters[FP_QUALITY_SAMPLES] = 3;
	assert_words(profile,
		     "Wall: 5.00 µs on the CPU, 1.03 µs blocked, 43 ns ready to run; together "
		     "6.07 µs of the threads' time.\n"
		     "CPU: 5 samples; 1 lost, 0 dropped.\n"
		     "Lost stacks: 1 (20.0 %) were counted, but their frames never reached user "
		     "space; they stand under [stack lost].\n"
		     "Off-CPU: 4 waits, 1.03 µs blocked; 2 lost, 0 dropped.\n"
		     "Lost stacks: 2 (50.0 %) were counted, but their frames never reached user "
		     "space; they stand under [stack lost].\n"
		     "Run queue: 3 waits, 43 ns ready to run; 0 lost, 0 dropped.\n",
		     "5.00 µs on the CPU, 1.03 µs blocked, 43 ns ready to run; 3 lost, 0 dropped");
}

static void test_missing(void **state)
{
	struct sample_profile sample = sample_profile_new(); // no run-queue time, no records
	FP_AUTOPROFILE struct fp_profile *profile = sample.profile;

	profile->quality[FP_PROFILE_OFF_CPU].present = true;
	profile->period_ns = 0;
	assert_words(profile,
		     "Wall: an unknown time on the CPU, 1.00 ms blocked; together 1.00 ms of the "
		     "threads' time.\n"
		     "Warning: the sampling period is not known, so CPU samples are no time and "
		     "are left out of the picture.\n"
		     "Not recorded: run-queue time; from wake-up to running counts as blocked, and "
		     "time preempted is not in the picture.\n"
		     "Off-CPU: 0 waits, 1.00 ms blocked; 0 lost, 0 dropped.\n",
		     "an unknown time on the CPU, 1.00 ms blocked; 0 lost, 0 dropped; ready to run "
		     "not recorded");
}

static void test_aspects(void **state)
{
	static const struct {
		const char *name, *title;
		enum fp_profile_type type;
		uint32_t types;
	} rows[] = {
		{ "cpu", "CPU", FP_PROFILE_CPU, 2 },
		{ "off_cpu", "Off-CPU", FP_PROFILE_OFF_CPU, 4 },
		{ "run_queue", "Run queue", FP_PROFILE_RUN_QUEUE, 8 },
		{ "waker", "Wakers", FP_PROFILE_WAKER, 16 },
		{ "wall", "Wall time", 0, 2 + 4 + 8 },
	};

	assert_int_equal(fp_aspects_count, FP_ARRAY_SIZE(rows));
	for (size_t i = 0; i < FP_ARRAY_SIZE(rows); i++) {
		const struct fp_aspect *aspect = fp_aspect_find(rows[i].name);

		assert_non_null(aspect);
		assert_string_equal(aspect->title, rows[i].title);
		assert_int_equal(aspect->type, rows[i].type);
		assert_int_equal(aspect->types, rows[i].types);
		if (!rows[i].type)
			continue;
		assert_ptr_equal(fp_aspect_of(rows[i].type), aspect);
		assert_string_equal(fp_profile_type_name(rows[i].type), rows[i].name);
	}
	assert_null(fp_aspect_find("?"));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		FP_CASE("time on and off the CPU is one tree, its parts told apart", test_tree),
		FP_CASE("without kernel frames the marks stay", test_user_side),
		FP_CASE("one type alone has no marks", test_one_type),
		FP_CASE("the waker stands on the sleeper, with a mark between", test_waker),
		FP_CASE("the parts and what they are worth are said", test_words),
		FP_CASE("what is not in the picture is said", test_missing),
		FP_CASE("there is a row for every type", test_aspects),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
