// SPDX-License-Identifier: Apache-2.0
//
// What the agent needs on disk before it gives up its rights: the lock, and directories that
// its later user may write to.
#include "daemon_state.h"

#include "common/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <string.h>
#include <sys/stat.h>

// A POSIX record lock and not flock(2): a child does not inherit it, so a ship role that
// outlives a killed agent for a moment does not keep the next agent out; and F_GETLK names
// the holder.
static struct flock whole_file(short type)
{
	return (struct flock){ .l_type = type, .l_whence = SEEK_SET };
}

static pid_t find_holder(int fd)
{
	struct flock lock = whole_file(F_WRLCK);
	char text[32];
	ssize_t size;

	if (fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK && lock.l_pid > 0)
		return lock.l_pid;
	size = pread(fd, text, sizeof(text) - 1, 0); // held from another PID namespace
	text[size > 0 ? size : 0] = '\0';
	return (pid_t)strtol(text, NULL, 10);
}

int fp_daemon_lock(const char *path, int *ret_fd, pid_t *ret_holder)
{
	int fd FP_AUTOCLOSE = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
	struct flock lock = whole_file(F_WRLCK);
	char text[32];

	if (fd < 0)
		return -errno;
	if (fcntl(fd, F_SETLK, &lock) < 0) {
		if (errno != EACCES && errno != EAGAIN)
			return -errno;
		*ret_holder = find_holder(fd);
		return -EWOULDBLOCK;
	}
	snprintf(text, sizeof(text), "%d\n", getpid());
	if (ftruncate(fd, 0) < 0 || pwrite(fd, text, strlen(text), 0) < 0)
		return -errno;
	*ret_fd = fp_take_fd(&fd);
	return 0;
}

int fp_daemon_make_parent(const struct fp_daemon *daemon, const char *path)
{
	char *copy FP_AUTOFREE = strdup(path);
	char *parent = copy ? dirname(copy) : NULL;
	int fd FP_AUTOCLOSE = -1;
	struct stat st;
	bool existed;

	if (!parent)
		return -ENOMEM;
	existed = stat(parent, &st) == 0;
	fd = fp_dir_open(parent, 0755);
	if (fd < 0)
		return fd;
	if (!existed && daemon->changes_user && fchown(fd, daemon->role_uid, daemon->role_gid) < 0)
		return -errno;
	return 0;
}

static int give(const struct fp_daemon *daemon, int fd, bool directory)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	// A file with a second name may be someone else's file, linked in by the role.
	if (directory ? !S_ISDIR(st.st_mode) : !S_ISREG(st.st_mode) || st.st_nlink != 1)
		return 0;
	if (st.st_uid == daemon->role_uid && st.st_gid == daemon->role_gid)
		return 0;
	return fchown(fd, daemon->role_uid, daemon->role_gid) < 0 ? -errno : 0;
}

static void close_dir(DIR **dir)
{
	if (*dir)
		closedir(*dir);
	*dir = NULL;
}

// Takes ownership of fd. Three levels deep: spool/, symbols/ and symbols/wanted/.
static int give_directory(const struct fp_daemon *daemon, int fd, int levels)
{
	DIR *dir FP_CLEANUP(close_dir) = NULL;
	struct dirent *entry;
	int r = give(daemon, fd, true);

	dir = fdopendir(fd);
	if (!dir) {
		close(fd);
		return -errno;
	}
	while (r == 0 && (entry = readdir(dir))) {
		int flags = O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_RDONLY;
		int child;

		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		if (entry->d_type == DT_DIR && levels > 1) {
			child = openat(dirfd(dir), entry->d_name, flags | O_DIRECTORY);
			if (child >= 0)
				r = give_directory(daemon, child, levels - 1);
		} else if (entry->d_type == DT_REG) {
			child = openat(dirfd(dir), entry->d_name, flags);
			if (child < 0)
				continue;
			r = give(daemon, child, false);
			close(child);
		}
	}
	return r;
}

int fp_daemon_give_spool(const struct fp_daemon *daemon)
{
	int fd;

	if (!daemon->changes_user)
		return 0;
	fd = open(daemon->config.spool_directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : give_directory(daemon, fd, 3);
}
