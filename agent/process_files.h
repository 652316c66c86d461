// SPDX-License-Identifier: Apache-2.0
//
// process_files: the files that processes have mapped, once each, counted by the mappings
// that refer to them; a slot whose last mapping went is used again. Indexes are what
// struct fp_mapping carries.
// Ownership: the table owns names. Threads: one owner.
#pragma once

#include "common/hashmap.h"
#include "process.h"

struct fp_files {
	struct fp_file *files; // the public face, indexed like refs
	uint32_t *refs;	       // 0: the slot is free
	uint32_t *free_slots;
	uint32_t count, capacity, free_count;
	struct fp_hashmap index; // identity hash → slot
	uint64_t name_bytes;
};

#define FP_FILES_NONE UINT32_MAX

// What the allocator adds to each piece of memory, about: counted with it.
#define FP_ALLOCATION_BYTES 16u

void fp_files_init(struct fp_files *files);
void fp_files_free(struct fp_files *files);
// The slot of the file, with one more reference. Two are the same when build-ID and name are,
// or, without a build-ID, device, inode and name. file->name is copied. -ENOMEM.
int fp_files_add(struct fp_files *files, const struct fp_file *file, uint32_t *ret_slot);
void fp_files_ref(struct fp_files *files, uint32_t slot);
void fp_files_unref(struct fp_files *files, uint32_t slot);
static inline uint32_t fp_files_used(const struct fp_files *files)
{
	return files->count - files->free_count;
}
uint64_t fp_files_bytes(const struct fp_files *files);
