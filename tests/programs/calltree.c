// SPDX-License-Identifier: Apache-2.0
//
// calltree: a server with a known call tree whose paths get known shares of CPU time.
// The work comes in slices of a third of a millisecond or so; every slice walks one path
// from server_loop to a leaf, and the path that is furthest behind its share goes next, so
// the shares hold over any second of the run. Slice lengths are random, lest they fall into
// step with a sampling period. The truth is thread CPU time read around every slice.
#include "reference.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

enum path { TOKENIZE, UNESCAPE, COMPARE, HASH, IO, ALLOC, PATH_COUNT };

static const struct {
	const char *frames;
	double share;
	unsigned rounds; // passes over the buffer that take 0.1 ms or so; shares correct the rest
} paths[PATH_COUNT] = {
	[TOKENIZE] = { "server_loop;do_query;parse_row;leaf_tokenize", 0.26, 12 },
	[UNESCAPE] = { "server_loop;do_query;parse_row;leaf_unescape", 0.09, 12 },
	[COMPARE] = { "server_loop;do_query;index_row;leaf_compare", 0.21, 12 },
	[HASH] = { "server_loop;do_query;index_row;leaf_hash", 0.15, 12 },
	[IO] = { "server_loop;do_ingest;leaf_io", 0.17, 24 },
	[ALLOC] = { "server_loop;do_ingest;leaf_alloc", 0.12, 12 },
};

#define BUFFER_SIZE 4096

struct worker {
	pthread_t thread;
	double seconds;
	uint64_t random;
	uint64_t cpu_ns[PATH_COUNT];
	uint64_t total_ns;
	int zero_fd;
	volatile uint32_t sink;
	unsigned char row[BUFFER_SIZE];
	unsigned char copy[BUFFER_SIZE];
};

FRAME static void leaf_tokenize(struct worker *worker, unsigned rounds)
{
	KEEP_FRAME();
	uint32_t tokens = 0;

	for (unsigned round = 0; round < rounds; round++) {
		bool inside = false;

		for (int i = 0; i < BUFFER_SIZE; i++) {
			bool letter = worker->row[i] > ' ';

			tokens += letter && !inside;
			inside = letter;
		}
	}
	worker->sink += tokens;
}

FRAME static void leaf_unescape(struct worker *worker, unsigned rounds)
{
	KEEP_FRAME();
	for (unsigned round = 0; round < rounds; round++) {
		int out = 0;

		for (int i = 0; i < BUFFER_SIZE; i++) {
			if (worker->row[i] == '\\' && i + 1 < BUFFER_SIZE)
				i++;
			worker->copy[out++] = worker->row[i];
		}
		worker->sink += worker->copy[out / 2];
	}
}

FRAME static void leaf_compare(struct worker *worker, unsigned rounds)
{
	KEEP_FRAME();
	int balance = 0;

	for (unsigned round = 0; round < rounds; round++) {
		for (int i = 0; i < BUFFER_SIZE; i++) {
			if (worker->row[i] != worker->copy[BUFFER_SIZE - 1 - i])
				balance += worker->row[i] < worker->copy[i] ? -1 : 1;
		}
	}
	worker->sink += (uint32_t)balance;
}

FRAME static void leaf_hash(struct worker *worker, unsigned rounds)
{
	KEEP_FRAME();
	uint32_t hash = 2166136261U;

	for (unsigned round = 0; round < rounds; round++) {
		for (int i = 0; i < BUFFER_SIZE; i++)
			hash = (hash ^ worker->row[i]) * 16777619U;
	}
	worker->sink += hash;
}

// Time inside the kernel: its samples have kernel frames above this one.
FRAME static void leaf_io(struct worker *worker, unsigned rounds)
{
	KEEP_FRAME();
	for (unsigned round = 0; round < rounds; round++) {
		if (raw_syscall4(SYS_read, worker->zero_fd, (long)worker->copy, BUFFER_SIZE, 0) !=
		    BUFFER_SIZE)
			abort();
	}
	worker->sink += worker->copy[0];
}

// First fit over a row of blocks whose sizes are the buffer's bytes.
FRAME static void leaf_alloc(struct worker *worker, unsigned rounds)
{
	KEEP_FRAME();
	for (unsigned round = 0; round < rounds; round++) {
		uint32_t used = 0;

		for (int i = 0; i < BUFFER_SIZE; i++) {
			uint32_t size = (worker->row[i] + 15U) & ~15U;

			used = used + size > 65536 ? size : used + size;
			worker->copy[i] = (unsigned char)(used >> 4);
		}
		worker->sink += used;
	}
}

// Ends in a jump to its callee, which returns to this function's caller: it is in no stack, and no
// way of walking finds it. (The build forbids such calls everywhere else.)
#if defined(__clang__)
#define TAIL_CALLING
#define TAIL_CALL __attribute__((musttail)) return
#else
#define TAIL_CALLING __attribute__((optimize("optimize-sibling-calls")))
#define TAIL_CALL
#endif
TAIL_CALLING FRAME static void hand_over(struct worker *worker, unsigned rounds)
{
	TAIL_CALL leaf_alloc(worker, rounds);
}

FRAME static void parse_row(struct worker *worker, enum path path, unsigned rounds)
{
	if (path == TOKENIZE)
		leaf_tokenize(worker, rounds);
	else
		leaf_unescape(worker, rounds);
	worker->sink++; // work after the call: it is not the last thing done, so no tail call
}

FRAME static void index_row(struct worker *worker, enum path path, unsigned rounds)
{
	if (path == COMPARE)
		leaf_compare(worker, rounds);
	else
		leaf_hash(worker, rounds);
	worker->sink += 2;
}

FRAME static void do_query(struct worker *worker, enum path path, unsigned rounds)
{
	if (path == TOKENIZE || path == UNESCAPE)
		parse_row(worker, path, rounds);
	else
		index_row(worker, path, rounds);
	worker->sink += 3;
}

FRAME static void do_ingest(struct worker *worker, enum path path, unsigned rounds)
{
	if (path == IO)
		leaf_io(worker, rounds);
	else
		hand_over(worker, rounds);
	worker->sink += 4;
}

FRAME static uint64_t cpu_clock(void)
{
	KEEP_FRAME();
	struct timespec now;

	if (raw_syscall4(SYS_clock_gettime, CLOCK_THREAD_CPUTIME_ID, (long)&now, 0, 0) != 0)
		abort();
	return (uint64_t)now.tv_sec * NSEC_PER_SEC + (uint64_t)now.tv_nsec;
}

static enum path most_behind(const struct worker *worker, uint64_t total)
{
	enum path worst = 0;
	double worst_lag = -1e18;

	for (int path = 0; path < PATH_COUNT; path++) {
		double lag = paths[path].share * (double)total - (double)worker->cpu_ns[path];

		if (lag > worst_lag) {
			worst_lag = lag;
			worst = path;
		}
	}
	return worst;
}

static unsigned slice_rounds(struct worker *worker, enum path path)
{
	worker->random ^= worker->random << 13;
	worker->random ^= worker->random >> 7;
	worker->random ^= worker->random << 17;
	return paths[path].rounds * (1 + worker->random % 7);
}

FRAME static void server_loop(struct worker *worker)
{
	uint64_t end = clock_ns(CLOCK_MONOTONIC) + (uint64_t)(worker->seconds * 1e9);
	uint64_t first = cpu_clock(), before = first;

	while (clock_ns(CLOCK_MONOTONIC) < end) {
		enum path path = most_behind(worker, before - first);
		unsigned rounds = slice_rounds(worker, path);
		uint64_t after;

		before = cpu_clock();
		if (path == IO || path == ALLOC)
			do_ingest(worker, path, rounds);
		else
			do_query(worker, path, rounds);
		after = cpu_clock();
		worker->cpu_ns[path] += after - before;
		before = after;
	}
	worker->total_ns = cpu_clock() - first;
}

static void *worker_main(void *argument)
{
	struct worker *worker = argument;

	server_loop(worker);
	worker->sink++;
	return NULL;
}

static void worker_prepare(struct worker *worker, double seconds, int index)
{
	worker->seconds = seconds;
	worker->random = 0x9e3779b97f4a7c15ULL * (uint64_t)(index + 1);
	worker->zero_fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	if (worker->zero_fd < 0)
		die("/dev/zero");
	for (int i = 0; i < BUFFER_SIZE; i++)
		worker->row[i] = (unsigned char)(' ' + (i * 2654435761U >> 11) % 95);
}

static void print_truth(const struct worker *workers, int threads)
{
	uint64_t total = 0, known = 0;

	for (int i = 0; i < threads; i++)
		total += workers[i].total_ns;
	printf("{\"program\":\"calltree\",\"pid\":%d,\"threads\":%d,\"paths\":[", (int)getpid(),
	       threads);
	for (int path = 0; path < PATH_COUNT; path++) {
		uint64_t sum = 0;

		for (int i = 0; i < threads; i++)
			sum += workers[i].cpu_ns[path];
		known += sum;
		printf("%s{\"path\":\"%s\",\"cpu_ns\":%llu}", path > 0 ? "," : "",
		       paths[path].frames, (unsigned long long)sum);
	}
	printf("],\"other_cpu_ns\":%llu,\"total_cpu_ns\":%llu}\n",
	       (unsigned long long)(total - known), (unsigned long long)total);
}

int main(int argc, char **argv)
{
	struct options options = { .seconds = 10, .threads = 1, .depth = 1 };
	struct worker *workers;

	options_parse(argc, argv, &options);
	workers = calloc((size_t)options.threads, sizeof(*workers));
	if (workers == NULL)
		die("calloc");
	for (int i = 0; i < options.threads; i++)
		worker_prepare(&workers[i], options.seconds, i);
	gate_enter(&options);
	for (int i = 1; i < options.threads; i++) {
		if (pthread_create(&workers[i].thread, NULL, worker_main, &workers[i]) != 0)
			die("pthread_create");
	}
	worker_main(&workers[0]);
	for (int i = 1; i < options.threads; i++)
		pthread_join(workers[i].thread, NULL);
	print_truth(workers, options.threads);
	gate_leave(&options);
	for (int i = 0; i < options.threads; i++)
		close(workers[i].zero_fd);
	free(workers);
	return 0;
}
