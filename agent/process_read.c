// SPDX-License-Identifier: Apache-2.0
#include "process_table.h"

#include "common/clock.h"
#include "process_probe.h"
#include "procfs.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

struct reading {
	struct fp_process_table *table;
	uint32_t tgid;
	int dirfd; // of /proc/PID
	struct fp_mapping *mappings;
	uint32_t count, capacity;
	bool too_many;
};

static void reading_free(struct reading *reading)
{
	for (uint32_t i = 0; i < reading->count; i++)
		fp_files_unref(&reading->table->pool.files, reading->mappings[i].file);
	free(reading->mappings);
}

int fp_process_map_file(struct fp_process_table *table, int dirfd, const struct fp_procfs_map *map,
			uint32_t *ret_slot)
{
	struct fp_file file = {
		.kind = fp_file_kind_of(map->name),
		.build_id_len = map->build_id_len,
		.device = (uint64_t)map->major << 32 | map->minor,
		.inode = map->inode,
		.name = (char *)map->name, // copied
	};

	memcpy(file.build_id, map->build_id, sizeof(file.build_id));
	if (file.kind == FP_FILE_REGULAR && file.build_id_len == 0 && fp_procfs_is_disk(map))
		fp_process_probe(table, dirfd, map, &file);
	if (file.kind == FP_FILE_ANON)
		file.name = "//anon"; // as the side-band spells it
	if (file.build_id_len != 0)
		file.device = file.inode = 0; // as the side-band leaves it
	if (file.kind == FP_FILE_REGULAR && file.build_id_len == 0)
		table->stats.mappings_no_build_id++;
	return fp_files_add(&table->pool.files, &file, ret_slot);
}

static int on_map(const struct fp_procfs_map *map, void *context)
{
	struct reading *reading = context;
	struct fp_mapping mapping = {
		.start = map->start,
		.end = map->end,
		.page_offset = map->page_offset,
	};
	int r;

	if (reading->count >= FP_PROCESS_MAPPINGS_MAX) {
		reading->too_many = true;
		return 1;
	}
	if (reading->count && map->start < reading->mappings[reading->count - 1].end)
		return 0; // the text moved on while it was read
	if (reading->count == reading->capacity) {
		uint32_t capacity = reading->capacity ? 2 * reading->capacity : 32;
		void *grown = reallocarray(reading->mappings, capacity, sizeof(*reading->mappings));

		if (!grown)
			return -ENOMEM;
		reading->mappings = grown;
		reading->capacity = capacity;
	}
	r = fp_process_map_file(reading->table, reading->dirfd, map, &mapping.file);
	if (r < 0)
		return r;
	reading->mappings[reading->count++] = mapping;
	return 0;
}

// Is what runs under the PID now the instance that we mean? With a stack record, the start
// time says so. Else it was running at seen_ns, and whoever else has the PID started later.
static bool is_same(const struct fp_process *process, const struct fp_procfs_stat *stat)
{
	uint64_t since_seen_ns = fp_procfs_monotonic_ns() - process->seen_ns;
	uint64_t now_ns = fp_boottime_ns();

	if (process->start_ticks != 0)
		return stat->start_ticks == process->start_ticks;
	return stat->start_ticks <= fp_procfs_start_ticks(now_ns - since_seen_ns) + 1;
}

int fp_process_check(const struct fp_process *process, int dirfd, uint32_t tid,
		     struct fp_procfs_stat *ret_stat, char ret_name[FP_PROCESS_MAPS_NAME])
{
	struct fp_procfs_stat stat;
	int r = fp_procfs_stat(dirfd, &stat);

	if (r < 0)
		return r == -ENOENT ? -ESRCH : r;
	if (!is_same(process, &stat))
		return -ESRCH;
	// A leader that has exited has no memory to show, but the other threads do.
	if (stat.zombie && tid != 0)
		snprintf(ret_name, FP_PROCESS_MAPS_NAME, "task/%" PRIu32 "/maps", tid);
	else
		snprintf(ret_name, FP_PROCESS_MAPS_NAME, "maps");
	*ret_stat = stat;
	return 0;
}

static int read_name(const struct fp_process *process, struct fp_buf *ret_path)
{
	FP_AUTOCLOSE int dirfd = fp_procfs_open(process->tgid);
	struct fp_procfs_stat stat;
	char maps[FP_PROCESS_MAPS_NAME];
	int r = dirfd < 0 ? dirfd : fp_process_check(process, dirfd, 0, &stat, maps);

	return r < 0 ? r : fp_procfs_executable(dirfd, ret_path);
}

// The descriptor pins the process, so that start time and mappings are of one instance; the
// second look at the start time is against a directory that outlives its process.
static int read_maps(struct fp_process *process, int dirfd, uint32_t tid, struct reading *reading)
{
	struct fp_procfs_stat before, after;
	char name[FP_PROCESS_MAPS_NAME];
	int r = fp_process_check(process, dirfd, tid, &before, name);

	if (r < 0)
		return r;
	r = fp_procfs_maps(dirfd, name, on_map, reading);
	if (r < 0)
		return r;
	r = fp_procfs_stat(dirfd, &after);
	if (r < 0)
		return r;
	if (after.start_ticks != before.start_ticks || reading->count == 0)
		return -ESRCH;
	process->start_ticks = before.start_ticks;
	return 0;
}

static int set_executable(struct fp_process_table *table, struct fp_mapset *set,
			  const struct fp_buf *path)
{
	struct fp_file file = { .kind = FP_FILE_REGULAR };

	if (set->executable != FP_FILES_NONE || path->len == 0)
		return 0;
	for (uint32_t i = 0; i < set->live_count; i++) {
		uint32_t slot = set->live[i].file;

		if (strcmp(table->pool.files.files[slot].name, (const char *)path->data) == 0) {
			set->executable = slot;
			fp_files_ref(&table->pool.files, slot);
			return 0;
		}
	}
	file.name = (char *)path->data;
	return fp_files_add(&table->pool.files, &file, &set->executable);
}

static int take_reading(struct fp_process_table *table, struct reading *reading,
			struct fp_mapset *set, uint64_t since_ns)
{
	uint64_t read_ns = fp_procfs_monotonic_ns();
	uint32_t count = reading->count;

	set->read_tgid = reading->tgid;
	if (reading->too_many) {
		fp_process_make_sparse(table, set, since_ns);
		set->read_ns = read_ns;
		return 0;
	}
	reading->count = 0; // handed over
	return fp_mapset_reconcile(&table->pool, set, reading->mappings, count, since_ns, read_ns);
}

// The name of the program comes before its mappings and the time after them: an exec between any of
// them is older than the reading, which it takes along.
static int read_into(struct fp_process_table *table, struct fp_process *process, uint32_t tid,
		     struct fp_mapset *set, uint64_t since_ns)
{
	FP_AUTOCLOSE int dirfd = fp_procfs_open(process->tgid);
	FP_CLEANUP(reading_free)
	struct reading reading = { .table = table, .tgid = process->tgid, .dirfd = dirfd };
	FP_AUTOBUF struct fp_buf executable = { 0 };
	int r = dirfd;

	if (r >= 0) {
		if (set->executable == FP_FILES_NONE)
			(void)fp_procfs_executable(dirfd, &executable); // else it has no name
		r = read_maps(process, dirfd, tid, &reading);
	}
	if (r == 0)
		r = take_reading(table, &reading, set, since_ns);
	if (r < 0)
		return r == -ENOENT ? -ESRCH : r;
	table->stats.lazy_reads++;
	r = set_executable(table, set, &executable);
	if (set->executable != FP_FILES_NONE)
		set->awaits_executable = false;
	return r;
}

static bool awaits_name(const struct fp_mapset *set)
{
	return set->complete && set->awaits_executable && set->executable == FP_FILES_NONE;
}

// An exec is announced before the program is mapped, some 100 us, or more where the process is
// preempted in between. It cannot have executed another program before its first mapping was told of.
int fp_process_read_name(struct fp_process_table *table, struct fp_process *process)
{
	FP_AUTOBUF struct fp_buf path = { 0 };
	uint64_t exec_ns = fp_process_newest(process)->from_ns;
	int r = 0;

	if (!awaits_name(fp_process_newest(process)->set) || process->exit_ns != 0 ||
	    !fp_process_is_sure(table, process))
		return 0;
	(void)read_name(process, &path); // who has gone meanwhile has mapped meanwhile
	if (table->catch_up)
		r = table->catch_up(table->catch_up_context);
	if (r < 0 || fp_process_newest(process)->from_ns != exec_ns ||
	    !fp_process_is_sure(table, process) || !awaits_name(fp_process_newest(process)->set))
		return r;
	return set_executable(table, fp_process_newest(process)->set, &path);
}

static bool has_now(struct fp_process *process, const struct fp_mapset *set)
{
	return process && fp_process_newest(process)->set == set;
}

// The set can be read from whoever still lives in it: the process itself, its parent, or
// the process that was the first to have it.
int fp_process_fill(struct fp_process_table *table, struct fp_process *process, uint32_t tid,
		    struct fp_mapset *set)
{
	struct fp_process *holders[] = {
		process,
		fp_process_get(table, process->parent_tgid),
		fp_process_get(table, set->owner_tgid),
	};
	int r = -ESRCH;

	// Who lives in the set by what we know may have left it among what was lost.
	if (!fp_process_is_sure(table, process))
		return -ESRCH;
	for (size_t i = 0; i < FP_ARRAY_SIZE(holders); i++) {
		if (!has_now(holders[i], set) || !fp_process_is_sure(table, holders[i]) ||
		    (i > 0 && holders[i] == process))
			continue;
		r = read_into(table, holders[i], holders[i] == process ? tid : 0, set, 0);
		if (r == 0 || r == -ENOMEM)
			return r;
	}
	set->failed = true;
	table->stats.lazy_failed++;
	return -ESRCH;
}

int fp_process_unshare(struct fp_process_table *table, struct fp_process *process)
{
	struct fp_mapset *shared = fp_process_newest(process)->set, *own;
	int r;

	if (shared->refs == 1)
		return 0;
	// Once they part, reading one no longer tells what the other has.
	if (!shared->complete && !shared->failed) {
		r = fp_process_fill(table, process, 0, shared);
		if (r == -ENOMEM)
			return r;
	}
	own = fp_mapset_clone(&table->pool, shared);
	if (!own)
		return -ENOMEM;
	fp_process_newest(process)->set = own;
	fp_mapset_unref(&table->pool, shared);
	return 0;
}

int fp_process_reread(struct fp_process_table *table, struct fp_process *process, uint32_t tid,
		      uint64_t since_ns)
{
	int r = fp_process_unshare(table, process);

	if (r == 0)
		r = read_into(table, process, tid, fp_process_newest(process)->set, since_ns);
	if (r < 0 && r != -ENOMEM)
		table->stats.lazy_failed++;
	return r == -ENOMEM ? r : 0; // what was known stays when the process has gone
}
