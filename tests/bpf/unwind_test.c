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
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <cmocka.h>

#include "kernelspace.h"

#define CHUNKS	   16
#define FRAMES_MAX 1024

#define OWN_FRAME __attribute__((noinline, noclone))

static struct kernel_space kernel;
static struct bpf_object *object;
static struct ring_buffer *rings;
static struct fp_stack_record *last; // with the frames
static uint32_t wanted_tid;
static volatile int sink; // written after each call, so that none is a tail call

static void *reference[FRAMES_MAX];
static int reference_count;

static int keep_record(void *context, void *data, size_t size)
{
	const struct fp_stack_record *record = data;

	if (record->tid != wanted_tid)
		return 0;
	free(last);
	last = malloc(size);
	memcpy(last, data, size);
	return 0;
}

static void run_twin(void)
{
	LIBBPF_OPTS(bpf_test_run_opts, options);
	int fd = bpf_program__fd(bpf_object__find_program_by_name(object, "cpu_tick_twin"));

	assert_int_equal(bpf_prog_test_run_opts(fd, &options), 0);
}

// Both walks from here.
static OWN_FRAME void ask(void)
{
	wanted_tid = (uint32_t)syscall(SYS_gettid);
	reference_count = backtrace(reference, FRAMES_MAX);
	run_twin();
	sink++;
}

static void set_bool(const char *name, bool value)
{
	assert_int_equal(set_variable(object, ".rodata", name, &value, 1), 0);
}

static void load(uint32_t max_frames, bool way_out)
{
	uint32_t self = (uint32_t)getpid();

	object = bpf_object__open_file(FP_BPF_OBJECT, NULL);
	assert_non_null(object);
	set_bool("fp_unwind_tables", true);
	set_bool("fp_way_out", way_out);
	assert_int_equal(set_variable(object, ".rodata", "fp_tgid", &self, 4), 0);
	assert_int_equal(set_variable(object, ".rodata", "fp_max_user_frames", &max_frames, 4), 0);
	bpf_program__set_autoload(bpf_object__find_program_by_name(object, "cpu_tick_twin"), true);
	bpf_program__set_autoload(bpf_object__find_program_by_name(object, "offcpu_switch"), false);
	bpf_program__set_autoload(bpf_object__find_program_by_name(object, "offcpu_visit"),
				  way_out);
	assert_int_equal(bpf_object__load(object), 0);
	kernel_space_open(&kernel, object, CHUNKS);
	rings = ring_buffer__new(bpf_object__find_map_fd_by_name(object, "cpu_stacks"), keep_record,
				 NULL, NULL);
	assert_non_null(rings);
	assert_int_equal(ring_buffer__add(rings,
					  bpf_object__find_map_fd_by_name(object, "offcpu_stacks"),
					  keep_record, NULL),
			 0);
}

// This process gets its ranges; who it is comes from a record.
static void map_tables(uint32_t version)
{
	struct fp_unwind_ranges who = { .version = version };

	ask();
	assert_true(ring_buffer__consume(rings) >= 1);
	who.start_boottime_ns = last->start_boottime_ns;
	who.exec_id = last->exec_id;
	assert_true(kernel_space_process(&kernel, (uint32_t)getpid(), &who) >= 3);
}

static void unload(void)
{
	kernel_space_close(&kernel);
	ring_buffer__free(rings);
	bpf_object__close(object);
	free(last);
	last = NULL;
}

static int begin(void **state)
{
	backtrace(reference, FRAMES_MAX); // its library is mapped with the first call
	load(FP_DEFAULT_USER_FRAMES, false);
	map_tables(7);
	return 0;
}

static int end(void **state)
{
	unload();
	return 0;
}

static void say(const fp_u64 *frames)
{
	for (int i = 0; i < last->user_len; i++)
		print_message("  ours %#llx\n", (unsigned long long)frames[i]);
	for (int i = 0; i < reference_count; i++)
		print_message("  reference %#llx\n", (unsigned long long)(uintptr_t)reference[i]);
}

// The last record's user frames are those of the reference from its second on: the first is in
// the function that asked, at another place. signals: frames that one interrupted, which the record
// has with 1 added.
static void check_same(enum fp_walk_end end, int signals)
{
	int count = reference_count - 1, from, shifted = 0;
	const fp_u64 *frames;
	bool same = true;

	assert_true(ring_buffer__consume(rings) >= 1);
	frames = &last->frames[last->kernel_len];
	from = last->user_len - count;
	assert_true(count > 2 && from > 1);
	for (int i = 0; i < count; i++) {
		uint64_t more = frames[from + i] - (uintptr_t)reference[i + 1];

		same = same && more <= 1;
		shifted += more == 1;
	}
	if (!same || shifted != signals || last->walk_end != end)
		say(frames);
	assert_true(same);
	assert_int_equal(shifted, signals);
	assert_int_equal(last->walk_end, end);
	assert_int_equal(last->unwind_version, 7);
	assert_int_equal(last->by_table, last->user_len - 1);
	assert_true(last->user_root_gap == UINT64_MAX);
}

static OWN_FRAME void descend(int remaining)
{
	if (remaining > 0)
		descend(remaining - 1);
	else
		ask();
	sink++;
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
	check_same(FP_WALK_END_OUTERMOST, 0);
	descend(40);
	check_same(FP_WALK_END_OUTERMOST, 0);
	with_alloca(100);
	check_same(FP_WALK_END_OUTERMOST, 0);
	realigned(200);
	check_same(FP_WALK_END_OUTERMOST, 0);
}

static void so_are_callbacks_through_the_c_library(void **state)
{
	int numbers[] = { 3, 1, 2 };

	free(last);
	last = NULL;
	qsort(numbers, 3, sizeof(numbers[0]), by_comparison);
	check_same(FP_WALK_END_OUTERMOST, 0);
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
	check_same(FP_WALK_END_OUTERMOST, 0);
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
		check_same(FP_WALK_END_OUTERMOST, 1);
	}
}

static void the_limit_is_at_five_hundred_and_twelve_frames(void **state)
{
	end(state);
	load(FP_MAX_USER_FRAMES, false);
	map_tables(7);
	descend(470);
	check_same(FP_WALK_END_OUTERMOST, 0);
	assert_true(last->user_len > 470);
	descend(600);
	assert_true(ring_buffer__consume(rings) >= 1);
	assert_int_equal(last->user_len, FP_MAX_USER_FRAMES);
	assert_int_equal(last->walk_end, FP_WALK_END_DEPTH);
	assert_int_equal(last->by_table, FP_MAX_USER_FRAMES - 1);
}

// A stack that was sent before is sent again under another name.
static void ask_by_another_name(const char *name)
{
	prctl(PR_SET_NAME, name);
	descend(5);
	assert_true(ring_buffer__consume(rings) >= 1);
}

static void other_programs_ranges_are_not_used(void **state)
{
	struct fp_unwind_ranges who = { .version = 9,
					.start_boottime_ns = last->start_boottime_ns,
					.exec_id = last->exec_id + 1 };

	kernel_space_process(&kernel, (uint32_t)getpid(), &who);
	ask_by_another_name("other_program");
	assert_int_equal(last->unwind_version, 0);
	assert_int_equal(last->by_table, 0);
	assert_int_not_equal(last->walk_end, FP_WALK_END_OUTERMOST);
}

static void tables_that_are_taken_out_find_nothing(void **state)
{
	memset(kernel.space.pages, 0, FP_UNWIND_PAGES * 8);
	ask_by_another_name("taken_out");
	assert_int_equal(last->unwind_version, 7);
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
	map_tables(7);
	assert_int_equal(pipe(gate), 0);
	wanted_tid = 0;
	assert_int_equal(pthread_create(&thread, NULL, blocked_main, NULL), 0);
	while (!wanted_tid || !is_blocked(wanted_tid))
		usleep(1000);
	visit_all();
	check_same(FP_WALK_END_OUTERMOST, 0);
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
