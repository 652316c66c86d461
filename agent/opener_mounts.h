// SPDX-License-Identifier: Apache-2.0
//
// opener_mounts: which file system something lies on, from the text of /proc/PID/mountinfo,
// before anything on it is touched: even stat(2) may wait for a file system's daemon.
// Source: proc(5), "/proc/pid/mountinfo".
// Trust: mount points and sources are foreign text. Threads: no state.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fp_mount {
	uint64_t id;
	uint64_t device;   // major << 32 | minor
	const char *point; // as the kernel escapes it, not NUL-terminated
	size_t point_size;
	const char *type;
	size_t type_size;
};
// Takes one line off the front of *text. Lines that make no sense are passed over. False: end.
bool fp_mount_next(const char **text, struct fp_mount *ret);

// The mount of a device / with an id; of a path, the deepest (and of two on one point the
// upper). The path is absolute and of the same root as the mount table.
bool fp_mount_of_device(const char *text, uint64_t device, struct fp_mount *ret);
bool fp_mount_of_id(const char *text, uint64_t id, struct fp_mount *ret);
bool fp_mount_of_path(const char *text, const char *path, struct fp_mount *ret);

// True when the list ("fuse, nfs, 9p") has the type, or its part before the dot
// ("fuse.sshfs" is on a list with "fuse").
bool fp_mount_is_denied(const struct fp_mount *mount, const char *list);
// True when any mount on the way to the path is denied: walking there asks each of them, also one
// that a mount of another kind lies below or upon.
bool fp_mount_path_is_denied(const char *text, const char *path, const char *list);
