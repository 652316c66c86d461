// SPDX-License-Identifier: Apache-2.0
// The opener against real files: what it finds, what it refuses, what it sends.
#include "agent/opener.h"
#include "agent/procfs.h"
#include "common/cleanup.h"
#include "names_bench.h"
#include "opener_talk.h"

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
#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

#include <cmocka.h>

#define NO_PROCESS 0x7ffffff0u

static void a_mapped_file_is_had_though_it_was_deleted_and_replaced(void **state)
{
	struct bench *bench = *state;
	struct opener opener;
	struct fp_opener_answer answer;
	struct bench_file file, other;

	opener_open(&opener);
	bench_map(bench, "file", "mapped", &file);
	unlink(file.path);
	bench_map(bench, "file", "in its place", &other);
	opener_ask(&opener, opener_request(&file), file.path, "fuse", &answer);
	assert_int_equal(answer.error, 0);
	assert_int_equal(answer.inode, file.file.inode);
	assert_int_equal(answer.size, strlen("mapped"));
	assert_opener_sends(&opener, "mapped");
	bench_unmap(&file);
	bench_unmap(&other);
	opener_close(&opener);
}

static void a_file_known_as_it_is_is_not_sent(void **state)
{
	struct bench *bench = *state;
	struct opener opener;
	struct fp_opener_answer answer, again;
	struct fp_opener_request request;
	struct bench_file file;

	opener_open(&opener);
	bench_map(bench, "file", "text", &file);
	request = opener_request(&file);
	opener_ask(&opener, request, file.path, "", &answer);
	assert_opener_sends(&opener, "text");
	request.known_device = answer.device;
	request.known_inode = answer.inode;
	request.known_change_ns = answer.change_ns;
	request.known_size = answer.size;
	opener_ask(&opener, request, file.path, "", &again);
	assert_int_equal(again.error, -EALREADY);
	assert_int_equal(opener_receive(&opener), -1);
	assert_int_equal(truncate(file.path, 2), 0);
	opener_ask(&opener, request, file.path, "", &again);
	assert_int_equal(again.error, 0);
	assert_opener_sends(&opener, "te");
	bench_unmap(&file);
	opener_close(&opener);
}

static void a_file_of_a_process_that_has_gone_is_had_by_its_name_if_it_is_the_same(void **state)
{
	struct bench *bench = *state;
	struct opener opener;
	struct fp_opener_answer answer;
	struct fp_opener_request request;
	struct bench_file file;
	char name[160];

	opener_open(&opener);
	bench_map(bench, "file", "by name", &file);
	request = opener_request(&file);
	request.tgid = NO_PROCESS;
	opener_ask(&opener, request, file.path, "", &answer);
	assert_int_equal(answer.error, 0);
	assert_opener_sends(&opener, "by name");
	request.inode++;
	opener_ask(&opener, request, file.path, "", &answer);
	assert_int_equal(answer.error, -ENOENT);
	request.inode--;
	// Below a link the same file has another name: not followed.
	snprintf(name, sizeof(name), "%s/link", bench->directory);
	assert_int_equal(symlink(file.path, name), 0);
	opener_ask(&opener, request, name, "", &answer);
	assert_int_equal(answer.error, -ENOENT);
	unlink(name);
	assert_int_equal(opener_receive(&opener), -1);
	bench_unmap(&file);
	opener_close(&opener);
}

static void the_device_is_told_before_the_opening_and_is_left_alone_when_hung(void **state)
{
	struct bench *bench = *state;
	struct opener opener;
	struct fp_opener_answer answer;
	struct fp_opener_request request;
	struct bench_file file;

	opener_open(&opener);
	bench_map(bench, "file", "text", &file);
	request = opener_request(&file);
	opener_ask(&opener, request, file.path, "", &answer);
	assert_int_equal(answer.error, 0);
	assert_true(opener.place == file.file.device);
	assert_opener_sends(&opener, "text");
	opener.hung = file.file.device;
	opener_ask(&opener, request, file.path, "", &answer);
	assert_int_equal(answer.error, -EACCES);
	assert_int_equal(answer.refusal, FP_OPENER_HUNG);
	request.tgid = NO_PROCESS; // by its name it is the same
	opener_ask(&opener, request, file.path, "", &answer);
	assert_int_equal(answer.refusal, FP_OPENER_HUNG);
	assert_int_equal(opener_receive(&opener), -1);
	assert_true(opener.place == 0);
	opener.hung = file.file.device + 1;
	opener_ask(&opener, request, file.path, "", &answer);
	assert_int_equal(answer.error, 0);
	assert_opener_sends(&opener, "text");
	bench_unmap(&file);
	opener_close(&opener);
}

static void a_mapping_says_which_file_it_is(void **state)
{
	struct bench *bench = *state;
	struct opener opener;
	struct fp_opener_answer answer;
	struct fp_opener_request request;
	struct bench_file file;

	opener_open(&opener);
	bench_map(bench, "file", "had", &file);
	request = opener_request(&file);
	request.device = request.inode = 0;
	opener_ask(&opener, request, file.path, "", &answer);
	assert_int_equal(answer.error, 0);
	assert_opener_sends(&opener, "had");
	request.end += 4096; // a mapping of long ago: whose file it was is not known
	opener_ask(&opener, request, file.path, "", &answer);
	assert_int_equal(answer.error, -ENOENT);
	bench_unmap(&file);
	opener_close(&opener);
}

static void memory_that_is_a_file_is_had(void **state)
{
	struct opener opener;
	struct fp_opener_answer answer;
	struct bench_file file = { .size = 4096 };
	struct stat st;
	int fd = memfd_create("jit", MFD_CLOEXEC);

	opener_open(&opener);
	assert_int_equal(write(fd, "code", 4), 4);
	assert_int_equal(fstat(fd, &st), 0);
	file.memory = mmap(NULL, file.size, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
	close(fd);
	file.file = (struct fp_names_file){
		.tgid = (uint32_t)getpid(),
		.start = (uint64_t)(uintptr_t)file.memory,
		.end = (uint64_t)(uintptr_t)file.memory + file.size,
		.device = (uint64_t)major(st.st_dev) << 32 | minor(st.st_dev),
		.inode = st.st_ino,
	};
	opener_ask(&opener, opener_request(&file), "/memfd:jit (deleted)", "fuse", &answer);
	assert_int_equal(answer.error, 0);
	assert_opener_sends(&opener, "code");
	munmap(file.memory, file.size);
	opener_close(&opener);
}

static void nothing_is_opened_on_a_denied_or_unknown_file_system(void **state)
{
	struct bench *bench = *state;
	struct opener opener;
	struct fp_opener_answer answer;
	struct fp_opener_request request;
	struct bench_file file;

	opener_open(&opener);
	bench_map(bench, "file", "text", &file);
	request = opener_request(&file);
	opener_ask(&opener, request, file.path, "ext4, tmpfs, overlay, xfs, btrfs, zfs", &answer);
	assert_int_equal(answer.error, -EACCES);
	assert_int_equal(answer.refusal, FP_OPENER_DENIED);
	request.device = 0xfffff; // without a block device, and in no mount table
	opener_ask(&opener, request, file.path, "fuse", &answer);
	assert_int_equal(answer.error, -EACCES);
	assert_int_equal(answer.refusal, FP_OPENER_DENIED);
	assert_int_equal(opener_receive(&opener), -1);
	bench_unmap(&file);
	opener_close(&opener);
}

static void a_device_that_is_mapped_is_not_opened(void **state)
{
	struct opener opener;
	struct fp_opener_answer answer;
	struct bench_file file = { .size = 4096 };
	struct stat st;
	int fd = open("/dev/zero", O_RDWR | O_CLOEXEC);

	opener_open(&opener);
	file.memory = mmap(NULL, file.size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (file.memory == MAP_FAILED || fstat(fd, &st) < 0)
		skip();
	close(fd);
	file.file = (struct fp_names_file){
		.tgid = (uint32_t)getpid(),
		.start = (uint64_t)(uintptr_t)file.memory,
		.end = (uint64_t)(uintptr_t)file.memory + file.size,
		.device = (uint64_t)major(st.st_dev) << 32 | minor(st.st_dev),
		.inode = st.st_ino,
	};
	opener_ask(&opener, opener_request(&file), "/dev/zero", "", &answer);
	assert_int_equal(answer.error, -EACCES);
	assert_int_equal(answer.refusal, FP_OPENER_TYPE);
	munmap(file.memory, file.size);
	opener_close(&opener);
}

static const struct {
	const char *claim;
	uid_t owner;
	mode_t mode;
	bool sent;
} written_by[] = {
	{ "root's file is sent", 0, 0755, true },
	{ "so is one that root alone may read", 0, 0600, true },
	{ "another user's is not", 65534, 0755, false },
	{ "nor one that a group may write", 0, 0775, false },
	{ "nor one that all may write", 0, 0757, false },
};

static void of_a_table_nothing_is_sent_that_others_than_root_may_write(void **state)
{
	struct bench *bench = *state;
	struct opener opener;
	struct bench_file file;
	struct fp_opener_request request;

	opener_open(&opener);
	bench_map(bench, "file", "text", &file);
	request = opener_request(&file);
	request.root_only = 1;
	for (size_t i = 0; i < FP_ARRAY_SIZE(written_by); i++) {
		bool is_root = chown(file.path, written_by[i].owner, 0) == 0; // we are
		bool sent = is_root && written_by[i].sent;
		struct fp_opener_answer answer;
		int fd FP_AUTOCLOSE = -1;

		assert_int_equal(chmod(file.path, written_by[i].mode), 0);
		opener_ask(&opener, request, file.path, "", &answer);
		fd = opener_receive(&opener);
		if ((fd >= 0) != sent || answer.error != (sent ? 0 : -EACCES) ||
		    answer.refusal != (sent ? FP_OPENER_NOT_REFUSED : FP_OPENER_OWNER))
			fail_msg("not so: %s", written_by[i].claim);
	}
	bench_unmap(&file);
	opener_close(&opener);
}

static void a_request_that_makes_no_sense_is_answered_or_ends_it(void **state)
{
	struct opener opener;
	struct fp_opener_answer answer;
	int status;

	opener_open(&opener);
	opener_ask(&opener, (struct fp_opener_request){ .kind = 99 }, "", "", &answer);
	assert_int_equal(answer.error, -EINVAL);
	assert_int_equal(send(opener.socket, "short", 5, MSG_NOSIGNAL), 5);
	assert_int_equal(waitpid(opener.pid, &status, 0), opener.pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
	close(opener.socket);
	close(opener.role[0]);
	close(opener.role[1]);
}

// ---- an overlay, as containers have it ----

static void map_in_overlay(const char *directory, const char *below, struct bench_file *ret)
{
	char options[320], path[128];

	snprintf(options, sizeof(options), "lowerdir=%s/lower,upperdir=%s/upper,workdir=%s/work",
		 directory, directory, directory);
	snprintf(path, sizeof(path), "%s/merged", directory);
	if (mount("overlay", path, "overlay", 0, options) < 0) {
		print_message("overlay cannot be mounted here: %s\n", strerror(errno));
		skip();
	}
	*ret = (struct bench_file){ .size = 4096 };
	snprintf(ret->path, sizeof(ret->path), "%s/merged/%s", directory, below);
}

static void make_tree(const char *directory)
{
	static const char *const names[] = { "lower", "upper", "work", "merged" };
	char path[128];

	if (mount("tmpfs", directory, "tmpfs", 0, NULL) < 0)
		skip();
	for (size_t i = 0; i < FP_ARRAY_SIZE(names); i++) {
		snprintf(path, sizeof(path), "%s/%s", directory, names[i]);
		assert_int_equal(mkdir(path, 0755), 0);
	}
}

static int take_mapping(const struct fp_procfs_map *map, void *context)
{
	struct bench_file *file = context;

	if (map->start != (uint64_t)(uintptr_t)file->memory)
		return 0;
	file->file = (struct fp_names_file){
		.tgid = (uint32_t)getpid(),
		.start = map->start,
		.end = map->end,
		.device = (uint64_t)map->major << 32 | map->minor,
		.inode = map->inode,
		.name = file->path,
	};
	return 1;
}

static void a_file_of_an_overlay_is_had_by_its_mapping_and_by_its_name(void **state)
{
	struct bench *bench = *state;
	struct opener opener;
	struct fp_opener_answer answer;
	struct fp_opener_request request;
	struct bench_file file;
	char path[160];
	int fd, dirfd;

	if (geteuid() != 0 || unshare(CLONE_NEWNS) < 0 ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		skip(); // needs root for a mount namespace
	make_tree(bench->directory);
	snprintf(path, sizeof(path), "%s/lower/program", bench->directory);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
	assert_int_equal(write(fd, "layered", 7), 7);
	close(fd);
	map_in_overlay(bench->directory, "program", &file);
	fd = open(file.path, O_RDONLY | O_CLOEXEC);
	file.memory = mmap(NULL, file.size, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	close(fd);
	dirfd = fp_procfs_open((uint32_t)getpid());
	assert_int_equal(fp_procfs_maps(dirfd, "maps", take_mapping, &file), 1);
	close(dirfd);
	opener_open(&opener);
	request = opener_request(&file);
	opener_ask(&opener, request, file.path, "fuse", &answer);
	assert_int_equal(answer.error, 0);
	assert_opener_sends(&opener, "layered");
	request.tgid = NO_PROCESS;
	opener_ask(&opener, request, file.path, "fuse", &answer);
	assert_int_equal(answer.error, 0);
	assert_opener_sends(&opener, "layered");
	munmap(file.memory, file.size);
	opener_close(&opener);
	snprintf(path, sizeof(path), "%s/merged", bench->directory);
	umount2(path, MNT_DETACH);
	umount2(bench->directory, MNT_DETACH);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_BENCH(a_mapped_file_is_had_though_it_was_deleted_and_replaced),
		ON_BENCH(a_file_known_as_it_is_is_not_sent),
		ON_BENCH(a_file_of_a_process_that_has_gone_is_had_by_its_name_if_it_is_the_same),
		ON_BENCH(the_device_is_told_before_the_opening_and_is_left_alone_when_hung),
		ON_BENCH(a_mapping_says_which_file_it_is),
		ON_BENCH(memory_that_is_a_file_is_had),
		ON_BENCH(nothing_is_opened_on_a_denied_or_unknown_file_system),
		ON_BENCH(a_device_that_is_mapped_is_not_opened),
		ON_BENCH(of_a_table_nothing_is_sent_that_others_than_root_may_write),
		ON_BENCH(a_request_that_makes_no_sense_is_answered_or_ends_it),
		ON_BENCH(a_file_of_an_overlay_is_had_by_its_mapping_and_by_its_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
