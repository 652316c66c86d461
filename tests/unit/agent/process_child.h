// SPDX-License-Identifier: Apache-2.0
//
// process_child: a real process that the table was not told of: a child of the test that waits, or
// maps code when it is told to, until it is killed. Event times are taken from the clock, as the
// side-band's would be. Tests include it once each.
#pragma once

#include "process_steps.h"

#include "agent/procfs.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

static pid_t child;
static int to_child[2], from_child[2];

static inline void say(int fd)
{
	char byte = 'x';

	if (write(fd, &byte, 1) != 1)
		_exit(3);
}

static inline void hear(int fd)
{
	char byte;

	if (read(fd, &byte, 1) != 1)
		_exit(3);
}

static inline void *map_code(size_t size)
{
	return mmap(NULL, size, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static inline void wait_for_ever(void)
{
	for (;;)
		pause();
}

// Maps one anonymous executable page for each byte it is sent and sends its address.
static inline void child_maps(void)
{
	for (;;) {
		void *page;

		hear(to_child[0]);
		page = map_code((size_t)getpagesize());
		if (write(from_child[1], &page, sizeof(page)) != sizeof(page))
			_exit(3);
	}
}

static inline void child_begins(void (*body)(void))
{
	assert_int_equal(pipe2(to_child, O_CLOEXEC), 0);
	assert_int_equal(pipe2(from_child, O_CLOEXEC), 0);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		body();
		_exit(3);
	}
}

static inline void child_ends(void)
{
	if (child > 0) {
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
		close(to_child[0]);
		close(to_child[1]);
		close(from_child[0]);
		close(from_child[1]);
	}
	child = 0;
}

static inline int begin(void **state)
{
	return steps_begin(state);
}

static inline int end(void **state)
{
	child_ends();
	return steps_end(state);
}

static inline struct fp_procfs_stat stat_of(pid_t pid)
{
	FP_AUTOCLOSE int dirfd = fp_procfs_open((uint32_t)pid);
	struct fp_procfs_stat stat = { 0 };

	assert_true(dirfd >= 0);
	assert_int_equal(fp_procfs_stat(dirfd, &stat), 0);
	return stat;
}

// A record of now, as the kernel would make it for the process.
static inline struct fp_stack_record record_of(pid_t pid)
{
	struct fp_stack_record record = { 0 };
	uint64_t tick_ns = 1000000000u / (uint64_t)sysconf(_SC_CLK_TCK);

	record.time_ns = fp_procfs_monotonic_ns();
	record.tgid = record.tid = (uint32_t)pid;
	record.start_boottime_ns = stat_of(pid).start_ticks * tick_ns + tick_ns / 2;
	record.start_ns = record.start_boottime_ns; // nothing has been suspended meanwhile
	if (record.start_ns > record.time_ns)
		record.start_ns = record.time_ns;
	return record;
}

static inline int count_map(const struct fp_procfs_map *map, void *context)
{
	const struct fp_process_view *view = context;

	// Each executable mapping of the process is in the view, as it is.
	for (uint32_t i = 0; i < view->count; i++) {
		const struct fp_mapping *mapping = &view->mappings[i];

		if (mapping->start != map->start)
			continue;
		assert_int_equal(mapping->end, map->end);
		if (map->inode != 0)
			assert_int_equal(mapping->page_offset, map->page_offset);
		if (map->name[0])
			assert_string_equal(view->files[mapping->file].name, map->name);
		return 0;
	}
	// The vsyscall page is no mapping that PROCMAP_QUERY shows.
	assert_string_equal(map->name, "[vsyscall]");
	return 0;
}

static inline void expect_like_maps(const struct fp_process_view *view, pid_t pid)
{
	FP_AUTOCLOSE int dirfd = fp_procfs_open((uint32_t)pid);

	assert_true(dirfd >= 0);
	assert_true(view->count >= 3); // program, C library, dynamic linker
	assert_int_equal(fp_procfs_maps_text(dirfd, "maps", count_map, (void *)view), 0);
}

static inline void expect_program(const struct fp_process_view *view)
{
	assert_string_equal(view->executable, program_invocation_short_name);
	assert_true(view->executable_file != UINT32_MAX);
	assert_int_equal(view->files[view->executable_file].kind, FP_FILE_REGULAR);
}

static inline uint64_t child_maps_one(void)
{
	void *page;

	say(to_child[1]);
	assert_int_equal(read(from_child[0], &page, sizeof(page)), sizeof(page));
	return (uint64_t)(uintptr_t)page;
}

static inline bool covers(const struct fp_process_view *view, uint64_t address)
{
	for (uint32_t i = 0; i < view->count; i++)
		if (view->mappings[i].start <= address && address < view->mappings[i].end)
			return true;
	return false;
}

#define CASE(sentence, function)                                                                   \
	{                                                                                          \
		.name = sentence, .test_func = function, .setup_func = begin, .teardown_func = end \
	}
