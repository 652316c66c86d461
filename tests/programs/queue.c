// SPDX-License-Identifier: Apache-2.0
//
// queue: threads that wait for a CPU, and threads that wait for each other, with the kernel's own
// account of each (/proc/thread-self/schedstat) and a clock around each wait as truth.
//   spin_a, spin_b  compute on the first CPU, so each is ready without running half of the time
//   napper          sleeps there by a timer; what wakes it interrupts one of these two, and then
//                   it has to wait until their turn is over (SCHED_BATCH does not preempt)
//   reader          waits on the last CPU for messages of
//   poke_near       a thread beside it, and
//   poke_far        another process
// Turns are long, so that there are few switches and a snapshot keeps all or nearly all intervals.
// A thread bears its name as long as it is accounted for, so all of its time under that name in a
// profile is what the account says. A message holds who sent it, and when: the reader was blocked
// from its clock before the wait to that moment at least, to its clock after it at most.
#include "reference.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define MSEC	 1000000ULL
#define SLICE_NS (20 * MSEC) // of who computes; kernels before 6.12 take what they like

enum { NEAR, FAR, POKERS };
enum { FIRST_CPU = 0, LAST_CPU = -1 };

struct message {
	uint64_t poker, sent_ns;
};

struct account {
	uint64_t time_ns, on_cpu_ns, queued_ns;
};

struct thread {
	const char *name;
	void (*driver)(void);
	int cpu; // FIRST_CPU or LAST_CPU
	pthread_t thread;
	struct account account; // of what it did under its name
	uint64_t longest_ns;	// turn of its driver; no interval is longer
	uint64_t computing_ns;	// of the napper: between its naps, preempted or not
};

static struct {
	uint64_t wakes, least_ns, most_ns;
} pokes[POKERS];

static uint64_t end_ns;
static int messages[2];
static _Thread_local uint64_t turn_ns, longest_ns, computing_ns;

// Whether there is time for another turn.
static bool next_turn(void)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);

	if (turn_ns && now - turn_ns > longest_ns)
		longest_ns = now - turn_ns;
	turn_ns = now;
	return now < end_ns;
}

static long sleep_ns(uint64_t ns)
{
	struct timespec length = { .tv_sec = (time_t)(ns / NSEC_PER_SEC),
				   .tv_nsec = (long)(ns % NSEC_PER_SEC) };

	return raw_syscall4(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, (long)&length, 0);
}

FRAME static void compute(uint64_t turns)
{
	KEEP_FRAME();
	for (volatile uint64_t i = 0; i < turns; i++)
		;
}

static void ask_for_slice(uint32_t policy)
{
	struct { // sched_attr, which not every C library has, and the kernel's header clashes with
		uint32_t size, policy;
		uint64_t flags;
		int32_t nice;
		uint32_t priority;
		uint64_t runtime, deadline, period;
	} attr = { .size = sizeof(attr), .policy = policy, .runtime = SLICE_NS };

	if (syscall(SYS_sched_setattr, 0, &attr, 0) != 0)
		die("sched_setattr");
}

FRAME static void spin_driver(void)
{
	ask_for_slice(SCHED_OTHER);
	while (next_turn())
		compute(100000);
}

FRAME static long take_nap(void)
{
	KEEP_FRAME();
	return sleep_ns(29 * MSEC);
}

FRAME static void nap_driver(void)
{
	uint64_t woke;

	ask_for_slice(SCHED_BATCH); // a shorter one than others have would let it preempt them
	while (next_turn()) {
		if (take_nap() != 0)
			die("clock_nanosleep");
		woke = clock_ns(CLOCK_MONOTONIC);
		compute(10000);
		computing_ns += clock_ns(CLOCK_MONOTONIC) - woke;
	}
}

FRAME static void send_message(long (*poke)(const struct message *), uint64_t poker)
{
	struct message message = { .poker = poker, .sent_ns = clock_ns(CLOCK_MONOTONIC) };

	if (poke(&message) != sizeof(message))
		die("write");
}

FRAME static long poke_from_near(const struct message *message)
{
	KEEP_FRAME();
	return raw_syscall4(SYS_write, messages[1], (long)message, sizeof(*message), 0);
}

FRAME static long poke_from_far(const struct message *message)
{
	KEEP_FRAME();
	return raw_syscall4(SYS_write, messages[1], (long)message, sizeof(*message), 0);
}

FRAME static void near_driver(void)
{
	while (next_turn()) {
		sleep_ns(41 * MSEC);
		send_message(poke_from_near, NEAR);
	}
	send_message(poke_from_near, POKERS); // the last one
}

FRAME static void far_driver(void)
{
	while (next_turn()) {
		sleep_ns(31 * MSEC);
		send_message(poke_from_far, FAR);
	}
}

FRAME static long wait_message(struct message *message)
{
	KEEP_FRAME();
	return raw_syscall4(SYS_read, messages[0], (long)message, sizeof(*message), 0);
}

FRAME static void read_driver(void)
{
	for (;;) {
		uint64_t before = clock_ns(CLOCK_MONOTONIC), after;
		struct message message;

		if (wait_message(&message) != sizeof(message))
			die("read");
		next_turn();
		after = clock_ns(CLOCK_MONOTONIC);
		if (message.poker >= POKERS)
			return;
		if (message.sent_ns <= before)
			continue; // it did not wait
		pokes[message.poker].wakes++;
		pokes[message.poker].least_ns += message.sent_ns - before;
		pokes[message.poker].most_ns += after - before;
	}
}

static struct thread threads[] = {
	{ .name = "spin_a", .driver = spin_driver, .cpu = FIRST_CPU },
	{ .name = "spin_b", .driver = spin_driver, .cpu = FIRST_CPU },
	{ .name = "napper", .driver = nap_driver, .cpu = FIRST_CPU },
	{ .name = "reader", .driver = read_driver, .cpu = LAST_CPU },
	{ .name = "poke_near", .driver = near_driver, .cpu = LAST_CPU },
	{ .name = NULL },
};

static struct account account_now(int schedstat_fd)
{
	struct account account = { .time_ns = clock_ns(CLOCK_MONOTONIC) };
	unsigned long long on_cpu, queued;
	char text[96] = "";

	if (pread(schedstat_fd, text, sizeof(text) - 1, 0) <= 0 ||
	    sscanf(text, "%llu %llu", &on_cpu, &queued) != 2)
		die("/proc/thread-self/schedstat");
	account.on_cpu_ns = on_cpu;
	account.queued_ns = queued;
	return account;
}

static void *thread_main(void *argument)
{
	int cpus[64], schedstat_fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
	struct thread *thread = argument;
	struct account before, after;

	if (schedstat_fd < 0)
		die("/proc/thread-self/schedstat");
	pin_to_cpu(thread->cpu == FIRST_CPU ? 0 : usable_cpus(cpus, 64) - 1);
	prctl(PR_SET_NAME, thread->name);
	before = account_now(schedstat_fd);
	thread->driver();
	after = account_now(schedstat_fd);
	prctl(PR_SET_NAME, "done");
	thread->account =
	    (struct account){ after.time_ns - before.time_ns, after.on_cpu_ns - before.on_cpu_ns,
			      after.queued_ns - before.queued_ns };
	thread->longest_ns = longest_ns;
	thread->computing_ns = computing_ns;
	close(schedstat_fd);
	return NULL;
}

// Begins when it is told the end.
static void far_main(int start_fd)
{
	prctl(PR_SET_NAME, "poke_far");
	if (read(start_fd, &end_ns, sizeof(end_ns)) == sizeof(end_ns))
		far_driver();
	_exit(0);
}

static void print_truth(void)
{
	printf("{\"program\":\"queue\",\"pid\":%d,\"threads\":{", (int)getpid());
	for (const struct thread *thread = threads; thread->name != NULL; thread++)
		printf("%s\"%s\":{\"wall_ns\":%llu,\"on_cpu_ns\":%llu,\"queued_ns\":%llu,"
		       "\"longest_ns\":%llu,\"computing_ns\":%llu}",
		       thread > threads ? "," : "", thread->name,
		       (unsigned long long)thread->account.time_ns,
		       (unsigned long long)thread->account.on_cpu_ns,
		       (unsigned long long)thread->account.queued_ns,
		       (unsigned long long)thread->longest_ns,
		       (unsigned long long)thread->computing_ns);
	printf("},\"pokes\":{");
	for (int poker = 0; poker < POKERS; poker++)
		printf("%s\"%s\":{\"wakes\":%llu,\"least_ns\":%llu,\"most_ns\":%llu}",
		       poker ? "," : "", poker == NEAR ? "poke_near" : "poke_far",
		       (unsigned long long)pokes[poker].wakes,
		       (unsigned long long)pokes[poker].least_ns,
		       (unsigned long long)pokes[poker].most_ns);
	printf("}}\n");
}

int main(int argc, char **argv)
{
	struct options options = { .seconds = 3, .threads = 1, .depth = 1 };
	int start[2];
	pid_t far;

	options_parse(argc, argv, &options);
	if (pipe(messages) != 0 || pipe(start) != 0)
		die("pipe");
	far = fork();
	if (far < 0)
		die("fork");
	if (far == 0) {
		close(start[1]); // else it would never see that we have died
		far_main(start[0]);
	}
	gate_enter(&options);
	end_ns = clock_ns(CLOCK_MONOTONIC) + (uint64_t)(options.seconds * 1e9);
	if (write(start[1], &end_ns, sizeof(end_ns)) != sizeof(end_ns))
		die("write");
	for (struct thread *thread = threads; thread->name != NULL; thread++)
		if (pthread_create(&thread->thread, NULL, thread_main, thread) != 0)
			die("pthread_create");
	for (struct thread *thread = threads; thread->name != NULL; thread++)
		pthread_join(thread->thread, NULL);
	waitpid(far, NULL, 0);
	print_truth();
	gate_leave(&options);
	return 0;
}
