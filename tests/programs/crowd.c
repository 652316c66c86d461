// SPDX-License-Identifier: Apache-2.0
//
// crowd: what makes a host large for a profiler.
//   crowd mappings N           one process with N executable mappings that do not merge; it works
//   crowd processes N SECONDS  N children of a fork, each awake for a moment every SECONDS
//   crowd programs N SECONDS   the same, each an executed program of its own
//   crowd sleepers N MICROS    N threads that sleep MICROS, over and over, and do nothing else
// Prints `ready` when all is there and ends, with all it made, when standard input ends.
#include "reference.h"

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static volatile uint64_t sink;

static long number(const char *text)
{
	char *end;
	long value = strtol(text, &end, 10);

	if (*end != '\0' || value < 1 || value > 1000000) {
		fprintf(stderr, "'%s' is no number from 1 to 1000000\n", text);
		exit(2);
	}
	return value;
}

static void ready(void)
{
	puts("ready");
	fflush(stdout);
}

// Wakes at moments spread over the period, whatever their number.
static noreturn void live(long seconds, long place)
{
	struct timespec period = { .tv_sec = seconds };
	struct timespec first = { .tv_sec = place % seconds,
				  .tv_nsec = place * 7919 % 1000 * 1000000 };

	nanosleep(&first, NULL);
	for (;;) {
		for (int i = 0; i < 20000; i++)
			sink++;
		nanosleep(&period, NULL);
	}
}

static noreturn void be_child(pid_t parent, long place, const char *seconds, bool execs)
{
	char text[24];

	// Nobody stays when the parent ends, however it ends; survives an exec.
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(0);
	if (execs) {
		snprintf(text, sizeof(text), "%ld", place + 1);
		execl("/proc/self/exe", "crowd", "member", seconds, text, (char *)NULL);
		_exit(127);
	}
	close(STDIN_FILENO);
	live(number(seconds), place);
}

static void processes(long count, const char *seconds, bool execs)
{
	pid_t parent = getpid();

	for (long i = 0; i < count; i++) {
		pid_t pid = fork();

		if (pid < 0)
			die("fork");
		if (pid == 0)
			be_child(parent, i, seconds, execs);
	}
}

FRAME static void crowd_sleep(const struct timespec *length)
{
	KEEP_FRAME();
	raw_syscall4(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, (long)length, 0);
}

static pthread_rwlock_t all_there = PTHREAD_RWLOCK_INITIALIZER;

static void *sleeper_main(void *argument)
{
	// Thousands that want to run at once would leave nothing of the CPUs to what watches them.
	sched_setscheduler(0, SCHED_IDLE, &(struct sched_param){ 0 });
	pthread_rwlock_rdlock(&all_there); // else the first would keep the last from being made
	pthread_rwlock_unlock(&all_there);
	for (;;)
		crowd_sleep(argument);
	return NULL;
}

static void sleepers(long count, long micros)
{
	static struct timespec length;
	pthread_attr_t attributes;

	length =
	    (struct timespec){ .tv_sec = micros / 1000000, .tv_nsec = micros % 1000000 * 1000 };
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, PTHREAD_STACK_MIN);
	pthread_rwlock_wrlock(&all_there);
	for (long i = 0; i < count; i++) {
		pthread_t thread;

		if (pthread_create(&thread, &attributes, sleeper_main, &length) != 0)
			die("pthread_create (kernel.threads-max, vm.max_map_count?)");
	}
	ready();
	pthread_rwlock_unlock(&all_there);
}

// The same page over and over: neighbours with the same offset are not merged.
static void mappings(long count)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		die("/proc/self/exe");
	for (long i = 0; i < count; i++) {
		if (mmap(NULL, page, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) == MAP_FAILED)
			die("mmap (vm.max_map_count?)");
	}
	close(fd);
}

FRAME static void crowd_work(void)
{
	KEEP_FRAME();
	for (int i = 0; i < 1000000; i++)
		sink++;
}

static void wait_for_end(bool works)
{
	char byte;

	if (works)
		fcntl(STDIN_FILENO, F_SETFL, O_NONBLOCK);
	while (read(STDIN_FILENO, &byte, 1) != 0) {
		if (works)
			crowd_work();
	}
}

int main(int argc, char **argv)
{
	signal(SIGCHLD, SIG_IGN);
	if (argc == 4 && strcmp(argv[1], "member") == 0) {
		close(STDIN_FILENO);
		live(number(argv[2]), number(argv[3]));
	}
	if (argc == 3 && strcmp(argv[1], "mappings") == 0) {
		mappings(number(argv[2]));
		ready();
		wait_for_end(true);
	} else if (argc == 4 &&
		   (strcmp(argv[1], "processes") == 0 || strcmp(argv[1], "programs") == 0)) {
		number(argv[3]);
		processes(number(argv[2]), argv[3], strcmp(argv[1], "programs") == 0);
		ready();
		wait_for_end(false);
	} else if (argc == 4 && strcmp(argv[1], "sleepers") == 0) {
		sleepers(number(argv[2]), number(argv[3]));
		wait_for_end(false);
	} else {
		fprintf(stderr,
			"usage: %s mappings N | processes N SECONDS | programs N SECONDS |\n"
			"       sleepers N MICROS\n",
			argv[0]);
		return 2;
	}
	return 0;
}
