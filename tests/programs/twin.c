// SPDX-License-Identifier: Apache-2.0
//
// twin: two programs, twin_a and twin_b, of which each function of one lies at the address of a
// function of the other: both are linked to fixed addresses and differ in names and order alone.
//   twin_a MILLISECONDS [PROGRAM MILLISECONDS…]
// works that long in <twin>_spin and then becomes the next program, in the same process.
// Where one has <twin>_exec, which makes the system call, the other has <twin>_never, which is
// never called: a sample taken in an execve, with the old program's registers and the new one's
// mappings, would show up there.
#include "reference.h"

#include <stdlib.h>
#include <sys/syscall.h>

#if defined(TWIN_A)
#define NAME(function) twin_a_##function
#else
#define NAME(function) twin_b_##function
#endif
#define PLACED FRAME __attribute__((aligned(512), used))

static volatile uint64_t sink;

PLACED static void NAME(spin)(void)
{
	KEEP_FRAME();
	uint64_t x = sink;

	for (int i = 0; i < 100000; i++)
		x = x * 6364136223846793005ULL + 1442695040888963407ULL;
	sink = x;
}

#define DEFINE_EXEC                                                                                \
	PLACED static long NAME(exec)(char **argv)                                                 \
	{                                                                                          \
		extern char **environ;                                                             \
                                                                                                   \
		KEEP_FRAME();                                                                      \
		return raw_syscall4(SYS_execve, (long)argv[0], (long)argv, (long)environ, 0);      \
	}
#define DEFINE_NEVER                                                                               \
	PLACED static void NAME(never)(void)                                                       \
	{                                                                                          \
		KEEP_FRAME();                                                                      \
		for (int i = 0; i < 1000; i++)                                                     \
			sink++;                                                                    \
	}

#if defined(TWIN_A)
DEFINE_EXEC
DEFINE_NEVER
#else
DEFINE_NEVER
DEFINE_EXEC
#endif

int main(int argc, char **argv)
{
	uint64_t end_ns;

	if (argc < 2)
		return 2;
	end_ns = clock_ns(CLOCK_MONOTONIC) + strtoull(argv[1], NULL, 10) * 1000000;
	while (clock_ns(CLOCK_MONOTONIC) < end_ns)
		NAME(spin)();
	if (argc == 2)
		return 0;
	NAME(exec)(argv + 2);
	return 1;
}
