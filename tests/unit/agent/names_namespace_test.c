// SPDX-License-Identifier: Apache-2.0
// What a user does in a namespace of their own: they can neither take their neighbours' names
// away nor have a file read that they cannot read.
#include "names_bench.h"

#include "common/file.h"

#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <cmocka.h>

#define USER	12345
#define ADDRESS 0x1010u
#define MOUNTS	200 // of some 28 KiB each in the table
#define DEPTH	14

typedef bool (*setup_fn)(const struct bench *bench);

static bool write_text(const char *path, const char *text)
{
	FP_AUTOCLOSE int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

	return fd >= 0 && fp_write_all(fd, text, strlen(text)) == 0;
}

// An unprivileged user, who is root in a user namespace of their own with its own mounts.
static bool enter_namespace(void)
{
	char map[32];

	snprintf(map, sizeof(map), "0 %d 1", USER);
	return setresgid(USER, USER, USER) == 0 && setresuid(USER, USER, USER) == 0 &&
	       prctl(PR_SET_DUMPABLE, 1L, 0L, 0L, 0L) == 0 &&
	       unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 &&
	       write_text("/proc/self/setgroups", "deny") &&
	       write_text("/proc/self/uid_map", map) && write_text("/proc/self/gid_map", map);
}

static void child_path(char *path, size_t size)
{
	snprintf(path, size, "/tmp/perf-%d.map", getpid());
}

static bool write_own_map(const struct bench *bench)
{
	char path[64];

	child_path(path, sizeof(path));
	return write_text(path, "1000 100 own\n");
}

static bool mount_on_own_map(const struct bench *bench)
{
	char path[64], source[128];

	child_path(path, sizeof(path));
	snprintf(source, sizeof(source), "%s/secret", bench->directory);
	return write_own_map(bench) && mount(source, path, NULL, MS_BIND, NULL) == 0;
}

static bool mount_own_map_on_itself(const struct bench *bench)
{
	char path[64];

	child_path(path, sizeof(path));
	return write_own_map(bench) && mount(path, path, NULL, MS_BIND, NULL) == 0;
}

// The parent has put a perf map of root's into the directory.
static bool mount_on_tmp(const struct bench *bench)
{
	return mount(bench->directory, "/tmp", NULL, MS_BIND, NULL) == 0;
}

// Upon one another, at a path that is long as it stands in the table, where a space has four bytes.
static bool mount_very_much(const struct bench *bench)
{
	char name[256];

	memset(name, ' ', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	if (!write_own_map(bench) || mount("none", bench->directory, "tmpfs", 0, NULL) < 0 ||
	    chdir(bench->directory) < 0)
		return false;
	for (int i = 0; i < DEPTH; i++)
		if (mkdir(name, 0755) < 0 || chdir(name) < 0)
			return false;
	for (int i = 0; i < MOUNTS; i++)
		if (mount(".", ".", NULL, MS_BIND, NULL) < 0)
			return false;
	return true;
}

// Of a root that is no mount point the table has no entry.
static bool change_root(const struct bench *bench)
{
	char directory[64], path[96];

	snprintf(directory, sizeof(directory), "/tmp/fp-root-%d", getpid());
	snprintf(path, sizeof(path), "%s/tmp", directory);
	if (mkdir(directory, 0755) < 0 || mkdir(path, 0755) < 0)
		return false;
	snprintf(path, sizeof(path), "%s/tmp/perf-%d.map", directory, getpid());
	return write_text(path, "1000 100 own\n") && chroot(directory) == 0 && chdir("/") == 0;
}

static void child(const struct bench *bench, setup_fn setup, int input, int output)
{
	char go;

	prctl(PR_SET_PDEATHSIG, (long)SIGKILL, 0L, 0L, 0L);
	// The signal does not outlive a change of user; the pipe's end does.
	if (write(output, enter_namespace() ? "n" : "-", 1) != 1 || read(input, &go, 1) != 1)
		_exit(1);
	if (write(output, setup(bench) ? "s" : "-", 1) != 1)
		_exit(1);
	while (read(input, &go, 1) == 1)
		;
	_exit(0);
}

struct hostile {
	int pid, input, output;
};

// A process in such a namespace that has done something there.
static void hostile_start(struct bench *bench, setup_fn setup, struct hostile *ret)
{
	int input[2], output[2];
	char said = 0;

	if (geteuid() != 0)
		skip(); // needs root for another user's processes
	assert_int_equal(chmod(bench->directory, 0755), 0);
	assert_int_equal(pipe2(input, O_CLOEXEC), 0);
	assert_int_equal(pipe2(output, O_CLOEXEC), 0);
	ret->pid = fork();
	assert_true(ret->pid >= 0);
	if (ret->pid == 0) {
		close(input[1]);
		child(bench, setup, input[0], output[1]);
	}
	close(input[0]);
	close(output[1]);
	ret->input = input[1];
	ret->output = output[0];
	assert_int_equal(read(ret->output, &said, 1), 1);
	if (said != 'n') {
		print_message("no user may make a user namespace here\n");
		skip();
	}
}

static void hostile_go(struct hostile *hostile)
{
	char said = 0;

	assert_int_equal(write(hostile->input, "g", 1), 1);
	assert_int_equal(read(hostile->output, &said, 1), 1);
	assert_int_equal(said, 's');
}

static void hostile_end(struct hostile *hostile)
{
	bench_kill(hostile->pid);
	close(hostile->input);
	close(hostile->output);
	bench_remove_perf_map((uint32_t)hostile->pid);
}

static void a_user_is_named_from_a_map_of_their_own(void **state)
{
	struct bench *bench = *state;
	struct hostile user;
	struct fp_names_process process;

	hostile_start(bench, write_own_map, &user);
	hostile_go(&user);
	process = bench_process((uint32_t)user.pid);
	bench_open(bench);
	assert_string_equal(bench_name(bench, &process, ADDRESS), "own");
	assert_int_equal(bench_stats(bench).maps_refused, 0);
	hostile_end(&user);
}

static void a_map_with_a_mount_upon_it_is_not_read_whosever_file_it_is(void **state)
{
	struct bench *bench = *state;
	struct hostile user;
	struct fp_names_process process;

	hostile_start(bench, mount_own_map_on_itself, &user);
	hostile_go(&user);
	process = bench_process((uint32_t)user.pid);
	bench_open(bench);
	assert_string_equal(bench_name(bench, &process, ADDRESS), "");
	assert_int_equal(bench_stats(bench).maps_refused, 1);
	hostile_end(&user);
}

static void a_map_at_a_place_that_no_mount_table_knows_is_not_read(void **state)
{
	struct bench *bench = *state;
	struct hostile user;
	struct fp_names_process process;
	char path[96];

	hostile_start(bench, change_root, &user);
	hostile_go(&user);
	process = bench_process((uint32_t)user.pid);
	bench_open(bench);
	assert_string_equal(bench_name(bench, &process, ADDRESS), "");
	assert_int_equal(bench_stats(bench).denied, 1);
	hostile_end(&user);
	snprintf(path, sizeof(path), "/tmp/fp-root-%d/tmp/perf-%d.map", user.pid, user.pid);
	assert_int_equal(unlink(path), 0);
	*strrchr(path, '/') = '\0';
	assert_int_equal(rmdir(path), 0);
	*strrchr(path, '/') = '\0';
	assert_int_equal(rmdir(path), 0);
}

static void a_file_of_roots_that_is_mounted_upon_a_map_is_not_read(void **state)
{
	struct bench *bench = *state;
	struct hostile user;
	struct fp_names_process process;
	char path[128];

	hostile_start(bench, mount_on_own_map, &user);
	snprintf(path, sizeof(path), "%s/secret", bench->directory);
	assert_true(write_text(path, "1000 100 secret\n"));
	assert_int_equal(chmod(path, 0600), 0);
	hostile_go(&user);
	process = bench_process((uint32_t)user.pid);
	bench_open(bench);
	assert_string_equal(bench_name(bench, &process, ADDRESS), "");
	assert_int_equal(bench_stats(bench).maps_refused, 1);
	assert_int_equal(bench_stats(bench).maps_open, 0);
	hostile_end(&user);
	unlink(path);
}

static void a_file_of_roots_in_a_directory_mounted_at_tmp_is_not_read(void **state)
{
	struct bench *bench = *state;
	struct hostile user;
	struct fp_names_process process;
	char path[128];

	hostile_start(bench, mount_on_tmp, &user);
	snprintf(path, sizeof(path), "%s/perf-%d.map", bench->directory, user.pid);
	assert_true(write_text(path, "1000 100 secret\n"));
	assert_int_equal(chmod(path, 0600), 0);
	hostile_go(&user);
	process = bench_process((uint32_t)user.pid);
	bench_open(bench);
	assert_string_equal(bench_name(bench, &process, ADDRESS), "");
	assert_int_equal(bench_stats(bench).maps_refused, 1);
	assert_int_equal(bench_stats(bench).maps_open, 0);
	hostile_end(&user);
	unlink(path);
}

static uint64_t place_of(int pid)
{
	char path[64];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d/ns/user", pid);
	assert_int_equal(stat(path, &st), 0);
	return FP_OPENER_NAMESPACE | st.st_ino;
}

static void a_namespace_with_too_many_mounts_costs_its_neighbours_no_name(void **state)
{
	struct bench *bench = *state;
	struct hostile user;
	struct fp_names_process process, neighbour;
	struct bench_file file, theirs;
	struct fp_build build = { 0 };
	uint64_t place;
	int pid = bench_sleeper();

	hostile_start(bench, mount_very_much, &user);
	hostile_go(&user);
	place = place_of(user.pid);
	process = bench_process((uint32_t)user.pid);
	neighbour = bench_process((uint32_t)pid);
	bench_write_perf_map((uint32_t)pid, "1000 100 neighbour\n");
	bench_map(bench, "file", "text", &file);
	theirs = file;
	theirs.file.tgid = (uint32_t)user.pid;
	theirs.file.inode++;
	bench_open(bench);
	assert_string_equal(bench_name(bench, &process, ADDRESS), "");
	assert_int_equal(bench_stats(bench).denied, 1);
	assert_int_equal(bench->names->hung_places.count, 1);
	assert_non_null(fp_hashmap_get(&bench->names->hung_places, &place));
	assert_int_equal(bench_identify(bench, &theirs, &build), FP_NAMES_NONE);
	assert_string_equal(bench_name(bench, &neighbour, ADDRESS), "neighbour");
	assert_int_equal(bench_identify(bench, &file, &build), FP_NAMES_KNOWN);
	assert_int_equal(bench_stats(bench).timeouts, 0);
	assert_int_equal(bench_stats(bench).opener_starts, 1);
	assert_int_equal(bench->names->hung_places.count, 1);
	bench_unmap(&file);
	bench_remove_perf_map((uint32_t)pid);
	bench_kill(pid);
	hostile_end(&user);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_BENCH(a_user_is_named_from_a_map_of_their_own),
		ON_BENCH(a_map_at_a_place_that_no_mount_table_knows_is_not_read),
		ON_BENCH(a_map_with_a_mount_upon_it_is_not_read_whosever_file_it_is),
		ON_BENCH(a_file_of_roots_that_is_mounted_upon_a_map_is_not_read),
		ON_BENCH(a_file_of_roots_in_a_directory_mounted_at_tmp_is_not_read),
		ON_BENCH(a_namespace_with_too_many_mounts_costs_its_neighbours_no_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
