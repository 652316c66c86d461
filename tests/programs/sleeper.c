// SPDX-License-Identifier: Apache-2.0
//
// sleeper: threads that block in known ways on known stacks: sleep_driver_<kind> calls
// wait_<kind>, which calls the kernel itself (reference.h says why). The truth is monotonic
// time around every wait, so it holds the wait, the way in and out of the kernel, and the
// time the thread was runnable again but not yet running. What of it may be no blocked time is
// told beside it: the CPU time of the way in and out, and where a thread was preempted on that
// way, its time in a run queue. With --migrate another thread moves the sleepers from CPU to CPU
// while they are blocked.
// The threads that pace the others sleep too, on stacks of their own, and are in the truth.
#include "reference.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MSEC 1000000ULL

struct sleeper;
typedef void (*driver_fn)(struct sleeper *sleeper);

struct sleeper {
	const char *kind;
	driver_fn driver;
	uint64_t base_ns; // waits last 0.5 to 1.5 of it
	pthread_t thread;
	_Atomic pid_t tid; // 0 before the thread runs and after it ended
	uint64_t waits, waited_ns;
	uint64_t on_cpu_ns, preempted_ns; // of waited_ns, at most
	uint64_t migrated;		  // waits that ended on another CPU than they began on
	int schedstat_fd;
	int read_fd, write_fd;
	uint32_t futex;
};

struct account { // of a thread, since it began
	uint64_t on_cpu_ns, queued_ns;
	long preemptions;
};

static uint64_t end_ns;
static struct sleeper sleepers[];

static uint64_t wait_length(const struct sleeper *sleeper)
{
	return sleeper->base_ns / 10 * (5 + sleeper->waits * 7 % 11);
}

static struct timespec to_timespec(uint64_t ns)
{
	return (struct timespec){ .tv_sec = (time_t)(ns / NSEC_PER_SEC),
				  .tv_nsec = (long)(ns % NSEC_PER_SEC) };
}

FRAME static long wait_nanosleep(struct sleeper *sleeper)
{
	KEEP_FRAME();
	struct timespec length = to_timespec(wait_length(sleeper));

	return raw_syscall4(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, (long)&length, 0);
}

FRAME static long wait_futex(struct sleeper *sleeper)
{
	KEEP_FRAME();
	struct timespec length = to_timespec(wait_length(sleeper));
	long result =
	    raw_syscall4(SYS_futex, (long)&sleeper->futex, FUTEX_WAIT_PRIVATE, 0, (long)&length);

	return result == -ETIMEDOUT ? 0 : result;
}

FRAME static long wait_pipe(struct sleeper *sleeper)
{
	KEEP_FRAME();
	char byte;

	return raw_syscall4(SYS_read, sleeper->read_fd, (long)&byte, 1, 0) == 1 ? 0 : -EIO;
}

FRAME static long wait_poll(struct sleeper *sleeper)
{
	KEEP_FRAME();
	struct pollfd pollfd = { .fd = sleeper->read_fd, .events = POLLIN };
	struct timespec length = to_timespec(wait_length(sleeper));

	return raw_syscall4(SYS_ppoll, (long)&pollfd, 1, (long)&length, 0);
}

FRAME static long wait_pace(struct sleeper *sleeper)
{
	KEEP_FRAME();
	struct timespec length = to_timespec(wait_length(sleeper));

	return raw_syscall4(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, (long)&length, 0);
}

// A thread that was preempted in its wait waited in a run queue twice, at the end of its sleep
// and then; the kernel keeps one sum.
static struct account account_now(const struct sleeper *sleeper)
{
	struct account account;
	unsigned long long queued;
	struct rusage usage;
	char text[96] = "";

	if (pread(sleeper->schedstat_fd, text, sizeof(text) - 1, 0) <= 0 ||
	    sscanf(text, "%*u %llu", &queued) != 1 || getrusage(RUSAGE_THREAD, &usage) != 0)
		die("/proc/thread-self/schedstat");
	account.queued_ns = queued;
	account.preemptions = usage.ru_nivcsw;
	account.on_cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	return account;
}

static void add_account(struct sleeper *sleeper, const struct account *before)
{
	struct account after = account_now(sleeper);

	sleeper->on_cpu_ns += after.on_cpu_ns - before->on_cpu_ns;
	if (after.preemptions > before->preemptions)
		sleeper->preempted_ns += after.queued_ns - before->queued_ns;
}

// One wait with the clock around it; false when the run is over.
static inline __attribute__((always_inline)) bool timed_wait(struct sleeper *sleeper,
							     long (*wait)(struct sleeper *))
{
	struct account account = account_now(sleeper);
	int cpu = sched_getcpu();
	uint64_t before = clock_ns(CLOCK_MONOTONIC), after;

	if (before >= end_ns)
		return false;
	if (wait(sleeper) < 0) {
		fprintf(stderr, "the wait of '%s' failed\n", sleeper->kind);
		exit(1);
	}
	after = clock_ns(CLOCK_MONOTONIC);
	sleeper->waited_ns += after - before;
	sleeper->waits++;
	sleeper->migrated += sched_getcpu() != cpu;
	add_account(sleeper, &account);
	return true;
}

FRAME static void sleep_driver_nanosleep(struct sleeper *sleeper)
{
	while (timed_wait(sleeper, wait_nanosleep))
		;
}

FRAME static void sleep_driver_futex(struct sleeper *sleeper)
{
	while (timed_wait(sleeper, wait_futex))
		;
}

FRAME static void sleep_driver_pipe(struct sleeper *sleeper)
{
	while (timed_wait(sleeper, wait_pipe))
		;
}

FRAME static void sleep_driver_poll(struct sleeper *sleeper)
{
	while (timed_wait(sleeper, wait_poll))
		;
}

// Writes to the reader's pipe after every pause, and once more when it ends.
FRAME static void sleep_driver_writer(struct sleeper *sleeper)
{
	bool more;

	do {
		more = timed_wait(sleeper, wait_pace);
		if (raw_syscall4(SYS_write, sleeper->write_fd, (long)"x", 1, 0) != 1)
			die("pipe");
	} while (more);
}

FRAME static void sleep_driver_migrator(struct sleeper *sleeper)
{
	int cpus[64], count = usable_cpus(cpus, 64);

	while (timed_wait(sleeper, wait_pace)) {
		for (struct sleeper *other = sleepers; other->kind != NULL; other++) {
			pid_t tid = atomic_load(&other->tid);
			cpu_set_t set;

			if (other == sleeper || tid == 0)
				continue;
			CPU_ZERO(&set);
			CPU_SET(cpus[(uint64_t)(other - sleepers + (long)sleeper->waits) %
				     (uint64_t)count],
				&set);
			sched_setaffinity(tid, sizeof(set), &set); // it may have ended meanwhile
		}
	}
}

static struct sleeper sleepers[] = {
	{ .kind = "nanosleep", .driver = sleep_driver_nanosleep, .base_ns = 10 * MSEC },
	{ .kind = "futex", .driver = sleep_driver_futex, .base_ns = 14 * MSEC },
	{ .kind = "pipe", .driver = sleep_driver_pipe, .base_ns = 12 * MSEC },
	{ .kind = "poll", .driver = sleep_driver_poll, .base_ns = 18 * MSEC },
	{ .kind = "writer", .driver = sleep_driver_writer, .base_ns = 12 * MSEC },
	{ .kind = "migrator", .driver = sleep_driver_migrator, .base_ns = 7 * MSEC },
	{ .kind = NULL },
};

static void *sleeper_main(void *argument)
{
	struct sleeper *sleeper = argument;

	sleeper->schedstat_fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
	if (sleeper->schedstat_fd < 0)
		die("/proc/thread-self/schedstat");
	atomic_store(&sleeper->tid, (pid_t)syscall(SYS_gettid));
	sleeper->driver(sleeper);
	atomic_store(&sleeper->tid, 0);
	close(sleeper->schedstat_fd);
	return NULL;
}

static void make_pipes(void)
{
	int data[2], silent[2];

	if (pipe(data) != 0 || pipe(silent) != 0)
		die("pipe");
	for (struct sleeper *sleeper = sleepers; sleeper->kind != NULL; sleeper++) {
		bool polls = sleeper->driver == sleep_driver_poll;

		sleeper->read_fd = polls ? silent[0] : data[0];
		sleeper->write_fd = polls ? silent[1] : data[1];
	}
}

static void print_truth(void)
{
	printf("{\"program\":\"sleeper\",\"pid\":%d,\"kinds\":[", (int)getpid());
	for (struct sleeper *sleeper = sleepers; sleeper->kind != NULL; sleeper++) {
		printf("%s{\"kind\":\"%s\",\"waits\":%llu,\"off_cpu_ns\":%llu,\"on_cpu_ns\":%llu,"
		       "\"preempted_ns\":%llu,\"migrated\":%llu}",
		       sleeper > sleepers ? "," : "", sleeper->kind,
		       (unsigned long long)sleeper->waits, (unsigned long long)sleeper->waited_ns,
		       (unsigned long long)sleeper->on_cpu_ns,
		       (unsigned long long)sleeper->preempted_ns,
		       (unsigned long long)sleeper->migrated);
	}
	printf("]}\n");
}

int main(int argc, char **argv)
{
	struct options options = { .seconds = 10, .threads = 1, .depth = 1 };

	options_parse(argc, argv, &options);
	make_pipes();
	gate_enter(&options);
	end_ns = clock_ns(CLOCK_MONOTONIC) + (uint64_t)(options.seconds * 1e9);
	for (struct sleeper *sleeper = sleepers; sleeper->kind != NULL; sleeper++) {
		if (sleeper->driver == sleep_driver_migrator && !options.migrate)
			continue;
		if (pthread_create(&sleeper->thread, NULL, sleeper_main, sleeper) != 0)
			die("pthread_create");
	}
	for (struct sleeper *sleeper = sleepers; sleeper->kind != NULL; sleeper++) {
		if (sleeper->driver != sleep_driver_migrator || options.migrate)
			pthread_join(sleeper->thread, NULL);
	}
	print_truth();
	gate_leave(&options);
	return 0;
}
