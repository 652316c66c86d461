// SPDX-License-Identifier: Apache-2.0
// What somebody died or hung over: files and perf maps have their names again after a while.
#include "names_bench.h"

#include "common/clock.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static struct fp_names_reader reader;

static void end_epoch(struct bench *bench)
{
	fp_names_end_epoch(bench->names, &reader, 0);
}

// ---- files ----

static void make_old(struct bench *bench)
{
	struct fp_identity_entry *entry;

	TAILQ_FOREACH(entry, &bench->names->by_use, by_use)
	entry->answered_ns = 0;
}

static void pass_blame(struct bench *bench)
{
	struct fp_identity_entry *entry;

	TAILQ_FOREACH(entry, &bench->names->by_use, by_use)
	entry->blame.until_ns = 0;
}

// Killed for want of memory, say, while it looked at a file that was known and has not changed.
static void a_file_that_was_known_is_known_again_after_a_death_over_it(void **state)
{
	struct bench *bench = *state;
	struct fp_build build = { 0 };
	struct bench_file file;

	bench_open(bench);
	bench_map(bench, "file", "text", &file);
	assert_int_equal(bench_identify(bench, &file, &build), FP_NAMES_KNOWN);
	make_old(bench);
	kill(bench->names->opener.pid, SIGSTOP);
	assert_int_equal(fp_names_want_identity(bench->names, &file.file), 0);
	fp_names_pump(bench->names);
	assert_int_equal(bench->names->operation.kind, FP_NAMES_IDENTIFY);
	kill(bench->names->opener.pid, SIGKILL);
	bench_settle(bench);
	assert_int_equal(fp_names_identity(bench->names, &file.file, &build), FP_NAMES_NONE);
	pass_blame(bench);
	make_old(bench);
	assert_int_equal(bench_identify(bench, &file, &build), FP_NAMES_KNOWN);
	bench_unmap(&file);
}

// A slow disk must not take the names of what lies on it for longer than it is slow.
static void a_file_that_was_known_is_known_again_when_its_place_answers_again(void **state)
{
	struct bench *bench = *state;
	struct fp_blame *hung;
	struct fp_build build = { 0 };
	struct bench_file file;

	bench_open(bench);
	bench_map(bench, "file", "text", &file);
	assert_int_equal(bench_identify(bench, &file, &build), FP_NAMES_KNOWN);
	hung = fp_hashmap_put(&bench->names->hung_places, &file.file.device, NULL);
	assert_non_null(hung);
	hung->until_ns = UINT64_MAX;
	make_old(bench);
	assert_int_equal(bench_identify(bench, &file, &build), FP_NAMES_NONE);
	assert_int_equal(bench_stats(bench).denied, 1);
	fp_hashmap_clear(&bench->names->hung_places);
	make_old(bench);
	assert_int_equal(bench_identify(bench, &file, &build), FP_NAMES_KNOWN);
	assert_int_equal(bench_stats(bench).identities_known, 1);
	bench_unmap(&file);
}

static void each_blame_lasts_longer_than_the_one_before(void **state)
{
	const uint64_t now_ns = 1000 * FP_NS_PER_S, day_ns = 24 * 3600 * FP_NS_PER_S;
	struct fp_blame blame = { 0 };

	assert_false(fp_blame_stands(&blame, now_ns));
	fp_blame_add(&blame, -EOWNERDEAD, now_ns);
	assert_true(fp_blame_stands(&blame, now_ns + 5 * FP_NS_PER_S - 1));
	assert_false(fp_blame_stands(&blame, now_ns + 5 * FP_NS_PER_S));
	fp_blame_add(&blame, -EOWNERDEAD, now_ns);
	assert_int_equal(blame.until_ns, now_ns + 10 * FP_NS_PER_S);
	fp_blame_add(&blame, -ETIMEDOUT, now_ns);
	assert_int_equal(blame.until_ns, now_ns + 60 * FP_NS_PER_S);
	for (int i = 0; i < 100; i++)
		fp_blame_add(&blame, -ETIMEDOUT, now_ns);
	assert_int_equal(blame.until_ns, now_ns + day_ns);
	fp_blame_add(&blame, -EOWNERDEAD, now_ns + 2 * day_ns);
	assert_int_equal(blame.until_ns, now_ns + 3 * day_ns);
	fp_blame_add(&blame, -EOWNERDEAD, now_ns + 4 * day_ns + 1); // a day without another
	assert_int_equal(blame.until_ns, now_ns + 4 * day_ns + 1 + 5 * FP_NS_PER_S);
}

// ---- perf maps ----

static void look_again(struct bench *bench) // without waiting for its time
{
	struct fp_watch *watch;

	TAILQ_FOREACH(watch, &bench->names->watch_list, by_use)
	watch->asked_ns = watch->due_ns = 0;
	bench->names->scan_ns = 0;
}

static struct fp_watch *only_watch(struct bench *bench)
{
	struct fp_watch *watch = TAILQ_FIRST(&bench->names->watch_list);

	assert_non_null(watch);
	assert_null(TAILQ_NEXT(watch, by_use));
	return watch;
}

// The child is killed while it is asked about this map: not before, not after.
static void die_over_it(struct bench *bench, struct fp_names_child *child,
			const struct fp_names_process *process, enum fp_names_kind kind)
{
	uint64_t starts = child->starts;

	end_epoch(bench);
	kill(child->pid, SIGSTOP);
	assert_int_equal(fp_names_want_jit(bench->names, process, 0x1000), 0);
	fp_names_pump(bench->names);
	assert_int_equal(bench->names->operation.kind, kind);
	kill(child->pid, SIGKILL);
	bench_settle(bench);
	while (child->starts == starts)
		fp_names_settle(bench->names, FP_NS_PER_MS);
	end_epoch(bench);
}

static void assert_left_alone_for(struct bench *bench, const struct fp_names_process *process,
				  uint64_t seconds)
{
	struct fp_watch *watch = only_watch(bench);

	assert_string_equal(bench_name(bench, process, 0x1000), "");
	assert_int_equal(watch->blame.delay_ns, seconds * FP_NS_PER_S);
	assert_int_equal(watch->due_ns, watch->blame.until_ns);
	end_epoch(bench);
	watch->blame.until_ns = watch->due_ns = bench->names->scan_ns = 0;
	assert_string_equal(bench_name(bench, process, 0x1000), "name");
}

// Somebody else may have killed it: the kernel for want of memory, most of all.
static void a_map_over_which_a_child_died_is_opened_again_after_a_while(void **state)
{
	struct bench *bench = *state;
	struct fp_names_process process = bench_process((uint32_t)getpid());

	bench_open(bench);
	bench_write_perf_map(process.tgid, "1000 100 name\n");
	assert_string_equal(bench_name(bench, &process, 0x1000), "name");
	die_over_it(bench, &bench->names->role, &process, FP_NAMES_MAP_LOOKUP);
	assert_left_alone_for(bench, &process, 5);
	look_again(bench);
	die_over_it(bench, &bench->names->opener, &process, FP_NAMES_MAP_OPEN);
	assert_left_alone_for(bench, &process, 10);
	assert_int_equal(bench_stats(bench).maps_open, 1);
	bench_remove_perf_map(process.tgid);
}

// The opener may have handed the file on, and the role put it where another map was.
static void a_map_whose_place_somebody_died_over_is_opened_again(void **state)
{
	struct bench *bench = *state;
	int pid = bench_sleeper();
	struct fp_names_process process = bench_process((uint32_t)getpid()),
				other = bench_process((uint32_t)pid);
	struct fp_names *names;
	struct fp_watch *watch;

	bench_open(bench);
	names = bench->names;
	bench_write_perf_map(process.tgid, "1000 100 name\n");
	assert_string_equal(bench_name(bench, &process, 0x1000), "name");
	watch = only_watch(bench);
	for (uint32_t i = 0; i < FP_NAMES_MAPS_MAX; i++)
		names->handles[i] = watch; // all are taken
	kill(names->opener.pid, SIGSTOP);
	assert_int_equal(fp_names_want_jit(names, &other, 0x1000), 0);
	fp_names_pump(names);
	assert_int_equal(names->operation.kind, FP_NAMES_MAP_OPEN);
	assert_int_equal(names->operation.handle, watch->handle);
	kill(names->opener.pid, SIGKILL);
	bench_settle(bench);
	assert_int_equal(watch->state, FP_WATCH_WAITING);
	assert_null(names->handles[watch->handle]);
	assert_int_equal(bench_stats(bench).maps_open, 0);
	memset(names->handles, 0, sizeof(names->handles));
	end_epoch(bench);
	look_again(bench);
	assert_string_equal(bench_name(bench, &process, 0x1000), "name");
	bench_remove_perf_map(process.tgid);
	bench_kill(pid);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_BENCH(a_file_that_was_known_is_known_again_after_a_death_over_it),
		ON_BENCH(a_file_that_was_known_is_known_again_when_its_place_answers_again),
		cmocka_unit_test(each_blame_lasts_longer_than_the_one_before),
		ON_BENCH(a_map_over_which_a_child_died_is_opened_again_after_a_while),
		ON_BENCH(a_map_whose_place_somebody_died_over_is_opened_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
