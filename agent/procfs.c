// SPDX-License-Identifier: Apache-2.0
#include "procfs.h"

#include "common/clock.h"
#include "common/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

// What our own time namespace adds to the host's clocks.
struct clock_offsets {
	int64_t monotonic_ns, boottime_ns;
};

static bool in_own_time_namespace(void)
{
	struct stat own, children;

	// timens_offsets speaks of the namespace for children; ours only if they are the same.
	return stat("/proc/self/ns/time", &own) == 0 &&
	       stat("/proc/self/ns/time_for_children", &children) == 0 &&
	       own.st_ino == children.st_ino;
}

static struct clock_offsets clock_offsets_read(void)
{
	struct clock_offsets offsets = { 0 };
	FP_AUTOFCLOSE FILE *file = NULL;
	char name[16];
	long long s, ns;

	if (!in_own_time_namespace())
		return offsets;
	file = fopen("/proc/self/timens_offsets", "re");
	if (!file)
		return offsets;
	while (fscanf(file, "%15s %lld %lld", name, &s, &ns) == 3) {
		int64_t total_ns = s * (int64_t)FP_NS_PER_S + ns;

		if (strcmp(name, "monotonic") == 0)
			offsets.monotonic_ns = total_ns;
		else if (strcmp(name, "boottime") == 0)
			offsets.boottime_ns = total_ns;
	}
	return offsets;
}

static const struct clock_offsets *own_offsets(void)
{
	static struct clock_offsets offsets;
	static bool known;

	if (!known) {
		offsets = clock_offsets_read();
		known = true;
	}
	return &offsets;
}

uint64_t fp_procfs_monotonic_ns(void)
{
	return fp_monotonic_ns() - (uint64_t)own_offsets()->monotonic_ns;
}

uint64_t fp_procfs_start_ticks(uint64_t boottime_ns)
{
	uint64_t ticks_per_s = (uint64_t)sysconf(_SC_CLK_TCK);

	return (boottime_ns + (uint64_t)own_offsets()->boottime_ns) / (FP_NS_PER_S / ticks_per_s);
}

int fp_procfs_stat_parse(const char *text, struct fp_procfs_stat *ret)
{
	struct fp_procfs_stat stat = { 0 };
	const char *after_name = strrchr(text, ')');
	char state;

	// Fields 3 (state), 20 (threads) and 22 (start time) of proc(5).
	if (!after_name ||
	    sscanf(after_name + 1,
		   " %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %" SCNu32
		   " %*s %" SCNu64,
		   &state, &stat.threads, &stat.start_ticks) != 3)
		return -EINVAL;
	stat.zombie = state == 'Z' || state == 'X';
	*ret = stat;
	return 0;
}

int fp_procfs_open(uint32_t pid)
{
	char path[32];
	int fd;

	snprintf(path, sizeof(path), "/proc/%" PRIu32, pid);
	fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int fp_procfs_stat(int dirfd, struct fp_procfs_stat *ret)
{
	FP_AUTOBUF struct fp_buf text = { 0 };
	int r = fp_file_read_at(dirfd, "stat", 8192, &text);

	if (r < 0)
		return r;
	return fp_procfs_stat_parse((const char *)text.data, ret);
}

int fp_procfs_executable(int dirfd, struct fp_buf *ret_path)
{
	static const char deleted[] = " (deleted)";
	const size_t deleted_len = sizeof(deleted) - 1;
	char path[PATH_MAX];
	struct stat st;
	ssize_t n = readlinkat(dirfd, "exe", path, sizeof(path));

	if (n < 0)
		return -errno;
	// A file may really be named so: only a file without links has the kernel's suffix.
	if ((size_t)n > deleted_len && memcmp(path + n - deleted_len, deleted, deleted_len) == 0 &&
	    fstatat(dirfd, "exe", &st, 0) == 0 && st.st_nlink == 0)
		n -= (ssize_t)deleted_len;
	fp_buf_clear(ret_path);
	fp_buf_append(ret_path, path, (size_t)n);
	fp_buf_byte(ret_path, 0);
	return ret_path->error;
}
