// SPDX-License-Identifier: Apache-2.0
//
// What processes do to their mappings inside one window, as scripts of events: after all of them
// have been handed in, stacks from any moment must find what was there then.
#include "process_steps.h"

#define PROGRAM 0x400000u
#define LIBRARY 0x7f0000000000u
#define JIT	0x7f0000200000u

struct script_line {
	char what; // see the macros
	uint32_t time;
	uint32_t tgid;
	uint32_t other; // parent, tid or start time
	uint64_t address, length;
	const char *name;
	uint8_t id; // build-ID byte
};

struct script {
	const char *sentence;
	struct script_line lines[16];
};

// Each at a time, of a thread group.
#define FORK(t, child, parent)                                                                     \
	{                                                                                          \
		.what = 'F', .time = t, .tgid = child, .other = parent                             \
	}
#define EXEC(t, who)                                                                               \
	{                                                                                          \
		.what = 'E', .time = t, .tgid = who                                                \
	}
#define THREAD(t, who, tid)                                                                        \
	{                                                                                          \
		.what = 'T', .time = t, .tgid = who, .other = tid                                  \
	}
#define EXIT(t, who, tid)                                                                          \
	{                                                                                          \
		.what = 'X', .time = t, .tgid = who, .other = tid                                  \
	}
#define MAP(t, who, start, size, file, build)                                                      \
	{                                                                                          \
		.what = 'M', .time = t, .tgid = who, .address = start, .length = size,             \
		.name = file, .id = build                                                          \
	}
// A stack of the instance that began at `began` finds the file at the address.
#define FINDS(t, who, began, at, file)                                                             \
	{                                                                                          \
		.what = '?', .time = t, .tgid = who, .other = began, .address = at, .name = file   \
	}
#define UNKNOWN(t, who, began)                                                                     \
	{                                                                                          \
		.what = '-', .time = t, .tgid = who, .other = began                                \
	}

#define SHELL_BEGINS                                                                               \
	FORK(100, SHELL, 1), EXEC(110, SHELL), MAP(111, SHELL, PROGRAM, 0x4000, "/bin/sh", 1)

static const struct script scripts[] = {
	{ "a fork without an exec runs its parent's code",
	  { SHELL_BEGINS, FORK(200, CHILD, SHELL), FINDS(210, CHILD, 199, PROGRAM, "/bin/sh") } },
	{ "a vfork's child runs its parent's code until its exec, its parent's goes on",
	  { SHELL_BEGINS, FORK(200, CHILD, SHELL), EXEC(220, CHILD),
	    MAP(221, CHILD, PROGRAM, 0x1000, "/bin/cc", 2),
	    FINDS(219, CHILD, 199, PROGRAM, "/bin/sh"), FINDS(220, CHILD, 199, PROGRAM, "(none)"),
	    FINDS(222, CHILD, 199, PROGRAM, "/bin/cc"),
	    FINDS(230, SHELL, 99, PROGRAM, "/bin/sh") } },
	{ "exec of exec of exec, each its own program",
	  { SHELL_BEGINS, EXEC(200, SHELL), MAP(201, SHELL, PROGRAM, 0x1000, "/bin/one", 2),
	    EXEC(300, SHELL), MAP(301, SHELL, PROGRAM, 0x1000, "/bin/two", 3),
	    FINDS(150, SHELL, 99, PROGRAM, "/bin/sh"), FINDS(250, SHELL, 99, PROGRAM, "/bin/one"),
	    FINDS(350, SHELL, 99, PROGRAM, "/bin/two") } },
	{ "one PID three times in a window",
	  { SHELL_BEGINS, FORK(200, CHILD, SHELL), EXEC(201, CHILD),
	    MAP(202, CHILD, PROGRAM, 0x1000, "/bin/a", 2), EXIT(210, CHILD, CHILD),
	    FORK(220, CHILD, SHELL), EXIT(230, CHILD, CHILD), FORK(240, CHILD, SHELL),
	    EXEC(241, CHILD), MAP(242, CHILD, PROGRAM, 0x1000, "/bin/c", 3),
	    FINDS(205, CHILD, 199, PROGRAM, "/bin/a"), FINDS(225, CHILD, 219, PROGRAM, "/bin/sh"),
	    FINDS(245, CHILD, 239, PROGRAM, "/bin/c") } },
	{ "a reused PID whose exits and second fork were lost is not the first",
	  { SHELL_BEGINS, FORK(200, CHILD, SHELL), EXEC(201, CHILD),
	    MAP(202, CHILD, PROGRAM, 0x1000, "/bin/a", 2),
	    FINDS(205, CHILD, 199, PROGRAM, "/bin/a"), UNKNOWN(225, CHILD, 219),
	    FINDS(206, CHILD, 199, PROGRAM, "/bin/a") } },
	{ "dlclose and dlopen of another library at the same place",
	  { SHELL_BEGINS, MAP(200, SHELL, LIBRARY, 0x2000, "/lib/one.so", 2),
	    MAP(300, SHELL, LIBRARY, 0x3000, "/lib/two.so", 3),
	    FINDS(250, SHELL, 99, LIBRARY + 0x1fff, "/lib/one.so"),
	    FINDS(250, SHELL, 99, LIBRARY + 0x2000, "(none)"),
	    FINDS(350, SHELL, 99, LIBRARY + 0x2000, "/lib/two.so") } },
	{ "a library over the middle of another",
	  { SHELL_BEGINS, MAP(200, SHELL, LIBRARY, 0x3000, "/lib/one.so", 2),
	    MAP(300, SHELL, LIBRARY + 0x1000, 0x1000, "/lib/two.so", 3),
	    FINDS(250, SHELL, 99, LIBRARY + 0x1000, "/lib/one.so"),
	    FINDS(350, SHELL, 99, LIBRARY, "/lib/one.so"),
	    FINDS(350, SHELL, 99, LIBRARY + 0x1000, "/lib/two.so"),
	    FINDS(350, SHELL, 99, LIBRARY + 0x2000, "/lib/one.so") } },
	{ "memory made executable by mprotect, in parts that grow together",
	  { SHELL_BEGINS, MAP(200, SHELL, JIT, 0x1000, "//anon", 0),
	    MAP(210, SHELL, JIT, 0x2000, "//anon", 0), FINDS(205, SHELL, 99, JIT, "//anon"),
	    FINDS(205, SHELL, 99, JIT + 0x1000, "(none)"), FINDS(215, SHELL, 99, JIT, "//anon"),
	    FINDS(215, SHELL, 99, JIT + 0x1000, "//anon") } },
	{ "a library over memory that was JITed code",
	  { SHELL_BEGINS, MAP(200, SHELL, JIT, 0x1000, "//anon", 0),
	    MAP(210, SHELL, JIT, 0x1000, "/lib/one.so", 2), FINDS(205, SHELL, 99, JIT, "//anon"),
	    FINDS(215, SHELL, 99, JIT, "/lib/one.so") } },
	{ "a leader that exits before its threads, then the PID again",
	  { SHELL_BEGINS, THREAD(120, SHELL, SHELL + 100), EXIT(130, SHELL, SHELL),
	    FINDS(140, SHELL, 99, PROGRAM, "/bin/sh"),
	    MAP(150, SHELL, LIBRARY, 0x1000, "/lib/late.so", 2),
	    FINDS(155, SHELL, 99, LIBRARY, "/lib/late.so"), EXIT(160, SHELL, SHELL + 100),
	    FORK(200, SHELL, 1), EXEC(201, SHELL), MAP(202, SHELL, PROGRAM, 0x1000, "/bin/b", 3),
	    FINDS(210, SHELL, 199, PROGRAM, "/bin/b"),
	    FINDS(159, SHELL, 99, PROGRAM, "/bin/sh") } },
};

static void run_line(const struct script_line *line)
{
	switch (line->what) {
	case 'F':
		fork_at(line->time, line->other, line->tgid);
		break;
	case 'E':
		exec_at(line->time, line->tgid, "x");
		break;
	case 'M':
		map_at(line->time, line->tgid, line->address, line->length, line->name, line->id);
		break;
	case 'T':
		thread_at(line->time, line->tgid, line->other);
		break;
	case 'X':
		exit_at(line->time, line->tgid, line->other);
		break;
	case '?':
		expect_at(line->time, line->tgid, line->other, line->address, line->name);
		break;
	case '-':
		expect_gone(line->time, line->tgid, line->other);
		break;
	default:
		fail();
	}
}

static void test_scripts(void **state)
{
	for (size_t i = 0; i < FP_ARRAY_SIZE(scripts); i++) {
		const struct script_line *line = scripts[i].lines;

		print_message("  %s\n", scripts[i].sentence);
		fp_process_table_freep(&table);
		steps_begin_with(0, 0);
		for (; line->what; line++)
			run_line(line);
	}
}

static void hot_patch(uint64_t time, uint32_t tgid, uint64_t inode, const char *name)
{
	step(&(struct fp_event){ .kind = FP_EVENT_MMAP,
				 .time_ns = time * MS,
				 .tgid = tgid,
				 .tid = tgid,
				 .start = LIBRARY,
				 .length = 0x1000,
				 .inode = inode,
				 .name = name });
}

static const struct fp_file *file_at(uint64_t time, uint64_t address)
{
	static struct fp_process_view view;

	assert_int_equal(view_of(time, SHELL, 99, &view), 0);
	assert_non_null(fp_process_view_at(&view, address));
	return &view.files[fp_process_view_at(&view, address)->file];
}

// A file replaced under its name: the builds, or without them the inodes, differ.
static void test_replaced_files(void **state)
{
	fork_at(100, 1, SHELL);
	exec_at(110, SHELL, "sh");
	map_at(111, SHELL, PROGRAM, 0x1000, "/bin/sh", 1);
	map_at(200, SHELL, PROGRAM, 0x1000, "/bin/sh", 2);
	hot_patch(120, SHELL, 7, "/lib/x.so");
	hot_patch(220, SHELL, 8, "/lib/x.so");
	assert_int_equal(file_at(150, PROGRAM)->build_id[0], 1);
	assert_int_equal(file_at(250, PROGRAM)->build_id[0], 2);
	assert_int_equal(file_at(150, LIBRARY)->inode, 7);
	assert_int_equal(file_at(250, LIBRARY)->inode, 8);
}

// The same file mapped again, as a whole, in part, or under the name it has since it was
// deleted, is nothing new.
static void test_mapped_again(void **state)
{
	fork_at(100, 1, SHELL);
	exec_at(110, SHELL, "sh");
	map_at(111, SHELL, JIT, 0x4000, "//anon", 0);
	map_at(112, SHELL, LIBRARY, 0x1000, "/lib/x.so", 2);
	for (uint32_t i = 0; i < 1000; i++) {
		map_at(200 + i, SHELL, JIT, 0x4000, "//anon", 0);
		map_at(200 + i, SHELL, JIT + 0x1000, 0x1000, "//anon", 0);
		map_at(200 + i, SHELL, LIBRARY, 0x1000, "/lib/x.so (deleted)", 2);
	}
	assert_int_equal(stats_now().mappings, 2);
	expect_at(150, SHELL, 99, JIT + 0x1000, "//anon");
}

struct flags_case {
	const char *what, *name;
	uint8_t id;
	bool anon, unidentified;
};

static const struct flags_case flags_cases[] = {
	{ "a file with a build-ID", "/lib/x.so", 2, false, false },
	{ "a file without", "/lib/x.so", 0, false, true },
	{ "memory of no file", "//anon", 0, true, false },
	{ "memory of a file in memory alone", "/memfd:doublemapper (deleted)", 0, true, true },
	{ "a program run from such a file", "/memfd:runc (deleted)", 2, false, false },
	{ "a heap that can be executed", "[heap]", 0, true, false },
	{ "the vDSO", "[vdso]", 0, false, false },
};

static void test_flags(void **state)
{
	for (size_t i = 0; i < FP_ARRAY_SIZE(flags_cases); i++) {
		const struct flags_case *c = &flags_cases[i];
		struct fp_process_view view;

		print_message("  %s\n", c->what);
		fp_process_table_freep(&table);
		steps_begin_with(0, 0);
		fork_at(100, 1, SHELL);
		exec_at(110, SHELL, "sh");
		map_at(111, SHELL, PROGRAM, 0x1000, "/bin/sh", 1);
		map_at(112, SHELL, LIBRARY, 0x1000, c->name, c->id);
		fork_at(120, SHELL, CHILD);
		assert_int_equal(view_of(130, CHILD, 119, &view), 0);
		assert_int_equal(view.has_anon, c->anon);
		assert_int_equal(view.has_unidentified, c->unidentified);
		assert_int_equal(view.parent_tgid, SHELL);
		assert_int_equal(view.exec_ns, 0);
		assert_int_equal(view_of(130, SHELL, 99, &view), 0);
		assert_int_equal(view.has_anon, c->anon);
		assert_int_equal(view.has_unidentified, c->unidentified);
		assert_int_equal(view.parent_tgid, 1);
		assert_int_equal(view.exec_ns, 110 * MS);
		exec_at(200, SHELL, "sh"); // what the old program had mapped says nothing now
		map_at(211, SHELL, PROGRAM, 0x1000, "/bin/sh", 1);
		assert_int_equal(view_of(230, SHELL, 99, &view), 0);
		assert_false(view.has_anon || view.has_unidentified);
	}
}

static void test_instances_by_name(void **state)
{
	uint64_t start_ns, exec_ns;

	fork_at(100, 1, SHELL);
	exec_at(110, SHELL, "sh");
	map_at(111, SHELL, PROGRAM, 0x1000, "/bin/sh", 1);
	assert_false(fp_process_table_instance(table, SHELL, &start_ns, &exec_ns));
	expect_at(120, SHELL, 99, PROGRAM, "/bin/sh"); // a stack tells the start time
	assert_true(fp_process_table_instance(table, SHELL, &start_ns, &exec_ns));
	assert_int_equal(start_ns, 99 * MS);
	assert_int_equal(exec_ns, 110 * MS);
	exit_at(130, SHELL, SHELL);
	assert_false(fp_process_table_instance(table, SHELL, &start_ns, &exec_ns));
}

// A child that nothing was sampled in before it execs: the old id must not be learnt as the new
// program's, nor the other way round when the id changes first.
static void test_no_id_from_inside_an_exec(void **state)
{
	struct fp_stack_record record;
	struct fp_process_view view;

	fork_at(120, 1, SHELL);
	exec_at(130, SHELL, "cc");
	map_at(131, SHELL, PROGRAM, 0x1000, "/usr/bin/cc", 5);
	record = record_at(130, SHELL, 120, 5);
	record.user_len = 0;
	assert_int_equal(fp_process_table_view(table, &record, &view), 0);
	record = record_at(140, SHELL, 120, 6);
	assert_int_equal(fp_process_table_view(table, &record, &view), 0);
	assert_string_equal(view.executable, "cc");
	exec_at(150, SHELL, "as");
	map_at(151, SHELL, PROGRAM, 0x1000, "/usr/bin/as", 6);
	record = record_at(149, SHELL, 120, 7);
	record.user_len = 0;
	assert_int_equal(fp_process_table_view(table, &record, &view), 0);
	record = record_at(160, SHELL, 120, 7);
	assert_int_equal(fp_process_table_view(table, &record, &view), 0);
	assert_string_equal(view.executable, "as");
}

#define CASE(sentence, function)                                                                   \
	{                                                                                          \
		.name = sentence, .test_func = function, .setup_func = steps_begin,                \
		.teardown_func = steps_end                                                         \
	}

int main(void)
{
	const struct CMUnitTest cases[] = {
		CASE("stacks of any moment of a window find what was mapped then", test_scripts),
		CASE("a file replaced under its name is another file", test_replaced_files),
		CASE("a file mapped again is the same mapping", test_mapped_again),
		CASE("an address space says if its code may be JITed or without identity",
		     test_flags),
		CASE("an instance is named once a stack has told when it started",
		     test_instances_by_name),
		CASE("a stack from inside an exec teaches no exec id",
		     test_no_id_from_inside_an_exec),
	};

	return cmocka_run_group_tests(cases, NULL, NULL);
}
