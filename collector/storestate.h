// SPDX-License-Identifier: Apache-2.0
//
// storestate: what the files of the store share (store.c: open, maintain, lists; append.c:
// group commit; recover.c: the log read again at start; storequery.c: reading). Not for others.
#pragma once

#include "store.h"

#include <pthread.h>

// A segment is closed at this size or age: retention removes whole segments, so its grain
// is an hour or 64 MiB, whichever is less, and never more than 1/16 of the byte bound.
#define FP_SEGMENT_BYTES_MAX (64ULL * 1024 * 1024)
#define FP_SEGMENT_AGE_NS    (3600ULL * 1000000000)

// One append on its way: lives on the stack of the thread that waits for it.
struct fp_append {
	const struct fp_facts *facts;
	struct fp_append *next;
	bool done;
	int result;
};

struct fp_store {
	struct fp_store_options options;
	pthread_mutex_t lock; // everything below
	pthread_cond_t synced;
	int dirfd, waldirfd, lockfd;
	struct fp_wal wal;
	struct fp_manifest manifest;
	struct fp_append *waiting; // written, not synced; newest first
	struct fp_append *syncing; // the group a leader is syncing
	bool leader;		   // a thread is syncing
	uint64_t syncs;
};

static inline void fp_store_unlockp(struct fp_store **store)
{
	pthread_mutex_unlock(&(*store)->lock);
}
// Locks until the end of the block.
#define FP_STORE_LOCKED(store)                                                                     \
	FP_CLEANUP(fp_store_unlockp) struct fp_store *fp_locked = (store);                         \
	pthread_mutex_lock(&fp_locked->lock)

// Reads what the manifest lacks from the log, cuts a torn end, removes dropped segments.
// Yields the number of the first segment that may be written.
int fp_store_recover(struct fp_store *store, struct fp_store_recovery *ret_recovery,
		     uint64_t *ret_next_segment);
uint64_t fp_store_segment_bytes(const struct fp_store *store);
