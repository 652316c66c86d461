// SPDX-License-Identifier: Apache-2.0
#include "process_files.h"

#include <errno.h>
#include <string.h>

#include <xxhash.h>

// 128 bits of hash stand for the identity: that two files ever share them by chance is less
// likely than a memory error, and nobody gains by forging it.
struct identity {
	uint64_t low, high;
};

static struct identity identity_of(const struct fp_file *file)
{
	XXH128_hash_t name = XXH3_128bits(file->name, strlen(file->name));
	struct {
		uint64_t name_low, name_high, device, inode;
		uint8_t build_id[20];
		uint8_t build_id_len, kind, padding[2];
	} parts = {
		.name_low = name.low64,
		.name_high = name.high64,
		.build_id_len = file->build_id_len,
		.kind = (uint8_t)file->kind,
	};
	XXH128_hash_t hash;

	memcpy(parts.build_id, file->build_id, file->build_id_len);
	if (file->build_id_len == 0) {
		parts.device = file->device;
		parts.inode = file->inode;
	}
	hash = XXH3_128bits(&parts, sizeof(parts));
	return (struct identity){ hash.low64, hash.high64 };
}

void fp_files_init(struct fp_files *files)
{
	*files = (struct fp_files){ .index = FP_HASHMAP_INIT(struct identity, uint32_t) };
}

void fp_files_free(struct fp_files *files)
{
	for (uint32_t i = 0; i < files->count; i++)
		free(files->files[i].name);
	free(files->files);
	free(files->refs);
	free(files->free_slots);
	fp_hashmap_free(&files->index);
	fp_files_init(files);
}

static int grow(struct fp_files *files)
{
	uint32_t capacity = files->capacity ? 2 * files->capacity : 64;
	void *grown;

	grown = reallocarray(files->files, capacity, sizeof(*files->files));
	if (!grown)
		return -ENOMEM;
	files->files = grown;
	grown = reallocarray(files->refs, capacity, sizeof(*files->refs));
	if (!grown)
		return -ENOMEM;
	files->refs = grown;
	grown = reallocarray(files->free_slots, capacity, sizeof(*files->free_slots));
	if (!grown)
		return -ENOMEM;
	files->free_slots = grown;
	files->capacity = capacity;
	return 0;
}

static int add_new(struct fp_files *files, const struct fp_file *file, uint32_t *ret_slot)
{
	FP_AUTOFREE char *name = strdup(file->name);
	uint32_t slot;

	if (!name)
		return -ENOMEM;
	if (files->free_count == 0 && files->count == files->capacity && grow(files) < 0)
		return -ENOMEM;
	slot = files->free_count ? files->free_slots[--files->free_count] : files->count++;
	files->name_bytes += strlen(name) + 1 + FP_ALLOCATION_BYTES;
	files->files[slot] = *file;
	files->files[slot].name = fp_take_ptr(name);
	files->refs[slot] = 1;
	*ret_slot = slot;
	return 0;
}

int fp_files_add(struct fp_files *files, const struct fp_file *file, uint32_t *ret_slot)
{
	struct identity identity = identity_of(file);
	bool inserted;
	uint32_t *slot = fp_hashmap_put(&files->index, &identity, &inserted);

	if (!slot)
		return -ENOMEM;
	if (inserted && add_new(files, file, slot) < 0) {
		fp_hashmap_remove(&files->index, &identity);
		return -ENOMEM;
	}
	if (!inserted)
		files->refs[*slot]++;
	*ret_slot = *slot;
	return 0;
}

void fp_files_ref(struct fp_files *files, uint32_t slot)
{
	if (slot != FP_FILES_NONE)
		files->refs[slot]++;
}

void fp_files_unref(struct fp_files *files, uint32_t slot)
{
	struct identity identity;

	if (slot == FP_FILES_NONE || --files->refs[slot] > 0)
		return;
	identity = identity_of(&files->files[slot]);
	fp_hashmap_remove(&files->index, &identity);
	files->name_bytes -= strlen(files->files[slot].name) + 1 + FP_ALLOCATION_BYTES;
	fp_free_ptr(&files->files[slot].name);
	files->free_slots[files->free_count++] = slot;
}

uint64_t fp_files_bytes(const struct fp_files *files)
{
	return files->name_bytes + fp_hashmap_bytes(&files->index) +
	       (uint64_t)files->capacity *
		   (sizeof(*files->files) + sizeof(*files->refs) + sizeof(*files->free_slots));
}

enum fp_file_kind fp_file_kind_of(const char *name)
{
	if (strcmp(name, "[vdso]") == 0)
		return FP_FILE_VDSO;
	// perf spells it "//anon"; /proc/PID/maps leaves the name out or shows the name that
	// the program gave with prctl(PR_SET_VMA_ANON_NAME).
	if (name[0] == '\0' || strcmp(name, "//anon") == 0 || strncmp(name, "[anon:", 6) == 0 ||
	    strncmp(name, "[anon_shmem:", 12) == 0)
		return FP_FILE_ANON;
	return name[0] == '/' ? FP_FILE_REGULAR : FP_FILE_OTHER;
}

// Names of memory that has a file only so that it can be mapped twice or shared.
static bool in_memory_alone(const char *name)
{
	static const char *const prefixes[] = { "/memfd:", "/dev/zero", "/anon_hugepage", "/SYSV" };

	for (size_t i = 0; i < FP_ARRAY_SIZE(prefixes); i++)
		if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0)
			return true;
	return false;
}

bool fp_file_may_be_jit(const struct fp_file *file)
{
	switch (file->kind) {
	case FP_FILE_ANON:
		return true;
	case FP_FILE_REGULAR:
		return file->build_id_len == 0 && in_memory_alone(file->name);
	case FP_FILE_OTHER:
		return strcmp(file->name, "[heap]") == 0 || strncmp(file->name, "[stack", 6) == 0;
	case FP_FILE_VDSO:
		break;
	}
	return false;
}
