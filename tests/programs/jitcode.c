// SPDX-License-Identifier: Apache-2.0
//
// jitcode: what a JIT compiler does, without one: copies of a function in anonymous executable
// memory, called in turns. Prints `ready PID SIZE ADDRESS…`, so that the test can write whatever
// perf map it likes for them, waits for a byte, and works for --seconds; with --threads N there
// are N copies. Then as with every reference program.
#include "reference.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define COPY_BYTES 4096u

typedef uint64_t (*code_fn)(uint64_t x, uint64_t rounds);

// The linker names the ends of a section whose name is an identifier. Nothing in it refers to
// anything outside, so it runs wherever it is copied to.
extern const char __start_jitcode[], __stop_jitcode[];

__attribute__((section("jitcode"), used)) FRAME static uint64_t template_code(uint64_t x,
									      uint64_t rounds)
{
	KEEP_FRAME();
	for (uint64_t i = 0; i < rounds; i++)
		x = x * 6364136223846793005ULL + 1442695040888963407ULL;
	return x;
}

static char *copies_make(int count)
{
	size_t size = (size_t)count * COPY_BYTES;
	size_t code_size = (size_t)(__stop_jitcode - __start_jitcode);
	char *memory;

	if (code_size > COPY_BYTES)
		die("the template is too large");
	memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		die("mmap");
	for (int i = 0; i < count; i++)
		memcpy(memory + (size_t)i * COPY_BYTES, __start_jitcode, code_size);
	__builtin___clear_cache(memory, memory + size);
	if (mprotect(memory, size, PROT_READ | PROT_EXEC) < 0)
		die("mprotect");
	return memory;
}

FRAME static uint64_t run_copies(const char *memory, int count, double seconds)
{
	size_t entry = (size_t)((const char *)(uintptr_t)template_code - __start_jitcode);
	uint64_t end = clock_ns(CLOCK_MONOTONIC) + (uint64_t)(seconds * 1e9), x = 1;

	while (clock_ns(CLOCK_MONOTONIC) < end) {
		for (int i = 0; i < count; i++) {
			const char *at = memory + (size_t)i * COPY_BYTES + entry;

			x = ((code_fn)(uintptr_t)at)(x, 100000);
		}
	}
	return x;
}

int main(int argc, char **argv)
{
	struct options options = { .seconds = 10, .threads = 1, .depth = 1 };
	char *memory;
	uint64_t sink;

	options_parse(argc, argv, &options);
	memory = copies_make(options.threads);
	printf("ready %d %u", (int)getpid(), COPY_BYTES);
	for (int i = 0; i < options.threads; i++)
		printf(" %" PRIx64, (uint64_t)(uintptr_t)(memory + (size_t)i * COPY_BYTES));
	printf("\n");
	fflush(stdout);
	if (getchar() == EOF)
		return 0;
	sink = run_copies(memory, options.threads, options.seconds);
	printf("{\"program\":\"jitcode\",\"pid\":%d,\"sink\":%d}\n", (int)getpid(), sink == 0);
	options.gate = true;
	gate_leave(&options);
	return 0;
}
