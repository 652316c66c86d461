// SPDX-License-Identifier: Apache-2.0
// Builds found in running processes: the file as it is mapped, whatever its path has become.
#include "agent/process_find.h"
#include "agent/process_table.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define AUTOTABLE FP_CLEANUP(fp_process_table_freep) struct fp_process_table *

static struct fp_process_table *new_table(void)
{
	struct fp_process_table *table = NULL;

	assert_int_equal(fp_process_table_new(NULL, &table), 0);
	return table;
}

static struct fp_build build_of(const struct fp_file *file)
{
	struct fp_build build = { .id_len = file->build_id_len };

	memcpy(build.id, file->build_id, file->build_id_len);
	return build;
}

// The table's file whose path ends with `end` and whose build-ID is known.
static const struct fp_file *file_called(const struct fp_process_table *table, const char *end)
{
	const struct fp_files *files = &table->pool.files;

	for (uint32_t i = 0; i < files->count; i++) {
		const char *name = files->files[i].name;

		if (files->refs[i] && files->files[i].build_id_len && strlen(name) >= strlen(end) &&
		    strcmp(name + strlen(name) - strlen(end), end) == 0)
			return &files->files[i];
	}
	return NULL;
}

// A copy of sleep(1) that runs; its path may be gone by the time it is looked for.
static pid_t run_copy(const char *path)
{
	char command[256];
	int ready[2];
	char byte;
	pid_t pid;

	snprintf(command, sizeof(command), "cp /bin/sleep %s", path);
	assert_int_equal(system(command), 0);
	assert_int_equal(pipe2(ready, O_CLOEXEC), 0); // closed by the exec
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, (long)SIGKILL, 0L, 0L, 0L);
		execl(path, "sleep", "600", NULL);
		_exit(127);
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 0);
	close(ready[0]);
	return pid;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static int find(const struct fp_process_table *table, const struct fp_build *build,
		struct fp_process_find *found)
{
	static const struct fp_process_tried nothing;

	return fp_process_table_find_build(table, NULL, build, &nothing, found);
}

// The program itself is mapped a moment after the exec.
static void preload(struct fp_process_table *table, pid_t pid)
{
	assert_int_equal(fp_process_table_preload(table, (uint32_t)pid), 0);
}

static const struct fp_file *need(const struct fp_file *file)
{
	if (!file) {
		print_message("skipped: this kernel gives no build-IDs\n");
		skip();
	}
	return file;
}

static void a_file_that_we_have_mapped_is_found(void **state)
{
	AUTOTABLE table = new_table();
	struct fp_process_find found;
	struct fp_build build;

	preload(table, getpid());
	build = build_of(need(file_called(table, "/libc.so.6")));
	assert_int_equal(find(table, &build, &found), 0);
	assert_int_equal(found.file.tgid, getpid());
	assert_int_equal(found.build.kind, FP_BUILD_GNU);
	assert_memory_equal(found.build.id, build.id, build.id_len);
	assert_true(found.file.inode != 0);
	assert_true(found.file.start < found.file.end);
	build.id[3] ^= 1;
	assert_int_equal(find(table, &build, &found), -ENOENT);
	build.id[3] ^= 1;
	build.id_len--;
	assert_int_equal(find(table, &build, &found), -ENOENT);
}

static void a_deleted_program_is_found_while_it_runs(void **state)
{
	char path[] = "/tmp/fleetprof-find-XXXXXX";
	int fd = mkstemp(path);
	AUTOTABLE table = new_table();
	struct fp_process_find found;
	struct fp_build build;
	pid_t pid;

	assert_true(fd >= 0);
	close(fd);
	unlink(path);
	pid = run_copy(path);
	unlink(path);
	preload(table, pid);
	build = build_of(need(file_called(table, " (deleted)")));
	assert_int_equal(find(table, &build, &found), 0);
	assert_int_equal(found.file.tgid, pid);
	assert_non_null(strstr(found.file.name, " (deleted)"));
	assert_non_null(strstr(found.file.name, path));
	end(pid);
	// No event has told of its end.
	assert_int_equal(find(table, &build, &found), -ENOENT);
}

static void another_process_with_the_build_is_taken_when_one_has_gone(void **state)
{
	AUTOTABLE table = new_table();
	struct fp_process_find found;
	struct fp_build build;
	pid_t one = run_copy("/tmp/fleetprof-find-two"), other;

	unlink("/tmp/fleetprof-find-two");
	other = run_copy("/tmp/fleetprof-find-two");
	preload(table, other);
	preload(table, one);
	build = build_of(need(file_called(table, "/fleetprof-find-two")));
	end(one);
	assert_int_equal(find(table, &build, &found), 0);
	assert_int_equal(found.file.tgid, other);
	end(other);
	unlink("/tmp/fleetprof-find-two");
}

// Two have one path, one after the other, so that the table takes their files for one.
static void each_file_that_claims_to_be_the_build_is_found_in_turn(void **state)
{
	static const char *const paths[] = { "/tmp/fleetprof-find-own", "/tmp/fleetprof-find-twin",
					     "/tmp/fleetprof-find-twin" };
	AUTOTABLE table = new_table();
	struct fp_process_tried tried = { 0 };
	struct fp_process_find found;
	struct fp_build build;
	pid_t pids[FP_ARRAY_SIZE(paths)], copy = run_copy("/tmp/fleetprof-find-copy");

	preload(table, copy);
	for (size_t i = 0; i < FP_ARRAY_SIZE(paths); i++) {
		unlink(paths[i]);
		pids[i] = run_copy(paths[i]);
		preload(table, pids[i]);
	}
	build = build_of(need(file_called(table, "/fleetprof-find-own")));
	for (size_t i = FP_ARRAY_SIZE(paths); i-- > 0;) { // last used first
		assert_int_equal(fp_process_table_find_build(table, NULL, &build, &tried, &found),
				 0);
		assert_int_equal(found.file.tgid, pids[i]);
		assert_true(fp_process_tried_add(&tried, &found.file));
	}
	assert_int_equal(fp_process_table_find_build(table, NULL, &build, &tried, &found), 0);
	assert_int_equal(found.file.tgid, copy);
	assert_true(fp_process_tried_add(&tried, &found.file));
	assert_int_equal(fp_process_table_find_build(table, NULL, &build, &tried, &found), -ENOENT);
	for (size_t i = 0; i < FP_ARRAY_SIZE(paths); i++) {
		end(pids[i]);
		unlink(paths[i]);
	}
	end(copy);
	unlink("/tmp/fleetprof-find-copy");
}

static void files_are_tried_within_bounds(void **state)
{
	struct fp_process_tried tried = { 0 };
	struct fp_names_file file = { .device = 1 };

	for (uint32_t i = 0; i < FP_PROCESS_TRIES_MAX; i++) {
		file.inode = i;
		assert_true(fp_process_tried_add(&tried, &file));
	}
	assert_false(fp_process_tried_add(&tried, &file));
	assert_int_equal(tried.count, FP_PROCESS_TRIES_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_file_that_we_have_mapped_is_found),
		cmocka_unit_test(a_deleted_program_is_found_while_it_runs),
		cmocka_unit_test(another_process_with_the_build_is_taken_when_one_has_gone),
		cmocka_unit_test(each_file_that_claims_to_be_the_build_is_found_in_turn),
		cmocka_unit_test(files_are_tried_within_bounds),
	};

	return cmocka_run_group_tests_name("process_find", tests, NULL, NULL);
}
