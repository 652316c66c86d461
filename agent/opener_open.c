// SPDX-License-Identifier: Apache-2.0
#include "opener_open.h"

#include "common/clock.h"
#include "common/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

#define MOUNTS_SIZE_MAX ((size_t)8 << 20)

int fp_opener_mounts(uint32_t tgid, struct fp_buf *ret_text)
{
	char path[48] = "/proc/self/mountinfo";
	int r;

	if (tgid)
		snprintf(path, sizeof(path), "/proc/%" PRIu32 "/mountinfo", tgid);
	r = fp_file_read(path, MOUNTS_SIZE_MAX, ret_text);
	if (r < 0)
		fp_buf_clear(ret_text);
	return fp_buf_byte(ret_text, '\0');
}

int fp_opener_below(int rootfd, const char *path)
{
	struct open_how how = {
		.flags = O_PATH | O_CLOEXEC,
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS, // includes magic links
	};
	int fd = (int)syscall(SYS_openat2, rootfd, path, &how, sizeof(how));

	return fd < 0 ? -errno : fd;
}

int fp_opener_root(uint32_t tgid)
{
	char path[48] = "/";
	int fd;

	if (tgid)
		snprintf(path, sizeof(path), "/proc/%" PRIu32 "/root", tgid);
	fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
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

int fp_opener_deliver(const struct fp_opener_request *request, int held_fd,
		      const struct fp_opener_facts *facts, struct fp_opener_answer *answer)
{
	int fd;

	answer->device = facts->device;
	answer->inode = facts->inode;
	answer->change_ns = facts->change_ns;
	answer->size = facts->size;
	if (is_known(request, facts)) {
		answer->error = -EALREADY;
		return -1;
	}
	fd = fp_opener_reopen(held_fd);
	answer->error = fd < 0 ? fd : 0;
	return fd < 0 ? -1 : fd;
}
