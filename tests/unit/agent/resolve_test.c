// SPDX-License-Identifier: Apache-2.0
#include "kernelmap_host.h"
#include "process_steps.h"

#include "agent/resolve.h"
#include "agent/resolve_vdso.h"

#define CODE	0x400000u
#define LIBC	0x7f0000000000u
#define NO_ID	0x7f0000100000u
#define JIT	0x7f0000200000u
#define VDSO	0x7ffff7fc1000u
#define NOWHERE 0x123456u

static struct fp_kernel_map *kernel;
static struct fp_profile *profile;
static struct fp_resolver resolver;
static struct fp_labeler *labeler;

struct stack {
	struct fp_stack_record record;
	uint64_t room[FP_MAX_FRAMES + FP_MAX_USER_FRAMES];
};

static int begin(void **state)
{
	steps_begin(state);
	kernel = host_map();
	fork_at(100, 1, SHELL);
	exec_at(110, SHELL, "prog");
	map_at(111, SHELL, CODE, 0x1000, "/usr/bin/prog", 1);
	map_at(112, SHELL, LIBC, 0x1000, "/lib/libc.so.6", 2);
	map_at(113, SHELL, NO_ID, 0x1000, "/opt/noid.so", 0);
	map_at(114, SHELL, JIT, 0x1000, "//anon", 0);
	map_at(115, SHELL, VDSO, 0x1000, "[vdso]", 0);
	assert_int_equal(fp_labeler_new(&(struct fp_labeler_options){ 0 }, &labeler), 0);
	resolver = (struct fp_resolver){ .processes = table, .kernel = kernel, .labeler = labeler };
	return fp_profile_new(&profile);
}

static int end(void **state)
{
	fp_labeler_freep(&labeler);
	fp_profile_freep(&profile);
	fp_kernel_map_freep(&kernel);
	return steps_end(state);
}

static struct stack stack_of(const uint64_t *kernel_side, uint16_t kernel_len,
			     const uint64_t *user_side, uint16_t user_len)
{
	struct stack stack = { .record = record_at(200, SHELL, 99, 1) };

	stack.record.kernel_len = kernel_len;
	stack.record.user_len = user_len;
	stack.record.user_root_gap = UINT64_MAX;
	stack.record.walk_end = FP_WALK_END_BROKEN;
	memcpy(stack.record.comm, "worker", 6);
	if (kernel_len)
		memcpy(stack.room, kernel_side, kernel_len * sizeof(uint64_t));
	if (user_len)
		memcpy(stack.room + kernel_len, user_side, user_len * sizeof(uint64_t));
	return stack;
}

static struct fp_resolved resolve(const struct stack *stack)
{
	struct fp_resolved resolved;

	assert_int_equal(fp_resolver_resolve(&resolver, &stack->record, profile, &resolved), 0);
	return resolved;
}

static const struct fp_frame *frame(const struct fp_resolved *resolved, uint32_t index)
{
	const struct fp_stack *stack = &profile->stacks[resolved->stack];

	assert_true(index < stack->count);
	return &profile->frames[profile->stack_frames[stack->first + index]];
}

// "prog+0x10", "<name>" for named and error frames, "anon" …
static void expect_frames(const struct fp_resolved *resolved, const char *expected)
{
	FP_AUTOBUF struct fp_buf text = { 0 };
	uint32_t count = profile->stacks[resolved->stack].count;

	assert_int_equal(resolved->frames, count);
	for (uint32_t i = 0; i < count; i++) {
		const struct fp_frame *f = frame(resolved, i);
		const char *path = f->build == FP_NO_BUILD
				       ? ""
				       : fp_profile_str(profile, profile->builds[f->build].path);
		const char *base = strrchr(path, '/');

		if (f->kind == FP_FRAME_ANON)
			fp_buf_str(&text, "anon");
		else if (f->kind == FP_FRAME_NAMED || f->kind == FP_FRAME_ERROR)
			fp_buf_str(&text, fp_profile_str(profile, f->name));
		else
			fp_buf_printf(&text, "%s+0x%llx", base ? base + 1 : path,
				      (unsigned long long)f->offset);
		fp_buf_byte(&text, i + 1 < count ? ' ' : '\0');
	}
	assert_string_equal((const char *)text.data, expected);
}

static void expect_labels(const struct fp_resolved *resolved, const char *expected)
{
	FP_AUTOBUF struct fp_buf text = { 0 };
	const struct fp_labels *labels = &profile->labels[resolved->labels];

	for (uint32_t i = 0; i < labels->count; i++) {
		const struct fp_label *label = &profile->label_pool[labels->first + i];

		fp_buf_printf(&text, "%s%s=%s", i ? "," : "", fp_profile_str(profile, label->name),
			      fp_profile_str(profile, label->value));
	}
	assert_string_equal((const char *)text.data, expected);
}

static void test_kinds_of_frames(void **state)
{
	const uint64_t in_kernel[] = { IMAGE + 0x1190, MODULE_A + 0x44, PROGRAM + 1 };
	const uint64_t user[] = { CODE + 0x10, LIBC + 0x20, NO_ID + 0x30, JIT + 0x40, VDSO + 0x50 };
	struct stack stack = stack_of(in_kernel, 3, user, 5);
	struct fp_resolved resolved = resolve(&stack);
	size_t id_len;

	expect_frames(&resolved, "[kernel]+0x1190 [mod_a]+0x44 bpf_prog_0123456789abcdef_on_tick "
				 "prog+0x1010 libc.so.6+0x1020 noid.so+0x1030 anon [vdso]+0x50");
	assert_int_equal(resolved.frames_no_build_id, 1);
	assert_int_equal(resolved.frames_anon, 1);
	assert_int_equal(resolved.frames_unmapped, 0);
	assert_true(resolved.has_user);
	assert_false(resolved.process_unknown);
	assert_int_equal(frame(&resolved, 7)->kind, FP_FRAME_VDSO);
	if (fp_vdso_build_id(&id_len))
		assert_memory_equal(profile->builds[frame(&resolved, 7)->build].id,
				    fp_vdso_build_id(&id_len), id_len);
	assert_int_equal(profile->builds[frame(&resolved, 3)->build].kind, FP_BUILD_GNU);
	assert_int_equal(profile->builds[frame(&resolved, 3)->build].id[5], 1);
	assert_int_equal(profile->builds[frame(&resolved, 5)->build].kind, FP_BUILD_NONE);
	expect_labels(&resolved, "executable=prog,service_name=prog,thread=worker");
}

static void test_return_address_at_the_end(void **state)
{
	const uint64_t caller_ends_mapping[] = { CODE + 0x10, LIBC + 0x1000 };
	const uint64_t leaf_behind_mapping[] = { LIBC + 0x1000, CODE + 0x10 };
	struct stack stack = stack_of(NULL, 0, caller_ends_mapping, 2);
	struct fp_resolved resolved = resolve(&stack);

	expect_frames(&resolved, "prog+0x1010 libc.so.6+0x2000");
	stack = stack_of(NULL, 0, leaf_behind_mapping, 2);
	resolved = resolve(&stack);
	expect_frames(&resolved, "[unmapped address] prog+0x1010");
	assert_int_equal(resolved.frames_unmapped, 1);
}

static void test_garbage_is_cut(void **state)
{
	const uint64_t user[] = { CODE + 0x10, LIBC + 0x20, NOWHERE, CODE + 0x30 };
	struct stack stack = stack_of(NULL, 0, user, 4);
	struct fp_resolved resolved;

	stack.record.walk_end = FP_WALK_END_ROOT;
	stack.record.user_root_gap = 100;
	resolved = resolve(&stack);
	expect_frames(&resolved, "prog+0x1010 libc.so.6+0x1020");
	assert_int_equal(resolved.frames_unmapped, 1);
	assert_int_equal(resolved.walk_end, FP_WALK_END_BROKEN);
	assert_string_equal(fp_profile_str(profile, profile->builds[resolved.stop_build].path),
			    "/lib/libc.so.6");
}

struct end_case {
	const char *what;
	uint16_t user_len;
	enum fp_walk_end walk_end;
	uint64_t gap;
	enum fp_walk_end expected;
	bool by_table;
};

static const struct end_case end_cases[] = {
	{ "the outermost frame", 3, FP_WALK_END_ROOT, UINT64_MAX, FP_WALK_END_ROOT, false },
	{ "start code of the C library near the top of the stack", 3, FP_WALK_END_BROKEN, 4096,
	  FP_WALK_END_ROOT, false },
	{ "a break far from the top", 3, FP_WALK_END_BROKEN, 4097, FP_WALK_END_BROKEN, false },
	{ "a break, top unknown", 3, FP_WALK_END_BROKEN, UINT64_MAX, FP_WALK_END_BROKEN, false },
	{ "a fault above the last frame near the top", 3, FP_WALK_END_FAULT, 64, FP_WALK_END_ROOT,
	  false },
	{ "a fault far from the top", 3, FP_WALK_END_FAULT, 1 << 20, FP_WALK_END_FAULT, false },
	{ "the depth limit, even near the top", 3, FP_WALK_END_DEPTH, 64, FP_WALK_END_DEPTH,
	  false },
	{ "the kernel's helper, which does not say", 3, FP_WALK_END_UNKNOWN, UINT64_MAX,
	  FP_WALK_END_UNKNOWN, false },
	{ "one frame that claims to be outermost", 1, FP_WALK_END_ROOT, UINT64_MAX,
	  FP_WALK_END_BROKEN, false },
	{ "one frame near the top", 1, FP_WALK_END_BROKEN, 64, FP_WALK_END_BROKEN, false },
	{ "one frame that a table says is the outermost", 1, FP_WALK_END_OUTERMOST, UINT64_MAX,
	  FP_WALK_END_OUTERMOST, false },
	{ "what a table says is the outermost, near the top", 3, FP_WALK_END_OUTERMOST, 64,
	  FP_WALK_END_OUTERMOST, false },
	{ "code without a table, far from the top", 3, FP_WALK_END_NO_TABLE, UINT64_MAX,
	  FP_WALK_END_NO_TABLE, false },
	{ "code without a table that frame pointers led to, near the top", 3, FP_WALK_END_NO_TABLE,
	  64, FP_WALK_END_NO_TABLE, true },
	{ "a process whose tables are not there yet, near the top", 3, FP_WALK_END_BROKEN, 64,
	  FP_WALK_END_BROKEN, true },
	{ "two frames", 2, FP_WALK_END_ROOT, UINT64_MAX, FP_WALK_END_ROOT, false },
};

static void test_walk_ends(void **state)
{
	const uint64_t user[] = { LIBC + 0x10, CODE + 0x20, LIBC + 0x30 };

	for (size_t i = 0; i < FP_ARRAY_SIZE(end_cases); i++) {
		const struct end_case *c = &end_cases[i];
		struct stack stack = stack_of(NULL, 0, user, c->user_len);
		struct fp_resolved resolved;

		print_message("  %s\n", c->what);
		stack.record.walk_end = (uint8_t)c->walk_end;
		stack.record.user_root_gap = c->gap;
		resolver.by_table = c->by_table;
		resolved = resolve(&stack);
		resolver.by_table = false;
		assert_int_equal(resolved.walk_end, c->expected);
		assert_int_equal(resolved.frames, c->user_len);
		assert_true(resolved.stop_build != FP_NO_BUILD);
	}
}

static void test_unknown_process(void **state)
{
	const uint64_t in_kernel[] = { IMAGE + 0x1190 };
	const uint64_t user[] = { CODE + 0x10, CODE + 0x20 };
	struct stack stack = stack_of(in_kernel, 1, user, 2);
	struct fp_resolved resolved;

	stack.record.tgid = OTHER;
	resolved = resolve(&stack);
	expect_frames(&resolved, "[kernel]+0x1190 [mappings not read in time]");
	assert_true(resolved.process_unknown);
	assert_true(resolved.has_user);
	assert_int_equal(resolved.walk_end, FP_WALK_END_UNKNOWN);
	assert_int_equal(resolved.stop_build, FP_NO_BUILD);
	expect_labels(&resolved, "executable=[unknown],service_name=[unknown],thread=worker");
}

static void test_kernel_thread(void **state)
{
	const uint64_t in_kernel[] = { IMAGE + 0x1190 };
	struct stack stack = stack_of(in_kernel, 1, NULL, 0);
	struct fp_resolved resolved;

	stack.record.kernel_thread = 1;
	stack.record.walk_end = FP_WALK_END_NONE;
	resolved = resolve(&stack);
	expect_frames(&resolved, "[kernel]+0x1190");
	assert_false(resolved.has_user);
	assert_false(resolved.process_unknown);
	assert_int_equal(resolved.walk_end, FP_WALK_END_NONE);
	expect_labels(&resolved, "executable=[kernel],service_name=[kernel],thread=worker");
}

static void test_off_cpu(void **state)
{
	const uint64_t in_kernel[] = { PROGRAM + 0x80, IMAGE + 0x1150, IMAGE + 0x1250,
				       IMAGE + 0x1310, IMAGE + 0x1190 };
	const uint64_t user[] = { LIBC + 0x10, CODE + 0x20 };
	struct stack stack = stack_of(in_kernel, 5, user, 2);
	struct fp_resolved resolved;

	stack.record.source = FP_SOURCE_OFFCPU;
	stack.record.state = 2;
	resolved = resolve(&stack);
	expect_frames(&resolved, "[kernel]+0x1250 [kernel]+0x1310 [kernel]+0x1190 "
				 "libc.so.6+0x1010 prog+0x1020");
	expect_labels(&resolved,
		      "executable=prog,service_name=prog,state=uninterruptible,thread=worker");
	stack.record.state = 1;
	resolved = resolve(&stack);
	expect_labels(&resolved,
		      "executable=prog,service_name=prog,state=interruptible,thread=worker");
	stack.record.source = FP_SOURCE_CPU; // nothing is left out of a CPU sample
	resolved = resolve(&stack);
	assert_int_equal(resolved.frames, 7);
}

// The scheduler's frames are of what was interrupted, and none of them is shown.
static void test_interrupted_scheduler(void **state)
{
	const uint64_t in_kernel[] = { PROGRAM + 0x80, IMAGE + 0x16d0, IMAGE + 0x1610,
				       IMAGE + 0x1550, IMAGE + 0x1250, IMAGE + 0x1310,
				       IMAGE + 0x1190 };
	const uint64_t user[] = { LIBC + 0x10, CODE + 0x20 };
	struct stack stack = stack_of(in_kernel, 7, user, 2);
	struct fp_resolved resolved;

	stack.record.source = FP_SOURCE_WAKER;
	resolved = resolve(&stack);
	assert_true(resolved.interrupt);
	expect_frames(&resolved, "[kernel]+0x16d0 [kernel]+0x1610 [kernel]+0x1550");
}

static void test_unwanted(void **state)
{
	const uint64_t user[] = { CODE + 0x20 };
	struct stack stack = stack_of(NULL, 0, user, 1);
	struct fp_labeler_options options = { .relabel = "drop executable =~ prog" };
	struct fp_resolved resolved;
	uint32_t stacks = profile->stacks_count, labels = profile->labels_count;

	fp_labeler_freep(&labeler);
	assert_int_equal(fp_labeler_new(&options, &labeler), 0);
	resolver.labeler = labeler;
	resolved = resolve(&stack);
	assert_true(resolved.unwanted);
	assert_int_equal(profile->stacks_count, stacks);
	assert_int_equal(profile->labels_count, labels);
}

static void test_raw_thread_name(void **state)
{
	static const char hostile[FP_COMM_LEN] = "a)\n;\xff\xfe R 1 (\\123"; // 16, no NUL
	const uint64_t user[] = { CODE + 0x20 };
	struct stack stack = stack_of(NULL, 0, user, 1);
	struct fp_resolved resolved;
	const struct fp_labels *labels;
	uint32_t value;

	memcpy(stack.record.comm, hostile, sizeof(hostile));
	resolved = resolve(&stack);
	labels = &profile->labels[resolved.labels];
	value = profile->label_pool[labels->first + 2].value; // executable, service_name
	assert_int_equal(profile->strings.sizes[value], sizeof(hostile));
	assert_memory_equal(fp_profile_str(profile, value), hostile, sizeof(hostile));
}

static void test_longest_stack(void **state)
{
	uint64_t in_kernel[FP_MAX_FRAMES], user[FP_MAX_USER_FRAMES];
	struct fp_resolved resolved;
	struct stack stack;

	for (uint32_t i = 0; i < FP_MAX_FRAMES; i++)
		in_kernel[i] = IMAGE + 0x100 + i;
	for (uint32_t i = 0; i < FP_MAX_USER_FRAMES; i++)
		user[i] = CODE + 0x100 + i;
	stack = stack_of(in_kernel, FP_MAX_FRAMES, user, FP_MAX_USER_FRAMES);
	resolved = resolve(&stack);
	assert_int_equal(resolved.frames, FP_MAX_FRAMES + FP_MAX_USER_FRAMES);
	stack.record.user_len = FP_MAX_USER_FRAMES + 1;
	assert_int_equal(fp_resolver_resolve(&resolver, &stack.record, profile, &resolved),
			 -EINVAL);
}

static void test_no_stack_at_all(void **state)
{
	struct stack stack = stack_of(NULL, 0, NULL, 0);
	struct fp_resolved resolved;

	stack.record.walk_end = FP_WALK_END_NONE;
	resolved = resolve(&stack);
	expect_frames(&resolved, "[no stack]");
	assert_false(resolved.has_user);
}

#define CASE(sentence, function)                                                                   \
	{                                                                                          \
		.name = sentence, .test_func = function, .setup_func = begin, .teardown_func = end \
	}

int main(void)
{
	const struct CMUnitTest cases[] = {
		CASE("every kind of address becomes its kind of frame", test_kinds_of_frames),
		CASE("a caller is looked up one byte before its return address",
		     test_return_address_at_the_end),
		CASE("a stack is cut where an address belongs to nothing", test_garbage_is_cut),
		CASE("a walk is whole only if that is proven", test_walk_ends),
		CASE("the user side of an unknown process says so", test_unknown_process),
		CASE("a kernel thread has no user side", test_kernel_thread),
		CASE("an off-CPU stack begins in the scheduler and has a state", test_off_cpu),
		CASE("an interrupt's own frames end at its entry, also where it interrupts the "
		     "scheduler",
		     test_interrupted_scheduler),
		CASE("a sample that a rule drops leaves nothing in the profile", test_unwanted),
		CASE("thread names stay as they are", test_raw_thread_name),
		CASE("the longest stack fits, a longer one is refused", test_longest_stack),
		CASE("a record without any frame is said to have none", test_no_stack_at_all),
	};

	return cmocka_run_group_tests(cases, NULL, NULL);
}
