// SPDX-License-Identifier: Apache-2.0
//
// symbolwrite: an ELF file's functions as table text, the form in which an agent sends a
// build's symbols to its collector (fp_symbolizer_add_table): offsets are file offsets, sorted,
// and a line named `-` closes a function behind which nothing known begins.
// Trust: the file is foreign; names cannot contain a line's end. Threads: none shared.
#pragma once

#include "proto/profile.h"

// Writes the table of the file in_fd to out_fd, at most max_bytes. Errors: -EBADMSG the file is
// not the build or no ELF file, -ENODATA it names no function, -EFBIG too much text, -ENOMEM,
// -errno of reading and writing.
int fp_symbol_write_elf(int in_fd, const struct fp_build *build, int out_fd, uint64_t max_bytes,
			uint64_t *ret_bytes);
