// SPDX-License-Identifier: Apache-2.0
//
// manystacks: a thread that waits 100 us at a time at the end of a random path through two
// functions, --depth deep: nearly every wait has a stack nobody has seen before. The worst
// that one process can do to what aggregates by stack.
#include "reference.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>

static void descend(int depth);
static volatile int turns;

FRAME static void left(int depth)
{
	KEEP_FRAME();
	descend(depth - 1);
	turns++;
}

FRAME static void right(int depth)
{
	KEEP_FRAME();
	descend(depth - 1);
	turns++;
}

FRAME static void descend(int depth)
{
	struct timespec wait = { .tv_nsec = 100000 };

	KEEP_FRAME();
	if (depth <= 0) {
		raw_syscall4(SYS_nanosleep, (long)&wait, 0, 0, 0);
		return;
	}
	if (random() & 1)
		left(depth);
	else
		right(depth);
	turns++;
}

int main(int argc, char **argv)
{
	struct options options = { .seconds = 10, .threads = 1, .depth = 40 };
	uint64_t end, waits = 0;

	options_parse(argc, argv, &options);
	gate_enter(&options);
	srandom(1);
	end = clock_ns(CLOCK_MONOTONIC) + (uint64_t)(options.seconds * 1e9);
	for (; clock_ns(CLOCK_MONOTONIC) < end; waits++)
		descend(options.depth);
	printf("{\"waits\": %llu}\n", (unsigned long long)waits);
	fflush(stdout);
	gate_leave(&options);
	return 0;
}
