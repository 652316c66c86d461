// SPDX-License-Identifier: Apache-2.0
// The client and real files: symbol tables, and a file system that stops answering.
#include "names_bench.h"

#include "common/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

#include <cmocka.h>

struct table {
	bool done;
	int error;
	struct fp_buf text;
};

static void take_table(const struct fp_build *build, int error, const struct fp_buf *text,
		       void *context)
{
	struct table *table = context;

	table->done = true;
	table->error = error;
	if (text)
		fp_buf_append(&table->text, text->data, text->len);
	fp_buf_byte(&table->text, 0);
}

static void wait_for_table(struct bench *bench, const struct bench_file *file,
			   const struct fp_build *build, struct table *table)
{
	assert_int_equal(fp_names_table(bench->names, &file->file, build, take_table, table), 0);
	assert_int_equal(fp_names_table(bench->names, &file->file, build, take_table, table),
			 -EBUSY);
	while (!table->done)
		fp_names_settle(bench->names, FP_NS_PER_MS);
}

// Linked into this very program, and nowhere exported.
void a_function_to_be_found_in_the_table(void);
void a_function_to_be_found_in_the_table(void) {}

static void the_table_of_a_program_names_its_functions(void **state)
{
	struct bench *bench = *state;
	struct bench_file program;
	struct fp_build build = { 0 };
	struct table table = { 0 }, other = { 0 }, gone = { 0 };

	bench_open(bench);
	bench_own_program(&program);
	assert_int_equal(bench_identify(bench, &program, &build), FP_NAMES_KNOWN);
	assert_int_equal(build.kind, FP_BUILD_GNU);
	wait_for_table(bench, &program, &build, &table);
	assert_int_equal(table.error, 0);
	assert_non_null(
	    strstr((const char *)table.text.data, "a_function_to_be_found_in_the_table"));
	assert_int_equal(bench_stats(bench).tables_made, 1);
	assert_int_equal(bench_stats(bench).table_bytes, table.text.len - 1);
	build.id[0] ^= 1;
	wait_for_table(bench, &program, &build, &other);
	assert_int_equal(other.error, -EBADMSG);
	program.file.tgid = 0x7ffffff0;
	program.file.name = "/nowhere";
	wait_for_table(bench, &program, &build, &gone);
	assert_int_equal(gone.error, -ENOENT);
	fp_buf_free(&table.text);
	fp_buf_free(&other.text);
	fp_buf_free(&gone.text);
}

static void a_role_that_dies_over_a_table_does_not_get_it_again(void **state)
{
	struct bench *bench = *state;
	struct bench_file program;
	const struct fp_build build = { .kind = FP_BUILD_GNU, .id_len = 20 };
	struct table table = { 0 };

	bench->first_role = BENCH_DIES;
	bench_open(bench);
	bench_own_program(&program);
	wait_for_table(bench, &program, &build, &table);
	assert_int_equal(table.error, -EBADMSG);
	fp_buf_free(&table.text);
}

static void no_table_is_made_of_a_file_that_others_than_root_may_write(void **state)
{
	struct bench *bench = *state;
	struct bench_file file;
	const struct fp_build build = { .kind = FP_BUILD_GNU, .id_len = 20 };
	struct table table = { 0 };

	bench_open(bench);
	bench_map(bench, "file", "of another process", &file);
	assert_int_equal(chmod(file.path, 0666), 0);
	file.file.tgid = 0x7ffffff0; // so by its name
	wait_for_table(bench, &file, &build, &table);
	assert_int_equal(table.error, -EPERM);
	assert_int_equal(bench_stats(bench).tables_made, 0);
	bench_unmap(&file);
	fp_buf_free(&table.text);
}

// ---- a file system that stops answering ----

struct dead_mount {
	int pid, input, output;
	char point[96];
	struct bench_file file;
};

static void start_server(struct bench *bench, struct dead_mount *dead, const char *source)
{
	char program[512];
	int input[2], output[2];
	char ready[16] = "";

	snprintf(program, sizeof(program), "%s/tests/programs/deadfuse", getenv("FP_BINARY_DIR"));
	assert_int_equal(pipe(input), 0);
	assert_int_equal(pipe(output), 0);
	dead->pid = fork();
	assert_true(dead->pid >= 0);
	if (dead->pid == 0) {
		prctl(PR_SET_PDEATHSIG, (long)SIGKILL, 0L, 0L, 0L);
		dup2(input[0], STDIN_FILENO);
		dup2(output[1], STDOUT_FILENO);
		close_range(STDERR_FILENO + 1, ~0U, 0);
		execl(program, program, dead->point, source, (char *)NULL);
		_exit(1);
	}
	close(input[0]);
	close(output[1]);
	dead->input = input[1];
	dead->output = output[0];
	assert_true(read(dead->output, ready, sizeof(ready) - 1) > 0);
	assert_memory_equal(ready, "ready", 5);
}

// Mounted, a file of it mapped into this process, and then silent.
static void dead_mount_make(struct bench *bench, struct dead_mount *dead)
{
	char source[96];
	struct stat st;
	char said[16] = "";
	int fd;

	if (geteuid() != 0 || !getenv("FP_BINARY_DIR") || access("/dev/fuse", R_OK | W_OK) < 0 ||
	    unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		skip(); // needs root and /dev/fuse
	snprintf(dead->point, sizeof(dead->point), "%s/dead", bench->directory);
	snprintf(source, sizeof(source), "%s/program", bench->directory);
	assert_int_equal(mkdir(dead->point, 0755), 0);
	fd = open(source, O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
	assert_int_equal(ftruncate(fd, 8192), 0);
	close(fd);
	start_server(bench, dead, source);
	unlink(source);
	dead->file = (struct bench_file){ .size = 4096 };
	snprintf(dead->file.path, sizeof(dead->file.path), "%s/program", dead->point);
	fd = open(dead->file.path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	dead->file.memory = mmap(NULL, dead->file.size, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	assert_ptr_not_equal(dead->file.memory, MAP_FAILED);
	close(fd);
	dead->file.file = (struct fp_names_file){
		.tgid = (uint32_t)getpid(),
		.start = (uint64_t)(uintptr_t)dead->file.memory,
		.end = (uint64_t)(uintptr_t)dead->file.memory + dead->file.size,
		.device = (uint64_t)major(st.st_dev) << 32 | minor(st.st_dev),
		.inode = st.st_ino,
		.name = dead->file.path,
	};
	assert_int_equal(write(dead->input, "\n", 1), 1);
	assert_true(read(dead->output, said, sizeof(said) - 1) > 0);
	assert_string_equal(said, "dead\n");
}

static void dead_mount_end(struct dead_mount *dead)
{
	kill(dead->pid, SIGKILL);
	assert_int_equal(waitpid(dead->pid, NULL, 0), dead->pid);
	close(dead->input);
	close(dead->output);
	munmap(dead->file.memory, dead->file.size);
	umount2(dead->point, MNT_DETACH);
	rmdir(dead->point);
}

static void a_file_of_a_denied_kind_is_not_touched(void **state)
{
	struct bench *bench = *state;
	struct dead_mount dead;
	struct fp_build build = { 0 };

	dead_mount_make(bench, &dead);
	bench_open(bench);
	assert_int_equal(bench_identify(bench, &dead.file, &build), FP_NAMES_NONE);
	assert_int_equal(bench_stats(bench).denied, 1);
	assert_int_equal(bench_stats(bench).timeouts, 0);
	assert_int_equal(bench_stats(bench).opener_starts, 1);
	dead_mount_end(&dead);
}

static void who_hangs_in_a_file_system_is_left_behind_and_work_goes_on(void **state)
{
	struct bench *bench = *state;
	struct dead_mount dead;
	struct bench_file other;
	struct fp_build build = { 0 };

	dead_mount_make(bench, &dead);
	bench->options.deny_file_systems = "";
	bench->options.request_deadline_ns = FP_NS_PER_S / 2;
	bench_open(bench);
	assert_int_equal(bench_identify(bench, &dead.file, &build), FP_NAMES_NONE);
	assert_int_equal(bench_stats(bench).timeouts, 1);
	bench_map(bench, "other", "on a disk", &other);
	assert_int_equal(bench_identify(bench, &other, &build), FP_NAMES_KNOWN);
	assert_int_equal(bench_stats(bench).timeouts, 1);
	bench_unmap(&other);
	dead_mount_end(&dead);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_BENCH(the_table_of_a_program_names_its_functions),
		ON_BENCH(a_role_that_dies_over_a_table_does_not_get_it_again),
		ON_BENCH(no_table_is_made_of_a_file_that_others_than_root_may_write),
		ON_BENCH(a_file_of_a_denied_kind_is_not_touched),
		ON_BENCH(who_hangs_in_a_file_system_is_left_behind_and_work_goes_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
