// SPDX-License-Identifier: Apache-2.0
//
// symbolwanted: which builds of a batch its agent is asked to send the function names of.
// Stage: on the way out of ingest, so it reads no file and waits for no query: what is known of a
// build is what queries and earlier looks noted here, and a caller's look for a file by its name.
// A build is asked for, and looked for, once in FP_SYMBOL_ASK_AGAIN_NS, whoever sends it.
// Input: a checked profile. Memory: bounded; the builds seen longest ago are forgotten.
// Threads: any.
#pragma once

#include "common/clock.h"
#include "proto/profile.h"

// Of one answer; agents take no more (agent/ship_wanted.h).
#define FP_SYMBOLS_WANTED_MAX  16
#define FP_SYMBOL_ASK_AGAIN_NS (600 * FP_NS_PER_S)

struct fp_symbol_wanted;

// builds: how many are remembered at most.
int fp_symbol_wanted_new(uint32_t builds, struct fp_symbol_wanted **ret_wanted);
void fp_symbol_wanted_free(struct fp_symbol_wanted *wanted);

// What a query met: a build that has names is not asked for until a query finds it without.
void fp_symbol_wanted_note(struct fp_symbol_wanted *wanted, const struct fp_build *build,
			   bool has_names);

struct fp_symbol_look {
	// Whether a table or debug file of the build is there; called without a lock.
	bool (*has)(void *context, const struct fp_build *build);
	void *context;
	uint64_t now_ns; // CLOCK_MONOTONIC
};
// The builds to ask for, hottest first by the samples whose stacks pass through them: those of
// programs, libraries and the vDSO that have an id. Returns how many, or -ENOMEM.
int fp_symbol_wanted_pick(struct fp_symbol_wanted *wanted, const struct fp_profile *profile,
			  const struct fp_symbol_look *look,
			  struct fp_build ret_builds[FP_SYMBOLS_WANTED_MAX]);
