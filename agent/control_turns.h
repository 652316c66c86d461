// SPDX-License-Identifier: Apache-2.0
//
// control_turns: whose turn it is to take a snapshot. There is one at a time, and each loads
// programs, so callers that are not trusted must leave the agent in peace for a while after
// each of theirs, and make room for root and the group at any time.
// Threads: no state but the caller's.
#pragma once

#include "common/clock.h"
#include "control_access.h"

#define FP_TURNS_PAUSE_NS (10 * FP_NS_PER_S)
#define FP_TURNS_UIDS_MAX 16 // more of them within a pause: the newcomers wait

struct fp_turns {
	struct fp_turn_end {
		bool used;
		uint32_t uid;
		uint64_t end_ns; // boottime
	} ends[FP_TURNS_UIDS_MAX];
};

enum fp_turn {
	FP_TURN_START,
	FP_TURN_PREEMPT, // start, and end the one that runs
	FP_TURN_BUSY,
	FP_TURN_PAUSE, // *ret_wait_ns to go
};

// running: who takes the snapshot that runs, or NULL.
enum fp_turn fp_turns_decide(const struct fp_turns *turns, const struct fp_peer *peer,
			     const struct fp_peer *running, uint64_t now_ns, uint64_t *ret_wait_ns);
// A snapshot of the peer has ended, in whatever way.
void fp_turns_ended(struct fp_turns *turns, const struct fp_peer *peer, uint64_t now_ns);
