// SPDX-License-Identifier: Apache-2.0
//
// elfident: what identifies a build, in the order in which it is looked for: GNU build-ID
// note, Go build ID, else the hash of the file's ends that OpenTelemetry defines
// (process.executable.build_id.htlhash: SHA-256 over first 4,096 bytes, last 4,096 bytes and
// the length as 8 bytes big-endian, cut to 16 bytes).
// A Go build ID is text of no fixed length: its identity here is the first 20 bytes of the
// SHA-256 of that text.
// Trust: the file is foreign. Threads: none shared.
#pragma once

#include "proto/profile.h"

// fd: a regular file, at any offset, stays the caller's. Fills kind, id_len and id. A file that
// is no ELF file gets the hash, an empty one the kind FP_BUILD_NONE: nothing identifies it.
// Bazel's placeholder "redacted" is no Go build ID: every program it links has it.
// Errors: -errno of reading, -EINVAL not a regular file, -ENOMEM.
int fp_elf_identify(int fd, struct fp_build *ret_build);
// Whether the file is the build: its id of the build's kind, whatever other ids it has.
int fp_elf_is_build(int fd, const struct fp_build *build, bool *ret_same);
