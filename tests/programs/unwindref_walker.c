// SPDX-License-Identifier: Apache-2.0
//
// The walker of the BPF programs, compiled natively: its maps are memory that the agent's own pool
// fills with tables that the agent's own compiler makes. It reads what the reference reads.
#include "unwindref.h"

#include "agent/unwindpool.h"
#include "agent/unwindranges.h"
#include "agent/unwindtable.h"
#include "common/cleanup.h"
#include "common/hashmap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define WALKED_START_TIME 1 // of the ranges and of whoever is walked: one process at a time
#define VDSO_MAX	  (1 << 20)

struct file_key {
	uint64_t inode, changed_ns;
	uint32_t major, minor;
};

struct ref_tables {
	struct fp_unwind_pool *pool;
	struct fp_hashmap by_file;	// struct file_key → uint32_t, into places
	struct fp_unwind_place *places; // zero: the file has no table
	uint32_t count;
};

static fp_u64 pages[FP_UNWIND_PAGES];
static struct fp_unwind_rule rules[FP_UNWIND_RULES];
static struct fp_unwind_chunk *chunks[FP_UNWIND_CHUNKS];
static const struct fp_unwind_ranges *parts; // of the process that is walked

struct fp_reader {
	const struct ref_memory *memory;
};
#define FP_UNWIND_TABLES			1
#define FP_READ_USER(reader, to, size, address) ref_read((reader)->memory, to, size, address)
#define FP_UNWIND_RANGES_AT(tgid, part)		ranges_at(part)
#define FP_UNWIND_PAGE_AT(number)		(&pages[(number) & (FP_UNWIND_PAGES - 1)])
#define FP_UNWIND_CHUNK_AT(number)		(chunks[(number) & (FP_UNWIND_CHUNKS - 1)])
#define FP_UNWIND_RULE_AT(number)		(&rules[(number) & (FP_UNWIND_RULES - 1)])

static const struct fp_unwind_ranges *ranges_at(fp_u32 part)
{
	return parts != NULL && part < parts->parts ? &parts[part] : NULL;
}

#include "bpf/unwind.h"

static const char *const end_names[FP_WALK_END_COUNT] = {
#define END_NAME(id, label, text) [FP_WALK_END_##id] = label,
	FP_WALK_ENDS(END_NAME)
};
static const char *const cannot_names[FP_UNWIND_CANNOT_COUNT] = {
#define CANNOT_NAME(id, label, text) [FP_UNWIND_CANNOT_##id] = label,
	FP_UNWIND_CANNOTS(CANNOT_NAME)
};

static struct fp_unwind_chunk *make_chunk(uint32_t index, void *context)
{
	return chunks[index] = calloc(1, sizeof(struct fp_unwind_chunk));
}

static void drop_chunk(uint32_t index, struct fp_unwind_chunk *chunk, void *context)
{
	chunks[index] = NULL;
	free(chunk);
}

int ref_tables_new(struct ref_tables **ret)
{
	const struct fp_unwind_memory memory = {
		.pages = pages, .rules = rules, .make_chunk = make_chunk, .drop_chunk = drop_chunk
	};
	struct ref_tables *tables = calloc(1, sizeof(*tables));
	int error = tables != NULL ? 0 : -ENOMEM;

	if (error == 0) {
		tables->by_file = FP_HASHMAP_INIT(struct file_key, uint32_t);
		error = fp_unwind_pool_new(&memory, FP_UNWIND_CHUNKS, &tables->pool);
	}
	if (error != 0)
		free(tables);
	else
		*ret = tables;
	return error;
}

void ref_tables_free(struct ref_tables *tables)
{
	if (tables == NULL)
		return;
	for (uint32_t i = 0; i < tables->count; i++)
		fp_unwind_pool_remove(tables->pool, &tables->places[i]);
	free(tables->places);
	fp_hashmap_free(&tables->by_file);
	fp_unwind_pool_free(tables->pool);
	free(tables);
}

// The vDSO is no file: a copy of its memory.
static int open_vdso(pid_t pid, const struct fp_procfs_map *map)
{
	int fd FP_AUTOCLOSE = memfd_create("vdso", MFD_CLOEXEC);
	struct ref_memory memory = { .pid = pid };
	size_t size = map->end - map->start;
	void *bytes FP_AUTOFREE = malloc(VDSO_MAX);

	if (fd < 0 || bytes == NULL || size > VDSO_MAX)
		return -ENOMEM;
	if (ref_read(&memory, bytes, size, map->start) != 0 ||
	    write(fd, bytes, size) != (ssize_t)size)
		return -EIO;
	return fp_take_fd(&fd);
}

static int open_mapped(pid_t pid, const struct fp_procfs_map *map)
{
	char path[128];
	int fd;

	if (map->inode == 0)
		return open_vdso(pid, map);
	ref_map_path(pid, map, path, sizeof(path));
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int make_table(struct ref_tables *tables, pid_t pid, const struct fp_procfs_map *map,
		      struct fp_unwind_place *ret)
{
	int fd FP_AUTOCLOSE = open_mapped(pid, map), error;
	struct fp_buf bytes FP_AUTOBUF = { 0 };

	if (fd < 0)
		return fd;
	error = fp_unwind_table_make(fd, NULL, &bytes);
	if (error == 0)
		error = fp_unwind_pool_add(tables->pool, bytes.data, bytes.len, ret);
	if (error != 0)
		fprintf(stderr, "unwindref: no table of '%s': %s\n", map->name, strerror(-error));
	return error;
}

// Number of the file's table, made when it is met first, or FP_UNWIND_NO_BUILD.
static uint32_t build_of(struct ref_tables *tables, pid_t pid, const struct ref_map *file)
{
	const struct fp_procfs_map *map = &file->map;
	const struct file_key key = { map->inode, file->changed_ns, map->major, map->minor };
	uint32_t *number = fp_hashmap_get(&tables->by_file, &key);
	struct fp_unwind_place *places;
	bool inserted;

	if (number != NULL)
		return *number;
	places = reallocarray(tables->places, tables->count + 1, sizeof(*places));
	if (places == NULL)
		return FP_UNWIND_NO_BUILD;
	tables->places = places;
	places[tables->count] = (struct fp_unwind_place){ 0 };
	number = fp_hashmap_put(&tables->by_file, &key, &inserted);
	if (number == NULL)
		return FP_UNWIND_NO_BUILD;
	make_table(tables, pid, map, &places[tables->count]);
	return *number = tables->count++;
}

static bool locate(uint32_t build, struct fp_unwind_located *ret, void *context)
{
	const struct ref_tables *tables = context;
	const struct fp_unwind_place *place = &tables->places[build];

	*ret = (struct fp_unwind_located){ .page = place->page,
					   .pages = place->pages,
					   .file_page = place->file_page,
					   .tag = place->tag };
	return place->tag != 0;
}

static struct fp_unwind_ranges *make_parts(const struct fp_unwind_range *ranges, uint32_t count)
{
	const struct fp_unwind_program program = { WALKED_START_TIME, 0, 1 };
	struct fp_unwind_ranges *list = calloc(FP_UNWIND_PARTS, sizeof(*list));

	for (uint32_t i = 0; list != NULL && i < fp_unwind_ranges_parts(count); i++)
		fp_unwind_ranges_part(&program, ranges, count, i, &list[i]);
	return list;
}

int ref_tables_ranges(struct ref_tables *tables, const struct ref_process *process,
		      struct fp_unwind_ranges **ret_parts)
{
	struct fp_unwind_range ranges[FP_UNWIND_RANGES_MAX];
	struct fp_unwind_area *areas FP_AUTOFREE = calloc(process->maps_count, sizeof(*areas));
	int count;

	if (areas == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < process->maps_count; i++) {
		const struct fp_procfs_map *map = &process->maps[i].map;

		areas[i] = (struct fp_unwind_area){ .start = map->start,
						    .end = map->end,
						    .offset = map->page_offset,
						    .file = map->inode,
						    .build = build_of(tables, process->pid,
								      &process->maps[i]) };
	}
	count = fp_unwind_ranges_make(areas, process->maps_count, locate, tables, ranges);
	if (count < 0)
		return count;
	*ret_parts = make_parts(ranges, (uint32_t)count);
	return *ret_parts != NULL ? 0 : -ENOMEM;
}

// By their DWARF numbers, as the programs take them from struct pt_regs.
static void take_registers(const struct user_regs_struct *from, struct fp_walk *walk)
{
	const fp_u64 registers[FP_REGISTERS] = {
		[FP_RAX] = from->rax, [FP_RDX] = from->rdx, [FP_RCX] = from->rcx,
		[FP_RBX] = from->rbx, [FP_RSI] = from->rsi, [FP_RDI] = from->rdi,
		[FP_RBP] = from->rbp, [FP_RSP] = from->rsp, [FP_R8] = from->r8,
		[FP_R9] = from->r9,   [FP_R10] = from->r10, [FP_R11] = from->r11,
		[FP_R12] = from->r12, [FP_R13] = from->r13, [FP_R14] = from->r14,
		[FP_R15] = from->r15,
	};

	memcpy(walk->registers, registers, sizeof(registers));
	walk->ip = from->rip;
}

void ref_walker_walk(const struct ref_process *process, const struct ref_stop *stop,
		     uint32_t frames_max, struct ref_chain *ret)
{
	const struct fp_reader reader = { &stop->memory };
	const struct fp_hash hash = { 0, 0 };
	struct fp_walk walk = { .tgid = (fp_u32)process->pid,
				.start_boottime_ns = WALKED_START_TIME };
	fp_u64 frames[FP_WALK_SLOTS];
	uint32_t steps = 0;

	parts = process->parts;
	take_registers(&stop->registers, &walk);
	fp_walk_begin(&walk, frames, 0, &hash);
	while (steps + 1 < frames_max && fp_unwind_step(&walk, frames, steps, &reader) == 0)
		steps++;
	ret->count = steps + 1;
	memcpy(ret->frames, frames, ret->count * sizeof(frames[0]));
	if (walk.end == FP_WALK_END_CANNOT && walk.cannot < FP_UNWIND_CANNOT_COUNT)
		snprintf(ret->end, sizeof(ret->end), "cannot:%s", cannot_names[walk.cannot]);
	else if (walk.end == FP_WALK_END_OUTERMOST)
		snprintf(ret->end, sizeof(ret->end), "whole");
	else
		snprintf(ret->end, sizeof(ret->end), "%s", end_names[walk.end]);
}
