// SPDX-License-Identifier: Apache-2.0
//
// symbols/wanted/<hex id>: an empty file for each build whose symbol table the collector asks
// for. The ship role, which talks to the network, writes them; the sampler takes one at a time.
// Whatever else it finds there it removes.
#include "spool_state.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

// Names looked at in one turn, should somebody fill the directory with what we cannot remove.
#define NAMES_MAX (4 * FP_SPOOL_WANTED_MAX)

static bool is_id(const char *name)
{
	size_t digits = strspn(name, "0123456789abcdef");

	return digits > 0 && digits % 2 == 0 && digits <= 2 * FP_BUILD_ID_MAX &&
	       name[digits] == '\0';
}

static int count_name(const char *name, void *context)
{
	size_t *count = context;

	return ++*count < FP_SPOOL_WANTED_MAX ? 0 : -ENOSPC;
}

int fp_spool_want_symbols(struct fp_spool *spool, const char *id)
{
	FP_AUTOCLOSE int fd = -1;
	size_t count = 0;
	int error;

	if (!is_id(id))
		return -EINVAL;
	if (fp_spool_has_symbols(spool, id))
		return -EEXIST;
	error = fp_spool_each_name(spool->wanted_fd, count_name, &count);
	if (error)
		return error;
	fd = openat(spool->wanted_fd, id, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
		    FP_SPOOL_FILE_MODE);
	return fd < 0 ? -errno : 0;
}

bool fp_spool_wanted_changed(struct fp_spool *spool)
{
	struct stat info;

	if (fstat(spool->wanted_fd, &info) < 0 ||
	    (info.st_mtim.tv_sec == spool->wanted_seen.tv_sec &&
	     info.st_mtim.tv_nsec == spool->wanted_seen.tv_nsec))
		return false;
	spool->wanted_seen = info.st_mtim;
	return true;
}

struct search {
	struct fp_spool *spool;
	char *id;
	size_t names;
};

static int find_wanted(const char *name, void *context)
{
	struct search *search = context;

	if (is_id(name)) {
		strcpy(search->id, name);
		return 1;
	}
	unlinkat(search->spool->wanted_fd, name, 0);
	return ++search->names < NAMES_MAX ? 0 : -ENOENT;
}

int fp_spool_next_wanted(struct fp_spool *spool, char ret_id[FP_SPOOL_ID_MAX])
{
	char id[FP_SPOOL_ID_MAX] = "";
	struct search search = { spool, id, 0 };
	int r = fp_spool_each_name(spool->wanted_fd, find_wanted, &search);

	if (r <= 0)
		return r < 0 ? r : -ENOENT;
	memcpy(ret_id, id, sizeof(id));
	return 0;
}

int fp_spool_drop_wanted(struct fp_spool *spool, const char *id)
{
	if (!is_id(id))
		return -EINVAL;
	return unlinkat(spool->wanted_fd, id, 0) < 0 ? -errno : 0;
}
