// SPDX-License-Identifier: Apache-2.0
//
// The program of unwindchurn.h:
//   unwindchurn_N MODE SECONDS ARGUMENT…
//   dlopen LIBRARY…   loads each in turn, works in it, unloads it
//   fork LIBRARY…     children without exec, each working in another library
//   jit LIBRARY…      as dlopen, with code made at the addresses where the library was
//   exec PROGRAM      becomes the program (its sibling, at the same addresses), which becomes it…
#include "unwindchurn.h"

#include "reference.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define JOIN2(a, b)   a##b
#define JOIN(a, b)    JOIN2(a, b)
#define SPIN_ROUNDS   60000
#define CODE_BYTES    4096u
#define GENERATION_NS 30000000u // between two execs, and a child's life
#define NAPPING	      4		// of so many turns one waits
#define LENGTHS	      8 // a library stays for 4, 8, … 512 turns: 0.5 ms up to some tens of ms

extern const char __start_churncode[], __stop_churncode[];

static volatile uint64_t sink;

// The innermost: computes, or waits a little without the C library.
FRAME static uint64_t churn_spin(uint64_t x)
{
	struct timespec nap = { 0, 200000 };

	if (x % NAPPING == 0)
		raw_syscall4(SYS_nanosleep, (long)&nap, 0, 0, 0);
	for (int i = 0; i < SPIN_ROUNDS; i++)
		x = x * 6364136223846793005ULL + 1442695040888963407ULL;
	return x;
}

// What is copied into anonymous memory: with a frame pointer, as JIT compilers keep one.
__attribute__((section("churncode"), used, optimize("no-omit-frame-pointer"))) FRAME static uint64_t
churn_made(churn_inner_fn inner, uint64_t x)
{
	KEEP_FRAME();
	return inner(x * 3) + 1;
}

FRAME static void churn_work(churn_enter_fn enter)
{
	sink = sink + enter(churn_spin, sink);
	sink = sink + 1; // no tail call
}

// Two frames of the program itself, of other sizes in its sibling.
FRAME static uint64_t JOIN(churn_middle_, VARIANT)(churn_inner_fn inner, uint64_t x)
{
	volatile uint64_t room[5 * VARIANT + 1];

	room[x % (5 * VARIANT + 1)] = x;
	return inner(x) + room[x % (5 * VARIANT + 1)];
}

FRAME static uint64_t JOIN(churn_enter_, VARIANT)(churn_inner_fn inner, uint64_t x)
{
	volatile uint64_t room[30 - 3 * VARIANT];

	room[x % 2] = x;
	return JOIN(churn_middle_, VARIANT)(inner, x) + room[x % 2];
}

static uint64_t now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

static void *library_open(const char *path, churn_enter_fn *ret_enter)
{
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	void *symbol = library != NULL ? dlsym(library, "churn_enter") : NULL;

	if (symbol == NULL) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	memcpy(ret_enter, &symbol, sizeof(symbol));
	return library;
}

static void work_for(churn_enter_fn enter, int turn)
{
	for (int i = 0; i < NAPPING << turn % LENGTHS; i++)
		churn_work(enter);
}

static void load_and_work(const char *path, int turn)
{
	churn_enter_fn enter;
	void *library = library_open(path, &enter);

	work_for(enter, turn);
	dlclose(library);
}

static void make_and_work(const char *path, int turn)
{
	size_t size = (size_t)(__stop_churncode - __start_churncode);
	churn_enter_fn enter;
	void *library = library_open(path, &enter), *place, *memory;

	work_for(enter, turn);
	memcpy(&place, &enter, sizeof(place));
	place = (void *)((uintptr_t)place & ~(uintptr_t)(CODE_BYTES - 1));
	dlclose(library);
	memory = mmap(place, CODE_BYTES, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	if (memory == MAP_FAILED || size > CODE_BYTES)
		die("code where a library was");
	memcpy(memory, __start_churncode, size);
	if (mprotect(memory, CODE_BYTES, PROT_READ | PROT_EXEC) < 0)
		die("mprotect");
	memcpy(&enter, &memory, sizeof(enter));
	work_for(enter, turn);
	munmap(memory, CODE_BYTES);
}

// The child has what its parent had, but for the library, which lies where another one lay.
static void fork_and_work(char **paths, int count, int turn)
{
	churn_enter_fn enter;
	void *library = library_open(paths[turn % count], &enter);
	pid_t child = fork();
	uint64_t end = now_ns() + GENERATION_NS;

	if (child == 0) {
		while (now_ns() < end) {
			churn_work(enter);
			dlclose(library);
			library = library_open(paths[++turn % count], &enter);
		}
		_exit(0);
	}
	churn_work(enter);
	dlclose(library);
	if (child < 0 || waitpid(child, NULL, 0) != child)
		die("fork");
}

static void become(char **argv, uint64_t end)
{
	char *sibling = argv[3], rest[32];
	char *arguments[] = { sibling, argv[1], rest, argv[0], NULL };
	uint64_t generation_end = now_ns() + GENERATION_NS;

	while (now_ns() < generation_end)
		churn_work(JOIN(churn_enter_, VARIANT));
	if (now_ns() > end)
		exit(0);
	snprintf(rest, sizeof(rest), "%.9f", (double)(end - now_ns()) / 1e9);
	execv(sibling, arguments);
	die(sibling);
}

int main(int argc, char **argv)
{
	const char *mode = argc > 3 ? argv[1] : "";
	uint64_t end = now_ns() + (uint64_t)((argc > 3 ? strtod(argv[2], NULL) : 0) * 1e9);
	char **paths = argv + 3;
	int count = argc - 3;

	for (int turn = 0; now_ns() < end; turn++) {
		if (strcmp(mode, "dlopen") == 0)
			load_and_work(paths[turn % count], turn);
		else if (strcmp(mode, "jit") == 0)
			make_and_work(paths[turn % count], turn);
		else if (strcmp(mode, "fork") == 0)
			fork_and_work(paths, count, turn);
		else if (strcmp(mode, "exec") == 0)
			become(argv, end);
		else
			return 2;
	}
	return 0;
}
