// SPDX-License-Identifier: Apache-2.0
//
// procfs: the few facts about a running process that the side-band cannot tell because they
// are older than it: start time, threads, executable name, executable mappings. A process is
// pinned by a descriptor of its directory, so a reused PID cannot be read by mistake.
// Nothing here opens the mapped files.
// Source: proc(5); the PROCMAP_QUERY ioctl of Linux 6.11 where the kernel has it (it gives
// build-IDs of files on disks), else the text of /proc/PID/maps (no build-IDs).
// Trust: numbers from the kernel; names foreign. Threads: no state but the host clock's.
#pragma once

#include "common/buf.h"

// Nanoseconds of CLOCK_MONOTONIC as the kernel's events stamp it: without the offset of the
// time namespace that we may run in.
uint64_t fp_procfs_monotonic_ns(void);
// Clock ticks that field 22 of /proc/PID/stat shows us for a start at boottime_ns.
uint64_t fp_procfs_start_ticks(uint64_t boottime_ns);

struct fp_procfs_stat {
	uint64_t start_ticks;
	uint32_t threads;
	bool zombie; // the group leader has exited
};
// From the text of /proc/PID/stat; the name in it may hold anything. -EINVAL.
int fp_procfs_stat_parse(const char *text, struct fp_procfs_stat *ret);

// A descriptor of /proc/PID (O_PATH), or -errno: -ENOENT when there is no such process.
int fp_procfs_open(uint32_t pid);
int fp_procfs_stat(int dirfd, struct fp_procfs_stat *ret);
// What /proc/PID/exe points at, NUL-terminated, as the kernel spells it: " (deleted)" is
// taken off when the file has no links left. -ENOENT for kernel threads.
int fp_procfs_executable(int dirfd, struct fp_buf *ret_path);

struct fp_procfs_map {
	uint64_t start, end, page_offset; // bytes
	uint32_t major, minor;
	uint64_t inode;
	uint8_t build_id[20];
	uint8_t build_id_len; // 0: unknown
	const char *name;     // "" for anonymous memory; valid in the callback
};
// True when the mapped file lies on a block device: reading it waits for no other program and no
// other host. File systems without one (overlay, tmpfs, FUSE, NFS, …) have the major number 0.
static inline bool fp_procfs_is_disk(const struct fp_procfs_map *map)
{
	return map->inode != 0 && map->major != 0;
}
typedef int (*fp_procfs_map_fn)(const struct fp_procfs_map *map, void *context);

// Hands out the executable mappings in order of address. A positive result of the callback
// ends the walk early and is passed on. name: "maps" or "task/TID/maps".
// Errors: -errno; -ENOENT or -ESRCH when the process has gone.
int fp_procfs_maps(int dirfd, const char *name, fp_procfs_map_fn fn, void *context);
// Hands out the executable mappings that cover one of the addresses (ascending), each at least
// once: a question each where the kernel takes questions, else one reading of the text.
int fp_procfs_maps_at(int dirfd, const char *name, const uint64_t *addresses, uint32_t count,
		      fp_procfs_map_fn fn, void *context);
// The text form alone, as fp_procfs_maps uses it where PROCMAP_QUERY is missing.
int fp_procfs_maps_text(int dirfd, const char *name, fp_procfs_map_fn fn, void *context);
