// SPDX-License-Identifier: Apache-2.0
//
// The walk by unwind tables on the running kernel: this test's own stack, built without frame
// pointers, as the programs walk it and as the C library does (backtrace, by libgcc). The program's
// frames above the function that asks for both must be the same, and both must end at the same
// outermost frame.
#include <alloca.h>
#include <errno.h>
#include <execinfo.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include <cmocka.h>

#include "own_stack.h"

#define VERSION 7

static int begin(void **state)
{
	backtrace(reference, FRAMES_MAX); // its library is mapped with the first call
	load(FP_DEFAULT_USER_FRAMES, false);
	map_tables(VERSION);
	return 0;
}

static int end(void **state)
{
	unload();
	return 0;
}

static OWN_FRAME void with_alloca(int bytes)
{
	volatile char *room = alloca((size_t)bytes);

	room[0] = 1;
	descend(2);
	sink += room[0];
}

static OWN_FRAME void realigned(int bytes)
{
	volatile int aligned __attribute__((aligned(64))) = bytes;
	volatile char *room = alloca((size_t)bytes);

	room[1] = (char)((uintptr_t)&aligned % 64);
	with_alloca(bytes);
	sink += room[1] + aligned;
}

static int by_comparison(const void *a, const void *b)
{
	if (!last) // once
		realigned(32);
	return *(const int *)a - *(const int *)b;
}

static void frames_of_every_kind_are_as_the_c_library_has_them(void **state)
{
	descend(0);
	check_same(VERSION, 0);
	descend(40);
	check_same(VERSION, 0);
	with_alloca(100);
	check_same(VERSION, 0);
	realigned(200);
	check_same(VERSION, 0);
}

static void so_are_callbacks_through_the_c_library(void **state)
{
	int numbers[] = { 3, 1, 2 };

	free(last);
	last = NULL;
	qsort(numbers, 3, sizeof(numbers[0]), by_comparison);
	check_same(VERSION, 0);
}

static void *thread_main(void *argument)
{
	descend(3);
	sink++;
	return argument;
}

static void so_are_threads(void **state)
{
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, thread_main, NULL), 0);
	pthread_join(thread, NULL);
	check_same(VERSION, 0);
}

static void on_signal(int number)
{
	realigned(16);
	sink++;
}

static void so_are_signal_handlers_and_what_they_interrupted(void **state)
{
	static char stack[65536];
	stack_t other = { .ss_sp = stack, .ss_size = sizeof(stack) };
	struct sigaction action = { .sa_handler = on_signal };

	assert_int_equal(sigaltstack(&other, NULL), 0);
	for (int alternate = 0; alternate < 2; alternate++) {
		action.sa_flags = alternate ? SA_ONSTACK : 0;
		assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
		raise(SIGUSR1);
		check_same(VERSION, 1);
	}
}

static void the_limit_is_at_five_hundred_and_twelve_frames(void **state)
{
	end(state);
	load(FP_MAX_USER_FRAMES, false);
	map_tables(VERSION);
	descend(470);
	check_same(VERSION, 0);
	assert_true(last->user_len > 470);
	descend(600);
	assert_true(ring_buffer__consume(rings) >= 1);
	assert_int_equal(last->user_len, FP_MAX_USER_FRAMES);
	assert_int_equal(last->walk_end, FP_WALK_END_DEPTH);
	assert_int_equal(last->by_table, FP_MAX_USER_FRAMES - 1);
}

static void other_programs_ranges_are_not_used(void **state)
{
	struct fp_unwind_ranges who = { .version = 9,
					.start_boottime_ns = last->start_boottime_ns,
					.exec_id = last->exec_id + 1 };

	kernel_space_process(&kernel, (uint32_t)getpid(), &who);
	ask_by_another_name("other_program");
	assert_int_equal(last->unwind_version, FP_UNWIND_BY_FILE); // whose tables are not known
	assert_int_equal(last->by_table, 0);
	assert_int_not_equal(last->walk_end, FP_WALK_END_OUTERMOST);
}

static void tables_that_are_taken_out_find_nothing(void **state)
{
	memset(kernel.space.pages, 0, FP_UNWIND_PAGES * 8);
	ask_by_another_name("taken_out");
	assert_int_equal(last->unwind_version, VERSION);
	assert_int_equal(last->by_table, 0);
	assert_int_not_equal(last->walk_end, FP_WALK_END_OUTERMOST);
}

static int gate[2];

static OWN_FRAME void block(int remaining)
{
	char byte;

	if (remaining > 0) {
		block(remaining - 1);
	} else {
		wanted_tid = (uint32_t)syscall(SYS_gettid);
		reference_count = backtrace(reference, FRAMES_MAX);
		if (read(gate[0], &byte, 1) != 1)
			abort();
	}
	sink++;
}

static void *blocked_main(void *argument)
{
	block(10);
	sink++;
	return argument;
}

static bool is_blocked(uint32_t tid)
{
	char path[64], text[512] = "";
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%u/stat", tid);
	file = fopen(path, "re");
	if (file) {
		if (!fgets(text, sizeof(text), file))
			text[0] = 0;
		fclose(file);
	}
	return strstr(text, ") S ") != NULL;
}

static void visit_all(void)
{
	struct bpf_link *link =
	    bpf_program__attach(bpf_object__find_program_by_name(object, "offcpu_visit"));
	int fd;
	char byte;

	assert_non_null(link);
	fd = bpf_iter_create(bpf_link__fd(link));
	assert_true(fd >= 0);
	while (read(fd, &byte, 1) > 0)
		;
	close(fd);
	bpf_link__destroy(link);
}

// The visit marks all that are away, which on the way out takes their stacks.
static void so_are_the_stacks_of_others_that_are_blocked(void **state)
{
	pthread_t thread;

	end(state);
	load(FP_DEFAULT_USER_FRAMES, true);
	map_tables(VERSION);
	assert_int_equal(pipe(gate), 0);
	wanted_tid = 0;
	assert_int_equal(pthread_create(&thread, NULL, blocked_main, NULL), 0);
	while (!wanted_tid || !is_blocked(wanted_tid))
		usleep(1000);
	visit_all();
	check_same(VERSION, 0);
	assert_int_equal(write(gate[1], "", 1), 1);
	pthread_join(thread, NULL);
}

#define CASE(function) cmocka_unit_test_setup_teardown(function, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(frames_of_every_kind_are_as_the_c_library_has_them),
		CASE(so_are_callbacks_through_the_c_library),
		CASE(so_are_threads),
		CASE(so_are_signal_handlers_and_what_they_interrupted),
		CASE(so_are_the_stacks_of_others_that_are_blocked),
		CASE(the_limit_is_at_five_hundred_and_twelve_frames),
		CASE(other_programs_ranges_are_not_used),
		CASE(tables_that_are_taken_out_find_nothing),
	};

	need_root_and_btf();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
