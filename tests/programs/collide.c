// SPDX-License-Identifier: Apache-2.0
//
// collide: threads of two processes whose ids are alike in their lower 16 bits, and who are off
// the CPU at the same time: what is kept by these bits must not mix them up. The low one sleeps
// and sleeps; the high one, 65536 above it, sleeps and works in turn. Each measures itself, and
// has its name from its first sleep on.
// collide --seconds N [--gate] prints {"program":"collide","threads":[{"name":…,"tid":…,
// "waits":…,"off_cpu_ns":…},…]}; exits with 77 where no such pair of ids can be had (the
// kernel's pid_max is too low, or it may not be chosen).
#include "reference.h"

#include <errno.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define APART  65536
#define TRIES  200
#define FIRST  30000 // where ids are rarely taken
#define CANNOT 77

struct sleeper {
	const char *name;
	uint64_t sleep_ns, work_ns;
	uint64_t waits, off_cpu_ns; // in shared memory
	pid_t pid;
	int start[2]; // a pipe: the work begins when its writers have closed it
};

FRAME static long wait_collide(uint64_t ns)
{
	struct timespec length = { .tv_nsec = (long)ns };

	KEEP_FRAME();
	return raw_syscall4(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, (long)&length, 0);
}

static noreturn void sleep_on(struct sleeper *own, double seconds)
{
	uint64_t end_ns, before, cpu;
	char byte;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_TIMERSLACK, 1);
	close(own->start[1]);
	if (read(own->start[0], &byte, 1) < 0)
		die("read");
	prctl(PR_SET_NAME, own->name);
	end_ns = clock_ns(CLOCK_MONOTONIC) + (uint64_t)(seconds * NSEC_PER_SEC);
	do {
		before = clock_ns(CLOCK_MONOTONIC);
		cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);
		wait_collide(own->sleep_ns);
		cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu;
		own->off_cpu_ns += clock_ns(CLOCK_MONOTONIC) - before - cpu;
		own->waits++;
		while (clock_ns(CLOCK_MONOTONIC) - before < own->sleep_ns + own->work_ns)
			;
	} while (clock_ns(CLOCK_MONOTONIC) < end_ns);
	_exit(0);
}

// A child with that id; -1 and errno.
static pid_t fork_as(pid_t pid)
{
	struct clone_args args = { .exit_signal = SIGCHLD,
				   .set_tid = (uintptr_t)&pid,
				   .set_tid_size = 1 };

	return (pid_t)syscall(SYS_clone3, &args, sizeof(args));
}

static bool start_pair(struct sleeper pair[2], pid_t first, double seconds)
{
	for (int i = 0; i < 2; i++) {
		pair[i].pid = fork_as(first + i * APART);
		if (pair[i].pid == 0)
			sleep_on(&pair[i], seconds);
		if (pair[i].pid > 0)
			continue;
		if (i == 1) {
			kill(pair[0].pid, SIGKILL);
			waitpid(pair[0].pid, NULL, 0);
		}
		return false;
	}
	return true;
}

static void start(struct sleeper pair[2], double seconds)
{
	for (pid_t first = FIRST; first < FIRST + TRIES; first++) {
		if (start_pair(pair, first, seconds))
			return;
		if (errno != EEXIST)
			break;
	}
	perror("no pair of ids");
	exit(CANNOT);
}

int main(int argc, char **argv)
{
	struct options options = { .seconds = 2, .threads = 2, .depth = 1 };
	struct sleeper *pair;

	options_parse(argc, argv, &options);
	pair = mmap(NULL, 2 * sizeof(*pair), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		    0);
	if (pair == MAP_FAILED || pipe(pair[0].start) != 0)
		die("memory and pipe");
	pair[0].name = "low";
	pair[0].sleep_ns = 3000000;
	pair[1].name = "high";
	pair[1].sleep_ns = 2000000;
	pair[1].work_ns = 5000000;
	memcpy(pair[1].start, pair[0].start, sizeof(pair[0].start));
	start(pair, options.seconds);
	gate_enter(&options);
	close(pair[0].start[1]);
	for (int i = 0; i < 2; i++)
		waitpid(pair[i].pid, NULL, 0);
	printf("{\"program\":\"collide\",\"threads\":[");
	for (int i = 0; i < 2; i++)
		printf("%s{\"name\":\"%s\",\"tid\":%d,\"waits\":%llu,\"off_cpu_ns\":%llu}",
		       i ? "," : "", pair[i].name, pair[i].pid, (unsigned long long)pair[i].waits,
		       (unsigned long long)pair[i].off_cpu_ns);
	printf("]}\n");
	gate_leave(&options);
	return 0;
}
