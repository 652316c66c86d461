// SPDX-License-Identifier: Apache-2.0
//
// blocked: one thread that is blocked until it is told, for what happens to it meanwhile. The
// thread is called `held`, waits in wait_blocked, and says how long it was there. Lines on
// standard input:
//   block    the thread begins to wait; answered by `blocked TID` when it is about to
//   release  ends the wait; answered by the clock around it in nanoseconds
//   exec     the process becomes `blocked` anew, with the thread still waiting
// Standard input's end ends the program. The first line it prints is `ready PID`.
#include "reference.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static int pipes[2];

FRAME static long wait_blocked(void)
{
	KEEP_FRAME();
	char byte;

	return raw_syscall4(SYS_read, pipes[0], (long)&byte, 1, 0);
}

static void *blocked_main(void *argument)
{
	uint64_t *took_ns = argument, before;

	prctl(PR_SET_NAME, "held");
	printf("blocked %d\n", (int)syscall(SYS_gettid));
	fflush(stdout);
	before = clock_ns(CLOCK_MONOTONIC);
	if (wait_blocked() != 1)
		die("read");
	*took_ns = clock_ns(CLOCK_MONOTONIC) - before;
	return NULL;
}

static void release(pthread_t thread, const uint64_t *took_ns)
{
	if (write(pipes[1], "x", 1) != 1)
		die("write");
	pthread_join(thread, NULL);
	printf("%llu\n", (unsigned long long)*took_ns);
	fflush(stdout);
}

int main(void)
{
	uint64_t took_ns = 0;
	pthread_t thread = 0;
	char line[32];

	if (pipe(pipes) != 0)
		die("pipe");
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		if (strcmp(line, "block\n") == 0) {
			if (pthread_create(&thread, NULL, blocked_main, &took_ns) != 0)
				die("pthread_create");
		} else if (strcmp(line, "release\n") == 0) {
			release(thread, &took_ns);
		} else if (strcmp(line, "exec\n") == 0) {
			execl("/proc/self/exe", "blocked", (char *)NULL);
			die("exec");
		}
	}
	return 0;
}
