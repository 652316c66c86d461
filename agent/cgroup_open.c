// SPDX-License-Identifier: Apache-2.0
#include "cgroup_open.h"

#include "cgroup.h"
#include "common/file.h"
#include "procfs.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#define FILEID_KERNFS	  0xfe // include/linux/exportfs.h
#define CGROUP_TEXT_BYTES (64u << 10)

void fp_cgroup_tree_open(uint32_t subsystem, struct fp_cgroup_tree *ret)
{
	char mount[PATH_MAX];

	*ret = (struct fp_cgroup_tree){ .fd = -1 };
	if (fp_cgroup_mount(subsystem, mount) < 0)
		return;
	ret->fd = open(mount, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ret->mount_size = strlen(mount);
}

void fp_cgroup_tree_close(struct fp_cgroup_tree *tree)
{
	fp_close_fd(&tree->fd);
}

static int open_id(const struct fp_cgroup_tree *tree, uint64_t id)
{
	union {
		struct file_handle handle;
		char room[sizeof(struct file_handle) + sizeof(uint64_t)];
	} kernfs = { .handle = { .handle_bytes = sizeof(id), .handle_type = FILEID_KERNFS } };
	int fd;

	memcpy(kernfs.room + offsetof(struct file_handle, f_handle), &id, sizeof(id));
	fd = open_by_handle_at(tree->fd, &kernfs.handle, O_PATH | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

// Nobody but root may make groups in it.
static bool is_roots(int fd)
{
	struct stat group;

	return fstat(fd, &group) == 0 && group.st_uid == 0 &&
	       !(group.st_mode & (S_IWGRP | S_IWOTH));
}

static size_t last_slash(const char *path, size_t size)
{
	while (size > 0 && path[size - 1] != '/')
		size--;
	return size > 0 ? size - 1 : 0;
}

// How many bytes of the path are groups that root made: those that stand in groups of root's. The
// groups around fd's are opened as "..", never by the path, which is of the mount and absolute.
static size_t believed_of(int fd, const char *path, size_t size)
{
	FP_AUTOCLOSE int at = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	size_t believed = at < 0 ? 0 : size;

	while (size > 1 && at >= 0) {
		int around = openat(at, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);

		fp_close_fd(&at);
		at = around;
		size = last_slash(path, size);
		if (at < 0 || !is_roots(at))
			believed = size;
	}
	return at < 0 ? 0 : believed;
}

int fp_cgroup_tree_find(const struct fp_cgroup_tree *tree, uint64_t id, struct fp_cgroup_facts *ret)
{
	char descriptor[64], place[PATH_MAX];
	FP_AUTOCLOSE int fd = -1;
	size_t skip = tree->mount_size;
	ssize_t size;

	if (tree->fd < 0)
		return -EOPNOTSUPP;
	fd = open_id(tree, id);
	if (fd < 0)
		return fd;
	snprintf(descriptor, sizeof(descriptor), "/proc/self/fd/%d", fd);
	size = readlink(descriptor, place, sizeof(place));
	if (size < 0)
		return -errno;
	// A group outside of the part that is mounted here has no path: the kernel says "/".
	if ((size_t)size < skip || (place[skip] != '/' && (size_t)size > skip))
		return -EXDEV;
	fp_cgroup_path_parse(place + skip, (size_t)size - skip,
			     believed_of(fd, place + skip, (size_t)size - skip), ret);
	return 0;
}

int fp_cgroup_process_find(uint32_t tgid, uint64_t first_ticks, uint64_t last_ticks,
			   struct fp_cgroup_facts *ret)
{
	FP_AUTOBUF struct fp_buf text = { 0 };
	FP_AUTOCLOSE int fd = fp_procfs_open(tgid);
	struct fp_procfs_stat stat;

	if (fd < 0 || fp_procfs_stat(fd, &stat) < 0 || stat.start_ticks < first_ticks ||
	    stat.start_ticks > last_ticks ||
	    fp_file_read_at(fd, "cgroup", CGROUP_TEXT_BYTES, &text) < 0)
		return -ESRCH;
	fp_cgroup_text_parse((char *)text.data, text.len, ret);
	return 0;
}
