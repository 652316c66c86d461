// SPDX-License-Identifier: Apache-2.0
//
// epochmaps: reading what the BPF programs counted: emptying a count map in batches, and
// summing and clearing rows of per-CPU totals. Works on map descriptors; the epoch they
// belong to must be at rest (no program run can still write to it).
// Source: BPF_MAP_LOOKUP_AND_DELETE_BATCH on hash maps: ENOSPC when a bucket holds more
// than the batch has room for (grow and go on from the same place), ENOENT together with
// the last entries.
#pragma once

#include "sampler.h"

struct fp_batch_space { // grown as needed, reused between drains
	struct fp_key *keys;
	struct fp_count *counts;
	uint32_t capacity;
};
void fp_batch_space_free(struct fp_batch_space *space);

// Hands out every entry of the map and removes it. Stops at the first error of fn.
int fp_count_map_drain(int map_fd, struct fp_batch_space *space, fp_count_fn fn, void *context);
// Sums one row over all possible CPUs into *ret and zeroes it.
int fp_totals_take(int map_fd, uint32_t row, struct fp_totals *ret);
int fp_durations_take(int map_fd, uint32_t row, struct fp_durations *ret);
void fp_durations_add(struct fp_durations *sum, const struct fp_durations *more);
// Waits until every BPF program run that began before the call has left: an RCU grace
// period through membarrier(MEMBARRIER_CMD_GLOBAL), or, where the kernel refuses that
// (nohz_full), through an update of a map in map, which waits for one as well.
int fp_epoch_settle(void);
int fp_epoch_settle_by_map(void); // the second way, for tests
