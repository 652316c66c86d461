// SPDX-License-Identifier: Apache-2.0
// Perf maps of processes that have ended, while others write to the same file.
#include "names_bench.h"

#include "agent/procfs.h"
#include "common/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static struct fp_names_reader reader;

static void end_epoch(struct bench *bench, uint64_t began_ns)
{
	fp_names_end_epoch(bench->names, &reader, began_ns);
}

static void look_again(struct bench *bench) // without waiting for its time
{
	struct fp_watch *watch;

	TAILQ_FOREACH(watch, &bench->names->watch_list, by_use)
	watch->asked_ns = watch->due_ns = 0;
	bench->names->scan_ns = 0;
}

static void map_path(uint32_t pid, char path[64])
{
	snprintf(path, 64, "/tmp/perf-%u.map", pid);
}

// As by the next program; `later_ms` is how much later than now, for clocks of files tick slowly.
static void write_anew(uint32_t pid, const char *text, int64_t later_ms)
{
	uint64_t time_ns = fp_realtime_ns() + (uint64_t)(later_ms * (int64_t)FP_NS_PER_MS);
	struct timespec times[2];
	char path[64];

	map_path(pid, path);
	assert_int_equal(truncate(path, 0), 0);
	bench_write_perf_map(pid, text);
	times[0].tv_sec = (time_t)(time_ns / FP_NS_PER_S);
	times[0].tv_nsec = (long)(time_ns % FP_NS_PER_S);
	times[1] = times[0];
	assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static void await_map(struct bench *bench, const struct fp_names_process *process)
{
	uint64_t open = bench_stats(bench).maps_open;

	assert_int_equal(fp_names_watch_jit(bench->names, process), 0);
	while (bench_stats(bench).maps_open == open)
		fp_names_settle(bench->names, FP_NS_PER_MS);
}

static void end(struct bench *bench, const struct fp_names_process *process)
{
	bench_kill((int)process->tgid);
	fp_names_end_process(bench->names, process->tgid, fp_procfs_monotonic_ns(), false);
}

static void what_ran_keeps_its_names_when_others_write_its_file(void **state)
{
	struct bench *bench = *state;
	struct fp_names_process process = bench_process((uint32_t)bench_sleeper());

	bench_open(bench);
	bench_write_perf_map(process.tgid, "1000 100 early\n");
	await_map(bench, &process);
	bench_write_perf_map(process.tgid, "2000 100 late\n");
	end(bench, &process);
	bench_settle(bench);
	write_anew(process.tgid, "1000 100 wrong\n2000 100 wrong\n3000 100 wrong\n", 1000);
	assert_string_equal(bench_name(bench, &process, 0x1000), "early");
	assert_string_equal(bench_name(bench, &process, 0x2010), "late");
	assert_string_equal(bench_name(bench, &process, 0x3000), "");
	end_epoch(bench, 0);
	look_again(bench);
	assert_string_equal(bench_name(bench, &process, 0x2010), "late");
	assert_int_equal(bench_stats(bench).maps_lost, 0);
	bench_remove_perf_map(process.tgid);
}

static void who_wrote_first_is_not_taken_for_what_ran(void **state)
{
	struct bench *bench = *state;
	struct fp_names_process process = bench_process((uint32_t)bench_sleeper());

	bench_open(bench);
	bench_write_perf_map(process.tgid, "1000 100 right\n");
	await_map(bench, &process);
	end(bench, &process);
	write_anew(process.tgid, "1000 100 wrong\n2000 100 wrong\n", 1000);
	assert_string_equal(bench_name(bench, &process, 0x1000), "");
	assert_string_equal(bench_name(bench, &process, 0x2000), "");
	assert_int_equal(bench_stats(bench).maps_lost, 1);
	assert_int_equal(bench_stats(bench).maps_open, 0);
	bench_remove_perf_map(process.tgid);
}

// The next name finds that it has ended.
static void an_end_that_nobody_told_is_one(void **state)
{
	struct bench *bench = *state;
	struct fp_names_process kept = bench_process((uint32_t)bench_sleeper());
	struct fp_names_process late = bench_process((uint32_t)bench_sleeper());

	bench_open(bench);
	bench_write_perf_map(kept.tgid, "1000 100 right\n");
	bench_write_perf_map(late.tgid, "1000 100 right\n");
	await_map(bench, &kept);
	await_map(bench, &late);
	bench_kill((int)kept.tgid);
	bench_kill((int)late.tgid);
	write_anew(late.tgid, "1000 100 wrong\n2000 100 wrong\n", 0);
	look_again(bench);
	assert_string_equal(bench_name(bench, &kept, 0x1000), "right");
	assert_string_equal(bench_name(bench, &late, 0x1000), "");
	write_anew(kept.tgid, "1000 100 wrong\n2000 100 wrong\n", 0);
	assert_string_equal(bench_name(bench, &kept, 0x1080), "right");
	assert_string_equal(bench_name(bench, &kept, 0x2000), "");
	assert_int_equal(bench_stats(bench).maps_lost, 1);
	bench_remove_perf_map(kept.tgid);
	bench_remove_perf_map(late.tgid);
}

static uint64_t execute(struct bench *bench, const struct fp_names_process *process)
{
	uint64_t now_ns = fp_procfs_monotonic_ns();

	fp_names_end_process(bench->names, process->tgid, now_ns, true);
	return now_ns;
}

static void the_program_before_keeps_its_names_when_the_next_writes_its_file(void **state)
{
	struct bench *bench = *state;
	struct fp_names_process before = bench_process((uint32_t)bench_sleeper()), after = before;

	bench_open(bench);
	bench_write_perf_map(before.tgid, "");
	write_anew(before.tgid, "1000 100 before\n", -1000);
	await_map(bench, &before);
	after.exec_ns = execute(bench, &before);
	bench_settle(bench);
	write_anew(before.tgid, "1000 100 after\n", 0);
	assert_string_equal(bench_name(bench, &after, 0x1000), "after");
	assert_string_equal(bench_name(bench, &before, 0x1000), "before");
	assert_int_equal(bench_stats(bench).maps_open, 2);
	bench_kill((int)before.tgid);
	bench_remove_perf_map(before.tgid);
}

// Which writes at once, at what the clock of files takes for a moment before.
static void the_next_program_is_not_taken_for_the_one_before(void **state)
{
	struct bench *bench = *state;
	struct fp_names_process process = bench_process((uint32_t)bench_sleeper());

	bench_open(bench);
	bench_write_perf_map(process.tgid, "1000 100 before\n");
	await_map(bench, &process);
	write_anew(process.tgid, "1000 100 after\n", -2);
	execute(bench, &process);
	assert_string_equal(bench_name(bench, &process, 0x1000), "");
	assert_int_equal(bench_stats(bench).maps_lost, 1);
	bench_kill((int)process.tgid);
	bench_remove_perf_map(process.tgid);
}

// Two descriptions that are as near as this else are one program's.
static void a_program_that_soon_executes_another_is_not_taken_for_it(void **state)
{
	struct bench *bench = *state;
	struct fp_names_process before = bench_process((uint32_t)bench_sleeper()), after = before;

	bench_open(bench);
	bench_write_perf_map(before.tgid, "1000 100 after\n");
	before.exec_ns = fp_procfs_monotonic_ns();
	assert_int_equal(fp_names_watch_jit(bench->names, &before), 0);
	after.exec_ns = execute(bench, &before);
	assert_string_equal(bench_name(bench, &after, 0x1000), "after");
	assert_string_equal(bench_name(bench, &before, 0x1000), "");
	assert_int_equal(bench_stats(bench).maps_open, 1);
	bench_kill((int)before.tgid);
	bench_remove_perf_map(before.tgid);
}

static void no_map_is_looked_for_of_what_is_over(void **state)
{
	struct bench *bench = *state;
	struct fp_names_process process = bench_process((uint32_t)bench_sleeper());

	bench_open(bench);
	assert_int_equal(fp_names_watch_jit(bench->names, &process), 0);
	bench_settle(bench);
	execute(bench, &process);
	bench_write_perf_map(process.tgid, "1000 100 wrong\n");
	look_again(bench);
	assert_string_equal(bench_name(bench, &process, 0x1000), "");
	assert_int_equal(bench_stats(bench).maps_open, 0);
	assert_int_equal(bench_stats(bench).maps_lost, 0); // it was never taken up
	bench_kill((int)process.tgid);
	bench_remove_perf_map(process.tgid);
}

static void a_map_that_died_with_the_role_is_not_opened_again(void **state)
{
	struct bench *bench = *state;
	struct fp_names_process process = bench_process((uint32_t)bench_sleeper());

	bench_open(bench);
	bench_write_perf_map(process.tgid, "");
	write_anew(process.tgid, "1000 100 before\n", -1000);
	await_map(bench, &process);
	execute(bench, &process);
	assert_string_equal(bench_name(bench, &process, 0x1000), "before");
	kill(bench->names->role.pid, SIGKILL);
	while (bench_stats(bench).role_starts < 2)
		fp_names_settle(bench->names, FP_NS_PER_MS);
	end_epoch(bench, 0);
	look_again(bench);
	assert_string_equal(bench_name(bench, &process, 0x1000), "");
	assert_int_equal(bench_stats(bench).maps_open, 0);
	bench_kill((int)process.tgid);
	bench_remove_perf_map(process.tgid);
}

static void an_end_while_the_map_is_being_opened_seals_it(void **state)
{
	struct bench *bench = *state;
	struct fp_names_process process = bench_process((uint32_t)bench_sleeper());

	bench_open(bench);
	bench_write_perf_map(process.tgid, "");
	write_anew(process.tgid, "1000 100 right\n", -1000);
	assert_int_equal(fp_names_watch_jit(bench->names, &process), 0);
	assert_int_equal(fp_names_pump(bench->names), 0);
	assert_int_equal(bench->names->operation.kind, FP_NAMES_MAP_OPEN);
	execute(bench, &process);
	bench_settle(bench);
	assert_int_equal(bench_stats(bench).maps_open, 1);
	write_anew(process.tgid, "1000 100 wrong\n2000 100 wrong\n", 1000);
	assert_string_equal(bench_name(bench, &process, 0x1000), "right");
	bench_kill((int)process.tgid);
	bench_remove_perf_map(process.tgid);
}

static void a_map_is_held_until_no_reader_can_have_a_stack_of_its_process(void **state)
{
	struct bench *bench = *state;
	struct fp_names_process process = bench_process((uint32_t)bench_sleeper());
	struct fp_names_process running = bench_process((uint32_t)getpid());
	struct fp_names_reader other = { 0 };
	uint64_t ended_ns;

	bench_open(bench);
	bench_write_perf_map(process.tgid, "1000 100 name\n");
	bench_write_perf_map(running.tgid, "1000 100 other\n");
	fp_names_add_reader(bench->names, &reader);
	fp_names_add_reader(bench->names, &other);
	await_map(bench, &process);
	await_map(bench, &running);
	end(bench, &process);
	ended_ns = fp_procfs_monotonic_ns();
	end_epoch(bench, ended_ns - 3600 * FP_NS_PER_S); // in which it ended
	assert_string_equal(bench_name(bench, &process, 0x1000), "name");
	end_epoch(bench, ended_ns); // but the other reader has not said so
	assert_string_equal(bench_name(bench, &process, 0x1000), "name");
	fp_names_end_epoch(bench->names, &other, ended_ns);
	bench_settle(bench);
	assert_string_equal(bench_name(bench, &process, 0x1000), "");
	assert_int_equal(bench_stats(bench).maps_open, 1);
	assert_int_equal(bench_stats(bench).maps_lost, 0);
	assert_string_equal(bench_name(bench, &running, 0x1000), "other");
	bench_remove_perf_map(process.tgid);
	bench_remove_perf_map(running.tgid);
}

static void a_reader_that_has_left_holds_nothing(void **state)
{
	struct bench *bench = *state;
	struct fp_names_process process = bench_process((uint32_t)bench_sleeper());
	struct fp_names_reader other = { 0 };

	bench_open(bench);
	bench_write_perf_map(process.tgid, "1000 100 name\n");
	fp_names_add_reader(bench->names, &other);
	fp_names_add_reader(bench->names, &reader);
	await_map(bench, &process);
	end(bench, &process);
	fp_names_remove_reader(bench->names, &other);
	fp_names_remove_reader(bench->names, &other);
	end_epoch(bench, fp_procfs_monotonic_ns());
	assert_int_equal(bench_stats(bench).maps_open, 0);
	bench_remove_perf_map(process.tgid);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_BENCH(what_ran_keeps_its_names_when_others_write_its_file),
		ON_BENCH(who_wrote_first_is_not_taken_for_what_ran),
		ON_BENCH(an_end_that_nobody_told_is_one),
		ON_BENCH(the_program_before_keeps_its_names_when_the_next_writes_its_file),
		ON_BENCH(the_next_program_is_not_taken_for_the_one_before),
		ON_BENCH(a_program_that_soon_executes_another_is_not_taken_for_it),
		ON_BENCH(no_map_is_looked_for_of_what_is_over),
		ON_BENCH(a_map_that_died_with_the_role_is_not_opened_again),
		ON_BENCH(an_end_while_the_map_is_being_opened_seals_it),
		ON_BENCH(a_map_is_held_until_no_reader_can_have_a_stack_of_its_process),
		ON_BENCH(a_reader_that_has_left_holds_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
