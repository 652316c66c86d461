// SPDX-License-Identifier: Apache-2.0
//
// deep: spins at the end of a chain of --depth frames, so that every CPU sample has a user
// stack of a known length: the load for comparing what a sample costs.
#include "reference.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct diver {
	pthread_t thread;
	const struct options *options;
	int index;
	uint64_t turns;
	volatile uint64_t sink;
};

FRAME static void deep_leaf(struct diver *diver)
{
	uint64_t end = clock_ns(CLOCK_MONOTONIC) + (uint64_t)(diver->options->seconds * 1e9);

	while (clock_ns(CLOCK_MONOTONIC) < end) {
		uint64_t x = diver->sink;

		for (int i = 0; i < 200000; i++)
			x = x * 6364136223846793005ULL + 1442695040888963407ULL;
		diver->sink = x;
		diver->turns++;
	}
}

FRAME static void deep_step(struct diver *diver, int remaining)
{
	if (remaining > 1)
		deep_step(diver, remaining - 1);
	else
		deep_leaf(diver);
	diver->sink += (uint64_t)remaining; // after the call: no tail call
}

static void *diver_main(void *argument)
{
	struct diver *diver = argument;

	if (diver->options->pin)
		pin_to_cpu(diver->index);
	deep_step(diver, diver->options->depth > 1 ? diver->options->depth - 1 : 1);
	diver->sink++;
	return NULL;
}

int main(int argc, char **argv)
{
	struct options options = { .seconds = 10, .threads = 1, .depth = 30 };
	struct diver *divers;
	uint64_t cpu, turns = 0;

	options_parse(argc, argv, &options);
	divers = calloc((size_t)options.threads, sizeof(*divers));
	if (divers == NULL)
		die("calloc");
	gate_enter(&options);
	cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
	for (int i = 0; i < options.threads; i++) {
		divers[i].options = &options;
		divers[i].index = i;
		if (pthread_create(&divers[i].thread, NULL, diver_main, &divers[i]) != 0)
			die("pthread_create");
	}
	for (int i = 0; i < options.threads; i++) {
		pthread_join(divers[i].thread, NULL);
		turns += divers[i].turns;
	}
	cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu;
	printf("{\"program\":\"deep\",\"pid\":%d,\"depth\":%d,\"cpu_ns\":%llu,\"turns\":%llu}\n",
	       (int)getpid(), options.depth, (unsigned long long)cpu, (unsigned long long)turns);
	gate_leave(&options);
	free(divers);
	return 0;
}
