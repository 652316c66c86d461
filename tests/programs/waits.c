// SPDX-License-Identifier: Apache-2.0
//
// waits: threads that each sleep on a stack of their own, `wait_<length>`, under a name of
// their own, for 20 µs to 200 ms; each wait is half to one and a half times the name's length,
// by a generator that --seed sets. The timer slack is the least, so short waits are short.
// The truth has, per thread, the waits by their measured length in buckets of an eighth of an
// octave: [waits, nanoseconds] of each that is not empty. From these follows the variance of an
// estimate that samples them. The lengths are monotonic time around a wait, so some microseconds
// longer than the thread was off the CPU: for its exact time ask a sampler that keeps all.
#include "reference.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BUCKETS_PER_OCTAVE 8
#define BUCKETS		   (40 * BUCKETS_PER_OCTAVE) // up to 1000 s

// X(name, length in microseconds)
#define LENGTHS(X)                                                                                 \
	X(20us, 20)                                                                                \
	X(50us, 50)                                                                                \
	X(150us, 150)                                                                              \
	X(500us, 500)                                                                              \
	X(2ms, 2000)                                                                               \
	X(7ms, 7000)                                                                               \
	X(15ms, 15000)                                                                             \
	X(60ms, 60000)                                                                             \
	X(200ms, 200000)

struct bucket {
	uint64_t waits, ns;
};

struct waiter {
	const char *name;
	long (*wait)(uint64_t ns);
	uint64_t base_ns, random;
	pthread_t thread;
	struct bucket buckets[BUCKETS];
};

static uint64_t end_ns;

#define WAIT_FUNCTION(name, us)                                                                    \
	FRAME static long wait_##name(uint64_t ns)                                                 \
	{                                                                                          \
		KEEP_FRAME();                                                                      \
		struct timespec length = { .tv_sec = (time_t)(ns / NSEC_PER_SEC),                  \
					   .tv_nsec = (long)(ns % NSEC_PER_SEC) };                 \
                                                                                                   \
		return raw_syscall4(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, (long)&length, 0);    \
	}
LENGTHS(WAIT_FUNCTION)

#define WAITER(n, us) { .name = "wait_" #n, .wait = wait_##n, .base_ns = (us)*1000ULL },
static struct waiter waiters[] = { LENGTHS(WAITER) };
#define WAITERS (sizeof(waiters) / sizeof(waiters[0]))

static uint64_t next_random(uint64_t *state) // splitmix64
{
	uint64_t mixed = *state += 0x9e3779b97f4a7c15ULL;

	mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9ULL;
	mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebULL;
	return mixed ^ (mixed >> 31);
}

static void note(struct waiter *waiter, uint64_t ns)
{
	unsigned int index = (unsigned int)(log2((double)(ns > 0 ? ns : 1)) * BUCKETS_PER_OCTAVE);
	struct bucket *bucket = &waiter->buckets[index < BUCKETS ? index : BUCKETS - 1];

	bucket->waits++;
	bucket->ns += ns;
}

static void *waiter_main(void *argument)
{
	struct waiter *waiter = argument;
	uint64_t before, after = clock_ns(CLOCK_MONOTONIC);

	prctl(PR_SET_NAME, waiter->name);
	prctl(PR_SET_TIMERSLACK, 1);
	while (after < end_ns) {
		uint64_t ns = waiter->base_ns / 2 + next_random(&waiter->random) % waiter->base_ns;

		before = clock_ns(CLOCK_MONOTONIC);
		if (waiter->wait(ns) != 0) {
			fprintf(stderr, "'%s' was interrupted\n", waiter->name);
			exit(1);
		}
		after = clock_ns(CLOCK_MONOTONIC);
		note(waiter, after - before);
	}
	return NULL;
}

static void print_waiter(const struct waiter *waiter)
{
	const char *separator = "";
	uint64_t waits = 0, ns = 0;

	for (int i = 0; i < BUCKETS; i++) {
		waits += waiter->buckets[i].waits;
		ns += waiter->buckets[i].ns;
	}
	printf("{\"name\":\"%s\",\"waits\":%llu,\"off_cpu_ns\":%llu,\"lengths\":[", waiter->name,
	       (unsigned long long)waits, (unsigned long long)ns);
	for (int i = 0; i < BUCKETS; i++) {
		if (waiter->buckets[i].waits > 0) {
			printf("%s[%llu,%llu]", separator,
			       (unsigned long long)waiter->buckets[i].waits,
			       (unsigned long long)waiter->buckets[i].ns);
			separator = ",";
		}
	}
	printf("]}");
}

int main(int argc, char **argv)
{
	struct options options = { .seconds = 10, .threads = 1, .depth = 1 };

	options_parse(argc, argv, &options);
	gate_enter(&options);
	end_ns = clock_ns(CLOCK_MONOTONIC) + (uint64_t)(options.seconds * 1e9);
	for (size_t i = 0; i < WAITERS; i++) {
		waiters[i].random = options.seed * WAITERS + i;
		if (pthread_create(&waiters[i].thread, NULL, waiter_main, &waiters[i]) != 0)
			die("pthread_create");
	}
	for (size_t i = 0; i < WAITERS; i++)
		pthread_join(waiters[i].thread, NULL);
	printf("{\"program\":\"waits\",\"pid\":%d,\"waiters\":[", (int)getpid());
	for (size_t i = 0; i < WAITERS; i++) {
		printf("%s", i > 0 ? "," : "");
		print_waiter(&waiters[i]);
	}
	printf("]}\n");
	gate_leave(&options);
	return 0;
}
