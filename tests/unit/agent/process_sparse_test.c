// SPDX-License-Identifier: Apache-2.0
//
// Address spaces too large to be held. A child of this test maps thousands of executable pages,
// each apart from the next, so that the kernel cannot join them.
#include "process_steps.h"

#include "agent/procfs.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define PAGES (FP_PROCESS_MAPPINGS_MAX + 904u)

static pid_t child;
static uint8_t *pages;
static size_t page_size;

// Every second page of the area can be executed.
static void child_maps(void)
{
	for (uint32_t i = 0; i < PAGES; i++)
		if (mprotect(pages + 2 * i * page_size, page_size, PROT_READ | PROT_EXEC) != 0)
			_exit(3);
}

static void child_begins(void)
{
	int ready[2];
	char byte;

	page_size = (size_t)getpagesize();
	pages = mmap(NULL, 2 * PAGES * page_size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(pages != MAP_FAILED);
	assert_int_equal(pipe(ready), 0);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		child_maps();
		if (write(ready[1], "x", 1) != 1)
			_exit(3);
		for (;;)
			pause();
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	close(ready[1]);
}

static void child_ends(void)
{
	if (child <= 0)
		return;
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	munmap(pages, 2 * PAGES * page_size);
	child = 0;
}

static int end(void **state)
{
	child_ends();
	return steps_end(state);
}

struct stack {
	struct fp_stack_record record;
	uint64_t frames[8];
};

// A stack of the child, now, with these addresses.
static struct stack stack_of_child(const uint64_t *addresses, uint16_t count)
{
	FP_AUTOCLOSE int dirfd = fp_procfs_open((uint32_t)child);
	uint64_t tick_ns = 1000000000u / (uint64_t)sysconf(_SC_CLK_TCK);
	struct fp_procfs_stat stat;
	struct stack stack = { 0 };

	assert_int_equal(fp_procfs_stat(dirfd, &stat), 0);
	stack.record.time_ns = fp_procfs_monotonic_ns();
	stack.record.tgid = stack.record.tid = (uint32_t)child;
	stack.record.start_boottime_ns = stat.start_ticks * tick_ns + tick_ns / 2;
	stack.record.start_ns = stack.record.start_boottime_ns;
	stack.record.user_len = count;
	memcpy(stack.frames, addresses, count * sizeof(*addresses));
	return stack;
}

static uint64_t page_address(uint32_t index)
{
	return (uint64_t)(uintptr_t)(pages + 2 * index * page_size);
}

static void expect_page(const struct fp_process_view *view, uint32_t index)
{
	const struct fp_mapping *mapping = fp_process_view_at(view, page_address(index));

	assert_non_null(mapping);
	assert_int_equal(mapping->start, page_address(index));
	assert_int_equal(mapping->end, page_address(index) + page_size);
	assert_int_equal(view->files[mapping->file].kind, FP_FILE_ANON);
}

static void test_only_what_is_asked_for(void **state)
{
	struct fp_process_view view;
	struct stack stack;
	uint64_t code = (uint64_t)(uintptr_t)child_maps;

	child_begins();
	stack = stack_of_child(
	    (uint64_t[]){ page_address(7) + 5, page_address(4000) + 5, page_address(9) - 5, code },
	    4);
	assert_int_equal(fp_process_table_view(table, &stack.record, &view), 0);
	assert_true(view.partial);
	assert_true(view.has_anon);
	expect_page(&view, 7);
	expect_page(&view, 4000);
	assert_null(fp_process_view_at(&view, page_address(9) - 5)); // cannot be executed
	assert_string_equal(view.executable, program_invocation_short_name);
	assert_non_null(fp_process_view_at(&view, code));
	assert_int_equal(view.count, 3);
	assert_int_equal(stats_now().lookups, 4);
	assert_int_equal(stats_now().evicted[FP_EVICTED_MAPPINGS], 1);
	assert_true(stats_now().bytes < 64 << 10);
}

static void test_known_addresses_are_kept(void **state)
{
	struct fp_process_view view;
	struct stack stack, other;

	child_begins();
	stack = stack_of_child((uint64_t[]){ page_address(7), page_address(8) + 1 }, 2);
	other = stack_of_child((uint64_t[]){ page_address(9) }, 1);
	assert_int_equal(fp_process_table_view(table, &stack.record, &view), 0);
	assert_int_equal(fp_process_table_view(table, &stack.record, &view), 0);
	assert_int_equal(stats_now().lookups, 2);
	child_ends();
	assert_int_equal(fp_process_table_view(table, &stack.record, &view), 0);
	expect_page(&view, 7);
	expect_page(&view, 8);
	// What nobody asked for while it ran is not known any more, and the view says that it
	// may have been there.
	assert_int_equal(fp_process_table_view(table, &other.record, &view), 0);
	assert_true(view.partial);
	assert_null(fp_process_view_at(&view, page_address(9)));
	assert_int_equal(stats_now().lazy_failed, 1);
}

static void test_replaced_since(void **state)
{
	struct fp_process_view view;
	struct stack early, late;
	struct fp_event event;

	child_begins();
	early = stack_of_child((uint64_t[]){ page_address(7) }, 1);
	assert_int_equal(fp_process_table_view(table, &early.record, &view), 0);
	event = (struct fp_event){ .kind = FP_EVENT_MMAP,
				   .time_ns = fp_procfs_monotonic_ns(),
				   .tgid = (uint32_t)child,
				   .tid = (uint32_t)child,
				   .start = page_address(7),
				   .length = page_size,
				   .build_id_len = 20,
				   .name = "/lib/new.so" };
	step(&event);
	event.start = page_address(8);
	step(&event);
	late = early;
	late.record.time_ns = event.time_ns + MS;
	assert_int_equal(fp_process_table_view(table, &late.record, &view), 0);
	assert_string_equal(name_in(&view, page_address(7)), "/lib/new.so");
	assert_int_equal(fp_process_table_view(table, &early.record, &view), 0);
	expect_page(&view, 7);
	// Of the eighth page only its later owner is known: the earlier is not guessed.
	early.frames[0] = page_address(8);
	assert_int_equal(fp_process_table_view(table, &early.record, &view), 0);
	assert_string_equal(name_in(&view, page_address(8)), "(none)");
}

static void test_events_beyond_the_bound(void **state)
{
	struct fp_process_view view;

	fork_at(100, 1, SHELL);
	exec_at(110, SHELL, "x");
	map_at(111, SHELL, 0x400000, 0x1000, "/bin/x", 1);
	for (uint32_t i = 0; i < PAGES; i++)
		map_at(120 + i, SHELL, 0x10000000 + 0x2000 * i, 0x1000, "//anon", 0);
	assert_true(stats_now().mappings <= FP_PROCESS_MAPPINGS_MAX);
	assert_int_equal(stats_now().evicted[FP_EVICTED_MAPPINGS], 1);
	assert_int_equal(view_of(120 + PAGES, SHELL, 99, &view), 0);
	assert_true(view.partial);
	assert_string_equal(view.executable, "x");
	assert_string_equal(name_in(&view, 0x10000000 + 0x2000 * (PAGES - 1)), "//anon");
	// An exec is a new beginning.
	exec_at(10000, SHELL, "y");
	map_at(10001, SHELL, 0x400000, 0x1000, "/bin/y", 2);
	assert_int_equal(view_of(10002, SHELL, 99, &view), 0);
	assert_false(view.partial);
	assert_string_equal(name_in(&view, 0x400000), "/bin/y");
}

static void test_forked_from_a_large_one(void **state)
{
	struct fp_process_view view;
	struct stack stack;
	uint64_t now_ms;

	child_begins();
	stack = stack_of_child((uint64_t[]){ page_address(7) }, 1);
	assert_int_equal(fp_process_table_view(table, &stack.record, &view), 0);
	now_ms = stack.record.time_ns / MS + 1;
	fork_at(now_ms, (uint32_t)child, CHILD);
	assert_int_equal(view_of(now_ms + 1, CHILD, now_ms, &view), 0);
	assert_true(view.partial);
	expect_page(&view, 7);
}

#define CASE(sentence, function)                                                                   \
	{                                                                                          \
		.name = sentence, .test_func = function, .setup_func = steps_begin,                \
		.teardown_func = end                                                               \
	}

int main(void)
{
	const struct CMUnitTest cases[] = {
		CASE("of a large address space only what stacks ask for is looked up",
		     test_only_what_is_asked_for),
		CASE("what was looked up is kept, also after the end",
		     test_known_addresses_are_kept),
		CASE("what a later event replaced is told by time, and never guessed",
		     test_replaced_since),
		CASE("mapping events beyond the bound make a set sparse until the next exec",
		     test_events_beyond_the_bound),
		CASE("a fork of a large process shares what is known",
		     test_forked_from_a_large_one),
	};

	return cmocka_run_group_tests(cases, NULL, NULL);
}
