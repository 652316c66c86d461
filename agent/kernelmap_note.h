// SPDX-License-Identifier: Apache-2.0
//
// kernelmap_note: the build-ID out of a blob of ELF notes that the kernel itself shows us
// (/sys/kernel/notes, /sys/module/M/notes, the vDSO). Never used on files of others.
// Source: elf(5), note format; NT_GNU_BUILD_ID of binutils. Threads: no state.
#pragma once

#include <stddef.h>
#include <stdint.h>

// Copies the id of the first GNU build-ID note, of 1 to `capacity` bytes, and yields its
// length. -ENOENT when there is none.
int fp_note_build_id(const void *notes, size_t size, uint8_t *ret_id, size_t capacity,
		     size_t *ret_len);
