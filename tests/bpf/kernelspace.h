// SPDX-License-Identifier: Apache-2.0
//
// kernelspace: unwind tables of everything a process has mapped, in the maps of a loaded object. For
// tests and benchmarks: nothing is ever taken out again.
#pragma once

#include "../unit/bpf/unwindspace.h"
#include "object.h"

#include "common/buf.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>

#define KERNEL_SPACE_FILES 64

struct kernel_space {
	struct bpf_object *object;
	struct space space;
	struct {
		char path[256];
		struct space_table table;
		bool usable;
	} files[KERNEL_SPACE_FILES];
	uint32_t file_count;
};

static inline int kernel_space_fd(const struct kernel_space *kernel, const char *map)
{
	return bpf_object__find_map_fd_by_name(kernel->object, map);
}

static inline void *kernel_space_map(int fd, size_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (memory == MAP_FAILED)
		abort();
	return memory;
}

// Of an object that was loaded with fp_unwind_tables.
static inline void kernel_space_open(struct kernel_space *kernel, struct bpf_object *object,
				     uint32_t chunks)
{
	LIBBPF_OPTS(bpf_map_create_opts, options, .map_flags = BPF_F_MMAPABLE);
	int rows;

	*kernel = (struct kernel_space){ .object = object };
	rows = kernel_space_fd(kernel, "unwind_rows");
	kernel->space.pages =
	    kernel_space_map(kernel_space_fd(kernel, "unwind_pages"), FP_UNWIND_PAGES * 8);
	kernel->space.rules = kernel_space_map(kernel_space_fd(kernel, "unwind_rules"),
					       FP_UNWIND_RULES * sizeof(struct fp_unwind_rule));
	for (uint32_t i = 0; i < chunks; i++) {
		int fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "chunk", 4,
					sizeof(struct fp_unwind_chunk), 1, &options);

		if (fd < 0 || bpf_map_update_elem(rows, &i, &fd, BPF_ANY))
			abort();
		kernel->space.chunks[i] = kernel_space_map(fd, sizeof(struct fp_unwind_chunk));
		close(fd);
	}
	kernel->space.chunk_count = chunks;
	kernel->space.rule_count = 1;
}

static inline void kernel_space_close(struct kernel_space *kernel)
{
	munmap(kernel->space.pages, FP_UNWIND_PAGES * 8);
	munmap(kernel->space.rules, FP_UNWIND_RULES * sizeof(struct fp_unwind_rule));
	for (uint32_t i = 0; i < kernel->space.chunk_count; i++)
		munmap(kernel->space.chunks[i], sizeof(struct fp_unwind_chunk));
}

// The file's table, made the first time; NULL: it has none.
static inline const struct space_table *kernel_space_file(struct kernel_space *kernel,
							  const char *path)
{
	FP_AUTOBUF struct fp_buf table = { 0 };
	struct fp_unwind_view view;
	uint32_t i = 0;
	int fd;

	while (i < kernel->file_count && strcmp(kernel->files[i].path, path))
		i++;
	if (i == KERNEL_SPACE_FILES)
		abort();
	if (i == kernel->file_count) {
		kernel->file_count++;
		snprintf(kernel->files[i].path, sizeof(kernel->files[i].path), "%s", path);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		kernel->files[i].usable =
		    fd >= 0 && fp_unwind_table_make(fd, NULL, &table) == 0 &&
		    fp_unwind_table_check(table.data, table.len, &view) == 0 &&
		    space_add(&kernel->space, &view, &kernel->files[i].table);
		if (fd >= 0)
			close(fd);
	}
	return kernel->files[i].usable ? &kernel->files[i].table : NULL;
}

static inline void kernel_space_part(struct fp_unwind_ranges *part,
				     const struct fp_unwind_ranges *who, uint32_t parts)
{
	memset(part, 0, sizeof(*part));
	part->start_boottime_ns = who->start_boottime_ns;
	part->exec_id = who->exec_id;
	part->version = who->version;
	part->parts = parts;
	memset(part->part_start, 0xff, sizeof(part->part_start));
	for (uint32_t i = 0; i < FP_UNWIND_PART_RANGES; i++)
		part->ranges[i].start = ~0ULL;
}

static inline uint32_t kernel_space_read_maps(struct kernel_space *kernel, uint32_t tgid,
					      struct fp_unwind_range *ranges, uint32_t room)
{
	char name[64], line[512], path[256], flags[8];
	unsigned long long start, end, offset;
	uint32_t count = 0;
	FILE *maps;

	snprintf(name, sizeof(name), "/proc/%u/maps", tgid);
	maps = fopen(name, "re");
	while (maps && fgets(line, sizeof(line), maps)) {
		const struct space_table *table;

		if (sscanf(line, "%llx-%llx %7s %llx %*s %*s %255s", &start, &end, flags, &offset,
			   path) != 5 ||
		    flags[2] != 'x' || path[0] != '/')
			continue;
		table = kernel_space_file(kernel, path);
		if (!table || count == room)
			continue;
		ranges[count++] =
		    (struct fp_unwind_range){ .start = start,
					      .size = (fp_u32)(end - start),
					      .at = (table->first_page << FP_UNWIND_PAGE_BITS) +
						    (fp_u32)offset,
					      .tag = table->tag };
	}
	if (maps)
		fclose(maps);
	return count;
}

// Gives a process the ranges of all files that it has mapped now. who: start_boottime_ns, exec_id
// and version. Returns their number.
static inline uint32_t kernel_space_process(struct kernel_space *kernel, uint32_t tgid,
					    const struct fp_unwind_ranges *who)
{
	static struct fp_unwind_range ranges[FP_UNWIND_PARTS * FP_UNWIND_PART_RANGES];
	uint32_t count =
	    kernel_space_read_maps(kernel, tgid, ranges, FP_UNWIND_PARTS * FP_UNWIND_PART_RANGES);
	uint32_t parts = (count + FP_UNWIND_PART_RANGES - 1) / FP_UNWIND_PART_RANGES;

	for (uint32_t part = parts; part-- > 0;) { // part 0 last: with it the others are there
		struct fp_unwind_ranges_key key = { tgid, part };
		struct fp_unwind_ranges entry;

		kernel_space_part(&entry, who, parts);
		for (uint32_t i = 0; part == 0 && i < parts; i++)
			entry.part_start[i] = ranges[i * FP_UNWIND_PART_RANGES].start;
		for (uint32_t i = part * FP_UNWIND_PART_RANGES;
		     i < count && entry.count < FP_UNWIND_PART_RANGES; i++)
			entry.ranges[entry.count++] = ranges[i];
		if (bpf_map_update_elem(kernel_space_fd(kernel, "unwind_ranges"), &key, &entry,
					BPF_ANY))
			abort();
	}
	return count;
}

struct kernel_space_place { // what a process has mapped somewhere
	unsigned long long start, end, offset, inode;
	char path[256];
};

static inline bool kernel_space_place(uint32_t tgid, uint64_t address,
				      struct kernel_space_place *ret)
{
	bool found = false;
	char name[64], line[512];
	FILE *maps;

	snprintf(name, sizeof(name), "/proc/%u/maps", tgid);
	maps = fopen(name, "re");
	while (!found && maps && fgets(line, sizeof(line), maps)) {
		ret->path[0] = '\0';
		found = sscanf(line, "%llx-%llx %*s %llx %*s %llu %255s", &ret->start, &ret->end,
			       &ret->offset, &ret->inode, ret->path) >= 4 &&
			ret->start <= address && address < ret->end;
	}
	if (maps)
		fclose(maps);
	return found;
}

// One file that a program met and that is not known: false when there is none.
static inline bool kernel_space_met(const struct kernel_space *kernel,
				    struct fp_unwind_file_key *ret_key, struct fp_unwind_met *ret)
{
	int fd = kernel_space_fd(kernel, "unwind_met");

	return bpf_map_get_next_key(fd, NULL, ret_key) == 0 &&
	       bpf_map_lookup_elem(fd, ret_key, ret) == 0;
}

// From here on it is known to be the file of the path.
static inline void kernel_space_know(struct kernel_space *kernel,
				     const struct fp_unwind_file_key *key, const char *path)
{
	const struct space_table *table = kernel_space_file(kernel, path);
	struct fp_unwind_file file = { 0 };

	if (table)
		file = (struct fp_unwind_file){ .size = (uint64_t)1 << 40,
						.at = table->first_page << FP_UNWIND_PAGE_BITS,
						.tag = table->tag };
	if (bpf_map_update_elem(kernel_space_fd(kernel, "unwind_files"), key, &file, BPF_ANY) ||
	    bpf_map_delete_elem(kernel_space_fd(kernel, "unwind_met"), key))
		abort();
}
