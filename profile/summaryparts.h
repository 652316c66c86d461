// SPDX-License-Identifier: Apache-2.0
//
// summaryparts: what the files that put a quality record into sentences share: summary.c,
// summarywaits.c for profiles of time off the CPU, summarywalks.c for user
// stacks, wall.c. Private to profile/.
// Threads: no state.
#pragma once

#include "text.h"

#include "proto/profile.h"

struct fp_summary {
	const struct fp_profile *profile;
	const struct fp_quality *quality;
	enum fp_profile_type type;
	struct fp_buf *text;
};

static inline uint64_t fp_summary_counter(const struct fp_summary *summary,
					  enum fp_quality_counter index)
{
	return summary->quality->counters[index];
}

// Nanoseconds in the samples of a type that is not CPU.
uint64_t fp_summary_ns(const struct fp_summary *summary);
// Runs that ended in a drop, by all reasons.
uint64_t fp_summary_dropped(const struct fp_summary *summary);
// How the intervals were measured, sampled and walked; nothing for CPU.
void fp_summary_waits(const struct fp_summary *summary);
// "±1.2 %" between the words: how far the total may be off by chance; nothing at all for CPU and
// when every interval was kept.
void fp_summary_chance(const struct fp_summary *summary, const char *before, const char *behind);
// Shares of user stacks by how their walks ended, as part of a sentence.
void fp_summary_walk_ends(const struct fp_summary *summary);
// The same with the builds in which walks stopped, as lines.
void fp_summary_walks(const struct fp_summary *summary);
