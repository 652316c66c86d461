// SPDX-License-Identifier: Apache-2.0
//
// reference: what the reference programs share: options, clocks, the gate and raw system
// calls. A reference program makes a load whose truth it measures itself and prints as one
// line of JSON at its end, so that tests compare a profile with what really happened.
// The gate (--gate): the program prints `ready PID`, waits for a byte on standard input,
// works, prints its truth and waits for the end of standard input. So a test attaches before
// the first piece of work and detaches after the last.
// Raw system calls: Debian's libc has no frame pointers; a wait inside it would have no
// callers in a frame-pointer walk. Functions that must be seen call the kernel themselves.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdnoreturn.h>
#include <time.h>

#define NSEC_PER_SEC 1000000000ULL

// Never inlined, cloned or analysed across: the function is one frame with its own name.
#if defined(__clang__)
#define FRAME __attribute__((noinline))
#else
#define FRAME __attribute__((noinline, noclone, noipa))
#endif

// GCC drops the frame of a leaf function that uses no stack, -mno-omit-leaf-frame-pointer or
// not, and the leaf's caller is then missing from the walk. Taking the frame's address keeps it.
#if defined(FP_REFERENCE_NO_FRAMES)
#define KEEP_FRAME() ((void)0)
#else
#define KEEP_FRAME() __asm__ volatile("" : : "r"(__builtin_frame_address(0)))
#endif

struct options {
	double seconds;
	int threads;
	int depth;	      // deep: frames below main
	uint64_t round_trips; // pingpong: 0 means for --seconds
	uint64_t seed;	      // waits
	bool gate;
	bool migrate;	// sleeper: move threads between CPUs while they are blocked
	bool same_cpu;	// pingpong
	bool pin;	// spin, deep: thread i on CPU i
	bool processes; // pingpong: two processes, not two threads
};

// Fills *options (defaults come in it) or prints the usage and exits with 2.
void options_parse(int argc, char **argv, struct options *options);
noreturn void die(const char *what); // prints what and errno, exits with 1
uint64_t clock_ns(clockid_t clock);
void gate_enter(const struct options *options);
void gate_leave(const struct options *options);
void pin_to_cpu(int index); // the index-th CPU this process may use, modulo their number
int usable_cpus(int *cpus, int capacity); // their numbers; returns how many

#if defined(__x86_64__)
static inline __attribute__((always_inline)) long raw_syscall4(long number, long a, long b, long c,
							       long d)
{
	long result;
	register long r10 __asm__("r10") = d;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "0"(number), "D"(a), "S"(b), "d"(c), "r"(r10)
			 : "rcx", "r11", "memory");
	return result;
}
#elif defined(__aarch64__)
static inline __attribute__((always_inline)) long raw_syscall4(long number, long a, long b, long c,
							       long d)
{
	register long x8 __asm__("x8") = number;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;

	__asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "memory");
	return x0;
}
#else
#error "reference programs know x86-64 and arm64"
#endif
