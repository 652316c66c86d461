// SPDX-License-Identifier: Apache-2.0
//
// examples: small batches with known content for the tests of the store.
#pragma once

#include "collector/store.h"

#define EXAMPLE_START_S 1764450000ULL
#define EXAMPLE_S	1000000000ULL

struct example {
	const char *host;
	uint64_t sequence;
	uint64_t start_s;     // 0: EXAMPLE_START_S + 60 × sequence
	uint64_t hz;	      // 0: 19
	uint64_t cpu_value;   // samples of each of its two threads; 0: 10
	const char *thread;   // second thread's name; NULL: "io"
	const char *function; // leaf of the second thread's stack; NULL: "write"
};

// Two threads, "main" in loop;query and `thread` in loop;`function`, for CPU and off-CPU.
struct fp_profile *example_profile(const struct example *example);
struct fp_store *example_open(const char *directory, const struct fp_store_options *more,
			      struct fp_store_recovery *ret_recovery);
// Appends and returns the verdict, or -errno.
int example_append(struct fp_store *store, const struct example *example);
int example_append_at(struct fp_store *store, const struct example *example, uint64_t received_ns);
// CPU samples that a selector finds in all of time.
uint64_t example_sum(struct fp_store *store, const char *selector);
const char *example_directory(void); // a fresh one
// CPU samples of all labels in a range; the caller frees the profile. keep: see merge.h.
struct fp_store_answer example_answer(struct fp_store *store, uint64_t from_s, uint64_t to_s,
				      const char *keep);

#define OPENED(path) example_open(path, NULL, NULL)
#define AUTOSTORE    FP_CLEANUP(fp_store_closep)
