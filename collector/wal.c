// SPDX-License-Identifier: Apache-2.0
#include "wal.h"

#include "common/clock.h"
#include "common/file.h"
#include "walrecord.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>

void fp_wal_segment_name(uint64_t segment, char ret_name[FP_WAL_NAME_BYTES])
{
	snprintf(ret_name, FP_WAL_NAME_BYTES, "%020" PRIu64 ".wal", segment);
}

void fp_wal_init(struct fp_wal *wal, int dirfd, uint64_t next_segment)
{
	*wal = (struct fp_wal){ .dirfd = dirfd, .fd = -1, .segment = next_segment };
}

void fp_wal_close(struct fp_wal *wal)
{
	fp_close_fd(&wal->fd);
}

static int open_segment(struct fp_wal *wal)
{
	FP_AUTOCLOSE int fd = -1;
	char name[FP_WAL_NAME_BYTES];
	int r;

	fp_wal_segment_name(wal->segment, name);
	fd = openat(wal->dirfd, name, O_CREAT | O_EXCL | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	r = fp_write_all(fd, FP_WAL_MAGIC, FP_WAL_MAGIC_BYTES);
	if (r == 0 && fsync(wal->dirfd) < 0)
		r = -errno;
	if (r < 0) {
		unlinkat(wal->dirfd, name, 0);
		return r;
	}
	wal->fd = fp_take_fd(&fd);
	wal->offset = FP_WAL_MAGIC_BYTES;
	wal->opened_ns = fp_boottime_ns();
	return 0;
}

static int write_record(int fd, const uint8_t *header, const void *body, uint32_t size)
{
	struct iovec parts[] = {
		{ .iov_base = (void *)header, .iov_len = FP_WAL_HEADER_BYTES },
		{ .iov_base = (void *)body, .iov_len = size },
	};
	size_t all = FP_WAL_HEADER_BYTES + (size_t)size;
	ssize_t n = writev(fd, parts, 2);

	if (n < 0)
		return -errno;
	if ((size_t)n == all)
		return 0;
	// A short write means a full disk or a signal; the rest tells which.
	if (n < FP_WAL_HEADER_BYTES)
		return -ENOSPC;
	return fp_write_all(fd, (const uint8_t *)body + (n - FP_WAL_HEADER_BYTES), all - (size_t)n);
}

int fp_wal_append(struct fp_wal *wal, const void *body, uint32_t size, uint64_t received_ns,
		  struct fp_wal_position *ret_position)
{
	uint8_t header[FP_WAL_HEADER_BYTES];
	int r;

	if (wal->fd < 0) {
		r = open_segment(wal);
		if (r < 0)
			return r;
	}
	fp_wal_header_encode(body, size, received_ns, header);
	r = write_record(wal->fd, header, body, size);
	if (r < 0) {
		// A half record in the middle would hide the ones after it from a scan.
		if (ftruncate(wal->fd, (off_t)wal->offset) < 0)
			fp_wal_abandon(wal);
		return r;
	}
	*ret_position = (struct fp_wal_position){ wal->segment, wal->offset, size };
	wal->offset += FP_WAL_HEADER_BYTES + (uint64_t)size;
	return 0;
}

int fp_wal_rotate(struct fp_wal *wal)
{
	if (wal->fd < 0)
		return 0;
	if (fdatasync(wal->fd) < 0)
		return -errno;
	fp_wal_abandon(wal);
	return 0;
}

void fp_wal_abandon(struct fp_wal *wal)
{
	if (wal->fd < 0)
		return;
	fp_close_fd(&wal->fd);
	wal->segment++;
	wal->offset = 0;
}

static bool parse_name(const char *name, uint64_t *ret_segment)
{
	if (strlen(name) != FP_WAL_NAME_BYTES - 1 || strcmp(name + 20, ".wal") != 0)
		return false;
	if (strspn(name, "0123456789") != 20)
		return false;
	*ret_segment = strtoull(name, NULL, 10);
	return true;
}

static int compare_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void close_directory(DIR **directory)
{
	if (*directory)
		closedir(*directory);
}

int fp_wal_list(int dirfd, uint64_t **ret_segments, size_t *ret_count)
{
	FP_CLEANUP(close_directory) DIR *directory = NULL;
	FP_AUTOFREE uint64_t *segments = NULL;
	size_t count = 0;
	int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	directory = fdopendir(fd);
	if (!directory) {
		close(fd);
		return -ENOMEM;
	}
	for (struct dirent *entry = readdir(directory); entry; entry = readdir(directory)) {
		uint64_t segment, *grown;

		if (!parse_name(entry->d_name, &segment))
			continue;
		grown = reallocarray(segments, count + 1, sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		segments = grown;
		segments[count++] = segment;
	}
	if (count)
		qsort(segments, count, sizeof(*segments), compare_u64);
	*ret_segments = fp_take_ptr(segments);
	*ret_count = count;
	return 0;
}

int fp_wal_unlink(int dirfd, uint64_t segment)
{
	char name[FP_WAL_NAME_BYTES];

	fp_wal_segment_name(segment, name);
	if (unlinkat(dirfd, name, 0) < 0 && errno != ENOENT)
		return -errno;
	return fsync(dirfd) < 0 ? -errno : 0;
}

int fp_wal_segment_bytes(int dirfd, uint64_t segment, uint64_t *ret_bytes)
{
	char name[FP_WAL_NAME_BYTES];
	struct stat status;

	fp_wal_segment_name(segment, name);
	if (fstatat(dirfd, name, &status, 0) < 0)
		return -errno;
	*ret_bytes = (uint64_t)status.st_size;
	return 0;
}

int fp_wal_truncate(int dirfd, uint64_t segment, uint64_t size)
{
	FP_AUTOCLOSE int fd = -1;
	char name[FP_WAL_NAME_BYTES];

	fp_wal_segment_name(segment, name);
	fd = openat(dirfd, name, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || ftruncate(fd, (off_t)size) < 0 || fsync(fd) < 0)
		return -errno;
	return 0;
}
