// SPDX-License-Identifier: Apache-2.0
//
// The control socket with real clients on the real loop. The session is a stand-in, so that
// no privileges are needed and every end of a snapshot can be brought about at will.
#include "agent/control.h"
#include "control_session.h"

#include "common/clock.h"
#include "proto/batch.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
// clang-format off
#include <cmocka.h>
#include "control_bench.h"
// clang-format on

static void test_status(void **state)
{
	int fd FP_AUTOCLOSE = ask("{\"verb\":\"status\"}\n");

	turn(50);
	expect(fd, geteuid() == 0 ? "\"trusted\":true" : "\"trusted\":false", true);
}

static void test_half_closed(void **state)
{
	int fd FP_AUTOCLOSE = ask("{\"verb\":\"status\"}\n");

	shutdown(fd, SHUT_WR);
	turn(50);
	expect(fd, "\"type\":\"status\"", true);
}

static void test_bad_line(void **state)
{
	int fd FP_AUTOCLOSE = ask("get me everything\n");

	turn(50);
	expect(fd, "\"code\":\"usage\",\"exit\":2", true);
}

static void test_long_line(void **state)
{
	char *line FP_AUTOFREE = malloc(1 << 20);
	int fd FP_AUTOCLOSE = dial();

	memset(line, 'x', 1 << 20);
	send(fd, line, 1 << 20, MSG_NOSIGNAL | MSG_DONTWAIT);
	turn(50);
	expect(fd, "one line of at most", true);
}

static void test_snapshot(void **state)
{
	int fd FP_AUTOCLOSE = ask(snapshot_line(getpid(), 1000));
	struct fp_profile *profile FP_AUTOPROFILE = NULL;
	const char *reason, *batch;
	char *text;
	bool closed;
	size_t size;

	turn(50);
	expect(fd, "\"type\":\"accepted\"", false);
	assert_int_equal(fake.tgid, getpid());
	assert_int_equal(fake.hz, 99);
	turn(1400);
	text = heard(fd, &closed);
	assert_true(closed);
	batch = strstr(text, "\"ended\":\"duration\"");
	assert_non_null(batch);
	size = strtoul(strstr(text, "\"bytes\":") + 8, NULL, 10);
	batch = strchr(batch, '\n') + 1;
	assert_int_equal(fp_batch_decode(batch, size, &fp_batch_default_limits, &profile, &reason),
			 0);
	assert_int_equal(profile->host_id[0], 0x5a);
	assert_int_equal(fp_control_snapshots(control), 1);
}

static void test_kinds(void **state)
{
	int fd FP_AUTOCLOSE = -1;
	char line[160];

	if (geteuid() != 0)
		skip(); // wakers are not for everybody
	snprintf(line, sizeof(line),
		 "{\"verb\":\"snapshot\",\"pid\":%d,\"cpu\":false,\"off_cpu\":true,"
		 "\"run_queue\":true,\"waker\":true}\n",
		 getpid());
	fd = ask(line);
	turn(50);
	expect(fd, "\"type\":\"accepted\"", false);
	assert_int_equal(fake.hz, 0);
	assert_true(fake.off_cpu && fake.run_queue && fake.waker);
}

static void test_busy(void **state)
{
	int first FP_AUTOCLOSE = ask(snapshot_line(getpid(), 60000));
	int second FP_AUTOCLOSE = -1;

	turn(50);
	second = ask(snapshot_line(getpid(), 1000));
	turn(50);
	expect(second, "\"code\":\"busy\"", true);
	expect(first, "accepted", false);
	assert_int_equal(fake.opened, 1);
}

static void test_stop(void **state)
{
	int fd FP_AUTOCLOSE = ask(snapshot_line(getpid(), 60000));

	turn(50);
	assert_int_equal(send(fd, "{\"verb\":\"stop\"}\n", 16, MSG_NOSIGNAL), 16);
	turn(50);
	expect(fd, "\"ended\":\"stopped\"", true);
	assert_int_equal(fake.finished, 1);
}

// Both lines may come in one packet.
static void test_stop_at_once(void **state)
{
	char lines[256];
	int fd FP_AUTOCLOSE = -1;

	snprintf(lines, sizeof(lines), "%s{\"verb\":\"stop\"}\n", snapshot_line(getpid(), 60000));
	fd = ask(lines);
	turn(50);
	expect(fd, "\"ended\":\"stopped\"", true);
}

static void test_client_leaves(void **state)
{
	int fd = ask(snapshot_line(getpid(), 60000));

	turn(50);
	assert_int_equal(fake.opened, 1);
	close(fd);
	turn(50);
	assert_int_equal(fake.freed, 1);
	assert_int_equal(fake.finished, 0);
	fd = ask(snapshot_line(getpid(), 60000)); // and the place is free again
	turn(50);
	expect(fd, "accepted", false);
	close(fd);
	turn(50);
}

static void test_process_ends(void **state)
{
	pid_t pid = fork();
	int fd FP_AUTOCLOSE = -1;

	if (pid == 0) {
		pause();
		_exit(0);
	}
	fd = ask(snapshot_line(pid, 60000));
	turn(50);
	kill(pid, SIGKILL);
	turn(50);
	expect(fd, "\"ended\":\"process_ended\"", true);
	waitpid(pid, NULL, 0);
	assert_int_equal(fake.finished, 1);
}

static void test_no_process(void **state)
{
	pid_t pid = fork();
	int fd FP_AUTOCLOSE = -1;

	if (pid == 0)
		_exit(0);
	waitpid(pid, NULL, 0);
	fd = ask(snapshot_line(pid, 1000));
	turn(50);
	expect(fd, "\"code\":\"not_found\"", true);
	assert_int_equal(fake.opened, 0);
}

static void test_kernel_thread(void **state)
{
	int fd FP_AUTOCLOSE = ask(snapshot_line(2, 1000));

	turn(50);
	expect(fd, "\"code\":\"kernel_thread\"", true);
	assert_int_equal(fake.opened, 0);
}

static void test_refused(void **state)
{
	int fd FP_AUTOCLOSE = -1;

	fake.refuse = -EPERM;
	fd = ask(snapshot_line(getpid(), 1000));
	turn(50);
	expect(fd, "the kernel says no; ask another", true);
}

// A client of another user, in a process of its own; its exit code is what it heard.
static int as_nobody(const char *line, const char *part)
{
	bool closed;
	int fd;

	if (setresgid(65534, 65534, 65534) < 0 || setresuid(65534, 65534, 65534) < 0)
		return 2;
	fd = ask(line);
	usleep(300000);
	return strstr(heard(fd, &closed), part) ? 0 : 1;
}

static void test_other_user(void **state)
{
	int status_code;
	pid_t pid;

	if (geteuid() != 0)
		skip();
	pid = fork();
	if (pid == 0)
		_exit(as_nobody(snapshot_line(1, 1000), "\"code\":\"permission\",\"exit\":4"));
	turn(600);
	assert_int_equal(waitpid(pid, &status_code, 0), pid);
	assert_int_equal(status_code, 0);
	assert_int_equal(fake.opened, 0);
	pid = fork();
	if (pid == 0)
		_exit(as_nobody("{\"verb\":\"status\"}\n", "\"trusted\":false"));
	turn(600);
	assert_int_equal(waitpid(pid, &status_code, 0), pid);
	assert_int_equal(status_code, 0);
}

// A user's snapshot of itself; its exit code says whether it heard `part` at last.
static pid_t start_as_nobody(unsigned int wait_ms, const char *part)
{
	pid_t pid = fork();
	bool closed;
	int fd;

	if (pid != 0)
		return pid;
	if (setresgid(65534, 65534, 65534) < 0 || setresuid(65534, 65534, 65534) < 0 ||
	    prctl(PR_SET_DUMPABLE, 1L, 0L, 0L, 0L) < 0)
		_exit(2);
	fd = ask(snapshot_line(getpid(), 60000));
	usleep(wait_ms * 1000);
	_exit(strstr(heard(fd, &closed), part) ? 0 : 1);
}

// Its own process, and who wakes it: that may be anybody's.
static int ask_for_wakers(void)
{
	char line[160];

	if (setresgid(65534, 65534, 65534) < 0 || setresuid(65534, 65534, 65534) < 0 ||
	    prctl(PR_SET_DUMPABLE, 1L, 0L, 0L, 0L) < 0)
		return 2;
	snprintf(line, sizeof(line),
		 "{\"verb\":\"snapshot\",\"pid\":%d,\"off_cpu\":true,\"waker\":true}\n", getpid());
	return as_nobody(line, "wakers may be other users' processes");
}

static void test_wakers_of_a_user(void **state)
{
	int status_code;
	pid_t pid;

	if (geteuid() != 0)
		skip();
	pid = fork();
	if (pid == 0)
		_exit(ask_for_wakers());
	turn(600);
	assert_int_equal(waitpid(pid, &status_code, 0), pid);
	assert_int_equal(status_code, 0);
	assert_int_equal(fake.opened, 0);
}

static void expect_end(pid_t pid)
{
	int status_code;

	assert_int_equal(waitpid(pid, &status_code, 0), pid);
	assert_int_equal(status_code, 0);
}

// Nobody can say what it ran at last: its owner gets nothing, whether it was reaped or not.
static int as_owner_of_ending(bool reaps)
{
	bool closed;
	pid_t target;
	int fd;

	if (setresgid(65534, 65534, 65534) < 0 || setresuid(65534, 65534, 65534) < 0 ||
	    prctl(PR_SET_DUMPABLE, 1L, 0L, 0L, 0L) < 0)
		return 2;
	target = fork();
	if (target == 0) {
		usleep(400000);
		_exit(0);
	}
	fd = ask(snapshot_line(target, 60000));
	usleep(200000);
	if (!strstr(heard(fd, &closed), "accepted"))
		return 3;
	if (reaps)
		waitpid(target, NULL, 0);
	usleep(600000);
	return strstr(heard(fd, &closed), "has ended, and it can no longer be told") ? 0 : 1;
}

static void expect_owner_gets_nothing(bool reaps)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(as_owner_of_ending(reaps));
	turn(1500);
	expect_end(pid);
	assert_int_equal(fake.opened, 1);
}

static void test_owner_of_zombie(void **state)
{
	if (geteuid() != 0)
		skip();
	expect_owner_gets_nothing(false);
}

static void test_owner_of_reaped(void **state)
{
	if (geteuid() != 0)
		skip();
	expect_owner_gets_nothing(true);
}

static void test_turns(void **state)
{
	int fd FP_AUTOCLOSE = -1;
	pid_t pid;

	if (geteuid() != 0)
		skip();
	pid = start_as_nobody(1200, "root or the agent's control group asked for a snapshot");
	turn(500);
	assert_int_equal(fake.opened, 1);
	fd = ask(snapshot_line(getpid(), 60000));
	turn(50);
	expect(fd, "accepted", false);
	assert_int_equal(fake.opened, 2);
	assert_int_equal(fake.freed, 1);
	turn(1000);
	expect_end(pid);
	assert_int_equal(send(fd, "{\"verb\":\"stop\"}\n", 16, MSG_NOSIGNAL), 16);
	turn(50);
	pid = start_as_nobody(300, "one snapshot every 10 seconds");
	turn(600);
	expect_end(pid);
	assert_int_equal(fake.opened, 2);
}

// However many come, those that were there are served, and the loop goes on.
static void test_many(void **state)
{
	int fds[64], fd;

	for (size_t i = 0; i < FP_ARRAY_SIZE(fds); i++) {
		fds[i] = dial();
		turn(2);
	}
	expect(fds[63], "too many connections", true);
	for (size_t i = 0; i < FP_ARRAY_SIZE(fds); i++)
		close(fds[i]);
	turn(50);
	fd = ask("{\"verb\":\"status\"}\n");
	turn(50);
	expect(fd, "\"type\":\"status\"", true);
	close(fd);
}

// Says nothing: is let go of after five seconds.
static void test_silent(void **state)
{
	int fd FP_AUTOCLOSE = dial();

	turn(50);
	expect(fd, "", false);
	turn(7000);
	expect(fd, "", true);
}

static void test_path_is_taken(void **state)
{
	const struct fp_control_handlers handlers = { .status = status };
	const struct fp_control_config config = { .path = "/dev/null" };
	struct fp_control *other = NULL;

	assert_int_equal(fp_control_open(loop, &config, &handlers, &other), -EEXIST);
	assert_null(other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
		CASE(test_status),
		CASE(test_half_closed),
		CASE(test_bad_line),
		CASE(test_long_line),
		CASE(test_snapshot),
		CASE(test_busy),
		CASE(test_stop),
		CASE(test_stop_at_once),
		CASE(test_client_leaves),
		CASE(test_process_ends),
		CASE(test_no_process),
		CASE(test_kernel_thread),
		CASE(test_refused),
		CASE(test_other_user),
		CASE(test_many),
		CASE(test_turns),
		CASE(test_owner_of_zombie),
		CASE(test_owner_of_reaped),
		CASE(test_silent),
		CASE(test_path_is_taken),
		CASE(test_kinds),
		CASE(test_wakers_of_a_user),
	};
	int r;

	if (!mkdtemp(directory) || chmod(directory, 0755) < 0)
		return 1;
	snprintf(path, sizeof(path), "%s/agent.sock", directory);
	r = cmocka_run_group_tests(tests, NULL, NULL);
	rmdir(directory);
	return r;
}
