// SPDX-License-Identifier: Apache-2.0
//
// reuse: twin_a and twin_b (twin.c) in turn in processes of one and the same pid.
//   reuse exec ROUNDS MILLISECONDS       one process, which executes one after the other
//   reuse pid ROUNDS MILLISECONDS        a process of its own each, all with the same pid
//   reuse namespace ROUNDS MILLISECONDS  the same in a pid namespace: same pid in it and outside
// Prints how many rounds there were and all pids that were used.
#include "reference.h"

#include <errno.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[4096];
static char paths[2][4200];
static const char *milliseconds;

static void wait_for(pid_t pid)
{
	int status;

	if (waitpid(pid, &status, 0) != pid)
		die("waitpid");
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
		fprintf(stderr, "process %d failed\n", (int)pid);
		exit(1);
	}
}

// fork() into the wanted pids: the innermost namespace's first. Only a fork, so that the child
// has its parent's mappings until it executes a program.
static pid_t fork_as(const pid_t *pids, size_t count)
{
	struct clone_args arguments = {
		.exit_signal = SIGCHLD,
		.set_tid = (uint64_t)(uintptr_t)pids,
		.set_tid_size = count,
	};

	return (pid_t)syscall(SYS_clone3, &arguments, sizeof(arguments));
}

static void run_as(const pid_t *pids, size_t count, int twin)
{
	pid_t pid = fork_as(pids, count);

	if (pid < 0)
		die("clone3");
	if (pid == 0) {
		execl(paths[twin], paths[twin], milliseconds, (char *)NULL);
		_exit(127);
	}
	wait_for(pid);
}

// A pid that was free a moment ago, and that others get to only after all the rest.
static pid_t free_pid(void)
{
	pid_t pid = fork();

	if (pid < 0)
		die("fork");
	if (pid == 0)
		_exit(0);
	wait_for(pid);
	return pid;
}

static pid_t reuse_pid(int rounds)
{
	pid_t pid = free_pid();

	for (int i = 0; i < rounds; i++)
		run_as(&pid, 1, i % 2);
	return pid;
}

// The first process of a namespace is its init and stays; the twins get pid 2 in it.
static pid_t reuse_in_namespace(int rounds)
{
	pid_t outside = free_pid(), init;

	if (unshare(CLONE_NEWPID) != 0)
		die("unshare");
	init = fork();
	if (init < 0)
		die("fork");
	if (init == 0) {
		pid_t pids[] = { 2, outside };

		for (int i = 0; i < rounds; i++)
			run_as(pids, 2, i % 2);
		_exit(0);
	}
	wait_for(init);
	return outside;
}

static pid_t reuse_by_exec(int rounds)
{
	char **argv = calloc((size_t)rounds * 2 + 1, sizeof(*argv));
	pid_t pid;

	if (argv == NULL)
		die("calloc");
	for (int i = 0; i < rounds; i++) {
		argv[2 * i] = paths[i % 2];
		argv[2 * i + 1] = (char *)milliseconds;
	}
	pid = fork();
	if (pid < 0)
		die("fork");
	if (pid == 0) {
		execv(argv[0], argv);
		_exit(127);
	}
	wait_for(pid);
	free(argv);
	return pid;
}

static void find_twins(void)
{
	ssize_t size = readlink("/proc/self/exe", folder, sizeof(folder) - 1);

	if (size < 0)
		die("/proc/self/exe");
	folder[size] = '\0';
	*strrchr(folder, '/') = '\0';
	snprintf(paths[0], sizeof(paths[0]), "%s/twin_a", folder);
	snprintf(paths[1], sizeof(paths[1]), "%s/twin_b", folder);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		pid_t (*run)(int rounds);
	} ways[] = {
		{ "exec", reuse_by_exec },
		{ "pid", reuse_pid },
		{ "namespace", reuse_in_namespace },
	};

	find_twins();
	for (size_t i = 0; argc == 4 && i < sizeof(ways) / sizeof(ways[0]); i++) {
		if (strcmp(argv[1], ways[i].name) == 0) {
			int rounds = atoi(argv[2]);

			milliseconds = argv[3];
			printf("{\"way\":\"%s\",\"rounds\":%d,\"reuser\":%d,", argv[1], rounds,
			       (int)getpid());
			fflush(stdout);
			printf("\"pid\":%d}\n", (int)ways[i].run(rounds));
			return 0;
		}
	}
	fprintf(stderr, "usage: %s exec|pid|namespace ROUNDS MILLISECONDS\n", argv[0]);
	return 2;
}
