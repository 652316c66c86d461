// SPDX-License-Identifier: Apache-2.0
#include "../cases.h"
#include "../scratch.h"

#include "agent/procfs.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

struct stat_case {
	const char *what, *text;
	int result;
	uint64_t start_ticks;
	uint32_t threads;
	bool zombie;
};

#define FIELDS_4_TO_19 " 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 -16"
static const struct stat_case stat_cases[] = {
	{ "an ordinary line", "1 (sh) S" FIELDS_4_TO_19 " 3 0 4711 99 98\n", 0, 4711, 3, false },
	{ "a name with brackets, spaces and a newline",
	  "1 (a)\n;\xff R 1 (\\) Z" FIELDS_4_TO_19 " 1 0 12345678901 9\n", 0, 12345678901u, 1,
	  true },
	{ "a line cut off", "1 (sh) S" FIELDS_4_TO_19 " 3 0", -EINVAL, 0, 0, false },
	{ "no name", "1 sh S 1 2", -EINVAL, 0, 0, false },
	{ "nothing", "", -EINVAL, 0, 0, false },
};

static void test_stat(void **state)
{
	for (size_t i = 0; i < FP_ARRAY_SIZE(stat_cases); i++) {
		const struct stat_case *c = &stat_cases[i];
		struct fp_procfs_stat stat = { .start_ticks = 1 };

		print_message("  %s\n", c->what);
		assert_int_equal(fp_procfs_stat_parse(c->text, &stat), c->result);
		assert_int_equal(stat.start_ticks, c->result == 0 ? c->start_ticks : 1);
		if (c->result == 0) {
			assert_int_equal(stat.threads, c->threads);
			assert_int_equal(stat.zombie, c->zombie);
		}
	}
}

static void test_own_stat(void **state)
{
	FP_AUTOCLOSE int dirfd = fp_procfs_open((uint32_t)getpid());
	struct fp_procfs_stat stat;

	assert_true(dirfd >= 0);
	assert_int_equal(prctl(PR_SET_NAME, ") Z 9 9 ("), 0);
	assert_int_equal(fp_procfs_stat(dirfd, &stat), 0);
	assert_int_equal(stat.threads, 1);
	assert_false(stat.zombie);
}

struct list {
	struct fp_procfs_map maps[256];
	char names[256][256];
	uint32_t count;
};

static int add(const struct fp_procfs_map *map, void *context)
{
	struct list *list = context;

	assert_true(list->count < 256);
	snprintf(list->names[list->count], 256, "%s", map->name);
	list->maps[list->count++] = *map;
	return 0;
}

// The ioctl and the text must tell the same; the vsyscall page is only in the text.
static void test_query_and_text_agree(void **state)
{
	static struct list text, query;
	void *anonymous =
	    mmap(NULL, 8192, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	FP_AUTOCLOSE int dirfd = fp_procfs_open((uint32_t)getpid());
	bool has_ids = false, has_anonymous = false;

	assert_true(dirfd >= 0);
	assert_int_equal(fp_procfs_maps(dirfd, "maps", add, &query), 0);
	assert_int_equal(fp_procfs_maps_text(dirfd, "maps", add, &text), 0);
	if (text.count && strcmp(text.names[text.count - 1], "[vsyscall]") == 0)
		text.count--;
	if (query.count && strcmp(query.names[query.count - 1], "[vsyscall]") == 0)
		query.count--;
	assert_int_equal(query.count, text.count);
	assert_true(query.count >= 4);
	for (uint32_t i = 0; i < query.count; i++) {
		const struct fp_procfs_map *a = &query.maps[i], *b = &text.maps[i];

		assert_int_equal(a->start, b->start);
		assert_int_equal(a->end, b->end);
		assert_int_equal(a->page_offset, b->page_offset);
		assert_int_equal(a->inode, b->inode);
		assert_int_equal(a->major, b->major);
		assert_int_equal(a->minor, b->minor);
		assert_string_equal(query.names[i], text.names[i]);
		assert_int_equal(b->build_id_len, 0);
		has_ids |= a->build_id_len == 20;
		if (a->start <= (uintptr_t)anonymous && (uintptr_t)anonymous < a->end) {
			has_anonymous = true;
			assert_string_equal(query.names[i], "");
		}
	}
	assert_true(has_anonymous);
	munmap(anonymous, 8192);
	if (!has_ids)
		print_message("  this kernel has no PROCMAP_QUERY: the text was read twice\n");
}

static int stop_at_second(const struct fp_procfs_map *map, void *context)
{
	return ++*(int *)context == 2 ? 7 : 0;
}

static void test_callback_ends_walk(void **state)
{
	FP_AUTOCLOSE int dirfd = fp_procfs_open((uint32_t)getpid());
	int calls = 0;

	assert_int_equal(fp_procfs_maps(dirfd, "maps", stop_at_second, &calls), 7);
	assert_int_equal(calls, 2);
	calls = 0;
	assert_int_equal(fp_procfs_maps_text(dirfd, "maps", stop_at_second, &calls), 7);
	assert_int_equal(calls, 2);
}

struct line_case {
	const char *what, *line, *name; // name NULL: no mapping
	uint64_t start, end, offset, inode;
	uint32_t major, minor;
};

static const struct line_case line_cases[] = {
	{ "a file", "1000-3000 r-xp 00002000 fd:01 77 /bin/a b\n", "/bin/a b", 0x1000, 0x3000,
	  0x2000, 77, 0xfd, 1 },
	{ "no name", "1000-3000 r-xp 00000000 00:00 0 \n", "", 0x1000, 0x3000, 0, 0, 0, 0 },
	{ "not executable", "1000-3000 rw-p 00000000 00:00 0 /x\n", NULL, 0, 0, 0, 0, 0, 0 },
	{ "an empty range", "1000-1000 r-xp 00000000 00:00 0 /x\n", NULL, 0, 0, 0, 0, 0, 0 },
	{ "no inode", "1000-3000 r-xp 00000000 00:00\n", NULL, 0, 0, 0, 0, 0, 0 },
	{ "no numbers", "hello\n", NULL, 0, 0, 0, 0, 0, 0 },
	{ "an empty line", "\n", NULL, 0, 0, 0, 0, 0, 0 },
	{ "the highest page", "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]",
	  "[vsyscall]", 0xffffffffff600000u, 0xffffffffff601000u, 0, 0, 0, 0 },
};

static void test_text_lines(void **state)
{
	FP_AUTOCLOSE int dirfd = open(scratch_directory(), O_PATH | O_DIRECTORY | O_CLOEXEC);

	for (size_t i = 0; i < FP_ARRAY_SIZE(line_cases); i++) {
		const struct line_case *c = &line_cases[i];
		static struct list list;
		FP_AUTOCLOSE int fd =
		    openat(dirfd, "maps", O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);

		print_message("  %s\n", c->what);
		list.count = 0;
		assert_int_equal(write(fd, c->line, strlen(c->line)), strlen(c->line));
		assert_int_equal(fp_procfs_maps_text(dirfd, "maps", add, &list), 0);
		assert_int_equal(list.count, c->name ? 1 : 0);
		if (!c->name)
			continue;
		assert_string_equal(list.names[0], c->name);
		assert_int_equal(list.maps[0].start, c->start);
		assert_int_equal(list.maps[0].end, c->end);
		assert_int_equal(list.maps[0].page_offset, c->offset);
		assert_int_equal(list.maps[0].inode, c->inode);
		assert_int_equal(list.maps[0].major, c->major);
		assert_int_equal(list.maps[0].minor, c->minor);
	}
}

// A child that runs a copy of sleep(1) under the given path, unlinked or not.
static void expect_executable(const char *path, bool unlinked, const char *expected)
{
	FP_AUTOBUF struct fp_buf found = { 0 };
	char command[512];
	pid_t child;

	snprintf(command, sizeof(command), "cp /bin/sleep '%s'", path);
	assert_int_equal(system(command), 0);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		execl(path, path, "1000", NULL);
		_exit(1);
	}
	for (int tries = 0; tries < 5000; tries++) {
		FP_AUTOCLOSE int dirfd = fp_procfs_open((uint32_t)child);

		assert_true(dirfd >= 0);
		if (fp_procfs_executable(dirfd, &found) == 0 &&
		    strcmp((const char *)found.data, path) == 0)
			break;
		usleep(1000);
	}
	assert_string_equal((const char *)found.data, path);
	if (unlinked) {
		FP_AUTOCLOSE int dirfd = fp_procfs_open((uint32_t)child);

		assert_int_equal(unlink(path), 0);
		assert_int_equal(fp_procfs_executable(dirfd, &found), 0);
		assert_string_equal((const char *)found.data, expected);
	}
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

static void test_executable(void **state)
{
	char plain[128], marked[128];

	snprintf(plain, sizeof(plain), "%s/prog", scratch_directory());
	snprintf(marked, sizeof(marked), "%s/prog (deleted)", scratch_directory());
	expect_executable(plain, true, plain);
	expect_executable(marked, false, marked); // really named so
	expect_executable(marked, true, marked);
}

static void test_gone(void **state)
{
	struct fp_procfs_stat stat;
	pid_t child = fork();
	int dirfd;

	if (child == 0)
		_exit(0);
	dirfd = fp_procfs_open((uint32_t)child);
	assert_true(dirfd >= 0);
	waitpid(child, NULL, 0);
	assert_int_equal(fp_procfs_stat(dirfd, &stat), -ESRCH);
	assert_true(fp_procfs_maps(dirfd, "maps", add, NULL) < 0);
	close(dirfd);
	assert_int_equal(fp_procfs_open(5000001), -ENOENT);
}

int main(void)
{
	const struct CMUnitTest cases[] = {
		FP_CASE("fields of a stat line are found behind any name", test_stat),
		FP_CASE("our own stat line can be read under a hostile name", test_own_stat),
		FP_CASE("PROCMAP_QUERY and the text tell the same", test_query_and_text_agree),
		FP_CASE("a callback can end the walk", test_callback_ends_walk),
		FP_CASE("lines of maps that are none of ours are passed over", test_text_lines),
		FP_CASE("an executable keeps its name when it is unlinked", test_executable),
		FP_CASE("a descriptor of a process that has gone reads nobody else", test_gone),
	};

	return cmocka_run_group_tests(cases, NULL, NULL);
}
