// SPDX-License-Identifier: Apache-2.0
//
// merge: many decoded batches → one profile. Samples of an aspect whose label sets satisfy a
// selector are added up per stack; stacks meet by their content id, so a stack that many
// hosts share is translated once. Quality records of the batches that gave samples are
// merged as well. Of the labels only `keep_label` survives, since nothing behind the merge
// looks at others and the profile stays small; for wall time also `state`, which its fold reads.
// CPU samples of batches with different periods cannot be added as counts: when the caller
// says `mixed_periods`, and in wall time, values become nanoseconds and the profile's period is
// 1 ns.
// Sums stop at their limit: what all samples come to stays within int64, as pprof needs it.
// Input: decoded (hence checked) profiles. Ownership: the merge owns its profile until
// fp_merge_take. Threads: none shared.
#pragma once

#include "selector.h"

#include "profile/aspect.h"
#include "proto/profile.h"

struct fp_merge_facts {
	uint64_t batches; // that gave samples
	uint64_t batches_read;
	uint64_t rows_read;   // sample rows looked at
	uint64_t rows;	      // sample rows taken
	uint64_t samples;     // their counts, summed
	uint64_t nanoseconds; // CPU time or time off CPU, summed, exact also for mixed periods
	uint64_t type_ns[FP_PROFILE_TYPES];  // the same by type
	uint64_t recorded[FP_PROFILE_TYPES]; // of `batches`: with a quality record of the type
	uint64_t hosts;
	uint64_t first_start_ns, last_end_ns; // CLOCK_REALTIME, of the windows that gave samples
	uint64_t window_ns;		      // their lengths, summed over hosts
	uint64_t gone;			      // batches that retention took while the query ran
	uint64_t damaged;		      // batches that could not be read back
	bool mixed_periods;
};

struct fp_merge_options {
	const struct fp_aspect *aspect;
	const struct fp_selector *selector;
	const char *keep_label; // "thread", "executable", "host", … or NULL
	bool mixed_periods;
};

struct fp_merge {
	struct fp_merge_options options;
	struct fp_profile *profile;
	struct fp_merge_facts facts;
	struct fp_hashmap stacks; // stack id → index in profile
	struct fp_hashmap hosts;  // host id → nothing
	uint64_t counts, values;  // of all samples in profile: at most INT64_MAX
	struct fp_merge_rates {
		uint64_t requested, actual; // summed over batches
		uint64_t batches;
	} rates[FP_PROFILE_TYPES];
};

// Sums of foreign numbers stop at the end of their range instead of starting again at zero.
static inline void fp_merge_sum(uint64_t *sum, uint64_t more)
{
	if (__builtin_add_overflow(*sum, more, sum))
		*sum = UINT64_MAX;
}

int fp_merge_init(struct fp_merge *merge, const struct fp_merge_options *options);
void fp_merge_free(struct fp_merge *merge);
#define FP_AUTOMERGE FP_CLEANUP(fp_merge_free)
// Errors: -ENOMEM; -E2BIG: a regular expression exceeded its limits.
int fp_merge_add(struct fp_merge *merge, const struct fp_profile *batch);
// Completes the header and the quality record and hands the profile over.
struct fp_profile *fp_merge_take(struct fp_merge *merge);
// Part of fp_merge_add (qualitymerge.c): adds the batch's quality record.
int fp_merge_quality(struct fp_merge *merge, const struct fp_profile *batch);
int fp_merge_build(struct fp_merge *merge, const struct fp_profile *batch, uint32_t build,
		   uint32_t *ret_build);
void fp_merge_quality_finish(struct fp_merge *merge);
