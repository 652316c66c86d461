// SPDX-License-Identifier: Apache-2.0
//
// file: reading small files whole and writing files that are either there or not.
#pragma once

#include "buf.h"

// Reads a whole file (also from /proc and /sys, whose size is unknown) into buf, replacing
// its content. Errors: -errno of open/read, -EFBIG when it holds more than max_size bytes.
int fp_file_read(const char *path, size_t max_size, struct fp_buf *buf);
int fp_file_read_at(int dirfd, const char *name, size_t max_size, struct fp_buf *buf);
// Creates dirfd/name atomically and durably: temporary file, write, fdatasync, rename,
// fsync of the directory. Errors: -errno; nothing is left behind on failure.
int fp_file_write_durable(int dirfd, const char *name, const void *bytes, size_t size, int mode);
// Opens a directory, creating it and its missing parents with `mode`. Returns the fd or -errno.
int fp_dir_open(const char *path, int mode);
// Writes all bytes to fd, retrying short writes and EINTR.
int fp_write_all(int fd, const void *bytes, size_t size);
