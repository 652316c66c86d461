// SPDX-License-Identifier: Apache-2.0
#include "output.h"

#include "common/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#define INPUT_MAX (1ULL << 30)

static bool is_standard(const char *path)
{
	return !path || strcmp(path, "-") == 0;
}

static int write_special(const char *path, const void *bytes, size_t size)
{
	int fd FP_AUTOCLOSE = open(path, O_WRONLY | O_CLOEXEC);

	return fd < 0 ? -errno : fp_write_all(fd, bytes, size);
}

// The temporary file stands beside the target, so that the rename stays in one file system.
static int write_temporary(const char *target, char *temporary, const void *bytes, size_t size)
{
	mode_t mask = umask(0);
	int fd FP_AUTOCLOSE = mkostemp(temporary, O_CLOEXEC);
	int r;

	umask(mask);
	if (fd < 0)
		return -errno;
	r = fp_write_all(fd, bytes, size);
	if (r == 0 && fchmod(fd, 0666 & ~mask) < 0)
		r = -errno;
	if (r == 0 && rename(temporary, target) < 0)
		r = -errno;
	if (r < 0)
		unlink(temporary);
	return r;
}

int fp_output_write(const char *path, const void *bytes, size_t size)
{
	char *target FP_AUTOFREE = NULL;
	char *temporary FP_AUTOFREE = NULL;
	struct stat st;

	if (is_standard(path))
		return fp_write_all(STDOUT_FILENO, bytes, size);
	if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
		return -EISDIR;
	if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
		return write_special(path, bytes, size);
	target = realpath(path, NULL); // a symbolic link stays one, its target is replaced
	if (!target)
		target = strdup(path);
	if (!target || asprintf(&temporary, "%s.XXXXXX", target) < 0) {
		temporary = NULL;
		return -ENOMEM;
	}
	return write_temporary(target, temporary, bytes, size);
}

char *fp_output_insert(const char *path, const char *word)
{
	const char *name = strrchr(path, '/');
	const char *dot = strrchr(name ? name : path, '.');
	const char *first = name ? name + 1 : path;
	char *result = NULL;

	if (!dot || dot == first) // no extension, or a hidden file
		dot = path + strlen(path);
	if (asprintf(&result, "%.*s.%s%s", (int)(dot - path), path, word, dot) < 0)
		return NULL;
	return result;
}

static int read_descriptor(int fd, struct fp_buf *bytes)
{
	for (;;) {
		ssize_t n;
		int r = fp_buf_reserve(bytes, 65536);

		if (r < 0)
			return r;
		n = read(fd, bytes->data + bytes->len, 65536);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : 0;
		bytes->len += (size_t)n;
		if (bytes->len > INPUT_MAX)
			return -EFBIG;
	}
}

int fp_input_read(const char *path, struct fp_buf *ret_bytes)
{
	int fd FP_AUTOCLOSE = -1;

	if (is_standard(path))
		return read_descriptor(STDIN_FILENO, ret_bytes);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : read_descriptor(fd, ret_bytes);
}

bool fp_output_is_terminal(uint32_t *ret_columns)
{
	struct winsize size;

	if (!isatty(STDOUT_FILENO))
		return false;
	*ret_columns = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
	return true;
}
