// SPDX-License-Identifier: Apache-2.0
#include "process_find.h"

#include "process_table.h"
#include "procfs.h"

#include <errno.h>
#include <string.h>

// Mappings looked at in /proc for one build: those at hand may just be ending, or be of a file that
// was tried.
#define CHECKS_MAX	256
#define CHECKS_MAX_EACH 8 // of one process, which may map one file very often

struct search {
	const struct fp_process_table *table;
	const struct fp_build *wanted;
	const struct fp_process_tried *tried;
	uint8_t *kinds; // enum fp_build_kind of each file that is the build, else 0
	struct fp_process_find *found;
	unsigned int checks;
};

static bool is_tried(const struct fp_process_tried *tried, uint64_t device, uint64_t inode)
{
	for (uint32_t i = 0; i < tried->count; i++)
		if (tried->files[i].device == device && tried->files[i].inode == inode)
			return true;
	return false;
}

static bool has_id(const struct fp_build *wanted, const uint8_t *id, size_t id_len)
{
	return id_len == wanted->id_len && memcmp(id, wanted->id, id_len) == 0;
}

static uint8_t kind_as_wanted(const struct fp_file *file, const struct fp_names *names,
			      const struct fp_build *wanted)
{
	const struct fp_names_file question = { .device = file->device,
						.inode = file->inode,
						.name = file->name };
	struct fp_build build = { 0 };

	if (file->kind != FP_FILE_REGULAR)
		return FP_BUILD_NONE;
	if (file->build_id_len)
		return has_id(wanted, file->build_id, file->build_id_len) ? FP_BUILD_GNU
									  : FP_BUILD_NONE;
	if (!names || fp_names_identity(names, &question, &build) != FP_NAMES_KNOWN)
		return FP_BUILD_NONE;
	return has_id(wanted, build.id, build.id_len) ? build.kind : FP_BUILD_NONE;
}

static bool mark_files(struct search *search, const struct fp_names *names)
{
	const struct fp_files *files = &search->table->pool.files;
	bool any = false;

	for (uint32_t i = 0; i < files->count; i++) {
		if (files->refs[i] == 0)
			continue;
		search->kinds[i] = kind_as_wanted(&files->files[i], names, search->wanted);
		any = any || search->kinds[i] != FP_BUILD_NONE;
	}
	return any;
}

struct check {
	struct fp_process_find *found;
	const struct fp_file *file; // as the table has it
	const struct fp_process_tried *tried;
	bool matches;
};

// The process may have mapped something else there; without a build-ID on both sides, the role
// that reads the file compares.
static int check_map(const struct fp_procfs_map *map, void *context)
{
	struct check *check = context;
	struct fp_process_find *found = check->found;
	const struct fp_file *file = check->file;
	uint64_t device = (uint64_t)map->major << 32 | map->minor;

	if (map->build_id_len && file->build_id_len &&
	    (map->build_id_len != file->build_id_len ||
	     memcmp(map->build_id, file->build_id, map->build_id_len) != 0))
		return 1;
	if (file->inode && (map->inode != file->inode || device != file->device))
		return 1;
	if (is_tried(check->tried, device, map->inode))
		return 1;
	snprintf(found->name, sizeof(found->name), "%s", map->name);
	found->file.start = map->start;
	found->file.end = map->end;
	found->file.device = device;
	found->file.inode = map->inode;
	found->file.name = found->name;
	check->matches = true;
	return 1;
}

static bool check_mapping(struct search *search, const struct fp_process *process,
			  const struct fp_mapping *mapping)
{
	const struct fp_file *file = &search->table->pool.files.files[mapping->file];
	struct check check = { .found = search->found, .file = file, .tried = search->tried };
	FP_AUTOCLOSE int dirfd = fp_procfs_open(process->tgid);

	search->checks++;
	if (dirfd < 0 ||
	    fp_procfs_maps_at(dirfd, "maps", &mapping->start, 1, check_map, &check) < 0 ||
	    !check.matches)
		return false;
	search->found->file.tgid = process->tgid;
	search->found->file.parent_tgid = process->parent_tgid;
	search->found->build = *search->wanted;
	search->found->build.kind = search->kinds[mapping->file];
	return true;
}

static bool look_into(struct search *search, const struct fp_process *process,
		      const struct fp_mapset *set)
{
	unsigned int end = search->checks + CHECKS_MAX_EACH;

	for (uint32_t i = 0; i < set->live_count && search->checks < end; i++)
		if (set->live[i].file != FP_FILES_NONE && search->kinds[set->live[i].file] &&
		    check_mapping(search, process, &set->live[i]))
			return true;
	return false;
}

// Most recently used first: the least likely to have ended unnoticed.
static int look_through(struct search *search)
{
	for (struct fp_process *process = search->table->running.last;
	     process && search->checks < CHECKS_MAX; process = process->previous)
		if (look_into(search, process, fp_process_newest(process)->set))
			return 0;
	return -ENOENT;
}

int fp_process_table_find_build(const struct fp_process_table *table, const struct fp_names *names,
				const struct fp_build *wanted, const struct fp_process_tried *tried,
				struct fp_process_find *ret)
{
	FP_AUTOFREE uint8_t *kinds = calloc(table->pool.files.count + 1, 1);
	struct search search = {
		.table = table, .wanted = wanted, .tried = tried, .kinds = kinds, .found = ret
	};

	if (!kinds)
		return -ENOMEM;
	ret->file = (struct fp_names_file){ 0 };
	return mark_files(&search, names) ? look_through(&search) : -ENOENT;
}
