// SPDX-License-Identifier: Apache-2.0
//
// What the table holds is bounded in bytes, and what goes first is what costs least.
#include "process_steps.h"

#define PROGRAM 0x400000u
#define LIBRARY 0x7f0000000000u
#define KIB	1024u

static void begin_bytes(uint64_t bytes)
{
	struct fp_process_limits limits = { .bytes = bytes };

	fp_process_table_freep(&table);
	assert_int_equal(fp_process_table_new(&limits, &table), 0);
}

// A child of PID 1 that execs, with `libraries` mappings besides its program.
static void program_at(uint64_t time, uint32_t tgid, uint32_t libraries)
{
	fork_at(time, 1, tgid);
	exec_at(time + 1, tgid, "x");
	map_at(time + 2, tgid, PROGRAM, 0x1000, "/bin/x", 1);
	for (uint32_t i = 0; i < libraries; i++)
		map_at(time + 2, tgid, LIBRARY + 0x2000 * i, 0x1000, "/lib/x.so", 2);
}

static uint64_t evicted(enum fp_process_eviction what)
{
	return stats_now().evicted[what];
}

// `count` processes with 20 mappings each; the table never holds more than the limit.
static void expect_bounded(uint64_t bytes, uint32_t count)
{
	begin_bytes(bytes);
	for (uint32_t i = 0; i < count; i++) {
		program_at(1000 + 10 * i, CHILD + i, 20);
		assert_true(stats_now().bytes <= bytes);
	}
	expect_at(1000 + 10 * count, CHILD + count - 1, 1000 + 10 * (count - 1) - 1, PROGRAM,
		  "/bin/x");
}

static void test_bytes_are_bounded(void **state)
{
	static const struct {
		const char *what;
		uint64_t bytes;
		uint32_t count;
		bool evicts;
	} cases[] = {
		{ "a few processes in 256 KiB", 256 * KIB, 50, false },
		{ "1,000 processes in 256 KiB", 256 * KIB, 1000, true },
		{ "5,000 processes in 16 MiB", 16 * KIB * KIB, 5000, false },
		{ "20,000 processes in 16 MiB", 16 * KIB * KIB, 20000, true },
	};

	for (size_t i = 0; i < FP_ARRAY_SIZE(cases); i++) {
		print_message("  %s\n", cases[i].what);
		expect_bounded(cases[i].bytes, cases[i].count);
		assert_int_equal(evicted(FP_EVICTED_RUNNING) > 0, cases[i].evicts);
		assert_int_equal(evicted(FP_EVICTED_ENDED) + evicted(FP_EVICTED_WAITING), 0);
	}
}

static void test_forked_processes_share(void **state)
{
	program_at(100, SHELL, 100);
	for (uint32_t i = 0; i < 20000; i++)
		fork_at(1000 + i, SHELL, CHILD + i);
	assert_int_equal(stats_now().mappings, 101);
	assert_int_equal(evicted(FP_EVICTED_RUNNING), 0);
	assert_true(stats_now().bytes < 16u * KIB * KIB);
	expect_at(30000, CHILD + 10000, 10999, LIBRARY, "/lib/x.so");
}

// Every mapping a file of its own, with a long name: the names count as well.
static void test_names_are_bounded(void **state)
{
	const uint64_t limit = 1024 * KIB;
	char name[3000];

	begin_bytes(limit);
	memset(name, 'n', sizeof(name));
	name[0] = '/';
	name[sizeof(name) - 1] = '\0';
	for (uint32_t i = 0; i < 2000; i++) {
		program_at(1000 + 10 * i, CHILD + i, 0);
		memcpy(name + 1, &(uint32_t){ 0x41414141 + i }, sizeof(i));
		map_at(1003 + 10 * i, CHILD + i, LIBRARY, 0x1000, name, 0);
		assert_true(stats_now().bytes <= limit);
	}
	expect_at(1003 + 10 * 1999, CHILD + 1999, 999 + 10 * 1999, LIBRARY, name);
}

static void test_order(void **state)
{
	begin_bytes(256 * KIB);
	// One that ended with a stack to be resolved, one that ended without, two that run.
	program_at(100, CHILD, 20);
	expect_at(110, CHILD, 99, PROGRAM, "/bin/x");
	exit_at(120, CHILD, CHILD);
	program_at(200, CHILD + 1, 20);
	exit_at(220, CHILD + 1, CHILD + 1);
	program_at(300, CHILD + 2, 20);
	program_at(400, CHILD + 3, 20);
	for (uint32_t i = 4; evicted(FP_EVICTED_ENDED) == 0; i++)
		program_at(1000 + 10 * i, CHILD + i, 20);
	expect_gone(210, CHILD + 1, 199);
	expect_at(310, CHILD + 2, 299, PROGRAM, "/bin/x"); // used now, so 3 goes before it
	for (uint32_t i = 200; evicted(FP_EVICTED_RUNNING) < 3; i++)
		program_at(1000 + 10 * i, CHILD + i, 20);
	expect_gone(410, CHILD + 3, 399);
	expect_at(310, CHILD + 2, 299, PROGRAM, "/bin/x");
	expect_at(110, CHILD, 99, PROGRAM, "/bin/x");
	assert_int_equal(evicted(FP_EVICTED_WAITING), 0);
}

static void test_waiting_go_last(void **state)
{
	begin_bytes(256 * KIB);
	for (uint32_t i = 0; i < 1000; i++) {
		program_at(1000 + 10 * i, CHILD + i, 20);
		expect_at(1005 + 10 * i, CHILD + i, 999 + 10 * i, PROGRAM, "/bin/x");
		exit_at(1006 + 10 * i, CHILD + i, CHILD + i);
		assert_true(stats_now().bytes <= 256 * KIB);
	}
	assert_true(evicted(FP_EVICTED_WAITING) > 500);
	expect_gone(1005, CHILD, 999);
	expect_at(1005 + 9990, CHILD + 999, 999 + 9990, PROGRAM, "/bin/x");
}

static void test_unwanted_leave_early(void **state)
{
	program_at(100, CHILD, 1);
	program_at(110, CHILD + 1, 1);
	expect_at(120, CHILD, 99, PROGRAM, "/bin/x");
	exit_at(130, CHILD, CHILD);
	exit_at(140, CHILD + 1, CHILD + 1);
	fp_process_table_retire_unwanted(table, 140 * MS);
	assert_int_equal(stats_now().processes, 3); // with PID 1
	fp_process_table_retire_unwanted(table, 141 * MS);
	assert_int_equal(stats_now().processes, 2);
	expect_at(125, CHILD, 99, PROGRAM, "/bin/x");
	retire_at(131);
	assert_int_equal(stats_now().processes, 1);
}

static void test_asked_about_after_its_end(void **state)
{
	program_at(100, CHILD, 1);
	exit_at(130, CHILD, CHILD);
	expect_at(125, CHILD, 99, PROGRAM, "/bin/x");
	fp_process_table_retire_unwanted(table, 1000 * MS);
	expect_at(125, CHILD, 99, PROGRAM, "/bin/x");
}

static void test_wanted_for_an_epoch(void **state)
{
	program_at(100, CHILD, 1);
	expect_at(120, CHILD, 99, PROGRAM, "/bin/x");
	retire_at(110);
	retire_at(200);
	exit_at(300, CHILD, CHILD); // nobody asked lately
	fp_process_table_retire_unwanted(table, 301 * MS);
	assert_int_equal(stats_now().processes, 1);
}

// What an evicted process was at the time of an older record is not known any more: /proc may
// show another program by now. This test's own process stands for one that could be read.
static void test_no_answer_from_after_a_forgotten_exec(void **state)
{
	const uint32_t own = (uint32_t)getpid();
	struct fp_process_view view;

	begin_bytes(64 * KIB);
	program_at(5000, own, 1);
	for (uint32_t i = 0; evicted(FP_EVICTED_RUNNING) < 2; i++)
		program_at(6000 + 10 * i, CHILD + i, 20);
	assert_int_equal(view_of(4990, own, 99, &view), -ESRCH);
	assert_int_equal(stats_now().lazy_reads, 0);
}

static void test_past_is_pruned_where_it_changed(void **state)
{
	program_at(100, CHILD, 1);
	program_at(100, CHILD + 1, 1);
	retire_at(50);
	map_at(200, CHILD, PROGRAM, 0x1000, "/bin/y", 3);
	assert_int_equal(stats_now().mappings, 5);
	retire_at(150);
	assert_int_equal(stats_now().mappings, 5);
	expect_at(199, CHILD, 99, PROGRAM, "/bin/x");
	retire_at(250);
	assert_int_equal(stats_now().mappings, 4);
	expect_at(300, CHILD, 99, PROGRAM, "/bin/y");
}

#define CASE(sentence, function)                                                                   \
	{                                                                                          \
		.name = sentence, .test_func = function, .setup_func = steps_begin,                \
		.teardown_func = steps_end                                                         \
	}

int main(void)
{
	const struct CMUnitTest cases[] = {
		CASE("memory stays within the limit after every event", test_bytes_are_bounded),
		CASE("20,000 forked processes share one set of mappings",
		     test_forked_processes_share),
		CASE("file names count, however long and many", test_names_are_bounded),
		CASE("ended ones nobody asked about go first, then those that run", test_order),
		CASE("ended ones with stacks to be resolved go last, oldest first",
		     test_waiting_go_last),
		CASE("an ended process that no stack was asked about leaves early",
		     test_unwanted_leave_early),
		CASE("one asked about after its end waits for the epoch",
		     test_asked_about_after_its_end),
		CASE("having been asked about wears off", test_wanted_for_an_epoch),
		CASE("nothing is read for a record older than a forgotten exec",
		     test_no_answer_from_after_a_forgotten_exec),
		CASE("the past of a process is let go of two epochs later",
		     test_past_is_pruned_where_it_changed),
	};

	return cmocka_run_group_tests(cases, NULL, NULL);
}
