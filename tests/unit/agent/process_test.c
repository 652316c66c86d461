// SPDX-License-Identifier: Apache-2.0
#include "process_steps.h"

#define PROGRAM	 0x400000u
#define LIBRARY	 0x7f0000000000u
#define LIBRARY2 0x7f0000100000u

// A shell that the table has seen from its exec on, forked at 100 (started at 99).
static void shell(void)
{
	fork_at(100, 1, SHELL);
	exec_at(110, SHELL, "sh");
	map_at(111, SHELL, PROGRAM, 0x1000, "/bin/sh", 1);
	map_at(112, SHELL, LIBRARY, 0x1000, "/lib/ld.so", 2);
}

static void test_exec_maps(void **state)
{
	struct fp_process_view view;

	shell();
	expect_at(120, SHELL, 99, PROGRAM, "/bin/sh");
	expect_at(120, SHELL, 99, LIBRARY + 0xfff, "/lib/ld.so");
	expect_at(120, SHELL, 99, LIBRARY + 0x1000, "(none)");
	expect_executable(120, SHELL, 99, "sh");
	assert_int_equal(view_of(120, SHELL, 99, &view), 0);
	assert_int_equal(view.count, 2);
	assert_int_equal(view.mappings[0].page_offset, 0x1000);
	assert_int_equal(view.files[view.executable_file].build_id_len, 20);
	assert_int_equal(view.files[view.executable_file].build_id[19], 1);
	assert_int_equal(stats_now().lazy_reads + stats_now().lazy_failed, 0);
}

static void test_before_its_mapping(void **state)
{
	shell();
	map_at(200, SHELL, LIBRARY2, 0x1000, "/lib/plugin.so", 3);
	expect_at(199, SHELL, 99, LIBRARY2, "(none)");
	expect_at(200, SHELL, 99, LIBRARY2, "/lib/plugin.so");
}

static void test_fork_without_exec(void **state)
{
	uint64_t shared;

	shell();
	shared = stats_now().mappings;
	fork_at(200, SHELL, CHILD);
	expect_at(201, CHILD, 199, PROGRAM, "/bin/sh");
	expect_executable(201, CHILD, 199, "sh");
	assert_int_equal(stats_now().mappings, shared);
}

static void test_child_parts_from_parent(void **state)
{
	shell();
	fork_at(200, SHELL, CHILD);
	map_at(210, CHILD, LIBRARY2, 0x1000, "/lib/child.so", 3);
	map_at(220, SHELL, LIBRARY2, 0x1000, "/lib/parent.so", 4);
	expect_at(230, CHILD, 199, LIBRARY2, "/lib/child.so");
	expect_at(230, SHELL, 99, LIBRARY2, "/lib/parent.so");
	expect_at(230, CHILD, 199, PROGRAM, "/bin/sh");
}

static void test_parent_parts_from_child(void **state)
{
	shell();
	fork_at(200, SHELL, CHILD);
	map_at(210, SHELL, LIBRARY2, 0x1000, "/lib/parent.so", 4);
	expect_at(230, CHILD, 199, LIBRARY2, "(none)");
	expect_at(230, SHELL, 99, LIBRARY2, "/lib/parent.so");
}

static void test_exec_within_window(void **state)
{
	shell();
	fork_at(200, SHELL, CHILD);
	exec_at(300, CHILD, "cc");
	map_at(301, CHILD, PROGRAM, 0x1000, "/usr/bin/cc", 5);
	// Records of both programs are resolved after all events of the window.
	expect_at(250, CHILD, 199, PROGRAM, "/bin/sh");
	expect_at(350, CHILD, 199, PROGRAM, "/usr/bin/cc");
	expect_at(250, CHILD, 199, LIBRARY, "/lib/ld.so");
	expect_at(350, CHILD, 199, LIBRARY, "(none)");
	expect_executable(250, CHILD, 199, "sh");
	expect_executable(350, CHILD, 199, "cc");
}

static void test_many_execs(void **state)
{
	char name[32];

	shell();
	for (uint32_t i = 0; i < 600; i++) {
		snprintf(name, sizeof(name), "/bin/step-%u", i);
		exec_at(1000 + 10 * i, SHELL, "step");
		map_at(1001 + 10 * i, SHELL, PROGRAM, 0x1000, name, (uint8_t)(i + 1));
	}
	expect_at(1005 + 10 * 599, SHELL, 99, PROGRAM, "/bin/step-599");
	expect_at(1005 + 10 * 150, SHELL, 99, PROGRAM, "/bin/step-150");
	expect_gone(1005, SHELL, 99); // beyond the bound: unknown, not mistaken for another
	assert_int_equal(stats_now().evicted[FP_EVICTED_PROGRAM], 602 - 512);
}

static void test_pid_reuse(void **state)
{
	shell();
	fork_at(200, SHELL, CHILD);
	exec_at(201, CHILD, "first");
	map_at(202, CHILD, PROGRAM, 0x1000, "/bin/first", 6);
	exit_at(300, CHILD, CHILD);
	fork_at(400, SHELL, CHILD);
	exec_at(401, CHILD, "second");
	map_at(402, CHILD, PROGRAM, 0x1000, "/bin/second", 7);
	expect_at(410, CHILD, 399, PROGRAM, "/bin/second");
	expect_at(250, CHILD, 199, PROGRAM, "/bin/first");
	// A record is never given to an instance that began after it.
	expect_at(299, CHILD, 199, PROGRAM, "/bin/first");
}

static void test_pid_reuse_with_lost_exit(void **state)
{
	shell();
	fork_at(200, SHELL, CHILD);
	exec_at(201, CHILD, "first");
	map_at(202, CHILD, PROGRAM, 0x1000, "/bin/first", 6);
	fork_at(400, SHELL, CHILD);
	expect_at(410, CHILD, 399, PROGRAM, "/bin/sh");
	expect_at(250, CHILD, 199, PROGRAM, "/bin/first");
}

static void test_stranger_with_reused_pid(void **state)
{
	shell();
	fork_at(200, SHELL, CHILD);
	exec_at(201, CHILD, "cc");
	map_at(202, CHILD, PROGRAM, 0x1000, "/usr/bin/cc", 5);
	// Started long before the fork that is known, seen before it too: someone else.
	expect_gone(150, CHILD, 120);
	expect_at(250, CHILD, 199, PROGRAM, "/usr/bin/cc");
}

static void test_library_replaced(void **state)
{
	shell();
	map_at(200, SHELL, LIBRARY2, 0x3000, "/lib/one.so", 3);
	map_at(300, SHELL, LIBRARY2, 0x3000, "/lib/two.so", 4);
	map_at(400, SHELL, LIBRARY2, 0x3000, "/lib/one.so", 3);
	expect_at(250, SHELL, 99, LIBRARY2, "/lib/one.so");
	expect_at(350, SHELL, 99, LIBRARY2, "/lib/two.so");
	expect_at(450, SHELL, 99, LIBRARY2, "/lib/one.so");
	retire_at(300);
	expect_at(350, SHELL, 99, LIBRARY2, "/lib/two.so");
	retire_at(500);
	expect_at(550, SHELL, 99, LIBRARY2, "/lib/one.so");
	assert_int_equal(stats_now().mappings, 3);
	assert_int_equal(stats_now().files, 3);
}

static void test_exit_before_drain(void **state)
{
	shell();
	fork_at(200, SHELL, CHILD);
	exec_at(201, CHILD, "cc");
	map_at(202, CHILD, PROGRAM, 0x1000, "/usr/bin/cc", 5);
	exit_at(210, CHILD, CHILD);
	expect_at(205, CHILD, 199, PROGRAM, "/usr/bin/cc");
	expect_at(211, CHILD, 199, PROGRAM, "/usr/bin/cc"); // its last moments
	retire_at(210);
	expect_at(205, CHILD, 199, PROGRAM, "/usr/bin/cc");
	retire_at(211);
	expect_gone(205, CHILD, 199);
}

static void test_parent_exits_first(void **state)
{
	shell();
	fork_at(200, SHELL, CHILD);
	exit_at(210, SHELL, SHELL);
	retire_at(1000);
	expect_at(1100, CHILD, 199, PROGRAM, "/bin/sh");
}

static void test_leader_exits_before_its_threads(void **state)
{
	shell();
	thread_at(200, SHELL, SHELL + 100);
	thread_at(201, SHELL, SHELL + 101);
	exit_at(210, SHELL, SHELL);
	exit_at(220, SHELL, SHELL + 100);
	retire_at(1000);
	expect_at(1100, SHELL, 99, PROGRAM, "/bin/sh");
	exit_at(1200, SHELL, SHELL + 101);
	retire_at(1201);
	expect_gone(1100, SHELL, 99);
}

static void test_thread_is_no_process(void **state)
{
	uint64_t processes;

	shell();
	processes = stats_now().processes;
	for (uint32_t i = 0; i < 100; i++)
		thread_at(200 + i, SHELL, SHELL + 100 + i);
	assert_int_equal(stats_now().processes, processes);
}

static void test_exec_of_process_not_seen_before(void **state)
{
	exec_at(200, OTHER, "late");
	map_at(201, OTHER, PROGRAM, 0x1000, "/bin/late", 8);
	expect_at(300, OTHER, 50, PROGRAM, "/bin/late");
	expect_gone(150, OTHER, 50); // what it was before is not known
}

static void test_exec_after_uncounted_leader_exit(void **state)
{
	// Not seen to begin, so its threads are not counted: the exit of the leader alone, as
	// when another thread execs, is no end.
	exec_at(200, OTHER, "late");
	map_at(201, OTHER, PROGRAM, 0x1000, "/bin/late", 8);
	fp_process_table_settle(table, 210 * MS);
	fp_process_table_lost(table);
	fp_process_table_settle(table, 220 * MS);
	exit_at(300, OTHER, OTHER);
	exec_at(301, OTHER, "later");
	map_at(302, OTHER, PROGRAM, 0x1000, "/bin/later", 9);
	retire_at(1000);
	expect_at(1100, OTHER, 50, PROGRAM, "/bin/later");
}

static void test_first_file_is_the_executable(void **state)
{
	fork_at(100, 1, SHELL);
	exec_at(110, SHELL, "x");
	map_at(111, SHELL, 0x1000, 0x1000, "[stack]", 0);
	map_at(112, SHELL, PROGRAM, 0x1000, "/opt/app/server", 1);
	map_at(113, SHELL, LIBRARY, 0x1000, "/lib/ld.so", 2);
	expect_executable(120, SHELL, 99, "server");
}

static void test_deleted_executable(void **state)
{
	fork_at(100, 1, SHELL);
	exec_at(110, SHELL, "x");
	map_at(112, SHELL, PROGRAM, 0x1000, "/opt/app/server (deleted)", 1);
	expect_executable(120, SHELL, 99, "server");
	exec_at(130, SHELL, "x");
	map_at(132, SHELL, PROGRAM, 0x1000, "/opt/ (deleted)", 1);
	expect_executable(140, SHELL, 99, " (deleted)");
}

// The kernel stamps the exec before it changes the id, so a stack may come between.
static void test_stack_between_exec_and_id(void **state)
{
	struct fp_stack_record record;
	struct fp_process_view view;

	shell();
	record = record_at(120, SHELL, 99, 5);
	assert_int_equal(fp_process_table_view(table, &record, &view), 0);
	exec_at(130, SHELL, "cc");
	map_at(131, SHELL, PROGRAM, 0x1000, "/usr/bin/cc", 5);
	record.time_ns = 130 * MS;
	assert_int_equal(fp_process_table_view(table, &record, &view), 0);
	assert_string_equal(view.executable, "sh");
	record = record_at(140, SHELL, 99, 6);
	assert_int_equal(fp_process_table_view(table, &record, &view), 0);
	assert_string_equal(view.executable, "cc");
}

static void test_late_event(void **state)
{
	shell();
	map_at(300, SHELL, LIBRARY2, 0x1000, "/lib/two.so", 4);
	map_at(200, SHELL, LIBRARY2, 0x1000, "/lib/one.so", 3);
	// Whatever is made of it, the table stays sound and answers.
	expect_at(250, SHELL, 99, LIBRARY2, "/lib/one.so");
}

static void test_process_limit(void **state)
{
	fp_process_table_freep(&table);
	steps_begin_with(10, 0);
	for (uint32_t i = 0; i < 20; i++) {
		fork_at(1000 + 100 * i, 1, CHILD + i);
		exec_at(1001 + 100 * i, CHILD + i, "x");
		map_at(1002 + 100 * i, CHILD + i, PROGRAM, 0x1000, "/bin/x", 1);
		if (i % 2)
			exit_at(1003 + 100 * i, CHILD + i, CHILD + i);
		// The first one is in use all the time.
		expect_at(5000, CHILD, 999, PROGRAM, "/bin/x");
		assert_true(stats_now().processes <= 10);
	}
	assert_true(
	    stats_now().evicted[FP_EVICTED_ENDED] + stats_now().evicted[FP_EVICTED_RUNNING] >= 10);
	expect_at(5000, CHILD, 999, PROGRAM, "/bin/x");
	expect_at(5000, CHILD + 18, 2799, PROGRAM, "/bin/x");
	// Ended instances left first, so more of the running ones are still there.
	expect_at(5000, CHILD + 14, 2399, PROGRAM, "/bin/x");
	expect_gone(5000, CHILD + 1, 1099);
}

static void test_mapping_limit(void **state)
{
	fp_process_table_freep(&table);
	steps_begin_with(0, 1000);
	for (uint32_t process = 0; process < 20; process++) {
		fork_at(1000 + 1000 * process, 1, CHILD + process);
		exec_at(1001 + 1000 * process, CHILD + process, "x");
		for (uint32_t i = 0; i < 400; i++)
			map_at(1002 + 1000 * process, CHILD + process, PROGRAM + 0x2000 * i, 0x1000,
			       "/bin/x", 1);
		assert_true(stats_now().mappings <= 1000);
	}
	assert_true(stats_now().evicted[FP_EVICTED_RUNNING] > 0);
	expect_at(50000, CHILD + 19, 19999, PROGRAM, "/bin/x");
}

static void test_files_are_shared_and_freed(void **state)
{
	for (uint32_t i = 0; i < 50; i++) {
		fork_at(100 + 10 * i, 1, CHILD + i);
		exec_at(101 + 10 * i, CHILD + i, "x");
		map_at(102 + 10 * i, CHILD + i, PROGRAM, 0x1000, "/bin/x", 1);
		map_at(103 + 10 * i, CHILD + i, LIBRARY, 0x1000, "//anon", 0);
	}
	assert_int_equal(stats_now().files, 2);
	assert_int_equal(stats_now().mappings, 100);
	for (uint32_t i = 0; i < 50; i++)
		exit_at(1000, CHILD + i, CHILD + i);
	retire_at(1001);
	assert_int_equal(stats_now().files, 0);
	assert_int_equal(stats_now().mappings, 0);
	assert_int_equal(stats_now().processes, 1); // PID 1, the parent, was not seen to end
}

static void test_memory_returns(void **state)
{
	uint64_t before;

	shell();
	for (int round = 0; round < 3; round++) {
		for (uint32_t i = 0; i < 1000; i++) {
			fork_at(1000 + i, SHELL, CHILD + i);
			exec_at(3000 + i, CHILD + i, "x");
			map_at(5000 + i, CHILD + i, PROGRAM, 0x1000, "/bin/x", 1);
			exit_at(7000 + i, CHILD + i, CHILD + i);
		}
		retire_at(10000);
		if (round == 0)
			before = stats_now().bytes;
		assert_int_equal(stats_now().bytes, before);
		assert_int_equal(stats_now().processes, 2);
	}
}

#define CASE(sentence, function)                                                                   \
	{                                                                                          \
		.name = sentence, .test_func = function, .setup_func = steps_begin,                \
		.teardown_func = steps_end                                                         \
	}

int main(void)
{
	const struct CMUnitTest cases[] = {
		CASE("an exec's mappings and executable come from its events", test_exec_maps),
		CASE("a mapping is not there before its time", test_before_its_mapping),
		CASE("a fork shares its parent's mappings", test_fork_without_exec),
		CASE("what a child maps is not the parent's", test_child_parts_from_parent),
		CASE("what a parent maps after the fork is not the child's",
		     test_parent_parts_from_child),
		CASE("records before and after an exec see their own program",
		     test_exec_within_window),
		CASE("execs in a loop keep a bounded past", test_many_execs),
		CASE("a reused PID is two instances", test_pid_reuse),
		CASE("a reused PID is two instances even if the exit was lost",
		     test_pid_reuse_with_lost_exit),
		CASE("a record older than the known instance is not its own",
		     test_stranger_with_reused_pid),
		CASE("one library after another at the same place is told by time",
		     test_library_replaced),
		CASE("a process that ended before the drain still has its mappings",
		     test_exit_before_drain),
		CASE("a child keeps what it shares with a parent that is gone",
		     test_parent_exits_first),
		CASE("a process lasts as long as its last thread",
		     test_leader_exits_before_its_threads),
		CASE("threads are not processes", test_thread_is_no_process),
		CASE("the past of a process first seen at its exec is unknown",
		     test_exec_of_process_not_seen_before),
		CASE("an exec revives a process whose leader was replaced",
		     test_exec_after_uncounted_leader_exit),
		CASE("the executable is the first file mapped after an exec",
		     test_first_file_is_the_executable),
		CASE("the kernel's mark of a deleted file is not part of the name",
		     test_deleted_executable),
		CASE("a stack between an exec and its new id is the old program's",
		     test_stack_between_exec_and_id),
		CASE("an event that comes late does no harm", test_late_event),
		CASE("ended processes make room first, then those not asked for",
		     test_process_limit),
		CASE("mappings are bounded over all processes", test_mapping_limit),
		CASE("files are shared and leave with their last mapping",
		     test_files_are_shared_and_freed),
		CASE("memory does not grow with processes that have gone", test_memory_returns),
	};

	return cmocka_run_group_tests(cases, NULL, NULL);
}
