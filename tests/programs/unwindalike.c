// SPDX-License-Identifier: Apache-2.0
//
// unwindalike LIBRARY SECONDS: works in the library for so long, with addresses inside decoy(),
// which never runs, all over its stack.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define INSIDE 25 // decoy()

static long (*outer)(long turns, long value);

long decoy(long turns);

__attribute__((noinline)) long decoy(long turns)
{
	volatile char room[48];

	room[0] = 0;
	return outer(turns, 0) + room[0];
}

__attribute__((noinline)) static long worker(long turns)
{
	volatile char room[48];

	room[0] = 0;
	return outer(turns, (long)decoy + INSIDE) + room[0];
}

static double now_s(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	void *library = argc == 3 ? dlopen(argv[1], RTLD_NOW) : NULL;
	double end;

	if (!library) {
		fprintf(stderr, "usage: unwindalike LIBRARY SECONDS\n");
		return 2;
	}
	outer = (long (*)(long, long))dlsym(library, "alike_outer");
	end = now_s() + strtod(argv[2], NULL);
	while (now_s() < end)
		if (worker(100000) == 1)
			return decoy(1) == 0;
	return 0;
}
