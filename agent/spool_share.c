// SPDX-License-Identifier: Apache-2.0
// Who may do what in the spool: the directories belong to the writer and to the shipper's
// group, set-group-ID, so that files get that group by themselves. Root without CAP_CHOWN
// (a container, or after the privileges are gone) may still give its own directory to a
// group that it is in, so for the moment of the change it takes that group on.
#include "spool_state.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sys/stat.h>

#define SHARED_MODE 02770

struct share {
	int fd;
	gid_t gid;
	unsigned int skipped; // files that stay closed to the group
};

static int share_name(const char *name, void *context)
{
	struct share *share = context;
	struct stat info;

	// Left over from a time when the spool was not shared; failing costs that file alone. One
	// with a second name may be somebody else's, linked in by a member of the group.
	if (fstatat(share->fd, name, &info, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(info.st_mode) ||
	    info.st_nlink != 1 || info.st_gid == share->gid)
		return 0;
	if (fchownat(share->fd, name, (uid_t)-1, share->gid, AT_SYMLINK_NOFOLLOW) < 0)
		share->skipped++;
	return 0;
}

static int open_below(int parent_fd, const char *name)
{
	return openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
}

static int share_directory(int fd, gid_t gid)
{
	struct share share = { fd, gid, 0 };
	struct stat info;

	if (fstat(fd, &info) < 0)
		return -errno;
	if (info.st_gid != gid && fchown(fd, (uid_t)-1, gid) < 0)
		return -errno;
	if ((info.st_mode & 07777) != SHARED_MODE && fchmod(fd, SHARED_MODE) < 0)
		return -errno;
	return fp_spool_each_name(fd, share_name, &share);
}

int fp_spool_share(const char *directory, gid_t gid)
{
	gid_t own = getegid();
	FP_AUTOCLOSE int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	FP_AUTOCLOSE int quarantine = -1, symbols = -1, wanted = -1;
	bool switched;
	int error;

	if (fd < 0)
		return -errno;
	// Name by name, since none of them may be a link that a member of the group has put there.
	quarantine = open_below(fd, FP_SPOOL_QUARANTINE);
	symbols = open_below(fd, FP_SPOOL_SYMBOLS);
	wanted = open_below(symbols, FP_SPOOL_WANTED);
	if (quarantine < 0 || symbols < 0 || wanted < 0)
		return -errno;
	switched = own != gid && setegid(gid) == 0;
	error = share_directory(fd, gid);
	if (!error)
		error = share_directory(quarantine, gid);
	if (!error)
		error = share_directory(symbols, gid);
	if (!error)
		error = share_directory(wanted, gid);
	if (switched && setegid(own) < 0 && !error)
		error = -errno;
	return error;
}
