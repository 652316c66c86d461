// SPDX-License-Identifier: Apache-2.0
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

static int read_all(int fd, size_t max_size, struct fp_buf *buf)
{
	fp_buf_clear(buf);
	for (;;) {
		ssize_t n;
		int r = fp_buf_reserve(buf, 4096);

		if (r < 0)
			return r;
		n = read(fd, buf->data + buf->len, buf->capacity - buf->len - 1);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		buf->len += (size_t)n;
		buf->data[buf->len] = '\0';
		if (buf->len > max_size)
			return -EFBIG;
		if (n == 0)
			return 0;
	}
}

int fp_file_read_at(int dirfd, const char *name, size_t max_size, struct fp_buf *buf)
{
	FP_AUTOCLOSE int fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	return read_all(fd, max_size, buf);
}

int fp_file_read(const char *path, size_t max_size, struct fp_buf *buf)
{
	return fp_file_read_at(AT_FDCWD, path, max_size, buf);
}

int fp_write_all(int fd, const void *bytes, size_t size)
{
	const uint8_t *p = bytes;

	while (size > 0) {
		ssize_t n = write(fd, p, size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		p += n;
		size -= (size_t)n;
	}
	return 0;
}

static int write_synced(int dirfd, const char *name, const void *bytes, size_t size, int mode)
{
	FP_AUTOCLOSE int fd =
	    openat(dirfd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	int r;

	if (fd < 0)
		return -errno;
	r = fp_write_all(fd, bytes, size);
	// fchmod rather than open's mode, so that the umask of the caller does not matter.
	if (r == 0 && fchmod(fd, (mode_t)mode) < 0)
		r = -errno;
	if (r == 0 && fdatasync(fd) < 0)
		r = -errno;
	// Some filesystems report a failed write only here.
	if (close(fp_take_fd(&fd)) < 0 && r == 0)
		r = -errno;
	return r;
}

int fp_file_write_durable(int dirfd, const char *name, const void *bytes, size_t size, int mode)
{
	char temporary[NAME_MAX + 1];
	uint64_t nonce;
	int length, r;

	if (getrandom(&nonce, sizeof(nonce), 0) != (ssize_t)sizeof(nonce))
		return -errno;
	length = snprintf(temporary, sizeof(temporary), ".%s.%016llx.tmp", name,
			  (unsigned long long)nonce);
	if (length < 0 || (size_t)length >= sizeof(temporary))
		return -ENAMETOOLONG;
	r = write_synced(dirfd, temporary, bytes, size, mode);
	if (r == -EEXIST)
		return r; // not ours to remove
	if (r == 0 && renameat(dirfd, temporary, dirfd, name) < 0)
		r = -errno;
	if (r < 0) {
		unlinkat(dirfd, temporary, 0);
		return r;
	}
	return fsync(dirfd) < 0 ? -errno : 0;
}

static int make_parents(char *path, mode_t mode)
{
	for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		if (mkdir(path, mode) < 0 && errno != EEXIST)
			return -errno;
		*slash = '/';
	}
	return mkdir(path, mode) < 0 && errno != EEXIST ? -errno : 0;
}

int fp_dir_open(const char *path, int mode)
{
	FP_AUTOFREE char *copy = NULL;
	int fd, r;

	if (path[0] == '\0')
		return -ENOENT;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0)
		return fd;
	if (errno != ENOENT)
		return -errno;
	copy = strdup(path);
	if (!copy)
		return -ENOMEM;
	r = make_parents(copy, (mode_t)mode);
	if (r < 0)
		return r;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}
