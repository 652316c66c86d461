// SPDX-License-Identifier: Apache-2.0
#include "opener_open.h"

#include "common/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

#define MOUNTS_SIZE_MAX	 ((size_t)4 << 20)
#define MOUNTS_TIME_NS	 (300 * FP_NS_PER_MS)
#define MOUNTS_CHUNK_MAX ((size_t)64 << 10)

int fp_opener_enter(const struct fp_opener_question *question, uint64_t place)
{
	const struct fp_opener_request *request = question->request;
	const struct fp_opener_answer notice = { .kind = request->kind,
						 .serial = request->serial,
						 .error = -EINPROGRESS,
						 .device = place };
	ssize_t n;

	for (uint32_t i = 0; place && i < request->hung_count; i++)
		if (question->hung[i] == place)
			return -EBUSY;
	do
		n = send(question->notice_fd, &notice, sizeof(notice), MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return 0; // nobody there: the answer will find that out
}

uint64_t fp_opener_namespace(int procfd)
{
	struct stat own, other;

	if (fstatat(procfd, "ns/user", &other, 0) < 0)
		return FP_OPENER_NAMESPACE | FP_OPENER_PROCESS |
		       (fstat(procfd, &other) == 0 ? other.st_ino : 0);
	if (stat("/proc/self/ns/user", &own) == 0 && own.st_dev == other.st_dev &&
	    own.st_ino == other.st_ino)
		return 0;
	return FP_OPENER_NAMESPACE | other.st_ino;
}

// The kernel writes a page, or one long line, at a time: the clock is looked at between them.
static int read_mounts(int fd, struct fp_buf *text)
{
	uint64_t end_ns = fp_monotonic_ns() + MOUNTS_TIME_NS;

	for (;;) {
		ssize_t n;

		if (fp_buf_reserve(text, MOUNTS_CHUNK_MAX) < 0)
			return -ENOMEM;
		n = read(fd, text->data + text->len, MOUNTS_CHUNK_MAX);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : 0;
		text->len += (size_t)n;
		if (text->len > MOUNTS_SIZE_MAX || fp_monotonic_ns() > end_ns)
			return -E2BIG;
	}
}

int fp_opener_mounts(int procfd, struct fp_buf *ret_text)
{
	int fd FP_AUTOCLOSE = openat(procfd, "mountinfo", O_RDONLY | O_CLOEXEC);
	int r = fd < 0 ? -errno : read_mounts(fd, ret_text);

	if (r < 0)
		fp_buf_clear(ret_text);
	if (r == -E2BIG || r == -ENOMEM)
		return r;
	return fp_buf_byte(ret_text, '\0');
}

static int open_path(int dirfd, const char *path, uint64_t resolve)
{
	struct open_how how = {
		.flags = O_PATH | O_CLOEXEC,
		.resolve = resolve | RESOLVE_NO_SYMLINKS, // includes magic links
	};
	int fd = (int)syscall(SYS_openat2, dirfd, path, &how, sizeof(how));

	return fd < 0 ? -errno : fd;
}

int fp_opener_below(int rootfd, const char *path)
{
	return open_path(rootfd, path, RESOLVE_IN_ROOT);
}

int fp_opener_within(int dirfd, const char *name)
{
	return open_path(dirfd, name, RESOLVE_BENEATH | RESOLVE_NO_XDEV);
}

int fp_opener_root(int procfd)
{
	int fd = openat(procfd, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

static uint64_t to_ns(const struct statx_timestamp *time)
{
	return (uint64_t)time->tv_sec * FP_NS_PER_S + time->tv_nsec;
}

int fp_opener_facts(int fd, struct fp_opener_facts *ret)
{
	struct statx st;

	if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_BASIC_STATS | STATX_MNT_ID,
		  &st) < 0)
		return -errno;
	*ret = (struct fp_opener_facts){
		.device = (uint64_t)st.stx_dev_major << 32 | st.stx_dev_minor,
		.inode = st.stx_ino,
		.mount_id = st.stx_mask & STATX_MNT_ID ? st.stx_mnt_id : 0,
		.size = st.stx_size,
		.change_ns = to_ns(&st.stx_ctime),
		.modify_ns = to_ns(&st.stx_mtime),
		.uid = st.stx_uid,
		.others_write =
		    st.stx_mode & (S_IWGRP | S_IWOTH), // with ACLs, the mask is the group's
		.regular = S_ISREG(st.stx_mode),
	};
	return 0;
}

int fp_opener_reopen(int fd)
{
	char path[32];
	int opened;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	opened = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	return opened < 0 ? -errno : opened;
}

int fp_opener_refuse(struct fp_opener_answer *answer, enum fp_opener_refusal refusal)
{
	answer->error = -EACCES;
	answer->refusal = refusal;
	return -1;
}

static bool is_known(const struct fp_opener_request *request, const struct fp_opener_facts *facts)
{
	if (request->known_inode == 0 || request->known_inode != facts->inode ||
	    request->known_device != facts->device)
		return false;
	return request->kind == FP_OPENER_PERF_MAP ||
	       (request->known_change_ns == facts->change_ns && request->known_size == facts->size);
}

int fp_opener_deliver(const struct fp_opener_question *question, const struct fp_opener_held *held,
		      struct fp_opener_answer *answer)
{
	int fd;

	answer->device = held->facts.device;
	answer->inode = held->facts.inode;
	answer->change_ns = held->facts.change_ns;
	answer->size = held->facts.size;
	if (is_known(question->request, &held->facts)) {
		answer->error = -EALREADY;
		return -1;
	}
	if (fp_opener_enter(question, held->place) < 0)
		return fp_opener_refuse(answer, FP_OPENER_HUNG);
	fd = fp_opener_reopen(held->fd);
	answer->error = fd < 0 ? fd : 0;
	return fd < 0 ? -1 : fd;
}
