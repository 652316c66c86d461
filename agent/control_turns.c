// SPDX-License-Identifier: Apache-2.0
#include "control_turns.h"

static uint64_t pause_left(const struct fp_turn_end *end, uint64_t now_ns)
{
	uint64_t over_ns = end->end_ns + FP_TURNS_PAUSE_NS;

	return end->used && now_ns < over_ns ? over_ns - now_ns : 0;
}

// Of this uid's own pause; or, when there is no room to remember one more, until there is.
static uint64_t wait_of(const struct fp_turns *turns, uint32_t uid, uint64_t now_ns)
{
	uint64_t least = UINT64_MAX;

	for (size_t i = 0; i < FP_TURNS_UIDS_MAX; i++) {
		uint64_t left = pause_left(&turns->ends[i], now_ns);

		if (turns->ends[i].used && turns->ends[i].uid == uid)
			return left;
		if (left < least)
			least = left;
	}
	return least;
}

enum fp_turn fp_turns_decide(const struct fp_turns *turns, const struct fp_peer *peer,
			     const struct fp_peer *running, uint64_t now_ns, uint64_t *ret_wait_ns)
{
	uint64_t wait_ns;

	if (peer->trusted)
		return !running ? FP_TURN_START : running->trusted ? FP_TURN_BUSY : FP_TURN_PREEMPT;
	if (running)
		return FP_TURN_BUSY;
	wait_ns = wait_of(turns, peer->uid, now_ns);
	if (wait_ns == 0)
		return FP_TURN_START;
	*ret_wait_ns = wait_ns;
	return FP_TURN_PAUSE;
}

void fp_turns_ended(struct fp_turns *turns, const struct fp_peer *peer, uint64_t now_ns)
{
	struct fp_turn_end *oldest = &turns->ends[0];

	if (peer->trusted)
		return;
	for (size_t i = 0; i < FP_TURNS_UIDS_MAX; i++) {
		struct fp_turn_end *end = &turns->ends[i];

		if (end->used && end->uid == peer->uid) {
			oldest = end;
			break;
		}
		if (oldest->used && (!end->used || end->end_ns < oldest->end_ns))
			oldest = end;
	}
	*oldest = (struct fp_turn_end){ .used = true, .uid = peer->uid, .end_ns = now_ns };
}
