// SPDX-License-Identifier: Apache-2.0
//
// A process's perf map, as it sees it itself: its own pid in its own pid namespace, its own
// /tmp. Whoever can write there could otherwise choose what we read: so no symbolic links,
// nothing but a regular file of the process's user or root, not older than the process.
#include "opener_open.h"

#include "common/clock.h"
#include "common/file.h"
#include "opener_mounts.h"
#include "procfs.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#define STATUS_SIZE_MAX ((size_t)64 << 10)
#define TICKS_SLACK	2

struct owner {
	uint32_t uid;	   // effective
	uint32_t own_tgid; // in the innermost pid namespace
};

static const char *find_line(const char *text, const char *key)
{
	const char *at = strstr(text, key);

	return at ? at + strlen(key) : NULL;
}

// "\nUid:\t1000\t1000\t…" and "\nNSpid:\t4711\t7". The name in the first line cannot forge
// another one: the kernel escapes newlines.
static int read_owner(int dirfd, struct owner *ret)
{
	struct fp_buf text FP_AUTOBUF = { 0 };
	const char *uids, *pids;
	char *end;
	int r = fp_file_read_at(dirfd, "status", STATUS_SIZE_MAX, &text);

	if (r < 0)
		return r == -ENOENT ? -ESRCH : r;
	if (fp_buf_byte(&text, '\0') < 0)
		return -ENOMEM;
	uids = find_line((const char *)text.data, "\nUid:");
	pids = find_line((const char *)text.data, "\nNSpid:");
	if (!uids || sscanf(uids, "%*u %" SCNu32, &ret->uid) != 1)
		return -EBADMSG;
	ret->own_tgid = 0;
	while (pids && (*pids == '\t' || *pids == ' ')) {
		ret->own_tgid = (uint32_t)strtoul(pids, &end, 10);
		pids = end;
	}
	return ret->own_tgid ? 0 : -EBADMSG;
}

// CLOCK_MONOTONIC stands still in suspend, so a start on it stands for a range of boot time
// as long as all suspends since the boot.
static bool started_at(const struct fp_procfs_stat *stat, uint64_t start_ns)
{
	uint64_t suspended_ns = fp_boottime_ns() - fp_monotonic_ns();

	return stat->start_ticks + TICKS_SLACK >= fp_procfs_start_ticks(start_ns) &&
	       stat->start_ticks <= fp_procfs_start_ticks(start_ns + suspended_ns) + TICKS_SLACK;
}

static int open_process(const struct fp_opener_request *request)
{
	int dirfd FP_AUTOCLOSE = fp_procfs_open(request->tgid);
	struct fp_procfs_stat stat;

	if (dirfd < 0 || fp_procfs_stat(dirfd, &stat) < 0 || stat.zombie)
		return -ESRCH;
	if (request->process_start_ns && !started_at(&stat, request->process_start_ns))
		return -ESRCH;
	return fp_take_fd(&dirfd);
}

static enum fp_opener_refusal judge(const struct fp_opener_request *request,
				    const struct fp_opener_facts *facts, const struct owner *owner)
{
	if (!facts->regular)
		return FP_OPENER_TYPE;
	if (facts->uid != 0 && facts->uid != owner->uid)
		return FP_OPENER_OWNER;
	return facts->size > request->max_bytes ? FP_OPENER_SIZE : FP_OPENER_NOT_REFUSED;
}

// Holds the map, or refuses it, or says why there is none.
static int hold(const struct fp_opener_question *question, const struct owner *owner,
		struct fp_opener_answer *answer)
{
	uint32_t tgid = question->request->tgid;
	struct fp_buf mounts FP_AUTOBUF = { 0 };
	struct fp_mount mount;
	int rootfd FP_AUTOCLOSE = -1;
	char path[48];
	int fd;

	snprintf(path, sizeof(path), "/tmp/perf-%" PRIu32 ".map", owner->own_tgid);
	answer->error = fp_opener_mounts(tgid, &mounts);
	if (answer->error < 0)
		return -1;
	if (fp_mount_of_path((const char *)mounts.data, path, &mount) &&
	    fp_mount_is_denied(&mount, question->deny))
		return fp_opener_refuse(answer, FP_OPENER_DENIED);
	rootfd = fp_opener_root(tgid);
	if (rootfd < 0) {
		answer->error = rootfd == -ENOENT ? -ESRCH : rootfd;
		return -1;
	}
	fd = fp_opener_below(rootfd, path);
	if (fd == -ELOOP)
		return fp_opener_refuse(answer, FP_OPENER_TYPE);
	answer->error = fd < 0 ? fd : 0;
	return fd < 0 ? -1 : fd;
}

int fp_opener_open_map(const struct fp_opener_question *question, struct fp_opener_answer *answer)
{
	const struct fp_opener_request *request = question->request;
	int dirfd FP_AUTOCLOSE = open_process(request);
	int fd FP_AUTOCLOSE = -1;
	struct fp_opener_facts facts;
	enum fp_opener_refusal refusal;
	struct owner owner;

	answer->error = dirfd < 0 ? dirfd : read_owner(dirfd, &owner);
	if (answer->error < 0)
		return -1;
	fd = hold(question, &owner, answer);
	if (fd < 0)
		return -1;
	answer->error = fp_opener_facts(fd, &facts);
	if (answer->error < 0)
		return -1;
	refusal = judge(request, &facts, &owner);
	if (refusal != FP_OPENER_NOT_REFUSED)
		return fp_opener_refuse(answer, refusal);
	if (facts.modify_ns < request->not_before_ns) {
		answer->error = -ENOENT; // left behind by an earlier process of this pid
		return -1;
	}
	return fp_opener_deliver(request, fd, &facts, answer);
}
