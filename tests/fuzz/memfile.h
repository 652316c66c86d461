// SPDX-License-Identifier: Apache-2.0
//
// memfile: the fuzzer's bytes as a file, for code that reads descriptors. One memfd for each
// file of a target, because making one costs more than most inputs do.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

// *fd: -1 at first; then the file, whose content is replaced.
static inline void memfile_set(int *fd, const void *bytes, size_t size)
{
	if (*fd < 0)
		*fd = memfd_create("fuzz", MFD_CLOEXEC);
	if (*fd < 0 || ftruncate(*fd, 0) < 0 || pwrite(*fd, bytes, size, 0) != (ssize_t)size)
		abort();
}
