// SPDX-License-Identifier: Apache-2.0
//
// Real processes that the table was not told of: children of this test that wait until they
// are killed. Event times are taken from the clock, as the side-band's would be.
#include "process_child.h"

#include <pthread.h>
#include <sys/syscall.h>

static void *outlive_leader(void *tid)
{
	pid_t own = (pid_t)syscall(SYS_gettid);

	if (write(from_child[1], &own, sizeof(own)) != sizeof(own))
		_exit(3);
	wait_for_ever();
	return NULL;
}

static void child_without_leader(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, outlive_leader, NULL) != 0)
		_exit(3);
	pthread_exit(NULL);
}

static void test_running_process(void **state)
{
	struct fp_stack_record record;
	struct fp_process_view view;

	child_begins(wait_for_ever);
	record = record_of(child);
	assert_int_equal(fp_process_table_view(table, &record, &view), 0);
	expect_like_maps(&view, child);
	expect_program(&view);
	assert_int_equal(fp_process_table_view(table, &record, &view), 0);
	assert_int_equal(stats_now().lazy_reads, 1); // read once
	// An earlier record of it is its own as well.
	record.time_ns = record.start_ns;
	assert_int_equal(fp_process_table_view(table, &record, &view), 0);
	expect_like_maps(&view, child);
}

static void test_other_start_time(void **state)
{
	struct fp_stack_record record;
	struct fp_process_view view;

	child_begins(wait_for_ever);
	record = record_of(child);
	record.start_boottime_ns -= 50 * MS;
	record.start_ns -= 50 * MS;
	assert_int_equal(fp_process_table_view(table, &record, &view), -ESRCH);
	assert_int_equal(stats_now().lazy_failed, 1);
	assert_int_equal(fp_process_table_view(table, &record, &view), -ESRCH);
	assert_int_equal(stats_now().lazy_failed, 1); // not looked for again in this epoch
	record = record_of(child);		      // and the real one is not taken for it
	assert_int_equal(fp_process_table_view(table, &record, &view), 0);
}

static void test_gone_process(void **state)
{
	struct fp_stack_record record;
	struct fp_process_view view;

	child_begins(wait_for_ever);
	record = record_of(child);
	child_ends();
	assert_int_equal(fp_process_table_view(table, &record, &view), -ESRCH);
	fp_process_table_retire(table, record.time_ns + 1);
	assert_int_equal(stats_now().processes, 0);
}

static void test_child_read_through_parent(void **state)
{
	struct fp_process_view view;
	uint64_t now_ms;

	child_begins(wait_for_ever);
	now_ms = fp_procfs_monotonic_ns() / MS + 1;
	fork_at(now_ms, (uint32_t)child, CHILD);
	exit_at(now_ms + 5, CHILD, CHILD);
	assert_int_equal(view_of(now_ms + 3, CHILD, now_ms - 1, &view), 0);
	expect_like_maps(&view, child);
	expect_program(&view);
}

static void test_parent_execs_before_reading(void **state)
{
	struct fp_process_view view;
	uint64_t now_ms;

	child_begins(wait_for_ever);
	now_ms = fp_procfs_monotonic_ns() / MS + 1;
	fork_at(now_ms, (uint32_t)child, CHILD);
	exec_at(now_ms + 1, (uint32_t)child, "else");
	// What /proc shows of the parent is now another program than the child's.
	assert_int_equal(view_of(now_ms + 3, CHILD, now_ms - 1, &view), -ESRCH);
}

static void test_child_maps_before_reading(void **state)
{
	struct fp_process_view view;
	uint64_t now_ms;

	child_begins(wait_for_ever);
	now_ms = fp_procfs_monotonic_ns() / MS + 1;
	fork_at(now_ms, (uint32_t)child, CHILD);
	map_at(now_ms + 1, CHILD, 0x10000000, 0x1000, "/lib/own.so", 3);
	assert_int_equal(view_of(now_ms + 3, CHILD, now_ms - 1, &view), 0);
	assert_string_equal(name_in(&view, 0x10000000), "/lib/own.so");
	expect_program(&view);
	expect_like_maps(&view, child);
}

static void test_preloaded_process(void **state)
{
	struct fp_stack_record record;
	struct fp_process_view view;

	child_begins(wait_for_ever);
	assert_int_equal(fp_process_table_preload(table, (uint32_t)child), 0);
	record = record_of(child);
	exit_at(record.time_ns / MS + 10, (uint32_t)child, (uint32_t)child);
	child_ends();
	assert_int_equal(fp_process_table_view(table, &record, &view), 0);
	expect_program(&view);
	assert_int_equal(fp_process_table_preload(table, OTHER), -ESRCH);
}

static void test_read_again_after_loss(void **state)
{
	struct fp_stack_record record;
	struct fp_process_view view;
	uint64_t page;

	child_begins(child_maps);
	record = record_of(child);
	assert_int_equal(fp_process_table_view(table, &record, &view), 0);
	page = child_maps_one();
	assert_int_equal(fp_process_table_view(table, &record, &view), 0);
	assert_false(covers(&view, page));
	fp_process_table_lost(table);
	record.time_ns = fp_procfs_monotonic_ns();
	fp_process_table_settle(table, record.time_ns);
	assert_int_equal(fp_process_table_view(table, &record, &view), 0);
	assert_true(covers(&view, page));
	assert_int_equal(stats_now().lazy_reads, 2);
	expect_program(&view);
}

static void test_read_again_when_overgrown(void **state)
{
	struct fp_stack_record record;
	struct fp_process_view view;

	child_begins(child_maps);
	record = record_of(child);
	assert_int_equal(fp_process_table_view(table, &record, &view), 0);
	// Code that the process maps and unmaps elsewhere each time: only the maps are told of.
	for (uint32_t i = 0; i < 2000; i++)
		map_at(record.time_ns / MS + 1, (uint32_t)child, 0x10000000 + 0x2000 * i, 0x1000,
		       "//anon", 0);
	record.time_ns = fp_procfs_monotonic_ns() + 5000 * MS;
	assert_int_equal(fp_process_table_view(table, &record, &view), 0);
	assert_int_equal(stats_now().lazy_reads, 2);
	assert_true(view.count < 100);
	expect_like_maps(&view, child);
}

static void test_threads_outlive_leader(void **state)
{
	struct fp_stack_record record;
	struct fp_process_view view;
	pid_t tid;

	child_begins(child_without_leader);
	assert_int_equal(read(from_child[0], &tid, sizeof(tid)), sizeof(tid));
	while (!stat_of(child).zombie)
		usleep(1000);
	record = record_of(child);
	record.tid = (uint32_t)tid;
	assert_int_equal(fp_process_table_view(table, &record, &view), 0);
	assert_true(view.count >= 3);
}

static void test_fork_event_after_reading(void **state)
{
	struct fp_stack_record record;
	struct fp_process_view view;
	struct fp_event event;

	child_begins(wait_for_ever);
	record = record_of(child);
	record.start_ns = record.time_ns - 20 * MS;
	assert_int_equal(fp_process_table_view(table, &record, &view), 0);
	event = (struct fp_event){ .kind = FP_EVENT_FORK,
				   .time_ns = record.start_ns + 1,
				   .tgid = (uint32_t)child,
				   .tid = (uint32_t)child,
				   .parent_tgid = OTHER };
	step(&event);
	assert_int_equal(fp_process_table_view(table, &record, &view), 0);
	expect_program(&view); // still what was read, not what OTHER may have
	assert_int_equal(stats_now().processes, 1);
}

int main(void)
{
	const struct CMUnitTest cases[] = {
		CASE("a running process is read once, the first time it is asked for",
		     test_running_process),
		CASE("whoever has the PID now is not read for another start time",
		     test_other_start_time),
		CASE("a process that has gone is unknown, and forgotten", test_gone_process),
		CASE("a child that has gone is read through its parent",
		     test_child_read_through_parent),
		CASE("not if the parent is another program by now",
		     test_parent_execs_before_reading),
		CASE("what a child maps before it is read is its own",
		     test_child_maps_before_reading),
		CASE("a preloaded process may end before its first stack", test_preloaded_process),
		CASE("after a loss a process is read again", test_read_again_after_loss),
		CASE("far more mappings than can be there are read again",
		     test_read_again_when_overgrown),
		CASE("a process whose leader has exited is read through a thread",
		     test_threads_outlive_leader),
		CASE("a fork event that comes after the reading begins nothing new",
		     test_fork_event_after_reading),
	};

	return cmocka_run_group_tests(cases, NULL, NULL);
}
