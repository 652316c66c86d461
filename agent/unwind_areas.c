// SPDX-License-Identifier: Apache-2.0
//
// From what a process has mapped to builds.
//
// Anyone can link a file with any build-ID. A table that is shared by its identity is therefore
// made only of a file that root alone may write. Where there is none, a table is made of each
// file for itself, and which file a process has mapped the kernel is asked: it tells device and
// inode of a mapping without going to the file system.
#include "unwind_private.h"

#include "procfs.h"
#include "resolve_vdso.h"
#include "vdsofile.h"

#include <errno.h>
#include <string.h>

struct looking {
	struct fp_unwind *unwind;
	const struct fp_process_view *view;
	uint32_t tgid;
	int dirfd; // of the process, opened when needed; -1: not yet
	bool pending;
};

static void looking_end(struct looking *looking)
{
	fp_close_fd(&looking->dirfd);
}

static struct fp_names_file file_of(const struct looking *looking, const struct fp_mapping *mapping)
{
	const struct fp_file *file = &looking->view->files[mapping->file];

	return (struct fp_names_file){ .tgid = looking->tgid,
				       .parent_tgid = looking->view->parent_tgid,
				       .start = mapping->start,
				       .end = mapping->end,
				       .device = file->device,
				       .inode = file->inode,
				       .name = file->name };
}

// False: nothing identifies what is mapped, or not yet.
static bool identify(struct looking *looking, const struct fp_mapping *mapping,
		     struct fp_unwind_key *ret)
{
	const struct fp_file *file = &looking->view->files[mapping->file];
	struct fp_names_file question = file_of(looking, mapping);
	struct fp_build build = { 0 };
	enum fp_names_state state;

	*ret = (struct fp_unwind_key){ .kind = FP_BUILD_GNU, .id_len = file->build_id_len };
	memcpy(ret->id, file->build_id, file->build_id_len);
	if (file->build_id_len)
		return true;
	state = fp_names_identity(looking->unwind->names, &question, &build);
	if (state == FP_NAMES_PENDING) {
		(void)fp_names_want_identity(looking->unwind->names, &question); // or next time
		looking->pending = true;
	}
	ret->kind = build.kind;
	ret->id_len = build.id_len;
	memcpy(ret->id, build.id, build.id_len);
	return state == FP_NAMES_KNOWN;
}

static bool identify_vdso(const struct fp_mapping *mapping, struct fp_unwind_key *ret)
{
	size_t size = 0;
	const uint8_t *id = mapping->end > UINT32_MAX ? fp_vdso_build_id(&size) : NULL;

	if (!id)
		return false;
	*ret = (struct fp_unwind_key){ .kind = FP_BUILD_GNU, .id_len = (uint8_t)size };
	memcpy(ret->id, id, size);
	return true;
}

struct mapped {
	uint64_t start, device, inode;
};

static int take_numbers(const struct fp_procfs_map *map, void *context)
{
	struct mapped *mapped = context;

	if (map->start != mapped->start)
		return 0;
	mapped->device = (uint64_t)map->major << 32 | map->minor;
	mapped->inode = map->inode;
	return 1;
}

// Which file it is, as the kernel sees it. False: the process has gone, or mapped something else.
static bool ask_kernel(struct looking *looking, const struct fp_mapping *mapping,
		       struct fp_unwind_key *key)
{
	struct mapped mapped = { .start = mapping->start };

	if (looking->dirfd < 0)
		looking->dirfd = fp_procfs_open(looking->tgid);
	if (looking->dirfd < 0 || fp_procfs_maps_at(looking->dirfd, "maps", &mapping->start, 1,
						    take_numbers, &mapped) < 0)
		return false;
	key->device = mapped.device;
	key->inode = mapped.inode;
	return mapped.inode != 0;
}

// One that others can write may by now have a file that only root can.
static bool is_wanted_anew(const struct fp_unwind *unwind, const struct fp_unwind_build *build)
{
	return build->state == FP_UNWIND_WAITING &&
	       (!build->untrusted || build->retry_ns <= unwind->now_ns);
}

// The number of the build with that key, or of its one file when others than root can write it.
static int number_of(struct looking *looking, const struct fp_mapping *mapping,
		     struct fp_unwind_key *key, uint32_t *ret_build)
{
	struct fp_unwind_demand *demand = looking->unwind->demand;
	struct fp_names_file file = file_of(looking, mapping);
	struct fp_unwind_build *build;
	int r = fp_unwind_demand_take(demand, key, ret_build);

	if (r < 0)
		return r;
	build = fp_unwind_demand_at(demand, *ret_build);
	if (is_wanted_anew(looking->unwind, build))
		r = fp_unwind_demand_place(demand, *ret_build, &file);
	if (r < 0 || !build->untrusted || build->state == FP_UNWIND_LOADED || key->inode ||
	    !ask_kernel(looking, mapping, key))
		return r;
	fp_unwind_demand_give(demand, *ret_build);
	*ret_build = FP_UNWIND_NO_BUILD;
	file.device = key->device;
	file.inode = key->inode;
	r = fp_unwind_demand_take(demand, key, ret_build);
	if (r == 0 && is_wanted_anew(looking->unwind, fp_unwind_demand_at(demand, *ret_build)))
		r = fp_unwind_demand_place(demand, *ret_build, &file);
	return r;
}

static int vdso_number(struct looking *looking, const struct fp_unwind_key *key,
		       uint32_t *ret_build)
{
	struct fp_unwind_demand *demand = looking->unwind->demand;
	struct fp_names_file file;
	int r = fp_vdso_file(&file);

	if (r == 0)
		r = fp_unwind_demand_take(demand, key, ret_build);
	if (r == 0 && is_wanted_anew(looking->unwind, fp_unwind_demand_at(demand, *ret_build)))
		r = fp_unwind_demand_place(demand, *ret_build, &file);
	return r;
}

// An area without a build when it cannot be had: that is no reason to go without the others.
static void find_build(struct looking *looking, const struct fp_mapping *mapping,
		       struct fp_unwind_area *area)
{
	enum fp_file_kind kind = looking->view->files[mapping->file].kind;
	struct fp_unwind_key key;
	uint32_t build = FP_UNWIND_NO_BUILD;
	int r = -ENOENT;

	if (kind == FP_FILE_REGULAR && identify(looking, mapping, &key))
		r = number_of(looking, mapping, &key, &build);
	else if (kind == FP_FILE_VDSO && identify_vdso(mapping, &key))
		r = vdso_number(looking, &key, &build);
	if (r < 0 && build != FP_UNWIND_NO_BUILD)
		fp_unwind_demand_give(looking->unwind->demand, build);
	area->build = r < 0 ? FP_UNWIND_NO_BUILD : build;
}

static bool has_code_of_a_file(const struct looking *looking, const struct fp_mapping *mapping)
{
	enum fp_file_kind kind = looking->view->files[mapping->file].kind;

	return kind == FP_FILE_REGULAR || kind == FP_FILE_VDSO;
}

int fp_unwind_areas(struct fp_unwind *unwind, uint32_t tgid, const struct fp_process_view *view,
		    struct fp_unwind_version **ret, bool *ret_pending)
{
	struct looking looking FP_CLEANUP(
	    looking_end) = { .unwind = unwind, .view = view, .tgid = tgid, .dirfd = -1 };
	struct fp_unwind_version *version =
	    calloc(1, sizeof(*version) + view->count * sizeof(version->areas[0]));

	if (!version)
		return -ENOMEM;
	version->tgid = tgid;
	version->stamp = view->stamp;
	for (uint32_t i = 0; i < view->count; i++) {
		const struct fp_mapping *mapping = &view->mappings[i];
		struct fp_unwind_area *area = &version->areas[version->count];

		if (!has_code_of_a_file(&looking, mapping))
			continue;
		*area = (struct fp_unwind_area){
			.start = mapping->start,
			.end = mapping->end,
			.offset = fp_unwind_offset_of(view, mapping),
			.file = fp_unwind_file_hash(&view->files[mapping->file]),
		};
		find_build(&looking, mapping, area);
		version->count++;
	}
	*ret = version;
	*ret_pending = looking.pending;
	return 0;
}
