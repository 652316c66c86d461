// SPDX-License-Identifier: Apache-2.0
#include "procfs.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <sys/ioctl.h>

// The ioctl's argument as the kernel's <linux/fs.h> has it since 6.11; the headers that we
// build with may be older.
struct map_query {
	uint64_t size;
	uint64_t query_flags;
	uint64_t query_addr;
	uint64_t vma_start;
	uint64_t vma_end;
	uint64_t vma_flags;
	uint64_t vma_page_size;
	uint64_t vma_offset;
	uint64_t inode;
	uint32_t dev_major;
	uint32_t dev_minor;
	uint32_t vma_name_size; // in: size of the buffer; out: bytes written with the NUL
	uint32_t build_id_size;
	uint64_t vma_name_addr;
	uint64_t build_id_addr;
};
_Static_assert(sizeof(struct map_query) == 104, "struct procmap_query");

#define MAP_QUERY		   _IOWR('f', 17, struct map_query)
#define MAP_QUERY_EXECUTABLE	   0x04
#define MAP_QUERY_COVERING_OR_NEXT 0x10

// For a build-ID the kernel reads the file, in a sleep that nothing ends when whoever serves it
// never answers. So it is asked only where that is a disk of this host; of other files the
// identity is left to children that may hang.
static void query_build_id(int fd, struct fp_procfs_map *map)
{
	struct map_query asked = {
		.size = sizeof(asked),
		.query_flags = MAP_QUERY_EXECUTABLE,
		.query_addr = map->start,
		.build_id_size = sizeof(map->build_id),
		.build_id_addr = (uint64_t)(uintptr_t)map->build_id,
	};

	if (!fp_procfs_is_disk(map) || ioctl(fd, MAP_QUERY, &asked) < 0)
		return;
	if (asked.vma_start == map->start && asked.inode == map->inode)
		map->build_id_len = (uint8_t)asked.build_id_size;
}

// The executable mapping at the address or, with MAP_QUERY_COVERING_OR_NEXT, else the next.
// -ENOENT: there is none.
static int query(int fd, uint64_t flags, uint64_t address, char name[PATH_MAX],
		 struct fp_procfs_map *ret)
{
	struct fp_procfs_map map = { 0 };
	struct map_query asked = {
		.size = sizeof(asked),
		.query_flags = MAP_QUERY_EXECUTABLE | flags,
		.query_addr = address,
		.vma_name_size = PATH_MAX,
		.vma_name_addr = (uint64_t)(uintptr_t)name,
	};

	if (ioctl(fd, MAP_QUERY, &asked) < 0) {
		if (errno != ENAMETOOLONG)
			return -errno;
		// A longer name than we take: the place alone still tells apart.
		asked.vma_name_size = 0;
		asked.vma_name_addr = 0;
		if (ioctl(fd, MAP_QUERY, &asked) < 0)
			return -errno;
	}
	map.start = asked.vma_start;
	map.end = asked.vma_end;
	map.page_offset = asked.vma_offset;
	map.major = asked.dev_major;
	map.minor = asked.dev_minor;
	map.inode = asked.inode;
	map.name = asked.vma_name_size ? name : "";
	query_build_id(fd, &map);
	*ret = map;
	return 0;
}

static int maps_query(int fd, fp_procfs_map_fn fn, void *context)
{
	FP_AUTOFREE char *name = malloc(PATH_MAX);
	uint64_t address = 0;

	if (!name)
		return -ENOMEM;
	for (;;) {
		struct fp_procfs_map map;
		int r = query(fd, MAP_QUERY_COVERING_OR_NEXT, address, name, &map);

		if (r == -ENOENT)
			return 0;
		if (r < 0)
			return r;
		r = fn(&map, context);
		if (r != 0)
			return r;
		if (map.end <= address)
			return -EIO;
		address = map.end;
	}
}

// One line: `start-end perms offset major:minor inode   name`. False when not executable.
static bool text_line(char *line, struct fp_procfs_map *ret)
{
	struct fp_procfs_map map = { 0 };
	char permissions[5];
	int name_at = 0;

	line[strcspn(line, "\n")] = '\0';
	if (sscanf(line,
		   "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %" SCNx32 ":%" SCNx32 " %" SCNu64 " %n",
		   &map.start, &map.end, permissions, &map.page_offset, &map.major, &map.minor,
		   &map.inode, &name_at) < 7 ||
	    strlen(permissions) < 4 || permissions[2] != 'x' || map.end <= map.start)
		return false;
	// The kernel writes a newline in a name as \012 but leaves backslashes alone, so the
	// text cannot be told back for sure: it stays as it is shown.
	map.name = line + name_at;
	*ret = map;
	return true;
}

int fp_procfs_maps_text(int dirfd, const char *name, fp_procfs_map_fn fn, void *context)
{
	FP_AUTOCLOSE int fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC);
	FP_AUTOFCLOSE FILE *file = NULL;
	FP_AUTOFREE char *line = NULL;
	size_t capacity = 0;

	if (fd < 0)
		return -errno;
	file = fdopen(fd, "r");
	if (!file)
		return -errno;
	fp_take_fd(&fd);
	while (getline(&line, &capacity, file) > 0) {
		struct fp_procfs_map map;
		int r = text_line(line, &map) ? fn(&map, context) : 0;

		if (r != 0)
			return r;
	}
	return ferror(file) ? -EIO : 0;
}

int fp_procfs_maps(int dirfd, const char *name, fp_procfs_map_fn fn, void *context)
{
	FP_AUTOCLOSE int fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC);
	int r;

	if (fd < 0)
		return -errno;
	r = maps_query(fd, fn, context);
	if (r == -ENOTTY)
		return fp_procfs_maps_text(dirfd, name, fn, context);
	return r;
}

static int maps_query_at(int fd, const uint64_t *addresses, uint32_t count, fp_procfs_map_fn fn,
			 void *context)
{
	FP_AUTOFREE char *name = malloc(PATH_MAX);
	uint64_t known_end = 0;

	if (!name)
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++) {
		struct fp_procfs_map map;
		int r = addresses[i] < known_end ? -ENOENT : query(fd, 0, addresses[i], name, &map);

		if (r == -ENOENT)
			continue;
		if (r == 0)
			r = fn(&map, context);
		if (r != 0)
			return r;
		known_end = map.end;
	}
	return 0;
}

struct filter {
	const uint64_t *addresses;
	uint32_t count, at;
	fp_procfs_map_fn fn;
	void *context;
};

static int filter_map(const struct fp_procfs_map *map, void *context)
{
	struct filter *filter = context;

	while (filter->at < filter->count && filter->addresses[filter->at] < map->start)
		filter->at++;
	if (filter->at == filter->count)
		return 1; // all have been looked for
	return filter->addresses[filter->at] < map->end ? filter->fn(map, filter->context) : 0;
}

int fp_procfs_maps_at(int dirfd, const char *name, const uint64_t *addresses, uint32_t count,
		      fp_procfs_map_fn fn, void *context)
{
	FP_AUTOCLOSE int fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC);
	struct filter filter = { addresses, count, 0, fn, context };
	int r;

	if (fd < 0)
		return -errno;
	r = maps_query_at(fd, addresses, count, fn, context);
	if (r == -ENOTTY)
		r = fp_procfs_maps_text(dirfd, name, filter_map, &filter);
	return r > 0 ? 0 : r;
}
