// SPDX-License-Identifier: Apache-2.0
//
// output: where a command's result goes: standard output, or a file that is either the old
// one or the whole new one (temporary file, rename). What is no regular file (a device, a
// FIFO) is written to as it is.
#pragma once

#include "common/buf.h"

// path NULL or "-": standard output. Errors: -errno; nothing is left behind.
int fp_output_write(const char *path, const void *bytes, size_t size);
// `out.svg` + "cpu" → `out.cpu.svg`; `out` → `out.cpu`. NULL: no memory.
char *fp_output_insert(const char *path, const char *word);
// Reads a file whole; path NULL or "-": standard input. -EFBIG beyond 1 GiB.
int fp_input_read(const char *path, struct fp_buf *ret_bytes);
// True when standard output is a terminal; then *ret_columns is its width (0: unknown).
bool fp_output_is_terminal(uint32_t *ret_columns);
