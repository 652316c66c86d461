// SPDX-License-Identifier: Apache-2.0
//
// spin: CPU-bound threads for a time, and the CPU-seconds they really got.
#include "reference.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct spinner {
	pthread_t thread;
	const struct options *options;
	int index;
	volatile uint64_t sink;
};

FRAME static void spin_leaf(struct spinner *spinner)
{
	KEEP_FRAME();
	uint64_t x = spinner->sink + 1;

	for (int i = 0; i < 100000; i++)
		x = x * 6364136223846793005ULL + 1442695040888963407ULL;
	spinner->sink = x;
}

FRAME static void spin_loop(struct spinner *spinner)
{
	uint64_t end = clock_ns(CLOCK_MONOTONIC) + (uint64_t)(spinner->options->seconds * 1e9);

	while (clock_ns(CLOCK_MONOTONIC) < end)
		spin_leaf(spinner);
}

static void *spinner_main(void *argument)
{
	struct spinner *spinner = argument;

	if (spinner->options->pin)
		pin_to_cpu(spinner->index);
	spin_loop(spinner);
	spinner->sink++;
	return NULL;
}

int main(int argc, char **argv)
{
	struct options options = { .seconds = 10, .threads = 1, .depth = 1 };
	struct spinner *spinners;
	uint64_t wall, cpu;

	options_parse(argc, argv, &options);
	spinners = calloc((size_t)options.threads, sizeof(*spinners));
	if (spinners == NULL)
		die("calloc");
	gate_enter(&options);
	wall = clock_ns(CLOCK_MONOTONIC);
	cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
	for (int i = 0; i < options.threads; i++) {
		spinners[i].options = &options;
		spinners[i].index = i;
		if (pthread_create(&spinners[i].thread, NULL, spinner_main, &spinners[i]) != 0)
			die("pthread_create");
	}
	for (int i = 0; i < options.threads; i++)
		pthread_join(spinners[i].thread, NULL);
	cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu;
	wall = clock_ns(CLOCK_MONOTONIC) - wall;
	printf("{\"program\":\"spin\",\"pid\":%d,\"cpu_ns\":%llu,\"wall_ns\":%llu}\n",
	       (int)getpid(), (unsigned long long)cpu, (unsigned long long)wall);
	gate_leave(&options);
	free(spinners);
	return 0;
}
