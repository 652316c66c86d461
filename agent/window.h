// SPDX-License-Identifier: Apache-2.0
//
// window: the profile that is being filled. Takes drained counts with their stack records,
// resolves each stack once per window, and keeps the books that become the quality record:
// what was sampled against what busy CPU time predicts, outcomes, how walks ended and where.
// Stage: resolve → fold. Threads: one owner.
#pragma once

#include "proto/profile.h"
#include "resolve.h"
#include "sampler.h"

struct fp_moment { // one instant, in every clock a window needs
	uint64_t monotonic_ns, boottime_ns, realtime_ns;
	uint64_t busy_ns; // CPU time that what is sampled has used so far; UINT64_MAX: unknown
};

struct fp_window {
	struct fp_profile *profile;
	struct fp_hashmap resolved; // fp_key → private
	struct fp_totals totals[FP_PROGRAM_COUNT];
	uint64_t stacks_lost[FP_SOURCE_COUNT];
	uint64_t relabel_dropped[FP_SOURCE_COUNT]; // samples that a relabel rule does not want
	uint64_t sideband_lost;
	struct fp_durations durations[FP_DURATIONS_ROWS]; // of all intervals, kept or not
	uint64_t quantum_min_ns, quantum_max_ns, weight_max, cut_missed;
	uint64_t waker_quantum_min_ns, waker_quantum_max_ns;
	uint32_t entries_peak, epochs;
	struct fp_moment start, end;
	uint32_t tgid; // the one process, or 0
};

// The window begins now, or where the one before it ended.
int fp_window_open(struct fp_window *window, uint32_t tgid, const struct fp_moment *start);
// The first window began as long before it was opened as that: intervals off the CPU count from
// there on. CPU time that is expected in samples counts from the opening.
void fp_window_begun(struct fp_window *window, uint64_t ago_ns);
// The window ends here: to be called when sampling for it ends, before its last epoch is
// drained, since draining takes time that was not sampled for this window.
void fp_window_end(struct fp_window *window);
void fp_window_free(struct fp_window *window);

// False when a count of the record needs it to be resolved: for the first time in this window, or
// again in this epoch, since names may have come or changed.
bool fp_window_knows(const struct fp_window *window, const struct fp_stack_record *record);
// One drained entry. record may be NULL: the count then stands under "[stack lost]".
int fp_window_count(struct fp_window *window, struct fp_resolver *resolver, enum fp_source source,
		    const struct fp_count *count, const struct fp_stack_record *record);

// A thread's stack together with that of who woke it.
enum fp_pair_part { FP_PAIR_SLEEPER, FP_PAIR_WAKER };
const struct fp_key *fp_pair_key(const struct fp_stack_record *pair, enum fp_pair_part part);
struct fp_window_stack {
	bool known; // false: its record never came
	struct fp_resolved resolved;
	char comm[FP_COMM_LEN + 1];
};
struct fp_window_pair {
	const struct fp_stack_record *pair;
	struct fp_window_stack sleeper, waker;
};
// record may be NULL.
int fp_window_pair_resolve(struct fp_window *window, struct fp_resolver *resolver,
			   const struct fp_stack_record *record, struct fp_window_stack *ret);
// The drained entry of a pair: the sleeper's stack, "[woken by COMM]", and above it the waker's
// upside down, so that what woke meets what slept. What is not known of either is "[stack lost]".
int fp_window_count_pair(struct fp_window *window, const struct fp_count *count,
			 const struct fp_window_pair *pair);
void fp_window_epoch(struct fp_window *window, const struct fp_epoch *epoch);

struct fp_window_facts { // what the sampler knows when the window closes
	uint32_t hz_requested, hz_actual, cpus, capacity, walk_budget;
	bool quantum_fixed; // by the configuration: the budget does not count
	bool has_source[FP_SOURCE_COUNT];
	const char *hook[FP_SOURCE_COUNT];
};
// Completes the quality records and times after fp_window_end; hands out the profile and leaves the window empty.
int fp_window_close(struct fp_window *window, const struct fp_window_facts *facts,
		    struct fp_profile **ret_profile);
