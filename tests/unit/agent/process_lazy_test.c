// SPDX-License-Identifier: Apache-2.0
//
// Real processes that the table was not told of: children of this test that wait until they
// are killed. Event times are taken from the clock, as the side-band's would be.
#include "process_steps.h"

#include "agent/procfs.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static pid_t child;
static int to_child[2], from_child[2];

static void say(int fd)
{
	char byte = 'x';

	if (write(fd, &byte, 1) != 1)
		_exit(3);
}

static void hear(int fd)
{
	char byte;

	if (read(fd, &byte, 1) != 1)
		_exit(3);
}

static void *map_code(size_t size)
{
	return mmap(NULL, size, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void wait_for_ever(void)
{
	for (;;)
		pause();
}

// Maps one anonymous executable page for each byte it is sent and sends its address.
static void child_maps(void)
{
	for (;;) {
		void *page;

		hear(to_child[0]);
		page = map_code((size_t)getpagesize());
		if (write(from_child[1], &page, sizeof(page)) != sizeof(page))
			_exit(3);
	}
}

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

static void child_begins(void (*body)(void))
{
	assert_int_equal(pipe2(to_child, O_CLOEXEC), 0);
	assert_int_equal(pipe2(from_child, O_CLOEXEC), 0);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		body();
		_exit(3);
	}
}

static void child_ends(void)
{
	if (child > 0) {
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
		close(to_child[0]);
		close(to_child[1]);
		close(from_child[0]);
		close(from_child[1]);
	}
	child = 0;
}

static int begin(void **state)
{
	return steps_begin(state);
}

static int end(void **state)
{
	child_ends();
	return steps_end(state);
}

static struct fp_procfs_stat stat_of(pid_t pid)
{
	FP_AUTOCLOSE int dirfd = fp_procfs_open((uint32_t)pid);
	struct fp_procfs_stat stat = { 0 };

	assert_true(dirfd >= 0);
	assert_int_equal(fp_procfs_stat(dirfd, &stat), 0);
	return stat;
}

// A record of now, as the kernel would make it for the process.
static struct fp_stack_record record_of(pid_t pid)
{
	struct fp_stack_record record = { 0 };
	uint64_t tick_ns = 1000000000u / (uint64_t)sysconf(_SC_CLK_TCK);

	record.time_ns = fp_procfs_monotonic_ns();
	record.tgid = record.tid = (uint32_t)pid;
	record.start_boottime_ns = stat_of(pid).start_ticks * tick_ns + tick_ns / 2;
	record.start_ns = record.start_boottime_ns; // nothing has been suspended meanwhile
	if (record.start_ns > record.time_ns)
		record.start_ns = record.time_ns;
	return record;
}

static int count_map(const struct fp_procfs_map *map, void *context)
{
	const struct fp_process_view *view = context;

	// Each executable mapping of the process is in the view, as it is.
	for (uint32_t i = 0; i < view->count; i++) {
		const struct fp_mapping *mapping = &view->mappings[i];

		if (mapping->start != map->start)
			continue;
		assert_int_equal(mapping->end, map->end);
		if (map->inode != 0)
			assert_int_equal(mapping->page_offset, map->page_offset);
		if (map->name[0])
			assert_string_equal(view->files[mapping->file].name, map->name);
		return 0;
	}
	// The vsyscall page is no mapping that PROCMAP_QUERY shows.
	assert_string_equal(map->name, "[vsyscall]");
	return 0;
}

static void expect_like_maps(const struct fp_process_view *view, pid_t pid)
{
	FP_AUTOCLOSE int dirfd = fp_procfs_open((uint32_t)pid);

	assert_true(dirfd >= 0);
	assert_true(view->count >= 3); // program, C library, dynamic linker
	assert_int_equal(fp_procfs_maps_text(dirfd, "maps", count_map, (void *)view), 0);
}

static void expect_program(const struct fp_process_view *view)
{
	assert_string_equal(view->executable, program_invocation_short_name);
	assert_true(view->executable_file != UINT32_MAX);
	assert_int_equal(view->files[view->executable_file].kind, FP_FILE_REGULAR);
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

static uint64_t child_maps_one(void)
{
	void *page;

	say(to_child[1]);
	assert_int_equal(read(from_child[0], &page, sizeof(page)), sizeof(page));
	return (uint64_t)(uintptr_t)page;
}

static bool covers(const struct fp_process_view *view, uint64_t address)
{
	for (uint32_t i = 0; i < view->count; i++)
		if (view->mappings[i].start <= address && address < view->mappings[i].end)
			return true;
	return false;
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

static struct fp_event exec_found;

// What the side-band hands in when it is asked right after a reading.
static int hand_in_exec(void *context)
{
	if (exec_found.tgid == 0)
		return 0;
	step(&exec_found);
	exec_found.tgid = 0; // once
	return 0;
}

static void let_exec_be_found(uint64_t time_ns, uint32_t tgid)
{
	exec_found = (struct fp_event){
		.kind = FP_EVENT_EXEC, .time_ns = time_ns, .tgid = tgid, .tid = tgid, .name = "x"
	};
	fp_process_table_set_catch_up(table, hand_in_exec, NULL);
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
	let_exec_be_found(exec_ns, (uint32_t)child);
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
	step(&(struct fp_event){ .kind = FP_EVENT_FORK,
				 .time_ns = fork_ns,
				 .tgid = CHILD,
				 .tid = CHILD,
				 .parent_tgid = (uint32_t)child });
	forked = record_at(0, CHILD, 0, 0);
	forked.start_ns = forked.start_boottime_ns = fork_ns;
	forked.time_ns = fork_ns + 1;
	exec_ns = fp_procfs_monotonic_ns();
	let_exec_be_found(exec_ns, CHILD);
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
	step(&(struct fp_event){ .kind = FP_EVENT_FORK,
				 .time_ns = forked.start_ns,
				 .tgid = (uint32_t)child,
				 .tid = (uint32_t)child,
				 .parent_tgid = (uint32_t)getpid() });
	page = child_maps_one(); // stands for the new program
	exec_ns = fp_procfs_monotonic_ns();
	let_exec_be_found(exec_ns, (uint32_t)child);
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

#define CASE(sentence, function)                                                                   \
	{                                                                                          \
		.name = sentence, .test_func = function, .setup_func = begin, .teardown_func = end \
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
		CASE("an exec between the last event and the reading is told from it",
		     test_exec_between_event_and_reading),
		CASE("a child that executes before its parent is read has not what that has",
		     test_child_execs_before_parent_is_read),
		CASE("a parent has not what its child executes before it is read",
		     test_child_execs_before_it_is_read),
		CASE("a fork event that comes after the reading begins nothing new",
		     test_fork_event_after_reading),
	};

	return cmocka_run_group_tests(cases, NULL, NULL);
}
