// SPDX-License-Identifier: Apache-2.0
#include "kernelmap_note.h"

#include <elf.h>
#include <errno.h>
#include <string.h>

static size_t padded(size_t size)
{
	return (size + 3) & ~(size_t)3;
}

int fp_note_build_id(const void *notes, size_t size, uint8_t *ret_id, size_t capacity,
		     size_t *ret_len)
{
	const uint8_t *at = notes;

	while (size >= sizeof(Elf64_Nhdr)) {
		Elf64_Nhdr note;
		size_t name_size, total;

		memcpy(&note, at, sizeof(note));
		name_size = padded(note.n_namesz);
		total = sizeof(note) + name_size + padded(note.n_descsz);
		if (total > size)
			return -ENOENT;
		if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
		    memcmp(at + sizeof(note), "GNU", 4) == 0 && note.n_descsz >= 1 &&
		    note.n_descsz <= capacity) {
			memcpy(ret_id, at + sizeof(note) + name_size, note.n_descsz);
			*ret_len = note.n_descsz;
			return 0;
		}
		at += total;
		size -= total;
	}
	return -ENOENT;
}
