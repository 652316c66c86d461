// SPDX-License-Identifier: Apache-2.0
//
// names_bench: a names client whose children are forks of the test, real or misbehaving, and
// files and processes for them to look at.
#pragma once

#include "agent/names_state.h"

#include <sys/stat.h>

enum bench_child {
	BENCH_REAL,
	BENCH_SILENT, // takes requests and never answers
	BENCH_ENTERS, // an opener: the place of the file it is asked for, and is silent then
	BENCH_LEAVES, // likewise, and leaves it again
	BENCH_DIES,   // at its first request
	BENCH_CLOSES, // its socket, and lives on
	BENCH_OTHER_SERIAL,
	BENCH_LONG,  // an answer with bytes behind it
	BENCH_SHORT, // one that is cut
	BENCH_HUGE,  // larger than any answer may be
	BENCH_WRONG, // well-formed, with a content that cannot be
};

struct bench {
	struct fp_names *names;
	struct fp_names_options options;
	enum bench_child first_opener, first_role; // what the first of each is; later ones are real
	unsigned int openers, roles;		   // started
	char directory[64];			   // a new one
};

int bench_up(void **state); // cmocka's setup and teardown
int bench_down(void **state);
#define ON_BENCH(test) cmocka_unit_test_setup_teardown(test, bench_up, bench_down)

void bench_open(struct bench *bench); // the client, with the options as they are
// Waits for everything that is outstanding, however long it takes.
void bench_settle(struct bench *bench);
struct fp_names_stats bench_stats(const struct bench *bench);

struct bench_file {
	struct fp_names_file file;
	char path[128];
	void *memory;
	size_t size;
	uint64_t offset; // in the file, of a mapping of this program
};
// Writes a file of the text and maps it into this process.
void bench_map(struct bench *bench, const char *name, const char *text, struct bench_file *ret);
void bench_unmap(struct bench_file *file);
// The first executable mapping of this program.
void bench_own_program(struct bench_file *ret);
enum fp_names_state bench_identify(struct bench *bench, const struct bench_file *file,
				   struct fp_build *ret_build);

// This process's perf map in /tmp, and its description.
void bench_write_perf_map(uint32_t pid, const char *text);
void bench_remove_perf_map(uint32_t pid);
static inline struct fp_names_process bench_process(uint32_t pid)
{
	return (struct fp_names_process){ .tgid = pid };
}
// A child that waits to be killed.
int bench_sleeper(void);
void bench_kill(int pid);
// The address's name, after waiting for it; "" for none. Static storage.
const char *bench_name(struct bench *bench, const struct fp_names_process *process,
		       uint64_t address);
