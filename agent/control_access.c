// SPDX-License-Identifier: Apache-2.0
#include "control_access.h"

#include "common/file.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#define STATUS_MAX 65536 // Groups: may be long
#define STAT_MAX   4096
#define PF_KTHREAD 0x00200000u // include/linux/sched.h

// Start of the value of `name:` at the beginning of a line. A hostile thread name cannot
// forge one: the kernel escapes newlines in the Name: line.
static const char *find_field(const char *text, const char *name)
{
	size_t length = strlen(name);

	for (const char *line = text; line; line = strchr(line, '\n')) {
		if (*line == '\n')
			line++;
		if (strncmp(line, name, length) == 0 && line[length] == ':')
			return line + length + 1;
	}
	return NULL;
}

static bool read_ids(const char *text, const char *name, uint32_t ids[3])
{
	const char *value = find_field(text, name);

	return value &&
	       sscanf(value, "%" SCNu32 " %" SCNu32 " %" SCNu32, &ids[0], &ids[1], &ids[2]) == 3;
}

int fp_process_facts_parse_status(const char *text, struct fp_process_facts *facts)
{
	const char *tgid = find_field(text, "Tgid");
	const char *capabilities = find_field(text, "CapPrm");

	if (!tgid || sscanf(tgid, "%" SCNu32, &facts->tgid) != 1 ||
	    !read_ids(text, "Uid", facts->uids) || !read_ids(text, "Gid", facts->gids) ||
	    !capabilities || sscanf(capabilities, "%" SCNx64, &facts->capabilities) != 1)
		return -EBADMSG;
	return 0;
}

int fp_process_facts_parse_stat(const char *text, struct fp_process_facts *facts)
{
	// The name stands in brackets and may hold brackets itself: the last one closes it.
	const char *open = strchr(text, '('), *close = strrchr(text, ')');
	char state;
	uint32_t flags;
	int threads;
	size_t length;

	if (!open || !close || close < open)
		return -EBADMSG;
	// state ppid pgrp session tty tpgid flags, … num_threads (field 20), starttime (22).
	if (sscanf(close + 1,
		   " %c %*d %*d %*d %*d %*d %" SCNu32
		   " %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %d %*d %" SCNu64,
		   &state, &flags, &threads, &facts->start_time) != 4)
		return -EBADMSG;
	// A first thread that has ended stays as a zombie while others of its process run on.
	facts->dead = (state == 'Z' || state == 'X' || state == 'x') && threads <= 1;
	facts->kernel_thread = flags & PF_KTHREAD;
	length = (size_t)(close - open - 1);
	if (length >= sizeof(facts->comm))
		length = sizeof(facts->comm) - 1;
	memcpy(facts->comm, open + 1, length);
	facts->comm[length] = '\0';
	return 0;
}

static int read_text(uint32_t pid, const char *name, size_t max, struct fp_buf *text)
{
	char path[64];
	int r;

	snprintf(path, sizeof(path), "/proc/%" PRIu32 "/%s", pid, name);
	r = fp_file_read(path, max, text);
	if (r == -ENOENT || r == -ESRCH)
		return -ESRCH;
	return r < 0 ? r : fp_buf_byte(text, '\0');
}

static int read_process(uint32_t pid, struct fp_process_facts *facts)
{
	struct fp_buf status FP_AUTOBUF = { 0 }, stat_text FP_AUTOBUF = { 0 };
	char path[40];
	struct stat st;
	int r = read_text(pid, "status", STATUS_MAX, &status);

	if (r == 0)
		r = fp_process_facts_parse_status((const char *)status.data, facts);
	if (r == 0)
		r = read_text(pid, "stat", STAT_MAX, &stat_text);
	if (r == 0)
		r = fp_process_facts_parse_stat((const char *)stat_text.data, facts);
	if (r < 0)
		return r;
	// A file, not the directory: that one always belongs to the effective uid.
	snprintf(path, sizeof(path), "/proc/%" PRIu32 "/status", pid);
	if (stat(path, &st) < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	facts->owner = st.st_uid;
	return 0;
}

int fp_process_facts_read(uint32_t pid, struct fp_process_facts *ret)
{
	struct fp_process_facts facts = { 0 };
	int r = read_process(pid, &facts);

	if (r == 0 && facts.tgid != pid) { // a thread: its process is what counts
		uint32_t tgid = facts.tgid;

		r = read_process(tgid, &facts);
		if (r == 0 && facts.tgid != tgid)
			r = -ESRCH;
	}
	if (r < 0)
		return r;
	*ret = facts;
	return 0;
}

static bool all_are(const uint32_t ids[3], uint32_t id)
{
	return ids[0] == id && ids[1] == id && ids[2] == id;
}

enum fp_access fp_access_decide(const struct fp_peer *peer, const struct fp_process_facts *facts)
{
	if (facts->kernel_thread)
		return FP_ACCESS_KERNEL_THREAD;
	if (peer->trusted)
		return facts->dead ? FP_ACCESS_DEAD : FP_ACCESS_GRANTED;
	if (facts->uids[0] != peer->uid && facts->uids[1] != peer->uid &&
	    facts->uids[2] != peer->uid)
		return FP_ACCESS_OTHER_USER;
	if (!all_are(facts->uids, peer->uid) || !all_are(facts->gids, peer->gid) ||
	    facts->owner != peer->uid || facts->capabilities)
		return FP_ACCESS_GUARDED;
	return facts->dead ? FP_ACCESS_DEAD : FP_ACCESS_GRANTED;
}
