// SPDX-License-Identifier: Apache-2.0
#include "../cases.h"
#include "../scratch.h"

#include "common/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>

static int open_scratch(void)
{
	int fd = open(scratch_directory(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	assert_true(fd >= 0);
	return fd;
}

static int count_entries(const char *path)
{
	DIR *directory = opendir(path);
	struct dirent *entry;
	int count = 0;

	assert_non_null(directory);
	while ((entry = readdir(directory)))
		count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
	closedir(directory);
	return count;
}

static void test_read_proc(void **state)
{
	FP_AUTOBUF struct fp_buf buf = { 0 };

	assert_int_equal(fp_file_read("/proc/self/status", 1 << 20, &buf), 0);
	assert_memory_equal(buf.data, "Name:", 5);
	assert_int_equal(strlen((char *)buf.data), buf.len);
}

static void test_read_bound(void **state)
{
	FP_AUTOCLOSE int dirfd = open_scratch();
	FP_AUTOBUF struct fp_buf buf = { 0 };

	assert_int_equal(fp_file_write_durable(dirfd, "ten", "0123456789", 10, 0600), 0);
	assert_int_equal(fp_file_read_at(dirfd, "ten", 10, &buf), 0);
	assert_string_equal((char *)buf.data, "0123456789");
	assert_int_equal(fp_file_read_at(dirfd, "ten", 9, &buf), -EFBIG);
	assert_int_equal(unlinkat(dirfd, "ten", 0), 0);
}

static void test_read_replaces(void **state)
{
	FP_AUTOBUF struct fp_buf buf = { 0 };

	fp_buf_str(&buf, "old content");
	assert_int_equal(fp_file_read("/dev/null", 10, &buf), 0);
	assert_int_equal(buf.len, 0);
	assert_string_equal((char *)buf.data, "");
}

static void test_read_errors(void **state)
{
	FP_AUTOBUF struct fp_buf buf = { 0 };

	assert_int_equal(fp_file_read("/nonexistent/file", 10, &buf), -ENOENT);
	assert_int_equal(fp_file_read("/", 10, &buf), -EISDIR);
}

static void test_write_durable(void **state)
{
	FP_AUTOCLOSE int dirfd = open_scratch();
	FP_AUTOBUF struct fp_buf buf = { 0 };
	mode_t mask = umask(0077);
	struct stat info;

	assert_int_equal(fp_file_write_durable(dirfd, "batch", "first", 5, 0640), 0);
	assert_int_equal(fp_file_write_durable(dirfd, "batch", "second", 6, 0640), 0);
	umask(mask);
	assert_int_equal(fp_file_read_at(dirfd, "batch", 100, &buf), 0);
	assert_string_equal((char *)buf.data, "second");
	assert_int_equal(fstatat(dirfd, "batch", &info, 0), 0);
	assert_int_equal(info.st_mode & 07777, 0640);
	assert_int_equal(count_entries(scratch_directory()), 1);
	assert_int_equal(unlinkat(dirfd, "batch", 0), 0);
}

static void test_write_failure_leaves_nothing(void **state)
{
	FP_AUTOCLOSE int dirfd = open_scratch();
	char long_name[252];

	assert_int_equal(mkdirat(dirfd, "taken", 0700), 0);
	assert_int_equal(fp_file_write_durable(dirfd, "taken", "x", 1, 0600), -EISDIR);
	memset(long_name, 'n', sizeof(long_name) - 1);
	long_name[sizeof(long_name) - 1] = '\0';
	assert_int_equal(fp_file_write_durable(dirfd, long_name, "x", 1, 0600), -ENAMETOOLONG);
	assert_int_equal(fp_file_write_durable(dirfd, "no/such/place", "x", 1, 0600), -ENOENT);
	assert_int_equal(count_entries(scratch_directory()), 1);
	assert_int_equal(unlinkat(dirfd, "taken", AT_REMOVEDIR), 0);
}

static void test_dir_open(void **state)
{
	char path[128];
	struct stat info;
	int fd;

	snprintf(path, sizeof(path), "%s/a/b/c", scratch_directory());
	for (int round = 0; round < 2; round++) {
		fd = fp_dir_open(path, 0750);
		assert_true(fd >= 0);
		assert_int_equal(fstat(fd, &info), 0);
		assert_true(S_ISDIR(info.st_mode));
		assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
		close(fd);
	}
	assert_int_equal(fp_dir_open("/dev/null", 0700), -ENOTDIR);
	assert_int_equal(fp_dir_open("/dev/null/below", 0700), -ENOTDIR);
	assert_int_equal(fp_dir_open("", 0700), -ENOENT);
}

static void test_write_all(void **state)
{
	enum { SIZE = 300000 }; // more than a pipe holds, so that writes are cut short
	FP_AUTOFREE char *bytes = malloc(SIZE);
	FP_AUTOBUF struct fp_buf got = { 0 };
	int ends[2];
	pid_t child;

	for (size_t i = 0; i < SIZE; i++)
		bytes[i] = (char)(i * 7);
	assert_int_equal(pipe(ends), 0);
	child = fork();
	if (child == 0) {
		close(ends[0]);
		_exit(fp_write_all(ends[1], bytes, SIZE) == 0 ? 0 : 1);
	}
	close(ends[1]);
	for (;;) {
		char part[4096];
		ssize_t n = read(ends[0], part, sizeof(part));

		assert_true(n >= 0);
		if (n == 0)
			break;
		fp_buf_append(&got, part, (size_t)n);
	}
	close(ends[0]);
	assert_int_equal(got.len, SIZE);
	assert_memory_equal(got.data, bytes, SIZE);
	assert_int_equal(fp_write_all(-1, "x", 1), -EBADF);
}

int main(void)
{
	const struct CMUnitTest cases[] = {
		FP_CASE("a file of /proc is read whole", test_read_proc),
		FP_CASE("a file of exactly the bound is read, one byte more is refused",
			test_read_bound),
		FP_CASE("reading replaces what the buffer held", test_read_replaces),
		FP_CASE("the error of open and read is passed on", test_read_errors),
		FP_CASE("a durable write replaces the file and keeps its mode from the umask",
			test_write_durable),
		FP_CASE("a failed durable write leaves nothing behind",
			test_write_failure_leaves_nothing),
		FP_CASE("a directory is opened with its missing parents made", test_dir_open),
		FP_CASE("short writes are continued", test_write_all),
	};

	return cmocka_run_group_tests(cases, NULL, NULL);
}
