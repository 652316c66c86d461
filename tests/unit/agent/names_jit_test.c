// SPDX-License-Identifier: Apache-2.0
// JIT names: where perf maps are looked for, for how long they are kept, and when names end.
#include "names_bench.h"

#include "common/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <cmocka.h>

static void look_again(struct bench *bench) // without waiting for its time
{
	struct fp_watch *watch;

	TAILQ_FOREACH(watch, &bench->names->watch_list, by_use)
	watch->asked_ns = watch->due_ns = 0;
	bench->names->scan_ns = 0;
}

static struct fp_names_reader reader;

static void end_epoch(struct bench *bench)
{
	fp_names_end_epoch(bench->names, &reader, 0);
}

static void addresses_are_named_within_an_epoch(void **state)
{
	struct bench *bench = *state;
	struct fp_names_process process = bench_process((uint32_t)getpid());
	size_t size;

	bench_open(bench);
	bench_write_perf_map(process.tgid, "1000 100 one\n2000 100 two\n");
	assert_string_equal(bench_name(bench, &process, 0x1000), "one");
	assert_string_equal(bench_name(bench, &process, 0x20ff), "two");
	assert_string_equal(bench_name(bench, &process, 0x3000), "");
	assert_non_null(fp_names_jit(bench->names, &process, 0x1000, &size));
	end_epoch(bench);
	assert_null(fp_names_jit(bench->names, &process, 0x1000, &size));
	bench_write_perf_map(process.tgid, "1000 100 later\n");
	assert_string_equal(bench_name(bench, &process, 0x1000), "later");
	assert_int_equal(bench_stats(bench).maps_open, 1);
	assert_int_equal(bench_stats(bench).jit_asked, 4);
	assert_int_equal(bench_stats(bench).jit_named, 3);
	bench_remove_perf_map(process.tgid);
}

static void a_map_is_found_when_it_appears_and_when_another_takes_its_place(void **state)
{
	struct bench *bench = *state;
	struct fp_names_process process = bench_process((uint32_t)getpid());

	bench_open(bench);
	assert_string_equal(bench_name(bench, &process, 0x1000), "");
	end_epoch(bench);
	bench_write_perf_map(process.tgid, "1000 100 first\n");
	look_again(bench);
	assert_string_equal(bench_name(bench, &process, 0x1000), "first");
	bench_remove_perf_map(process.tgid);
	bench_write_perf_map(process.tgid, "1000 100 second\n");
	end_epoch(bench);
	look_again(bench);
	assert_string_equal(bench_name(bench, &process, 0x1000), "second");
	assert_int_equal(bench_stats(bench).maps_open, 1);
	bench_remove_perf_map(process.tgid);
}

static void more_addresses_than_fit_a_request_are_all_named(void **state)
{
	struct bench *bench = *state;
	struct fp_names_process process = bench_process((uint32_t)getpid());
	char line[64], expected[32];

	bench_open(bench);
	for (int i = 0; i < 1000; i++) {
		snprintf(line, sizeof(line), "%x 10 f%d\n", 0x1000 + 16 * i, i);
		bench_write_perf_map(process.tgid, line);
	}
	for (uint64_t i = 0; i < 1000; i++)
		assert_int_equal(
		    fp_names_want_jit(bench->names, &process, 0x1000 + 16 * i + i % 16), 0);
	bench_settle(bench);
	for (uint64_t i = 0; i < 1000; i++) {
		size_t size = 0;
		const char *name =
		    fp_names_jit(bench->names, &process, 0x1000 + 16 * i + i % 16, &size);

		snprintf(expected, sizeof(expected), "f%d", (int)i);
		assert_non_null(name);
		assert_int_equal(size, strlen(expected));
		assert_memory_equal(name, expected, size);
	}
	bench_remove_perf_map(process.tgid);
}

static void a_map_stays_readable_after_its_process_has_ended(void **state)
{
	struct bench *bench = *state;
	int pid = bench_sleeper();
	struct fp_names_process process = bench_process((uint32_t)pid);

	bench_open(bench);
	bench_write_perf_map(process.tgid, "1000 100 late\n");
	assert_int_equal(fp_names_watch_jit(bench->names, &process), 0);
	while (bench_stats(bench).maps_open == 0)
		fp_names_settle(bench->names, FP_NS_PER_MS);
	bench_kill(pid);
	bench_remove_perf_map(process.tgid);
	look_again(bench);
	assert_string_equal(bench_name(bench, &process, 0x1010), "late");
}

static void a_map_older_than_the_process_is_not_its_own(void **state)
{
	struct bench *bench = *state;
	struct fp_names_process process = bench_process((uint32_t)getpid());
	char path[64];
	const struct timespec old[2] = { { .tv_sec = 1000000 }, { .tv_sec = 1000000 } };

	bench_open(bench);
	bench_write_perf_map(process.tgid, "1000 100 stale\n");
	snprintf(path, sizeof(path), "/tmp/perf-%u.map", process.tgid);
	assert_int_equal(utimensat(AT_FDCWD, path, old, 0), 0);
	process.exec_ns = fp_monotonic_ns();
	assert_string_equal(bench_name(bench, &process, 0x1000), "");
	end_epoch(bench);
	bench_write_perf_map(process.tgid, "1000 100 fresh\n");
	look_again(bench);
	assert_string_equal(bench_name(bench, &process, 0x1000), "fresh");
	bench_remove_perf_map(process.tgid);
}

static void two_programs_of_one_process_do_not_share_names(void **state)
{
	struct bench *bench = *state;
	struct fp_names_process before = bench_process((uint32_t)getpid()), after = before;

	bench_open(bench);
	after.exec_ns = fp_monotonic_ns();
	bench_write_perf_map(before.tgid, "1000 100 before\n");
	assert_string_equal(bench_name(bench, &before, 0x1000), "before");
	bench_remove_perf_map(before.tgid);
	bench_write_perf_map(before.tgid, "1000 100 after\n");
	assert_string_equal(bench_name(bench, &after, 0x1000), "after");
	assert_string_equal(bench_name(bench, &before, 0x1080), "before");
	bench_remove_perf_map(before.tgid);
}

static void another_process_of_the_same_pid_has_no_map_here(void **state)
{
	struct bench *bench = *state;
	struct fp_names_process process = bench_process((uint32_t)getpid());

	bench_open(bench);
	process.start_ns = 5 * FP_NS_PER_S; // long ago, and no longer running
	bench_write_perf_map(process.tgid, "1000 100 wrong\n");
	assert_string_equal(bench_name(bench, &process, 0x1000), "");
	bench_remove_perf_map(process.tgid);
}

static void maps_are_opened_again_when_the_role_has_died(void **state)
{
	struct bench *bench = *state;
	struct fp_names_process process = bench_process((uint32_t)getpid());

	bench_open(bench);
	bench_write_perf_map(process.tgid, "1000 100 name\n");
	assert_string_equal(bench_name(bench, &process, 0x1000), "name");
	kill(bench->names->role.pid, SIGKILL);
	while (bench_stats(bench).role_starts < 2)
		fp_names_settle(bench->names, FP_NS_PER_MS);
	end_epoch(bench);
	look_again(bench);
	assert_string_equal(bench_name(bench, &process, 0x1000), "name");
	assert_int_equal(bench_stats(bench).maps_open, 1);
	bench_remove_perf_map(process.tgid);
}

static void the_map_used_longest_ago_makes_room(void **state)
{
	enum { COUNT = FP_NAMES_MAPS_MAX + 8 };
	struct bench *bench = *state;
	int pids[COUNT];

	bench_open(bench);
	for (int i = 0; i < COUNT; i++) {
		struct fp_names_process process;

		pids[i] = bench_sleeper();
		process = bench_process((uint32_t)pids[i]);
		bench_write_perf_map(process.tgid, "1000 100 name\n");
		assert_string_equal(bench_name(bench, &process, 0x1000), "name");
	}
	assert_int_equal(bench_stats(bench).maps_open, FP_NAMES_MAPS_MAX);
	end_epoch(bench);
	for (int i = 0; i < COUNT; i++) {
		const struct fp_names_process process = bench_process((uint32_t)pids[i]);

		look_again(bench);
		assert_string_equal(bench_name(bench, &process, 0x1000), "name");
		bench_kill(pids[i]);
		bench_remove_perf_map(process.tgid);
	}
	assert_int_equal(bench_stats(bench).maps_open, FP_NAMES_MAPS_MAX);
}

static void what_is_watched_is_bounded(void **state)
{
	struct bench *bench = *state;

	bench_open(bench);
	for (uint32_t i = 0; i < FP_NAMES_WATCHES_MAX + 100; i++) {
		const struct fp_names_process process = bench_process(0x40000000 + i);

		assert_int_equal(fp_names_watch_jit(bench->names, &process), 0);
	}
	assert_int_equal(bench->names->watches_count, FP_NAMES_WATCHES_MAX);
	assert_int_equal(bench->names->watches.count, FP_NAMES_WATCHES_MAX);
}

static void nothing_is_looked_for_where_the_setting_says_so(void **state)
{
	struct bench *bench = *state;
	struct fp_names_process process = bench_process((uint32_t)getpid());

	bench->options.jit = false;
	bench_open(bench);
	bench_write_perf_map(process.tgid, "1000 100 name\n");
	assert_string_equal(bench_name(bench, &process, 0x1000), "");
	assert_int_equal(bench_stats(bench).jit_asked, 0);
	bench->options.jit = true;
	assert_int_equal(fp_names_set_options(bench->names, &bench->options), 0);
	assert_string_equal(bench_name(bench, &process, 0x1000), "name");
	bench_remove_perf_map(process.tgid);
}

// ---- maps that are refused ----

static void make_fifo(const char *path)
{
	assert_int_equal(mkfifo(path, 0644), 0);
}

static void make_link(const char *path)
{
	assert_int_equal(symlink("/etc/hostname", path), 0);
}

static void make_large(const char *path)
{
	assert_int_equal(truncate(path, 70 << 20), 0);
}

static void make_foreign(const char *path)
{
	assert_int_equal(chown(path, 4711, 4711), 0);
}

static void a_map_that_may_be_a_trap_is_refused(void **state)
{
	static const struct {
		const char *name;
		bool in_place, as_root;
		void (*make)(const char *path);
	} cases[] = {
		{ "a FIFO", false, false, make_fifo },
		{ "a symbolic link", false, false, make_link },
		{ "a file larger than the limit", true, false, make_large },
		{ "a file of another user", true, true, make_foreign },
	};
	struct bench *bench = *state;

	bench_open(bench);
	for (size_t i = 0; i < FP_ARRAY_SIZE(cases); i++) {
		int pid = bench_sleeper();
		const struct fp_names_process process = bench_process((uint32_t)pid);
		char path[64];

		print_message("  %s\n", cases[i].name);
		if (cases[i].as_root && geteuid() != 0) {
			bench_kill(pid);
			continue;
		}
		bench_write_perf_map(process.tgid, "1000 100 name\n");
		snprintf(path, sizeof(path), "/tmp/perf-%d.map", pid);
		if (!cases[i].in_place)
			unlink(path);
		cases[i].make(path);
		assert_string_equal(bench_name(bench, &process, 0x1000), "");
		assert_int_equal(bench_stats(bench).maps_refused, i + 1);
		unlink(path);
		bench_kill(pid);
	}
}

// ---- in a container ----

static void write_in_container(int ready_fd)
{
	char byte = 1;

	prctl(PR_SET_PDEATHSIG, (long)SIGKILL, 0L, 0L, 0L);
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("tmpfs", "/tmp", "tmpfs", 0, NULL) < 0)
		_exit(1);
	bench_write_perf_map(1, "1000 100 inside\n");
	if (write(ready_fd, &byte, 1) != 1)
		_exit(1);
	for (;;)
		pause();
}

static void the_map_of_a_container_is_found_by_its_own_pid_in_its_own_tmp(void **state)
{
	struct bench *bench = *state;
	struct fp_names_process process;
	int told[2], ready[2], keeper, status;
	char byte;
	int inner;

	if (geteuid() != 0)
		skip(); // needs root for namespaces
	assert_int_equal(pipe(told), 0);
	assert_int_equal(pipe(ready), 0);
	keeper = fork();
	assert_true(keeper >= 0);
	if (keeper == 0) {
		prctl(PR_SET_PDEATHSIG, (long)SIGKILL, 0L, 0L, 0L);
		if (unshare(CLONE_NEWPID | CLONE_NEWNS) < 0)
			_exit(1);
		inner = fork();
		if (inner == 0)
			write_in_container(ready[1]);
		if (write(told[1], &inner, sizeof(inner)) != sizeof(inner))
			_exit(1);
		waitpid(inner, &status, 0);
		_exit(0);
	}
	assert_int_equal(read(told[0], &inner, sizeof(inner)), sizeof(inner));
	assert_int_equal(read(ready[0], &byte, 1), 1);
	process = bench_process((uint32_t)inner);
	bench_open(bench);
	assert_string_equal(bench_name(bench, &process, 0x1000), "inside");
	kill(inner, SIGKILL);
	assert_int_equal(waitpid(keeper, &status, 0), keeper);
	for (int i = 0; i < 2; i++) {
		close(told[i]);
		close(ready[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_BENCH(addresses_are_named_within_an_epoch),
		ON_BENCH(a_map_is_found_when_it_appears_and_when_another_takes_its_place),
		ON_BENCH(more_addresses_than_fit_a_request_are_all_named),
		ON_BENCH(a_map_stays_readable_after_its_process_has_ended),
		ON_BENCH(a_map_older_than_the_process_is_not_its_own),
		ON_BENCH(two_programs_of_one_process_do_not_share_names),
		ON_BENCH(another_process_of_the_same_pid_has_no_map_here),
		ON_BENCH(maps_are_opened_again_when_the_role_has_died),
		ON_BENCH(the_map_used_longest_ago_makes_room),
		ON_BENCH(what_is_watched_is_bounded),
		ON_BENCH(nothing_is_looked_for_where_the_setting_says_so),
		ON_BENCH(a_map_that_may_be_a_trap_is_refused),
		ON_BENCH(the_map_of_a_container_is_found_by_its_own_pid_in_its_own_tmp),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
