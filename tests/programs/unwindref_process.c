// SPDX-License-Identifier: Apache-2.0
//
// What processes have mapped, remembered from stop to stop. It is read anew at every stop, and what
// hangs on it (libdwfl's modules, ranges) is made anew when it has changed.
#include "unwindref.h"

#include "common/cleanup.h"
#include "common/clock.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define PROCESSES_MAX 64
#define MAPS_MAX      4096

struct ref_processes {
	struct ref_process *list[PROCESSES_MAX]; // a ring
	uint32_t next, numbers;
};

void ref_map_path(pid_t pid, const struct fp_procfs_map *map, char *ret, size_t size)
{
	snprintf(ret, size, "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, pid, map->start, map->end);
}

struct maps {
	pid_t pid;
	struct ref_map *list;
	uint32_t count;
};

static void maps_free(struct maps *maps)
{
	for (uint32_t i = 0; i < maps->count; i++)
		free(maps->list[i].name);
	free(maps->list);
	maps->list = NULL;
	maps->count = 0;
}

static void process_free(struct ref_process *process)
{
	struct maps maps;

	if (process == NULL)
		return;
	maps = (struct maps){ process->pid, process->maps, process->maps_count };
	maps_free(&maps);
	if (process->dwfl != NULL)
		dwfl_end(process->dwfl);
	free(process->parts);
	free(process);
}

int ref_processes_new(struct ref_processes **ret)
{
	*ret = calloc(1, sizeof(**ret));
	return *ret != NULL ? 0 : -ENOMEM;
}

void ref_processes_free(struct ref_processes *processes)
{
	for (uint32_t i = 0; processes != NULL && i < PROCESSES_MAX; i++)
		process_free(processes->list[i]);
	free(processes);
}

// A file that is written anew in place is another one, though all else of it is as it was.
static uint64_t changed_at(pid_t pid, const struct fp_procfs_map *map)
{
	char path[128];
	struct stat stat_of;

	ref_map_path(pid, map, path, sizeof(path));
	if (map->inode == 0 || stat(path, &stat_of) != 0)
		return 0;
	return (uint64_t)stat_of.st_ctim.tv_sec * FP_NS_PER_S + (uint64_t)stat_of.st_ctim.tv_nsec;
}

static int add_map(const struct fp_procfs_map *map, void *context)
{
	struct maps *maps = context;
	struct ref_map *list;

	if (map->name[0] != '/' && strcmp(map->name, "[vdso]") != 0)
		return 0;
	if (maps->count == MAPS_MAX)
		return -E2BIG;
	list = reallocarray(maps->list, maps->count + 1, sizeof(*list));
	if (list == NULL)
		return -ENOMEM;
	maps->list = list;
	list[maps->count] = (struct ref_map){ *map, strdup(map->name), changed_at(maps->pid, map) };
	list[maps->count].map.name = list[maps->count].name;
	if (list[maps->count++].name == NULL)
		return -ENOMEM;
	return 0;
}

static int read_maps(pid_t pid, uint64_t *ret_start_ticks, struct maps *ret)
{
	int directory FP_AUTOCLOSE = fp_procfs_open((uint32_t)pid), error;
	struct fp_procfs_stat stat;

	if (directory < 0)
		return directory;
	error = fp_procfs_stat(directory, &stat);
	if (error == 0)
		error = fp_procfs_maps(directory, "maps", add_map, ret);
	if (error == 0)
		*ret_start_ticks = stat.start_ticks;
	return error;
}

static bool same_maps(const struct ref_process *process, const struct maps *maps)
{
	if (process->maps_count != maps->count)
		return false;
	for (uint32_t i = 0; i < maps->count; i++) {
		const struct fp_procfs_map *a = &process->maps[i].map, *b = &maps->list[i].map;

		if (a->start != b->start || a->end != b->end || a->page_offset != b->page_offset ||
		    a->inode != b->inode || a->major != b->major || a->minor != b->minor ||
		    process->maps[i].changed_ns != maps->list[i].changed_ns ||
		    strcmp(a->name, b->name) != 0)
			return false;
	}
	return true;
}

static struct ref_process **find(struct ref_processes *processes, pid_t pid)
{
	for (uint32_t i = 0; i < PROCESSES_MAX; i++) {
		if (processes->list[i] != NULL && processes->list[i]->pid == pid)
			return &processes->list[i];
	}
	processes->next = (processes->next + 1) % PROCESSES_MAX;
	return &processes->list[processes->next];
}

int ref_process_now(struct ref_processes *processes, pid_t pid, struct ref_process **ret)
{
	struct ref_process **place = find(processes, pid), *process = *place;
	struct maps maps = { pid, NULL, 0 };
	uint64_t start_ticks;
	int error = read_maps(pid, &start_ticks, &maps);

	if (error != 0 || (process != NULL && process->pid == pid &&
			   process->start_ticks == start_ticks && same_maps(process, &maps))) {
		maps_free(&maps);
		*ret = process;
		return error;
	}
	process_free(process);
	*place = process = calloc(1, sizeof(*process));
	if (process == NULL) {
		maps_free(&maps);
		return -ENOMEM;
	}
	process->pid = pid;
	process->number = ++processes->numbers;
	process->start_ticks = start_ticks;
	process->maps = maps.list;
	process->maps_count = maps.count;
	error = ref_dwfl_open(process);
	if (error != 0) {
		process_free(process);
		*place = process = NULL;
	}
	*ret = process;
	return error;
}
