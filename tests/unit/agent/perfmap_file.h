// SPDX-License-Identifier: Apache-2.0
//
// perfmap_file: a perf map and the file that it is read from, which the test writes to.
#pragma once

#include "../cases.h"

#include "agent/perfmap.h"
#include "common/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define WHOLE SIZE_MAX

struct fixture {
	struct fp_perf_map *map;
	int fd;	  // of the file, to write to it
	int copy; // the map's own
};

static inline void close_fixture(struct fixture *fixture)
{
	fp_perf_map_freep(&fixture->map);
	fp_close_fd(&fixture->fd);
}
#define AUTOFIXTURE FP_CLEANUP(close_fixture) struct fixture

static inline void open_fixture(struct fixture *fixture)
{
	fixture->fd = memfd_create("perf-1.map", MFD_CLOEXEC);
	assert_true(fixture->fd >= 0);
	fixture->copy = dup(fixture->fd);
	assert_int_equal(fp_perf_map_new(fixture->copy, &fixture->map), 0);
}

static inline void append(struct fixture *fixture, const char *text)
{
	assert_true(lseek(fixture->fd, 0, SEEK_END) >= 0);
	assert_int_equal(fp_write_all(fixture->fd, text, strlen(text)), 0);
}

static inline void rewrite(struct fixture *fixture, const char *text)
{
	assert_int_equal(ftruncate(fixture->fd, 0), 0);
	append(fixture, text);
}

static inline void assert_name(struct fixture *fixture, uint64_t address, const char *expected)
{
	FP_AUTOBUF struct fp_buf name = { 0 };
	int error = fp_perf_map_name(fixture->map, address, &name);

	if (!expected) {
		assert_int_equal(error, -ENOENT);
		return;
	}
	if (error)
		fail_msg("no name at %#lx (%d), wanted '%s'", (unsigned long)address, error,
			 expected);
	assert_int_equal(name.len, strlen(expected));
	assert_memory_equal(name.data, expected, name.len);
}
