// SPDX-License-Identifier: Apache-2.0
//
// own_stack: a program's own stack, built without frame pointers, as our programs walk it and as the
// C library does (backtrace, by libgcc). The program's frames above the function that asks for both
// must be the same, and both must end at the same outermost frame.
#pragma once

#include <execinfo.h>
#include <setjmp.h>
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

static void say(const fp_u64 *frames)
{
	for (int i = 0; i < last->user_len; i++)
		print_message("  ours %#llx\n", (unsigned long long)frames[i]);
	for (int i = 0; i < reference_count; i++)
		print_message("  reference %#llx\n", (unsigned long long)(uintptr_t)reference[i]);
}

// The last record's user frames are those of the reference from its second on: the first is in
// the function that asked, at another place. signals: frames that one interrupted, which the record
// has with 1 added. version: that it was walked by.
static void check_same(uint32_t version, int signals)
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
	if (!same || shifted != signals || last->walk_end != FP_WALK_END_OUTERMOST)
		say(frames);
	assert_true(same);
	assert_int_equal(shifted, signals);
	assert_int_equal(last->walk_end, FP_WALK_END_OUTERMOST);
	assert_int_equal(last->unwind_version, version);
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

// A stack that was sent before is sent again under another name.
static inline void ask_by_another_name(const char *name)
{
	prctl(PR_SET_NAME, name);
	descend(5);
	assert_true(ring_buffer__consume(rings) >= 1);
}
