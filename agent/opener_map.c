// SPDX-License-Identifier: Apache-2.0
//
// A process's perf map, as it sees it itself: its own pid in its own pid namespace, its own
// /tmp. Whoever can write there could otherwise choose what we read: so no symbolic links,
// nothing mounted upon it, and nothing but a regular file of the process's user or root, not older
// than the process.
#include "opener_open.h"

#include "common/clock.h"
#include "common/file.h"
#include "opener_mounts.h"
#include "procfs.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#define DIRECTORY	"/tmp"
#define STATUS_SIZE_MAX ((size_t)64 << 10)
#define TICKS_SLACK	2

struct owner {
	uint32_t uid;	   // effective
	uint32_t own_tgid; // in the innermost pid namespace
	bool is_ours;	   // its user namespace
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

static bool lives(int procfd, struct fp_procfs_stat *ret)
{
	return fp_procfs_stat(procfd, ret) == 0 && !ret->zombie;
}

static int open_process(const struct fp_opener_request *request)
{
	int dirfd FP_AUTOCLOSE = fp_procfs_open(request->tgid);
	struct fp_procfs_stat stat;

	if (dirfd < 0 || !lives(dirfd, &stat))
		return -ESRCH;
	if (request->process_start_ns && !started_at(&stat, request->process_start_ns))
		return -ESRCH;
	return fp_take_fd(&dirfd);
}

// Root's files are root's work only where root alone can mount: in a user namespace of their own
// anybody puts a directory of root's files at /tmp.
static enum fp_opener_refusal judge(const struct fp_opener_request *request,
				    const struct fp_opener_facts *facts, const struct owner *owner)
{
	if (!facts->regular)
		return FP_OPENER_TYPE;
	if (facts->uid != owner->uid && !(facts->uid == 0 && owner->is_ours))
		return FP_OPENER_OWNER;
	return facts->size > request->max_bytes ? FP_OPENER_SIZE : FP_OPENER_NOT_REFUSED;
}

static int fail(struct fp_opener_answer *answer, int error)
{
	answer->error = error == -ENOENT ? -ESRCH : error;
	return -1;
}

// Finds where /tmp lies, and enters it. -1: refused, or an error.
static int enter_tmp(const struct fp_opener_question *question, int procfd, const char *path,
		     struct fp_opener_answer *answer, uint64_t *ret_place)
{
	struct fp_buf mounts FP_AUTOBUF = { 0 };
	uint64_t namespace = fp_opener_namespace(procfd);
	struct fp_procfs_stat stat;
	struct fp_mount mount;
	int r;

	if (fp_opener_enter(question, namespace) < 0)
		return fp_opener_refuse(answer, FP_OPENER_HUNG);
	r = fp_opener_mounts(procfd, &mounts);
	if (r == -E2BIG) {
		answer->device = namespace;
		return fp_opener_refuse(answer, FP_OPENER_MOUNTS);
	}
	if (r < 0 || !lives(procfd, &stat)) // without a life it has no table either
		return fail(answer, r < 0 ? r : -ESRCH);
	if (!fp_mount_of_path((const char *)mounts.data, DIRECTORY, &mount) ||
	    fp_mount_path_is_denied((const char *)mounts.data, path, question->deny))
		return fp_opener_refuse(answer, FP_OPENER_DENIED);
	*ret_place = namespace ? namespace : mount.device;
	if (fp_opener_enter(question, *ret_place) < 0)
		return fp_opener_refuse(answer, FP_OPENER_HUNG);
	return 0;
}

// Holds the map, or refuses it, or says why there is none.
static int hold(int procfd, const char *name, struct fp_opener_answer *answer)
{
	int rootfd FP_AUTOCLOSE = fp_opener_root(procfd), directory FP_AUTOCLOSE = -1;
	int fd;

	if (rootfd < 0)
		return fail(answer, rootfd);
	directory = fp_opener_below(rootfd, DIRECTORY);
	fd = directory < 0 ? directory : fp_opener_within(directory, name);
	if (fd == -ELOOP)
		return fp_opener_refuse(answer, FP_OPENER_TYPE);
	if (fd == -EXDEV)
		return fp_opener_refuse(answer, FP_OPENER_MOUNTED);
	answer->error = fd < 0 ? fd : 0;
	return fd < 0 ? -1 : fd;
}

static int find(const struct fp_opener_question *question, int procfd, struct owner *owner,
		struct fp_opener_answer *answer, uint64_t *ret_place)
{
	char path[48];
	int fd;

	snprintf(path, sizeof(path), DIRECTORY "/perf-%" PRIu32 ".map", owner->own_tgid);
	if (enter_tmp(question, procfd, path, answer, ret_place) < 0)
		return -1;
	fd = hold(procfd, path + strlen(DIRECTORY "/"), answer);
	owner->is_ours = fp_opener_namespace(procfd) == 0; // and so it was before
	return fd;
}

int fp_opener_open_map(const struct fp_opener_question *question, struct fp_opener_answer *answer)
{
	const struct fp_opener_request *request = question->request;
	int procfd FP_AUTOCLOSE = open_process(request);
	int fd FP_AUTOCLOSE = -1;
	struct fp_opener_held held = { .fd = -1 };
	enum fp_opener_refusal refusal;
	struct owner owner = { 0 };

	answer->error = procfd < 0 ? procfd : read_owner(procfd, &owner);
	if (answer->error < 0)
		return -1;
	held.fd = fd = find(question, procfd, &owner, answer, &held.place);
	if (fd < 0)
		return -1;
	answer->error = fp_opener_facts(fd, &held.facts);
	if (answer->error < 0)
		return -1;
	refusal = judge(request, &held.facts, &owner);
	if (refusal != FP_OPENER_NOT_REFUSED)
		return fp_opener_refuse(answer, refusal);
	if (held.facts.modify_ns < request->not_before_ns) {
		answer->error = -ENOENT; // left behind by an earlier process of this pid
		return -1;
	}
	return fp_opener_deliver(question, &held, answer);
}
