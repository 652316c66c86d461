// SPDX-License-Identifier: Apache-2.0
//
// symbolupload: uploaded symbol tables as files. `<build-id hex>.sym` holds one line with the
// path, then the zstd frame of `<hex offset> <name>` lines.
// Input: foreign bytes, bounded during decompression. Threads: no state.
#pragma once

#include "proto/profile.h"

bool fp_symbol_upload_exists(int dirfd, const uint8_t *id, size_t id_len);
int fp_symbol_upload_write(int dirfd, const struct fp_build *build, const char *path,
			   const void *bytes, size_t size);
// The room a file of an upload takes, in blocks; of all files below dirfd.
uint64_t fp_symbol_upload_bytes(const char *path, size_t size);
uint64_t fp_symbol_upload_size(int dirfd, const struct fp_build *build); // 0: none
int fp_symbol_upload_total(int dirfd, uint64_t *ret_bytes);
// What the frame says it holds; max_bytes when it does not say, or says more.
size_t fp_symbol_upload_inflated(const void *bytes, size_t size, size_t max_bytes);
// Reads and decompresses. Errors: -ENOENT, -EBADMSG, -EMSGSIZE, -errno.
int fp_symbol_upload_read(int dirfd, const struct fp_build *build, size_t max_bytes,
			  struct fp_buf *ret_text);
// Errors: -EBADMSG, -EMSGSIZE with a static sentence; -ENOMEM.
int fp_symbol_upload_decompress(const void *bytes, size_t size, size_t max_bytes,
				struct fp_buf *ret_text, const char **ret_reason);
// -EBADMSG unless most lines are `<hex offset> <name>`. No line at all is a table too: of a file
// without functions.
int fp_symbol_upload_check(const struct fp_buf *text, const char **ret_reason);
// Such lines but those named `-`, which only say where a function ends.
size_t fp_symbol_upload_functions(const struct fp_buf *text);
