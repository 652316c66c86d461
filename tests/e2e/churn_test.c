// SPDX-License-Identifier: Apache-2.0
//
// Processes that change under the agent's eyes, on the live kernel: a child of this test forks,
// execs, maps one file over another, makes memory executable, replaces its own binary, outlives
// its leader, and does it while records are lost. Stacks must find what was there. Needs root.
#include "../unit/cases.h"

#include "agent/procfs.h"
#include "agent/process.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define SMALLEST_RING (16u * 1024)
#define PLACE	      ((void *)0x600000000000) // nothing of the test is mapped here

extern char **environ;

static struct fp_sideband *sideband;
static struct fp_process_table *table;
static pid_t child, watched; // watched: whose fork the stream tells of
static uint64_t fork_ns, lost;
static int to_child[2], from_child[2];
static char directory[] = "/tmp/fleetprof-churn-XXXXXX";

static int take(const struct fp_event *event, void *context)
{
	if (event->kind == FP_EVENT_FORK && event->tid == event->tgid &&
	    (pid_t)event->tgid == watched)
		fork_ns = event->time_ns;
	return fp_process_table_event(table, event);
}

static int read_all(void *context)
{
	uint64_t lost_now = 0;

	assert_int_equal(fp_sideband_read(sideband, take, NULL, &lost_now), 0);
	lost += lost_now;
	if (lost_now)
		fp_process_table_lost(table);
	fp_process_table_settle(table, fp_sideband_sure_until(sideband));
	return 0;
}

static void say(int fd)
{
	if (write(fd, "x", 1) != 1)
		_exit(3);
}

static void hear(int fd)
{
	char byte;

	if (read(fd, &byte, 1) != 1)
		_exit(3);
}

// The child does one step of its body and waits for the next.
static uint64_t child_steps(void)
{
	say(to_child[1]);
	hear(from_child[0]);
	return fp_procfs_monotonic_ns();
}

static void step_done(void)
{
	say(from_child[1]);
	hear(to_child[0]);
}

static void child_begins(void (*body)(void))
{
	assert_int_equal(pipe(to_child), 0);
	assert_int_equal(pipe(from_child), 0);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		hear(to_child[0]);
		body();
		for (;;)
			pause();
	}
	watched = child;
}

static struct fp_stack_record record_at(uint64_t time_ns, uint32_t exec_id)
{
	return (struct fp_stack_record){ .tgid = (uint32_t)watched,
					 .tid = (uint32_t)watched,
					 .time_ns = time_ns,
					 .exec_id = exec_id,
					 .user_len = 1, // of the program, not from inside an execve
					 .start_ns = fork_ns - 1000,
					 .start_boottime_ns = fork_ns - 1000 };
}

// What a stack from that moment finds at the address: a file's name, or "(none)".
static const char *found_at(uint64_t time_ns, uint32_t exec_id, const void *address)
{
	static char name[4096];
	struct fp_stack_record record = record_at(time_ns, exec_id);
	const struct fp_mapping *mapping;
	struct fp_process_view view;

	if (fp_process_table_view(table, &record, &view) == -ESRCH)
		return "(unknown)";
	mapping = fp_process_view_at(&view, (uint64_t)(uintptr_t)address);
	snprintf(name, sizeof(name), "%s", mapping ? view.files[mapping->file].name : "(none)");
	return name;
}

static void executable_at(uint64_t time_ns, uint32_t exec_id, char *ret_name, size_t size,
			  uint8_t ret_id[20])
{
	struct fp_stack_record record = record_at(time_ns, exec_id);
	struct fp_process_view view;

	assert_int_equal(fp_process_table_view(table, &record, &view), 0);
	snprintf(ret_name, size, "%s", view.executable);
	assert_true(view.executable_file != UINT32_MAX);
	memcpy(ret_id, view.files[view.executable_file].build_id, 20);
}

static void expect_executable(uint64_t time_ns, uint32_t exec_id, const char *expected)
{
	char name[256];
	uint8_t id[20];

	executable_at(time_ns, exec_id, name, sizeof(name), id);
	assert_string_equal(name, expected);
}

static void map_over(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 ||
	    mmap(PLACE, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, fd, 0) != PLACE)
		_exit(3);
	close(fd);
}

static char file_one[64], file_two[64];

static void body_maps(void)
{
	map_over(file_one);
	step_done();
	map_over(file_two);
	step_done();
	munmap(PLACE, 4096);
	if (mmap(PLACE, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
		 0) != PLACE)
		_exit(3);
	step_done();
	mprotect(PLACE, 4096, PROT_READ | PROT_EXEC);
	say(from_child[1]);
}

static void test_one_file_over_another(void **state)
{
	uint64_t at[4];

	child_begins(body_maps);
	for (int i = 0; i < 4; i++)
		at[i] = child_steps();
	read_all(NULL);
	assert_string_equal(found_at(fork_ns + 1, 0, PLACE), "(none)");
	assert_string_equal(found_at(at[0], 0, PLACE), file_one);
	assert_string_equal(found_at(at[1], 0, PLACE), file_two);
	assert_string_equal(found_at(at[3], 0, PLACE), "//anon");
	assert_int_equal(lost, 0);
}

static void run(const char *const *arguments)
{
	pid_t pid;

	assert_int_equal(
	    posix_spawn(&pid, arguments[0], NULL, NULL, (char *const *)arguments, environ), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

// More happens than the rings hold, and then something that fits, with which the kernel
// reports the loss.
static void overrun(void)
{
	static const char *const program[] = { "/usr/bin/true", NULL };

	for (int i = 0; i < 200; i++)
		run(program);
}

static void report_loss(void)
{
	static const char *const program[] = { "/usr/bin/true", NULL };

	read_all(NULL);
	for (int i = 0; i < 4; i++)
		run(program);
	read_all(NULL);
	assert_true(lost > 0);
}

static void test_mapping_among_lost_records(void **state)
{
	uint64_t before, after;

	child_begins(body_maps);
	before = child_steps();
	read_all(NULL);
	assert_string_equal(found_at(before, 0, PLACE), file_one);
	read_all(NULL); // what it was read as is from before the loss
	overrun();
	after = child_steps();
	report_loss();
	// Known for sure before the loss and after it; between, anything may have been there.
	assert_string_equal(found_at(after, 0, PLACE), "(unknown)");
	assert_string_equal(found_at(before, 0, PLACE), file_one);
	assert_string_equal(found_at(fp_procfs_monotonic_ns(), 0, PLACE), file_two);
}

static void body_execs(void)
{
	step_done();
	execl("/usr/bin/sleep", "sleep", "1000", NULL);
	_exit(3);
}

static int count_sleep(const struct fp_procfs_map *map, void *context)
{
	*(int *)context |= strcmp(map->name, "/usr/bin/sleep") == 0 ? 1 : 0;
	*(int *)context |= strstr(map->name, "/libc.so") ? 2 : 0;
	return 0;
}

// Until the new program has its C library, so that it has all of its own.
static void wait_for_exec(void)
{
	FP_AUTOCLOSE int dirfd = fp_procfs_open((uint32_t)child);
	int seen;

	do {
		seen = 0;
		(void)fp_procfs_maps(dirfd, "maps", count_sleep, &seen);
	} while (seen != 3);
}

static void test_exec_among_lost_records(void **state)
{
	const char *own = program_invocation_short_name;
	uint64_t before;

	child_begins(body_execs);
	before = child_steps();
	read_all(NULL);
	expect_executable(before, 1, own);
	overrun();
	say(to_child[1]);
	wait_for_exec();
	report_loss();
	expect_executable(fp_procfs_monotonic_ns(), 2, "sleep");
	expect_executable(before, 1, own);
}

static void test_exec_between_stacks(void **state)
{
	uint64_t before, after;

	child_begins(body_execs);
	before = child_steps();
	say(to_child[1]);
	wait_for_exec();
	after = fp_procfs_monotonic_ns();
	read_all(NULL);
	expect_executable(after, 2, "sleep");
	expect_executable(before, 1, program_invocation_short_name);
	assert_string_equal(found_at(after, 2, (const void *)(uintptr_t)test_exec_between_stacks),
			    "(none)");
}

static void copy(const char *from, const char *to)
{
	const char *const program[] = { "/usr/bin/cp", from, to, NULL };

	run(program);
}

static void spawn_watched(const char *path)
{
	assert_int_equal(
	    posix_spawn(&child, path, NULL, NULL, (char *[]){ "sleep", "0.05", NULL }, environ), 0);
	watched = child;
}

// A binary replaced while it runs, and run again under the same name.
static void test_replaced_binary(void **state)
{
	char path[64], next[64], name[256];
	uint8_t id_before[20], id_after[20];
	uint64_t at;

	snprintf(path, sizeof(path), "%s/program", directory);
	snprintf(next, sizeof(next), "%s/next", directory);
	copy("/usr/bin/sleep", path);
	spawn_watched(path);
	usleep(20000);
	copy("/usr/bin/true", next);
	at = fp_procfs_monotonic_ns();
	assert_int_equal(rename(next, path), 0);
	waitpid(child, NULL, 0);
	read_all(NULL);
	executable_at(at, 1, name, sizeof(name), id_before);
	assert_string_equal(name, "program");
	spawn_watched(path);
	waitpid(child, NULL, 0);
	at = fp_procfs_monotonic_ns();
	child = 0;
	read_all(NULL);
	executable_at(at, 1, name, sizeof(name), id_after);
	assert_string_equal(name, "program");
	assert_memory_not_equal(id_before, id_after, 20);
}

static void *late_thread(void *context)
{
	step_done();
	map_over(file_one);
	say(from_child[1]);
	for (;;)
		pause();
	return NULL;
}

static void body_loses_leader(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, late_thread, NULL))
		_exit(3);
	pthread_exit(NULL);
}

static void test_threads_outlive_leader(void **state)
{
	uint64_t before, after;

	child_begins(body_loses_leader);
	before = child_steps();
	usleep(10000); // the leader goes
	after = child_steps();
	read_all(NULL);
	fp_process_table_retire(table, after);
	assert_string_equal(found_at(before, 0, PLACE), "(none)");
	assert_string_equal(found_at(after, 0, PLACE), file_one);
	expect_executable(after, 0, program_invocation_short_name);
}

static int begin_with(uint32_t ring_bytes)
{
	lost = fork_ns = 0;
	child = 0;
	assert_int_equal(fp_process_table_new(NULL, &table), 0);
	assert_int_equal(fp_sideband_open(ring_bytes, &sideband), 0);
	fp_process_table_set_catch_up(table, read_all, NULL);
	return 0;
}

static int begin(void **state)
{
	return begin_with(0);
}

static int begin_small(void **state)
{
	return begin_with(SMALLEST_RING);
}

static int end(void **state)
{
	if (child > 0) {
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
	}
	fp_sideband_freep(&sideband);
	fp_process_table_freep(&table);
	return 0;
}

static int make_files(void **state)
{
	if (!mkdtemp(directory))
		return -1;
	snprintf(file_one, sizeof(file_one), "%s/one.so", directory);
	snprintf(file_two, sizeof(file_two), "%s/two.so", directory);
	copy("/usr/bin/true", file_one);
	copy("/usr/bin/false", file_two);
	return 0;
}

static int remove_files(void **state)
{
	const char *const program[] = { "/usr/bin/rm", "-rf", directory, NULL };

	run(program);
	return 0;
}

#define CASE(sentence, function, setup)                                                            \
	{                                                                                          \
		.name = sentence, .test_func = function, .setup_func = setup, .teardown_func = end \
	}

int main(void)
{
	const struct CMUnitTest cases[] = {
		CASE("one file mapped over another is told by time", test_one_file_over_another,
		     begin),
		CASE("a mapping among lost records is found by reading the process again",
		     test_mapping_among_lost_records, begin_small),
		CASE("an exec among lost records never gives the old program's stack the new one",
		     test_exec_among_lost_records, begin_small),
		CASE("stacks before and after an exec find their own program",
		     test_exec_between_stacks, begin),
		CASE("a binary replaced while it runs keeps its build", test_replaced_binary,
		     begin),
		CASE("what a thread maps after its leader's end is seen",
		     test_threads_outlive_leader, begin),
	};
	struct fp_sideband *probe = NULL;
	int r = fp_sideband_open(0, &probe);

	fp_sideband_free(probe);
	if (r == -EPERM || r == -EACCES)
		return printf("SKIP: system-wide perf events need root or CAP_PERFMON\n"), 77;
	return cmocka_run_group_tests(cases, make_files, remove_files);
}
