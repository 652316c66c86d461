// SPDX-License-Identifier: Apache-2.0
// The symbols role as the process it is in service: this program executes itself as the role,
// which confines itself and must still do all that it is there for.
#include "role_talk.h"

#include "agent/symbolrole_confine.h"
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
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cmocka.h>

#if defined(__SANITIZE_ADDRESS__)
#define WITH_SANITIZER true
#else
#define WITH_SANITIZER false
#endif

#define FD_SOCKET 3

// In a child, with the socket on descriptor 3 and nothing behind it but what the exec closes.
static void place_socket(int fd)
{
	if (fd == FD_SOCKET ? fcntl(fd, F_SETFD, 0) < 0 : dup2(fd, FD_SOCKET) < 0)
		_exit(99);
}

static pid_t start_role(int *ret_socket)
{
	char name[] = "role", role[] = FP_SYMBOLS_ROLE_ARGUMENT;
	char *arguments[] = { name, role, NULL };
	int ends[2];
	pid_t pid;

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		place_socket(ends[1]);
		execv("/proc/self/exe", arguments);
		_exit(99);
	}
	close(ends[1]);
	*ret_socket = ends[0];
	return pid;
}

static void assert_status_line(pid_t pid, const char *line)
{
	FP_AUTOBUF struct fp_buf text = { 0 };
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	assert_int_equal(fp_file_read(path, 1 << 16, &text), 0);
	if (!strstr((const char *)text.data, line))
		fail_msg("no '%s' in:\n%s", line, (const char *)text.data);
}

static void ask_everything(int socket_fd)
{
	static const uint64_t addresses[] = { 0x1000, 0x9000 };
	FP_AUTOCLOSE int self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	FP_AUTOCLOSE int map = role_text_file("1000 10 jitted\n");
	FP_AUTOCLOSE int out = role_file("", 0);
	struct role_question lookup = role_lookup(5, addresses, 2);
	struct fp_role_identity identity;
	const struct role_answer *answer;

	answer = role_ask(socket_fd,
			  &(struct role_question){ .kind = FP_ROLE_IDENTIFY, .fds = { self } });
	assert_int_equal(answer->error, 0);
	memcpy(&identity, answer->payload, sizeof(identity));
	assert_true(identity.id_len > 0);
	answer = role_ask(socket_fd, &(struct role_question){ .kind = FP_ROLE_TABLE,
							      .payload = &identity,
							      .size = sizeof(identity),
							      .fds = { self, out } });
	assert_int_equal(answer->error, 0);
	assert_true(answer->argument > 1000);
	answer = role_ask(socket_fd, &(struct role_question){ .kind = FP_ROLE_UNWIND,
							      .payload = &identity,
							      .size = sizeof(identity),
							      .fds = { self, out } });
	assert_int_equal(answer->error, 0);
	assert_true(answer->argument > 1000);
	answer = role_ask(socket_fd, &(struct role_question){
					 .kind = FP_ROLE_MAP_ADD, .argument = 5, .fds = { map } });
	assert_int_equal(answer->error, 0);
	role_assert_names(role_ask(socket_fd, &lookup), (const char *[]){ "jitted", "" }, 2);
	answer =
	    role_ask(socket_fd, &(struct role_question){ .kind = FP_ROLE_MAP_DROP, .argument = 5 });
	assert_int_equal(answer->error, 0);
}

static void the_confined_role_does_all_its_work(void **state)
{
	int socket_fd, status;
	pid_t pid = start_role(&socket_fd);

	ask_everything(socket_fd);
	assert_status_line(pid, "\nCapEff:\t0000000000000000\n");
	assert_status_line(pid, "\nCapPrm:\t0000000000000000\n");
	assert_status_line(pid, "\nNoNewPrivs:\t1\n");
	assert_status_line(pid, "\nSeccomp:\t2\n");
	assert_status_line(pid, "Name:\tfleetprof-syms\n");
	close(socket_fd);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void a_descriptor_above_the_socket_is_closed(void **state)
{
	FP_AUTOCLOSE int secret = dup(STDERR_FILENO); // inherited by the role
	char path[64], target[64];
	int socket_fd, status;
	pid_t pid = start_role(&socket_fd);

	assert_true(secret > STDERR_FILENO);
	ask_everything(socket_fd);
	for (int fd = FD_SOCKET + 1; fd < 64; fd++) {
		snprintf(path, sizeof(path), "/proc/%d/fd/%d", pid, fd);
		assert_true(readlink(path, target, sizeof(target)) < 0);
	}
	close(socket_fd);
	assert_int_equal(waitpid(pid, &status, 0), pid);
}

static void the_role_refuses_to_work_without_its_socket(void **state)
{
	char name[] = "role", role[] = FP_SYMBOLS_ROLE_ARGUMENT;
	char *arguments[] = { name, role, NULL };
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);
		close_range(FD_SOCKET, ~0U, 0);
		execv("/proc/self/exe", arguments);
		_exit(99);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 1);
}

static void open_a_file(void)
{
	open("/etc/passwd", O_RDONLY);
}

static void make_a_socket(void)
{
	socket(AF_INET, SOCK_STREAM, 0);
}

static void execute(void)
{
	char *arguments[] = { NULL };

	execve("/bin/true", arguments, arguments);
}

static void make_a_process(void)
{
	syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
}

static void signal_another(void)
{
	kill(1, 0);
}

static void trace_another(void)
{
	ptrace(PTRACE_ATTACH, 1, NULL, NULL);
}

static void read_another(void)
{
	syscall(SYS_process_vm_readv, 1, NULL, 0, NULL, 0, 0);
}

static void map_code(void)
{
	mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void make_data_code(void)
{
	syscall(SYS_mprotect, (unsigned long)&map_code & ~4095UL, 4096, PROT_READ | PROT_EXEC);
}

static void look_at_a_path(void)
{
	struct stat info;

	fstatat(AT_FDCWD, "/etc/passwd", &info, 0);
}

static void talk_elsewhere(void)
{
	syscall(SYS_sendmsg, STDERR_FILENO, NULL, 0);
}

static void ask_bpf(void)
{
	syscall(SYS_bpf, 0, NULL, 0);
}

static void gain_rights(void)
{
	syscall(SYS_setuid, 0);
}

static const struct {
	const char *sentence;
	void (*call)(void);
} forbidden[] = {
	{ "opening a file", open_a_file },
	{ "making a socket", make_a_socket },
	{ "executing", execute },
	{ "making a process", make_a_process },
	{ "sending a signal", signal_another },
	{ "tracing", trace_another },
	{ "reading another's memory", read_another },
	{ "mapping code", map_code },
	{ "turning data into code", make_data_code },
	{ "looking at a path", look_at_a_path },
	{ "talking over another descriptor", talk_elsewhere },
	{ "asking for BPF", ask_bpf },
	{ "becoming root", gain_rights },
};

// Ends with 50 when it could confine itself and the call came back.
static int end_of_confined(void (*call)(void))
{
	int ends[2], status;
	pid_t pid;

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		place_socket(ends[1]);
		if (fp_symbol_role_confine(FD_SOCKET))
			_exit(98);
		if (call)
			call();
		_exit(50);
	}
	close(ends[0]);
	close(ends[1]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void all_other_system_calls_end_the_process(void **state)
{
	int status = end_of_confined(NULL);

	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 50);
	for (size_t i = 0; i < FP_ARRAY_SIZE(forbidden); i++) {
		print_message("  %s\n", forbidden[i].sentence);
		status = end_of_confined(forbidden[i].call);
		assert_true(WIFSIGNALED(status));
		assert_int_equal(WTERMSIG(status), SIGSYS);
	}
}

static void take_all_memory(void)
{
	for (int i = 0; i < 64; i++) // 16 GiB, never touched
		if (mmap(NULL, (size_t)256 << 20, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) == MAP_FAILED)
			_exit(errno == ENOMEM ? 60 : 61);
}

static void memory_is_bounded(void **state)
{
	int status;

	if (WITH_SANITIZER) {
		print_message("the sanitizer's shadow memory is larger than any bound\n");
		skip();
	}
	status = end_of_confined(take_all_memory);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 60);
}

static int big_file = -1;

static void write_past_the_bound(void)
{
	static uint8_t block[1 << 20];

	for (int i = 0; i < 128; i++)
		if (write(big_file, block, sizeof(block)) < (ssize_t)sizeof(block))
			_exit(errno == EFBIG || i == 65 ? 60 : 61);
}

static void files_are_bounded(void **state)
{
	int status;

	// Among the descriptors that stay, as a received one would be.
	big_file = STDERR_FILENO;
	FP_AUTOCLOSE int saved = dup(STDERR_FILENO);
	FP_AUTOCLOSE int file = memfd_create("table", 0);
	assert_true(saved >= 0 && file >= 0);
	assert_true(dup2(file, STDERR_FILENO) >= 0);
	status = end_of_confined(write_past_the_bound);
	assert_true(dup2(saved, STDERR_FILENO) >= 0);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 60);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_confined_role_does_all_its_work),
		cmocka_unit_test(a_descriptor_above_the_socket_is_closed),
		cmocka_unit_test(the_role_refuses_to_work_without_its_socket),
		cmocka_unit_test(all_other_system_calls_end_the_process),
		cmocka_unit_test(memory_is_bounded),
		cmocka_unit_test(files_are_bounded),
	};

	if (argc > 1 && strcmp(argv[1], FP_SYMBOLS_ROLE_ARGUMENT) == 0)
		return fp_symbol_role_main();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
