// SPDX-License-Identifier: Apache-2.0
//
// ship_policy: what an answer of the collector means for a batch, and when to try again. One
// table (docs/delivery.md shows it) and arithmetic without input or output.
// Input: status codes and Retry-After text of a server that may be broken or hostile.
// Threads: no state but the caller's.
#pragma once

#include "spool.h"

enum fp_ship_action {
	FP_SHIP_DONE,	      // 2xx: look into the answer
	FP_SHIP_RETRY,	      // passing trouble: full jitter, Retry-After honoured
	FP_SHIP_RETRY_AT_CAP, // a person has to change something: keep, try rarely
	FP_SHIP_REJECTED,     // this batch will never be taken: drop and count
	FP_SHIP_TOO_LARGE,    // drop, count, and write smaller ones from now on
};

struct fp_ship_rule {
	long first, last; // HTTP status codes; 0: no answer
	enum fp_ship_action action;
	const char *text; // for people
};
extern const struct fp_ship_rule fp_ship_rules[];
extern const size_t fp_ship_rules_count;
const struct fp_ship_rule *fp_ship_rule_for(long status); // never NULL

// Seconds or an HTTP date; 0 when there is none, it lies in the past, or it is neither.
// Clamped to [1 s, 1 h].
uint64_t fp_ship_retry_after_ns(const char *value, uint64_t now_realtime_ns);

struct fp_ship_backoff {
	uint64_t max_ns;   // cap
	uint32_t failures; // since the last success
};
// Delay before the next attempt. `random` is uniform over uint64_t, so that tests decide.
uint64_t fp_ship_backoff_ns(struct fp_ship_backoff *backoff, enum fp_ship_action action,
			    uint64_t retry_after_ns, uint64_t random);
