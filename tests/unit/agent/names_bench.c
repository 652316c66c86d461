// SPDX-License-Identifier: Apache-2.0
#include "names_bench.h"

#include "agent/symbolrole.h"
#include "common/clock.h"
#include "common/file.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

#include <cmocka.h>

#define PATIENCE_NS (100 * FP_NS_PER_S)

// ---- children ----

static void become_child(int socket_fd)
{
	prctl(PR_SET_PDEATHSIG, (long)SIGKILL, 0L, 0L, 0L);
	if (dup2(socket_fd, STDERR_FILENO + 1) < 0)
		_exit(9);
	close_range(STDERR_FILENO + 2, ~0U, 0);
}

// Long enough for both kinds of answers; what it holds is right but for the fault.
struct wrong_answer {
	union {
		struct fp_opener_answer opener;
		struct {
			struct fp_role_packet head;
			struct fp_role_identity identity;
		} role;
	} as;
	uint8_t behind[FP_NAMES_PACKET_MAX];
};

static struct wrong_answer answer;

static size_t answer_opener(const struct fp_opener_request *request, enum bench_child fault)
{
	answer.as.opener =
	    (struct fp_opener_answer){ .kind = request->kind, .serial = request->serial };
	if (fault == BENCH_OTHER_SERIAL)
		answer.as.opener.serial += 7;
	if (fault == BENCH_WRONG)
		answer.as.opener.error = 1; // no errno, and no success
	return sizeof(answer.as.opener);
}

static void enter(int socket_fd, const struct fp_opener_request *request, uint64_t place)
{
	const struct fp_opener_answer notice = { .kind = request->kind,
						 .serial = request->serial,
						 .error = -EINPROGRESS,
						 .device = place };

	send(socket_fd, &notice, sizeof(notice), MSG_NOSIGNAL);
}

static size_t answer_role(const struct fp_role_packet *request, enum bench_child fault)
{
	answer.as.role.head = (struct fp_role_packet){ .kind = request->kind,
						       .size = sizeof(answer.as.role.identity),
						       .serial = request->serial };
	answer.as.role.identity = (struct fp_role_identity){ .kind = FP_BUILD_GNU, .id_len = 20 };
	if (fault == BENCH_OTHER_SERIAL)
		answer.as.role.head.serial += 7;
	if (fault == BENCH_WRONG)
		answer.as.role.identity.id_len = FP_BUILD_ID_MAX + 1;
	return sizeof(answer.as.role.head) + sizeof(answer.as.role.identity); // without padding
}

static void misbehave(int socket_fd, enum bench_child fault, bool is_opener)
{
	static uint8_t request[1 << 18];

	while (recv(socket_fd, request, sizeof(request), 0) > 0) {
		size_t size;

		if (fault == BENCH_CLOSES)
			close(socket_fd);
		while (fault == BENCH_CLOSES)
			pause();

		if (fault == BENCH_DIES)
			_exit(3);
		if (fault == BENCH_ENTERS || fault == BENCH_LEAVES)
			enter(socket_fd, (void *)request,
			      ((const struct fp_opener_request *)request)->device);
		if (fault == BENCH_LEAVES)
			enter(socket_fd, (void *)request, 0);
		if (fault == BENCH_SILENT || fault == BENCH_ENTERS || fault == BENCH_LEAVES)
			continue;
		size = is_opener ? answer_opener((void *)request, fault)
				 : answer_role((void *)request, fault);
		if (fault == BENCH_LONG)
			size += 3;
		if (fault == BENCH_SHORT)
			size -= 3;
		if (fault == BENCH_HUGE)
			size = sizeof(answer);
		send(socket_fd, &answer, size, MSG_NOSIGNAL);
	}
}

static int start(int socket_fd, enum bench_child kind, bool is_opener)
{
	int pid = fork();

	if (pid != 0)
		return pid;
	become_child(socket_fd);
	socket_fd = STDERR_FILENO + 1;
	if (kind != BENCH_REAL)
		misbehave(socket_fd, kind, is_opener);
	else if (is_opener)
		fp_opener_serve(socket_fd);
	else
		fp_symbol_role_serve(socket_fd);
	_exit(0);
}

static int start_opener(int socket_fd, void *context)
{
	struct bench *bench = context;

	return start(socket_fd, bench->openers++ ? BENCH_REAL : bench->first_opener, true);
}

static int start_role(int socket_fd, void *context)
{
	struct bench *bench = context;

	return start(socket_fd, bench->roles++ ? BENCH_REAL : bench->first_role, false);
}

// ---- the client ----

int bench_up(void **state)
{
	struct bench *bench = calloc(1, sizeof(*bench));

	if (!bench)
		return -1;
	snprintf(bench->directory, sizeof(bench->directory), "/tmp/fp-names-XXXXXX");
	if (!mkdtemp(bench->directory))
		return -1;
	bench->options = (struct fp_names_options){
		.jit = true,
		.deny_file_systems = "fuse, nfs",
		.request_deadline_ns = 20 * FP_NS_PER_S,
	};
	*state = bench;
	return 0;
}

int bench_down(void **state)
{
	struct bench *bench = *state;

	fp_names_free(bench->names);
	rmdir(bench->directory);
	free(bench);
	return 0;
}

void bench_open(struct bench *bench)
{
	assert_int_equal(
	    fp_names_open_with(&bench->options, start_opener, start_role, bench, &bench->names), 0);
}

void bench_settle(struct bench *bench)
{
	assert_int_equal(fp_names_settle(bench->names, PATIENCE_NS), 0);
}

struct fp_names_stats bench_stats(const struct bench *bench)
{
	struct fp_names_stats stats;

	fp_names_stats(bench->names, &stats);
	return stats;
}

// ---- files ----

void bench_map(struct bench *bench, const char *name, const char *text, struct bench_file *ret)
{
	struct stat st;
	int fd;

	*ret = (struct bench_file){ .size = 4096 };
	snprintf(ret->path, sizeof(ret->path), "%s/%s", bench->directory, name);
	fd = open(ret->path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
	assert_true(fd >= 0);
	assert_int_equal(fp_write_all(fd, text, strlen(text)), 0);
	assert_int_equal(fstat(fd, &st), 0);
	ret->memory = mmap(NULL, ret->size, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	close(fd);
	assert_ptr_not_equal(ret->memory, MAP_FAILED);
	ret->file = (struct fp_names_file){
		.tgid = (uint32_t)getpid(),
		.start = (uint64_t)(uintptr_t)ret->memory,
		.end = (uint64_t)(uintptr_t)ret->memory + ret->size,
		.device = (uint64_t)major(st.st_dev) << 32 | minor(st.st_dev),
		.inode = st.st_ino,
		.name = ret->path,
	};
}

void bench_unmap(struct bench_file *file)
{
	munmap(file->memory, file->size);
	unlink(file->path);
}

void bench_own_program(struct bench_file *ret)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	unsigned long start, end, offset, inode;
	unsigned int major_number, minor_number;
	char flags[8];

	assert_non_null(maps);
	*ret = (struct bench_file){ 0 };
	while (fscanf(maps, "%lx-%lx %7s %lx %x:%x %lu%*[ ]%127[^\n]\n", &start, &end, flags,
		      &offset, &major_number, &minor_number, &inode, ret->path) >= 7)
		if (flags[2] == 'x')
			break;
	fclose(maps);
	assert_int_equal(flags[2], 'x');
	ret->offset = offset;
	ret->file = (struct fp_names_file){
		.tgid = (uint32_t)getpid(),
		.start = start,
		.end = end,
		.device = (uint64_t)major_number << 32 | minor_number,
		.inode = inode,
		.name = ret->path,
	};
}

enum fp_names_state bench_identify(struct bench *bench, const struct bench_file *file,
				   struct fp_build *ret_build)
{
	assert_int_equal(fp_names_want_identity(bench->names, &file->file), 0);
	bench_settle(bench);
	return fp_names_identity(bench->names, &file->file, ret_build);
}

// ---- perf maps ----

void bench_write_perf_map(uint32_t pid, const char *text)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/tmp/perf-%u.map", pid);
	fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	assert_true(fd >= 0);
	assert_int_equal(fp_write_all(fd, text, strlen(text)), 0);
	close(fd);
}

void bench_remove_perf_map(uint32_t pid)
{
	char path[64];

	snprintf(path, sizeof(path), "/tmp/perf-%u.map", pid);
	unlink(path);
}

int bench_sleeper(void)
{
	int pid = fork();

	assert_true(pid >= 0);
	if (pid > 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, (long)SIGKILL, 0L, 0L, 0L);
	for (;;)
		pause();
}

void bench_kill(int pid)
{
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

const char *bench_name(struct bench *bench, const struct fp_names_process *process,
		       uint64_t address)
{
	static char text[256];
	const char *name;
	size_t size;

	assert_int_equal(fp_names_want_jit(bench->names, process, address), 0);
	bench_settle(bench);
	name = fp_names_jit(bench->names, process, address, &size);
	snprintf(text, sizeof(text), "%.*s", name ? (int)size : 0, name ? name : "");
	return text;
}
