// SPDX-License-Identifier: Apache-2.0
#include "perfmap.h"

#include "common/clock.h"
#include "perfmap_index.h"
#include "perfmap_line.h"
#include "proto/profile.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#define CHUNK_BYTES ((size_t)128 << 10)
#define MARK_BYTES  64

struct mark { // bytes of the file that must still stand where they were
	uint64_t offset;
	size_t size;
	char bytes[MARK_BYTES];
};

enum state {
	LIVE,	// the file is read as it grows
	KEPT,	// sealed, with the text; the file is closed
	FROZEN, // sealed, and named from the file while it stands
	GONE,	// sealed, without names
};

struct fp_perf_map {
	int fd;
	enum state state;
	char *text; // of `position` bytes, when KEPT
	struct fp_perf_index index;
	struct fp_perf_map_stats stats;
	uint64_t position; // read so far
	// The line that `position` is in.
	uint64_t line_start;
	char head[FP_PERF_LINE_HEAD];
	size_t head_size;
	// How the file looked when it was last read.
	struct mark first, last;
	struct timespec modified;
	uint64_t refused_size; // over a bound, it and whatever is larger; 0: not so
};

int fp_perf_map_new(int fd, struct fp_perf_map **ret_map)
{
	struct fp_perf_map *map;
	struct stat info;

	if (fstat(fd, &info) < 0)
		return -errno;
	if (!S_ISREG(info.st_mode))
		return -EINVAL;
	map = calloc(1, sizeof(*map));
	if (!map)
		return -ENOMEM;
	map->fd = fd;
	*ret_map = map;
	return 0;
}

void fp_perf_map_forget(struct fp_perf_map *map)
{
	struct fp_perf_map empty = { .fd = map->fd,
				     .state = map->state == LIVE ? LIVE : GONE,
				     .refused_size = map->refused_size };

	fp_perf_index_free(&map->index);
	free(map->text);
	*map = empty;
}

void fp_perf_map_free(struct fp_perf_map *map)
{
	if (!map)
		return;
	fp_perf_index_free(&map->index);
	fp_close_fd(&map->fd);
	free(map->text);
	free(map);
}

// Up to size bytes, fewer at the end of the file.
static ssize_t read_at(const struct fp_perf_map *map, uint64_t offset, char *bytes, size_t size)
{
	ssize_t got;

	if (map->text) {
		size_t left = offset < map->position ? (size_t)(map->position - offset) : 0;

		size = size < left ? size : left;
		memcpy(bytes, map->text + offset, size);
		return (ssize_t)size;
	}
	do
		got = pread(map->fd, bytes, size, (off_t)offset);
	while (got < 0 && errno == EINTR);
	return got < 0 ? -errno : got;
}

static int set_mark(const struct fp_perf_map *map, struct mark *mark, uint64_t offset, size_t size)
{
	ssize_t got = read_at(map, offset, mark->bytes, size);

	if (got < 0)
		return (int)got;
	mark->offset = offset;
	mark->size = (size_t)got;
	return 0;
}

static bool mark_stands(const struct fp_perf_map *map, const struct mark *mark)
{
	char bytes[MARK_BYTES];

	return read_at(map, mark->offset, bytes, mark->size) == (ssize_t)mark->size &&
	       memcmp(bytes, mark->bytes, mark->size) == 0;
}

static int set_marks(struct fp_perf_map *map)
{
	size_t size = map->position < MARK_BYTES ? (size_t)map->position : MARK_BYTES;
	int error = set_mark(map, &map->first, 0, size);

	return error ? error : set_mark(map, &map->last, map->position - size, size);
}

// Whether what has been read of a file of that size is still what it begins with.
static bool stands(const struct fp_perf_map *map, uint64_t size)
{
	return size >= map->position && mark_stands(map, &map->first) &&
	       mark_stands(map, &map->last);
}

static int take_line(struct fp_perf_map *map, const char *text, size_t size)
{
	struct fp_perf_range range = { .line = (uint32_t)map->line_start };
	struct fp_perf_line line;

	if (size == 0)
		return 0;
	map->stats.lines++;
	if (!fp_perf_line_parse(text, size, &line)) {
		map->stats.bad_lines++;
		return 0;
	}
	range.start = line.start;
	range.size = line.size;
	return fp_perf_index_add(&map->index, &range);
}

static void keep_head(struct fp_perf_map *map, const char *bytes, size_t size)
{
	size_t room = sizeof(map->head) - map->head_size;

	size = size < room ? size : room;
	memcpy(map->head + map->head_size, bytes, size);
	map->head_size += size;
}

// Lines that begin in an earlier chunk are known by their first bytes; the name is not needed.
static int take_chunk(struct fp_perf_map *map, const char *bytes, size_t size)
{
	size_t at = 0;

	while (at < size) {
		const char *end = memchr(bytes + at, '\n', size - at);
		size_t length = end ? (size_t)(end - bytes) - at : size - at;
		int error;

		if (!end || map->head_size > 0)
			keep_head(map, bytes + at, length);
		if (!end)
			break;
		error = map->head_size > 0 ? take_line(map, map->head, map->head_size)
					   : take_line(map, bytes + at, length);
		if (error)
			return error;
		at += length + 1;
		map->head_size = 0;
		map->line_start = map->position + at;
	}
	map->position += size;
	map->stats.bytes = map->position;
	return 0;
}

static size_t next_chunk(const struct fp_perf_map *map, uint64_t size)
{
	uint64_t left = size - map->position;

	return left < CHUNK_BYTES ? (size_t)left : CHUNK_BYTES;
}

static int read_growth(struct fp_perf_map *map, uint64_t size)
{
	FP_AUTOFREE char *chunk = malloc(next_chunk(map, size) + 1);

	if (!chunk)
		return -ENOMEM;
	while (map->position < size) {
		ssize_t got = read_at(map, map->position, chunk, next_chunk(map, size));
		int error = got > 0 ? take_chunk(map, chunk, (size_t)got) : (int)got;

		if (error)
			return error;
		if (got == 0)
			break; // it has shrunk since; the next refresh sees it
	}
	return set_marks(map);
}

static bool same_time(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

// What was written behind it since is not looked at.
static int check_sealed(struct fp_perf_map *map)
{
	struct stat info;

	if (map->state == KEPT)
		return 0;
	if (map->state == FROZEN && fstat(map->fd, &info) == 0 &&
	    stands(map, (uint64_t)info.st_size))
		return 0;
	fp_perf_map_forget(map);
	return -ESTALE;
}

int fp_perf_map_refresh(struct fp_perf_map *map, size_t step)
{
	struct stat info;
	uint64_t size, end;
	int error;

	if (map->state != LIVE)
		return check_sealed(map);
	if (fstat(map->fd, &info) < 0)
		return -errno;
	size = (uint64_t)info.st_size;
	if (map->refused_size > 0 && size >= map->refused_size)
		return -EFBIG;
	map->refused_size = 0;
	if (size == map->position && same_time(&map->modified, &info.st_mtim))
		return 0;
	if (!stands(map, size))
		fp_perf_map_forget(map);
	end = size - map->position > step ? map->position + step : size;
	error = size > FP_PERF_MAP_BYTES_MAX ? -EFBIG : read_growth(map, end);
	if (error) {
		if (error == -EFBIG)
			map->refused_size = size;
		fp_perf_map_forget(map);
		return error;
	}
	map->modified = info.st_mtim;
	return end < size ? -EAGAIN : 0;
}

// NULL: it is too large, or there is no memory for it. The byte behind it is for a file of none.
static char *read_text(const struct fp_perf_map *map)
{
	FP_AUTOFREE char *text = NULL;
	uint64_t at = 0;

	if (map->position <= FP_PERF_MAP_TEXT_MAX)
		text = malloc(map->position + 1);
	while (text && at < map->position) {
		ssize_t got = read_at(map, at, text + at, map->position - at);

		if (got <= 0)
			return NULL; // shrunk meanwhile, which the marks tell
		at += (uint64_t)got;
	}
	return fp_take_ptr(text);
}

// The program's own work, all of it? Where a file has no time that tells, who writes later may write
// behind what there was; but whoever begins anew is seen, unless there was nothing yet.
static bool is_untouched(const struct fp_perf_map *map, const struct stat *info, uint64_t ended_ns)
{
	uint64_t modified_ns =
	    (uint64_t)info->st_mtim.tv_sec * FP_NS_PER_S + (uint64_t)info->st_mtim.tv_nsec;

	if (ended_ns && modified_ns > ended_ns)
		return false;
	if (ended_ns && info->st_mtim.tv_nsec) // else its file system may know seconds only
		return true;
	return map->position > 0 && stands(map, (uint64_t)info->st_size);
}

// The file is looked at once more when its text is here: nobody is to have written meanwhile.
static int keep(struct fp_perf_map *map, uint64_t ended_ns)
{
	char *text = read_text(map);
	struct stat info;

	map->text = text;
	map->state = text ? KEPT : FROZEN;
	if (fstat(map->fd, &info) < 0 || !same_time(&map->modified, &info.st_mtim) ||
	    !is_untouched(map, &info, ended_ns) || !stands(map, (uint64_t)info.st_size))
		return -ESTALE;
	if (text)
		fp_close_fd(&map->fd);
	return 0;
}

int fp_perf_map_seal(struct fp_perf_map *map, uint64_t ended_ns, size_t step)
{
	struct stat info;
	int error;

	if (map->state != LIVE)
		return check_sealed(map);
	if (fstat(map->fd, &info) < 0)
		error = -errno;
	else
		error =
		    is_untouched(map, &info, ended_ns) ? fp_perf_map_refresh(map, step) : -ESTALE;
	if (error == -EAGAIN)
		return error;
	if (!error)
		error = keep(map, ended_ns);
	if (error) {
		map->state = GONE;
		fp_perf_map_forget(map);
	}
	return error;
}

int fp_perf_map_name(struct fp_perf_map *map, uint64_t address, struct fp_buf *name)
{
	char text[FP_PERF_LINE_HEAD + FP_STRING_MAX];
	struct fp_perf_line line;
	const char *end;
	uint32_t offset;
	ssize_t got;

	if (!fp_perf_index_find(&map->index, address, &offset))
		return -ENOENT;
	got = read_at(map, offset, text, sizeof(text));
	if (got < 0)
		return (int)got;
	end = memchr(text, '\n', (size_t)got);
	if ((!end && got < (ssize_t)sizeof(text)) ||
	    !fp_perf_line_parse(text, end ? (size_t)(end - text) : (size_t)got, &line) ||
	    address < line.start || address - line.start >= line.size) {
		fp_perf_map_forget(map);
		return -ESTALE;
	}
	return fp_buf_append(name, text + line.name,
			     line.name_size < FP_STRING_MAX ? line.name_size : FP_STRING_MAX);
}

size_t fp_perf_map_bytes(const struct fp_perf_map *map)
{
	return fp_perf_index_bytes(&map->index) + (map->text ? map->position : 0);
}

struct fp_perf_map_stats fp_perf_map_stats(const struct fp_perf_map *map)
{
	return map->stats;
}
