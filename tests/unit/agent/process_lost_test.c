// SPDX-License-Identifier: Apache-2.0
//
// What stacks find after the kernel lost events: what was there, or nothing. PIDs that nobody has
// stand for processes that have ended before they could be read; the test itself for one that runs.
#include "process_steps.h"

#include "agent/procfs.h"

#include <sys/mman.h>

#define PROGRAM	 0x400000u
#define LIBRARY	 0x7f0000000000u
#define LIBRARY2 0x7f0000100000u
#define SELF	 ((uint32_t)getpid())

// The kernel lost something after `since`, and was found to when all until `until` had been handed
// in, which the steps between the two stand for.
static void lost_since(uint64_t since)
{
	fp_process_table_settle(table, since * MS);
}

static void lost_until(uint64_t until)
{
	fp_process_table_lost(table);
	fp_process_table_settle(table, until * MS);
}

static void lost_between(uint64_t since, uint64_t until)
{
	lost_since(since);
	lost_until(until);
}

static void shell(void)
{
	fork_at(100, 1, SHELL);
	exec_at(110, SHELL, "sh");
	map_at(111, SHELL, PROGRAM, 0x1000, "/bin/sh", 1);
	map_at(112, SHELL, LIBRARY, 0x1000, "/lib/old.so", 2);
}

static void test_ended_unread(void **state)
{
	shell();
	lost_between(150, 200);
	exit_at(300, SHELL, SHELL);
	expect_at(149, SHELL, 99, LIBRARY, "/lib/old.so");
	expect_gone(150, SHELL, 99);
	expect_gone(199, SHELL, 99);
	expect_gone(250, SHELL, 99);
	expect_at(149, SHELL, 99, LIBRARY, "/lib/old.so");
}

static void test_ended_before(void **state)
{
	shell();
	exit_at(140, SHELL, SHELL);
	lost_between(150, 200);
	expect_at(139, SHELL, 99, LIBRARY, "/lib/old.so");
}

static void test_runs_but_cannot_be_read(void **state)
{
	shell();
	lost_between(150, 200);
	expect_gone(250, SHELL, 99);
	assert_int_equal(stats_now().lazy_failed, 1);
	expect_gone(251, SHELL, 99);
	assert_int_equal(stats_now().lazy_failed, 1); // asked once
	expect_at(149, SHELL, 99, LIBRARY, "/lib/old.so");
}

static void test_mapped_after(void **state)
{
	shell();
	lost_between(150, 200);
	map_at(250, SHELL, LIBRARY2, 0x1000, "/lib/new.so", 3);
	exit_at(300, SHELL, SHELL);
	expect_gone(240, SHELL, 99);
	expect_gone(260, SHELL, 99); // the rest of it is not known
	expect_at(149, SHELL, 99, LIBRARY, "/lib/old.so");
}

static void test_exec_after(void **state)
{
	shell();
	lost_between(150, 200);
	exec_at(250, SHELL, "cc");
	map_at(251, SHELL, PROGRAM, 0x1000, "/usr/bin/cc", 3);
	exit_at(300, SHELL, SHELL);
	expect_at(149, SHELL, 99, PROGRAM, "/bin/sh");
	expect_gone(150, SHELL, 99);
	expect_gone(249, SHELL, 99);
	expect_at(260, SHELL, 99, PROGRAM, "/usr/bin/cc");
	expect_executable(260, SHELL, 99, "cc");
}

static void test_exec_meanwhile(void **state)
{
	shell();
	lost_since(150);
	exec_at(170, SHELL, "cc");
	map_at(171, SHELL, PROGRAM, 0x1000, "/usr/bin/cc", 3);
	lost_until(200);
	exit_at(300, SHELL, SHELL);
	expect_at(149, SHELL, 99, PROGRAM, "/bin/sh");
	expect_gone(160, SHELL, 99);
	expect_gone(180, SHELL, 99);
	expect_gone(250, SHELL, 99);
}

static void test_fork_after(void **state)
{
	shell();
	lost_between(150, 200);
	fork_at(250, SHELL, CHILD);
	exit_at(260, CHILD, CHILD);
	expect_gone(255, CHILD, 249);
	fork_at(270, SHELL, CHILD);
	exec_at(271, CHILD, "cc");
	map_at(272, CHILD, PROGRAM, 0x1000, "/usr/bin/cc", 3);
	exit_at(280, CHILD, CHILD);
	expect_at(275, CHILD, 269, PROGRAM, "/usr/bin/cc");
}

// A ring that is still full: more may be missing than what was reported.
static void test_not_over(void **state)
{
	shell();
	lost_between(150, 150);
	exec_at(170, SHELL, "cc");
	map_at(171, SHELL, PROGRAM, 0x1000, "/usr/bin/cc", 3);
	expect_at(149, SHELL, 99, PROGRAM, "/bin/sh");
	expect_gone(180, SHELL, 99);
	lost_between(150, 200);
	expect_gone(180, SHELL, 99);
	expect_gone(250, SHELL, 99);
	exec_at(260, SHELL, "as");
	map_at(261, SHELL, PROGRAM, 0x1000, "/usr/bin/as", 4);
	expect_at(270, SHELL, 99, PROGRAM, "/usr/bin/as");
	expect_gone(180, SHELL, 99);
}

static void test_two_losses(void **state)
{
	shell();
	fork_at(120, SHELL, CHILD);
	lost_between(150, 200);
	exec_at(210, SHELL, "cc");
	map_at(211, SHELL, PROGRAM, 0x1000, "/usr/bin/cc", 3);
	lost_between(300, 350);
	exit_at(400, SHELL, SHELL);
	expect_at(149, SHELL, 99, PROGRAM, "/bin/sh");
	expect_gone(205, SHELL, 99);
	expect_at(250, SHELL, 99, PROGRAM, "/usr/bin/cc");
	expect_gone(310, SHELL, 99);
	expect_gone(390, SHELL, 99);
	// Not looked at between the two.
	exec_at(410, CHILD, "as");
	map_at(411, CHILD, PROGRAM, 0x1000, "/usr/bin/as", 4);
	expect_at(149, CHILD, 119, PROGRAM, "/bin/sh");
	expect_gone(250, CHILD, 119);
	expect_at(420, CHILD, 119, PROGRAM, "/usr/bin/as");
}

static void test_many_losses(void **state)
{
	shell();
	for (uint64_t i = 0; i < 1000; i++)
		lost_between(150 + 2 * i, 151 + 2 * i);
	exit_at(3000, SHELL, SHELL);
	expect_gone(149, SHELL, 99); // beyond the bound: given up
	expect_gone(2900, SHELL, 99);
}

// What changes all the time while events are lost all the time has one gap, not one for each loss.
static void test_losses_without_an_end(void **state)
{
	shell();
	for (uint64_t i = 0; i < 600; i++) {
		lost_between(150 + 2 * i, 152 + 2 * i);
		map_at(152 + 2 * i, SHELL, LIBRARY2, 0x1000, "/lib/new.so", 3);
	}
	expect_at(149, SHELL, 99, LIBRARY, "/lib/old.so");
	expect_gone(700, SHELL, 99);
	assert_int_equal(stats_now().evicted[FP_EVICTED_PROGRAM], 0);
}

static uint64_t now_ms(void)
{
	return fp_procfs_monotonic_ns() / MS;
}

static struct fp_stack_record self_at(uint64_t time, uint32_t exec_id)
{
	struct fp_stack_record record = record_at(time, SELF, 0, exec_id);
	FP_AUTOCLOSE int dirfd = fp_procfs_open(SELF);
	uint64_t tick_ns = 1000000000u / (uint64_t)sysconf(_SC_CLK_TCK);
	struct fp_procfs_stat stat;

	assert_true(dirfd >= 0);
	assert_int_equal(fp_procfs_stat(dirfd, &stat), 0);
	record.start_ns = record.start_boottime_ns = stat.start_ticks * tick_ns + tick_ns / 2;
	return record;
}

static int view_self(uint64_t time, uint32_t exec_id, struct fp_process_view *ret)
{
	struct {
		struct fp_stack_record record;
		uint64_t frame;
	} stack = { .record = self_at(time, exec_id) };

	return fp_process_table_view(table, &stack.record, ret);
}

static void self_finds(uint64_t time, uint64_t address, const char *name)
{
	struct fp_process_view view;

	assert_int_equal(view_self(time, 0, &view), 0);
	assert_string_equal(name_in(&view, address), name);
	assert_string_not_equal(name_in(&view, (uint64_t)(uintptr_t)self_finds), "(none)");
	assert_string_equal(view.executable, program_invocation_short_name);
}

static void self_is_unknown(uint64_t time)
{
	struct fp_process_view view;

	assert_int_equal(view_self(time, 0, &view), -ESRCH);
}

// A library that the process does not have (as /proc shows) was unmapped unseen; mapped again, it
// was not there between, whatever was.
static void test_read_again(void **state)
{
	uint64_t now = now_ms();

	self_finds(now, LIBRARY, "(none)");
	map_at(now + 2000, SELF, LIBRARY, 0x1000, "/lib/old.so", 2);
	self_finds(now + 2001, LIBRARY, "/lib/old.so");
	lost_between(now + 3000, now + 4000);
	self_is_unknown(now + 3500);
	self_finds(now + 4500, LIBRARY, "(none)");
	assert_int_equal(stats_now().lazy_reads, 2);
	map_at(now + 5000, SELF, LIBRARY, 0x1000, "/lib/old.so", 2);
	self_finds(now + 4500, LIBRARY, "(none)");
	self_finds(now + 5000, LIBRARY, "/lib/old.so");
	exit_at(now + 6000, SELF, SELF);
	self_is_unknown(now + 3500);
	self_finds(now + 2999, LIBRARY, "/lib/old.so");
	self_finds(now + 4500, LIBRARY, "(none)");
	self_finds(now + 5500, LIBRARY, "/lib/old.so");
	assert_int_equal(stats_now().lazy_reads, 2);
}

// A mapping that is told of after the loss was not there before, though the reading has it.
static void test_mapped_before_reading(void **state)
{
	void *page = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t now = now_ms(), address = (uint64_t)(uintptr_t)page;

	assert_ptr_not_equal(page, MAP_FAILED);
	self_finds(now, LIBRARY, "(none)");
	lost_between(now - 500, now - 400);
	map_at(now - 200, SELF, address, 4096, "//anon", 0);
	self_finds(now - 300, address, "(none)");
	self_finds(now - 200, address, "//anon");
	munmap(page, 4096);
}

// What a reading shows may have come with a loss that is heard of later.
static void test_read_in_a_loss(void **state)
{
	uint64_t now = now_ms();

	fp_process_table_settle(table, (now - 100) * MS);
	self_finds(now - 200, LIBRARY, "(none)");
	lost_until(now + 1000);
	self_is_unknown(now - 200);
	self_finds(now + 1001, LIBRARY, "(none)");
	self_is_unknown(now - 200);
}

// Of the time before a loss a first reading after it says nothing.
static void test_first_read_after(void **state)
{
	uint64_t now = now_ms();

	lost_between(now - 200, now - 100);
	self_is_unknown(now - 300);
	self_is_unknown(now - 150);
	self_finds(now - 100, LIBRARY, "(none)");
	assert_int_equal(stats_now().lazy_reads, 1); // when it was first asked about
	assert_true(fp_process_table_runs(table, SELF));
}

static void test_child_through_parent(void **state)
{
	struct fp_process_view view;
	uint64_t now = now_ms();

	fork_at(now + 10, SELF, CHILD);
	exit_at(now + 20, CHILD, CHILD);
	lost_between(now + 30, now + 40);
	expect_gone(now + 15, CHILD, now + 9); // we may be another program by now
	fork_at(now + 50, SELF, CHILD);
	exit_at(now + 60, CHILD, CHILD);
	assert_int_equal(view_of(now + 55, CHILD, now + 49, &view), 0);
	assert_string_equal(view.executable, program_invocation_short_name);
}

// Also for an earlier program of the child.
static void test_earlier_program_through_parent(void **state)
{
	uint64_t now = now_ms();

	fork_at(now + 10, SELF, CHILD);
	exec_at(now + 20, CHILD, "cc");
	lost_between(now + 30, now + 40);
	exec_at(now + 50, CHILD, "as");
	expect_gone(now + 15, CHILD, now + 9);
}

// The exec id tells whether one was lost: others know the instance's program by when it began.
static void test_exec_among_lost(void **state)
{
	struct fp_process_view view;
	uint64_t now = now_ms();

	assert_int_equal(view_self(now, 7, &view), 0);
	lost_between(now + 1000, now + 2000);
	assert_int_equal(view_self(now + 2500, 7, &view), 0);
	assert_int_equal(view.exec_ns, 0);
	lost_between(now + 3000, now + 4000);
	assert_int_equal(view_self(now + 4500, 8, &view), 0);
	assert_int_equal(view.exec_ns, (now + 4000) * MS);
	assert_int_equal(view_self(now + 2500, 7, &view), 0);
	assert_int_equal(view.exec_ns, 0);
	assert_int_equal(view_self(now + 4500, 7, &view), -ESRCH);
	assert_int_equal(view_self(now + 3500, 7, &view), -ESRCH);
}

static void test_now(void **state)
{
	struct fp_process_view view;
	uint64_t now = now_ms();

	self_finds(now, LIBRARY, "(none)");
	assert_int_equal(fp_process_table_view_now(table, SELF, 0, 0, &view), 0);
	lost_between(now + 1000, now + 2000);
	assert_int_equal(fp_process_table_view_now(table, SELF, 0, 0, &view), -ESRCH);
	self_finds(now + 2500, LIBRARY, "(none)");
	assert_int_equal(fp_process_table_view_now(table, SELF, 0, 0, &view), 0);
}

#define CASE(sentence, function)                                                                   \
	{                                                                                          \
		.name = sentence, .test_func = function, .setup_func = steps_begin,                \
		.teardown_func = steps_end                                                         \
	}

int main(void)
{
	const struct CMUnitTest cases[] = {
		CASE("what ended before it was read again is known until the loss",
		     test_ended_unread),
		CASE("a loss changes nothing of what had ended", test_ended_before),
		CASE("what cannot be read is known until the loss, and asked for once",
		     test_runs_but_cannot_be_read),
		CASE("what is mapped after a loss is not all that is", test_mapped_after),
		CASE("an exec after a loss begins something known", test_exec_after),
		CASE("not one in the time of the loss", test_exec_meanwhile),
		CASE("a fork after a loss has what is not known of its parent", test_fork_after),
		CASE("while a ring is full nothing is sure", test_not_over),
		CASE("between two losses only what was seen then is known", test_two_losses),
		CASE("the past is given up when there were many losses", test_many_losses),
		CASE("losses without an end leave one gap", test_losses_without_an_end),
		CASE("what is read again holds from the loss on, not before", test_read_again),
		CASE("what is mapped between a loss and the reading is told by time",
		     test_mapped_before_reading),
		CASE("a reading within a loss shows nothing of before it", test_read_in_a_loss),
		CASE("a first reading after a loss shows nothing of before it",
		     test_first_read_after),
		CASE("a child is read through its parent unless events are missing",
		     test_child_through_parent),
		CASE("nor are its earlier programs", test_earlier_program_through_parent),
		CASE("an exec that was lost is told by its id", test_exec_among_lost),
		CASE("what there is now is to be read again", test_now),
	};

	return cmocka_run_group_tests(cases, NULL, NULL);
}
