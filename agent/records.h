// SPDX-License-Identifier: Apache-2.0
//
// records: stack records that wait for the counts of their epoch. Records of the two map
// sets are kept apart, since those of the next epoch already arrive while one is drained.
// Where stacks are taken on the way out, a task may come back epochs later, when its frames
// are not sent again, and a waker's frames are sent before the one it woke is back: such records
// are parked after their epoch, about the most recently used 16,384 of them.
// Ownership: the store copies and owns records. Threads: one owner.
#pragma once

#include "bpf/abi.h"
#include "common/hashmap.h"

#define FP_RECORDS_PARKED 8192 // per generation; two are kept

struct fp_records {
	struct fp_hashmap live[FP_EPOCHS];
	struct fp_hashmap parked, parked_older;
	bool park;
};

// Whether it pairs two other records by their keys (FP_SOURCE_WAKER) and has no frames.
static inline bool fp_record_is_pair(const struct fp_stack_record *record)
{
	return record->source == FP_SOURCE_WAKER && record->state != FP_AWAY_RUNNING;
}

void fp_records_init(struct fp_records *records, bool park);
void fp_records_free(struct fp_records *records);
int fp_records_add(struct fp_records *records, const struct fp_stack_record *record); // or -ENOMEM
// The record of key for a count of set, or NULL. Valid until the next call.
const struct fp_stack_record *fp_records_find(struct fp_records *records, uint32_t set,
					      const struct fp_key *key);
// The same to be changed, as long as it does not grow.
struct fp_stack_record *fp_records_own(struct fp_records *records, uint32_t set,
				       const struct fp_key *key);
// The set has been resolved: lets go of its records, or parks them.
int fp_records_end_epoch(struct fp_records *records, uint32_t set);
