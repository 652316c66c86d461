// SPDX-License-Identifier: Apache-2.0
//
// demo: a small service that does nothing useful in a known shape, for the quickstart: its
// call tree is in the source, so anyone can check the profile against it. One thread
// burns about a third of a CPU in handle_request (7 parts parse_query, 2 parts rank_results,
// 1 part render_page), another mostly sleeps in wait_for_disk. Build with frame pointers
// and without sibling-call optimisation, or callers vanish from the stacks.
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE    __attribute__((noinline))
#define UNIT_ROUNDS 800000 // about a millisecond
#define IDLE_US_MIN 10000
#define IDLE_US_MAX 30000
#define DISK_US	    50000

static volatile sig_atomic_t stopping;
static _Thread_local volatile uint64_t sink;

static void on_signal(int number)
{
	stopping = number;
}

// One unit of work; a multiply chain that no compiler shortens. It asks for its frame's
// address because gcc gives a function that needs no stack no frame, whatever the options,
// and a leaf without a frame hides its caller.
static NOINLINE void mix(uint32_t units)
{
	uint64_t state = sink | 1;
	__asm__ volatile("" : : "r"(__builtin_frame_address(0)));
	for (uint64_t i = 0; i < (uint64_t)units * UNIT_ROUNDS; i++)
		state = state * 6364136223846793005u + 1442695040888963407u;
	sink = state;
}

static NOINLINE void split_words(void)
{
	mix(4);
	sink++;
}

static NOINLINE void lower_case(void)
{
	mix(3);
	sink++;
}

static NOINLINE void parse_query(void)
{
	split_words();
	lower_case();
	sink++;
}

static NOINLINE void rank_results(void)
{
	mix(2);
	sink++;
}

static NOINLINE void render_page(void)
{
	mix(1);
	sink++;
}

static NOINLINE void handle_request(void)
{
	parse_query();
	rank_results();
	render_page();
	sink++;
}

// The system call itself is made one level further down than the function that should be
// seen waiting: a libc built without frame pointers hides its direct caller.
static NOINLINE void pause_us(long microseconds)
{
	struct timespec time = { .tv_sec = 0, .tv_nsec = microseconds * 1000 };
	syscall(SYS_nanosleep, &time, NULL);
	sink++;
}

// Requests come at no fixed interval: a sampler's ticks could keep step with one, and meet the same
// part of every third request.
static NOINLINE void wait_for_request(void)
{
	static uint32_t seed = 1;

	seed = seed * 1664525 + 1013904223;
	pause_us(IDLE_US_MIN + (seed >> 8) % (IDLE_US_MAX - IDLE_US_MIN));
	sink++;
}

static NOINLINE void wait_for_disk(void)
{
	pause_us(DISK_US);
	sink++;
}

static NOINLINE void write_journal(void)
{
	wait_for_disk();
	sink++;
}

static void *journal_thread(void *unused)
{
	while (!stopping)
		write_journal();
	return unused;
}

static NOINLINE void serve(void)
{
	while (!stopping) {
		handle_request();
		wait_for_request();
	}
}

int main(void)
{
	struct sigaction action = { .sa_handler = on_signal };
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	pthread_t journal;
	if (pthread_create(&journal, NULL, journal_thread, NULL) != 0) {
		fprintf(stderr, "demo: cannot start a thread\n");
		return 1;
	}
	serve();
	pthread_join(journal, NULL);
	return 0;
}
