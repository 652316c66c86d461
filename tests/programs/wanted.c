// SPDX-License-Identifier: Apache-2.0
//
// wanted: computes for a time in a function whose name only this build has (LEAF), and asks for
// the time of day, which is the vDSO's work, often enough to be seen at it.
#include "reference.h"

#include <stdio.h>
#include <stdlib.h>

#ifndef LEAF
#define LEAF leaf_of_nobody
#endif

static volatile uint64_t sink;

FRAME static void LEAF(void)
{
	KEEP_FRAME();
	uint64_t x = sink + 1;

	for (int i = 0; i < 100000; i++)
		x = x * 6364136223846793005ULL + 1442695040888963407ULL;
	sink = x;
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? strtod(argv[1], NULL) : 1;
	uint64_t end = clock_ns(CLOCK_MONOTONIC) + (uint64_t)(seconds * 1e9);

	while (clock_ns(CLOCK_MONOTONIC) < end) {
		for (int i = 0; i < 1000; i++)
			clock_ns(CLOCK_MONOTONIC);
		LEAF();
	}
	return 0;
}
