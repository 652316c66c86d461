// SPDX-License-Identifier: Apache-2.0
//
// Execs that come to light when a process has been read: what /proc showed may be of either program,
// and of those who share the mappings of the old one only one was read. And programs that were
// executed but have not mapped anything yet.
#include "process_child.h"

static struct fp_event found;

// What the side-band hands in when it is asked right after a reading.
static int hand_in(void *context)
{
	if (found.tgid == 0)
		return 0;
	step(&found);
	found.tgid = 0; // once
	return 0;
}

static void let_be_found(struct fp_event event)
{
	found = event;
	fp_process_table_set_catch_up(table, hand_in, NULL);
}

static struct fp_event exec_of(uint32_t tgid, uint64_t time_ns)
{
	return (struct fp_event){
		.kind = FP_EVENT_EXEC, .time_ns = time_ns, .tgid = tgid, .tid = tgid, .name = "x"
	};
}

static void fork_at_ns(uint64_t time_ns, uint32_t parent, uint32_t tgid)
{
	step(&(struct fp_event){ .kind = FP_EVENT_FORK,
				 .time_ns = time_ns,
				 .tgid = tgid,
				 .tid = tgid,
				 .parent_tgid = parent });
}

// The mappings of a program are its events'; what a reading of /proc showed meanwhile is not asked.
static void expect_new_program(struct fp_stack_record record, uint64_t exec_ns)
{
	struct fp_event event = { .kind = FP_EVENT_MMAP,
				  .time_ns = exec_ns + 1,
				  .tgid = record.tgid,
				  .tid = record.tgid,
				  .start = 0x10000,
				  .length = 0x1000,
				  .name = "/bin/new" };
	struct fp_process_view view;

	step(&event);
	record.time_ns = exec_ns + 2;
	assert_int_equal(fp_process_table_view(table, &record, &view), 0);
	assert_string_equal(view.executable, "new");
	assert_int_equal(view.count, 1);
	assert_string_equal(name_in(&view, 0x10000), "/bin/new");
}

static void test_exec_between_event_and_reading(void **state)
{
	struct fp_stack_record record;
	struct fp_process_view view;
	uint64_t exec_ns;

	child_begins(wait_for_ever);
	record = record_of(child);
	exec_ns = fp_procfs_monotonic_ns();
	let_be_found(exec_of((uint32_t)child, exec_ns));
	// The record is of the program before the exec; /proc shows the one after it.
	assert_int_equal(fp_process_table_view(table, &record, &view), -ESRCH);
	expect_new_program(record, exec_ns);
	assert_int_equal(stats_now().lazy_reads, 1);
}

// What its parent had is not the new program's, and was its own until the exec.
static void test_child_execs_before_parent_is_read(void **state)
{
	struct fp_stack_record parent, forked;
	struct fp_process_view view;
	uint64_t fork_ns, exec_ns;

	child_begins(wait_for_ever);
	parent = record_of(child);
	fork_ns = fp_procfs_monotonic_ns();
	fork_at_ns(fork_ns, (uint32_t)child, CHILD);
	forked = record_at(0, CHILD, 0, 0);
	forked.start_ns = forked.start_boottime_ns = fork_ns;
	forked.time_ns = fork_ns + 1;
	exec_ns = fp_procfs_monotonic_ns();
	let_be_found(exec_of(CHILD, exec_ns));
	assert_int_equal(fp_process_table_view(table, &parent, &view), 0); // reads it
	expect_program(&view);
	expect_new_program(forked, exec_ns);
	assert_int_equal(fp_process_table_view(table, &forked, &view), 0);
	expect_program(&view);
	assert_int_equal(fp_process_table_view(table, &parent, &view), 0);
	expect_program(&view);
	assert_int_equal(stats_now().lazy_reads, 1);
}

// What the child showed after its exec is not the parent's, nor what the child had before.
static void test_child_execs_before_it_is_read(void **state)
{
	struct fp_stack_record parent, forked;
	struct fp_process_view view;
	uint64_t exec_ns, page;

	child_begins(child_maps);
	forked = record_of(child);
	fork_at_ns(forked.start_ns, (uint32_t)getpid(), (uint32_t)child);
	page = child_maps_one(); // stands for the new program
	exec_ns = fp_procfs_monotonic_ns();
	let_be_found(exec_of((uint32_t)child, exec_ns));
	assert_int_equal(fp_process_table_view(table, &forked, &view), 0);
	expect_program(&view);
	assert_false(covers(&view, page));
	parent = record_of(getpid());
	assert_int_equal(fp_process_table_view(table, &parent, &view), 0);
	assert_false(covers(&view, page));
	expect_like_maps(&view, getpid());
	expect_new_program(forked, exec_ns);
	assert_int_equal(stats_now().lazy_reads, 2); // the child, and the parent in its place
}

// A mapping that an event told of would be taken to have been there always. This test stands for a
// process that the child has forked.
static void test_sharers_are_not_read_once_events_told_more(void **state)
{
	struct fp_stack_record record;
	struct fp_process_view view;
	struct fp_event exec;
	uint64_t before_ns;

	child_begins(wait_for_ever);
	before_ns = fp_procfs_monotonic_ns();
	record = record_of(child);
	assert_int_equal(fp_process_table_view(table, &record, &view), 0);
	step(&(struct fp_event){ .kind = FP_EVENT_MMAP,
				 .time_ns = before_ns,
				 .tgid = (uint32_t)child,
				 .tid = (uint32_t)child,
				 .start = 0x10000,
				 .length = 0x1000,
				 .name = "/lib/late.so" });
	record = record_of(getpid());
	fork_at_ns(before_ns + 1, (uint32_t)child, (uint32_t)getpid());
	record.start_ns = before_ns + 1;
	assert_int_equal(fp_process_table_view(table, &record, &view), 0);
	exec = exec_of((uint32_t)child, before_ns + 2);
	step(&exec);
	assert_int_equal(fp_process_table_view(table, &record, &view), -ESRCH);
}

// A record of a child right after the event of its exec, whose mappings nobody told of yet.
static struct fp_stack_record child_executes(void)
{
	struct fp_stack_record record;
	struct fp_event exec;

	child_begins(wait_for_ever);
	record = record_of(child);
	fork_at_ns(record.start_ns, (uint32_t)getpid(), (uint32_t)child);
	exec = exec_of((uint32_t)child, fp_procfs_monotonic_ns());
	step(&exec);
	record.time_ns = exec.time_ns + 1;
	return record;
}

static void test_named_before_it_is_mapped(void **state)
{
	struct fp_stack_record record = child_executes();
	struct fp_process_view view;

	assert_int_equal(fp_process_table_view(table, &record, &view), 0);
	expect_program(&view);
	assert_int_equal(view.count, 0);
	expect_new_program(record, record.time_ns); // the mapping's file takes the name's place
	assert_int_equal(fp_process_table_view(table, &record, &view), 0);
	assert_string_equal(view.files[view.executable_file].name, "/bin/new");
}

static void expect_named_by_what_it_maps(struct fp_stack_record record)
{
	struct fp_process_view view;

	let_be_found((struct fp_event){ .kind = FP_EVENT_MMAP,
					.time_ns = record.time_ns + 1,
					.tgid = record.tgid,
					.tid = record.tid,
					.start = 0x10000,
					.length = 0x1000,
					.name = "/bin/new" });
	assert_int_equal(fp_process_table_view(table, &record, &view), 0);
	assert_string_equal(view.executable, "new");
	assert_int_equal(view.count, 0); // at the time of the record
}

static void test_named_by_what_it_maps_meanwhile(void **state)
{
	expect_named_by_what_it_maps(child_executes());
}

static void test_maps_and_ends_meanwhile(void **state)
{
	struct fp_stack_record record = child_executes();

	child_ends();
	expect_named_by_what_it_maps(record);
}

static void test_ends_before_it_is_mapped(void **state)
{
	struct fp_stack_record record = child_executes();
	struct fp_process_view view;

	child_ends();
	assert_int_equal(fp_process_table_view(table, &record, &view), 0);
	assert_string_equal(view.executable, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE("an exec between the last event and the reading is told from it",
		     test_exec_between_event_and_reading),
		CASE("a child that executes before its parent is read has not what that has",
		     test_child_execs_before_parent_is_read),
		CASE("a parent has not what its child executes before it is read",
		     test_child_execs_before_it_is_read),
		CASE("who shares a set is not read again once events had told more of it",
		     test_sharers_are_not_read_once_events_told_more),
		CASE("a program has its name before its first mapping is told of",
		     test_named_before_it_is_mapped),
		CASE("a mapping that comes while the name is read gives it",
		     test_named_by_what_it_maps_meanwhile),
		CASE("so does one of a program that has ended by then",
		     test_maps_and_ends_meanwhile),
		CASE("who ended before it was mapped has no name", test_ends_before_it_is_mapped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
