// SPDX-License-Identifier: Apache-2.0
// The ship role as a process of its own: what it gives up, and that it may die at any moment.
#include "common/file.h"
#include "ship_bench.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <cmocka.h>

static bool wait_until(struct bench *bench, bool (*reached)(struct bench *bench))
{
	const struct timespec pause = { .tv_nsec = 20 * 1000 * 1000 };

	for (int i = 0; i < 1500; i++) {
		if (reached(bench))
			return true;
		nanosleep(&pause, NULL);
	}
	return false;
}

static bool all_arrived(struct bench *bench)
{
	return ship_server_seen(bench->server).samples == bench->put_samples;
}

static int role_start(struct bench *bench)
{
	int pid;

	if (geteuid() == 0)
		bench->config.user = "nobody";
	pid = fp_ship_fork(&bench->config, &bench->metrics);
	assert_true(pid > 0);
	return pid;
}

static void assert_status_line(int pid, const char *line)
{
	FP_AUTOBUF struct fp_buf text = { 0 };
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	assert_int_equal(fp_file_read(path, 1 << 16, &text), 0);
	if (!strstr((const char *)text.data, line))
		fail_msg("no '%s' in:\n%s", line, (const char *)text.data);
}

static void the_role_has_nothing_but_the_network_and_the_spool(void **state)
{
	struct bench *bench = *state;
	FP_AUTOCLOSE int secret = open("/proc/self/status", O_RDONLY); // inheritable
	char path[64], target[64] = "";
	int pid, status;

	assert_true(secret > STDERR_FILENO);
	bench_put(bench, 50);
	pid = role_start(bench);
	assert_true(wait_until(bench, all_arrived));
	bench_put(bench, 60); // and what comes later, by inotify
	assert_true(wait_until(bench, all_arrived));
	assert_status_line(pid, "\nCapEff:\t0000000000000000\n");
	assert_status_line(pid, "\nCapPrm:\t0000000000000000\n");
	assert_status_line(pid, "\nCapAmb:\t0000000000000000\n");
	assert_status_line(pid, "\nNoNewPrivs:\t1\n");
	assert_status_line(pid, "\nSeccomp:\t2\n");
	if (geteuid() == 0) {
		assert_status_line(pid, "\nUid:\t65534\t65534\t65534\t65534\n");
		assert_status_line(pid, "\nGroups:\t \n");
		assert_status_line(pid, "\nCapBnd:\t0000000000000000\n");
	}
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", pid, secret);
	if (readlink(path, target, sizeof(target) - 1) > 0)
		assert_null(strstr(target, "/status"));
	kill(pid, SIGTERM);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	assert_balanced(bench);
}

static void a_role_killed_at_any_moment_counts_nothing_twice(void **state)
{
	struct bench *bench = *state;

	for (int round = 0; round < 12; round++) {
		const struct timespec pause = { .tv_nsec = round * 3 * 1000 * 1000 };
		int pid, status;

		for (int i = 0; i < 5; i++)
			bench_put(bench, 20 + (uint64_t)i);
		if (round % 3 == 0)
			ship_server_script(bench->server, "/v1/batches",
					   (struct ship_reply){ .status = 0, .store_first = true },
					   1);
		pid = role_start(bench);
		nanosleep(&pause, NULL);
		kill(pid, SIGKILL);
		assert_int_equal(waitpid(pid, &status, 0), pid);
	}
	ship_server_script(bench->server, "", (struct ship_reply){ .status = 0 }, 0);
	int pid = role_start(bench), status;
	assert_true(wait_until(bench, all_arrived));
	kill(pid, SIGTERM);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	struct ship_seen seen = ship_server_seen(bench->server);
	assert_int_equal(seen.batches, bench->put_batches);
	assert_int_equal(seen.samples, bench->put_samples);
	assert_int_equal(seen.malformed, 0);
}

static void the_role_ends_with_its_parent(void **state)
{
	struct bench *bench = *state;
	int channel[2], role = 0, status;
	pid_t parent;

	// Orphans come to us, so that the end can be waited for.
	assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1L, 0L, 0L, 0L), 0);
	assert_int_equal(pipe(channel), 0);
	parent = fork();
	assert_true(parent >= 0);
	if (parent == 0) {
		role = fp_ship_fork(&bench->config, &bench->metrics);
		if (write(channel[1], &role, sizeof(role)) != sizeof(role))
			_exit(1);
		pause();
		_exit(0);
	}
	assert_int_equal(read(channel[0], &role, sizeof(role)), sizeof(role));
	close(channel[0]);
	close(channel[1]);
	assert_true(role > 0);
	bench_put(bench, 50);
	assert_true(wait_until(bench, all_arrived)); // it is up
	kill(parent, SIGKILL);
	assert_int_equal(waitpid(parent, &status, 0), parent);
	assert_int_equal(waitpid(role, &status, 0), role);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_BENCH(the_role_has_nothing_but_the_network_and_the_spool),
		ON_BENCH(a_role_killed_at_any_moment_counts_nothing_twice),
		ON_BENCH(the_role_ends_with_its_parent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
