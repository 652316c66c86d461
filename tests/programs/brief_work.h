// SPDX-License-Identifier: Apache-2.0
//
// brief_work: the leaves of brief.c and briefs.c, under a prefix of each one's own. To be
// included once by a program that defines LEAF(number), the leaves' names, and WAIT, the name of
// the function it blocks in.
#pragma once

#include "brief.h"
#include "reference.h"

#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BRIEF_WAIT_NS 1000000 // of a life of 2 ms at least
#define BRIEF_SLICE   400000  // iterations between two looks at the clock: some hundred µs

// Volatile: four loops that do the same must stay four functions.
static volatile uint64_t brief_sink;

#define DEFINE_LEAF(number)                                                                        \
	FRAME static void LEAF(number)(void)                                                       \
	{                                                                                          \
		KEEP_FRAME();                                                                      \
		uint64_t x = brief_sink + number;                                                  \
                                                                                                   \
		for (int i = 0; i < BRIEF_SLICE; i++)                                              \
			x = x * 6364136223846793005ULL + number + 1;                               \
		brief_sink = x;                                                                    \
	}

DEFINE_LEAF(0)
DEFINE_LEAF(1)
DEFINE_LEAF(2)
DEFINE_LEAF(3)

static void (*const brief_leaves[BRIEF_LEAVES])(void) = { LEAF(0), LEAF(1), LEAF(2), LEAF(3) };

// Blocks for certain: a machine with little to do never makes a process wait that only works.
FRAME static long WAIT(void)
{
	KEEP_FRAME();
	struct timespec length = { .tv_nsec = BRIEF_WAIT_NS };

	return raw_syscall4(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, (long)&length, 0);
}

// Blocks once, works in one leaf until the process is life_us old, and reports.
static inline void brief_live(uint64_t born_ns, uint64_t life_us, uint32_t leaf, uint32_t forked)
{
	struct brief_report report = { .leaf = leaf % BRIEF_LEAVES, .forked = forked };
	uint64_t end_ns = born_ns + life_us * 1000, asleep_ns = clock_ns(CLOCK_MONOTONIC);

	if (WAIT() != 0)
		die("wait");
	report.waited_ns = clock_ns(CLOCK_MONOTONIC) - asleep_ns;
	do {
		uint64_t before = clock_ns(CLOCK_THREAD_CPUTIME_ID);

		brief_leaves[report.leaf]();
		report.leaf_cpu_ns += clock_ns(CLOCK_THREAD_CPUTIME_ID) - before;
	} while (clock_ns(CLOCK_MONOTONIC) < end_ns);
	if (write(BRIEF_FD, &report, sizeof(report)) != sizeof(report))
		die("report");
}
