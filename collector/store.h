// SPDX-License-Identifier: Apache-2.0
//
// store: the one interface behind which batches are kept. In: decoded batches with their
// bytes. Out: one merged profile for a time range and a label selector. Today a write-ahead
// log of batches is the truth and a SQLite manifest says what is where (docs/collector.md);
// segments in columns, or a database, can take their place behind the same functions.
// Guarantees: an append that returned FP_STORED is on disk and is counted exactly once, also
// when the process is killed at any moment; a repeated batch id is never counted again.
// Threads: every function may be called from any thread; appends that arrive together share
// one sync. Ownership: the store owns its directory while it is open (a lock file says so).
#pragma once

#include "manifest.h"
#include "merge.h"
#include "selector.h"
#include "timerange.h"

struct fp_store;

struct fp_store_options {
	const char *directory;
	uint64_t max_bytes;
	uint64_t retention_ns;
	uint64_t dedup_keep_ns;
	uint32_t max_series;
};

struct fp_store_recovery {	// what opening found
	uint64_t derived;	// batches in the log that the manifest lacked
	uint64_t repeated;	// records whose id had been counted before
	uint64_t refused;	// records that no longer decode
	uint64_t torn_bytes;	// cut from the end of the log
	uint64_t damaged_bytes; // unreadable inside older segments; left in place
};

// Errors: -EBUSY (another collector has the directory), -EIO, -errno; a sentence in error.
int fp_store_open(const struct fp_store_options *options, struct fp_store **ret_store,
		  struct fp_store_recovery *ret_recovery, struct fp_buf *error);
void fp_store_close(struct fp_store *store); // no call may be running
static inline void fp_store_closep(struct fp_store **store)
{
	fp_store_close(*store);
	*store = NULL;
}

enum fp_store_verdict {
	FP_STORED,
	FP_STORE_DUPLICATE, // the id is known with the same content
	FP_STORE_CONFLICT,  // the id is known with other content; nothing was stored
};
// Returns when the batch is durable. profile: what fp_batch_decode made of the bytes.
// Errors: -ENOSPC, -EIO and other -errno: not stored, may be sent again.
int fp_store_append(struct fp_store *store, const struct fp_profile *profile, const void *bytes,
		    size_t size, uint64_t received_ns, enum fp_store_verdict *ret_verdict);

struct fp_store_expiry {
	uint64_t segments, batches, bytes; // that left
};
// Applies the bounds on age and bytes. Call it now and then.
int fp_store_maintain(struct fp_store *store, uint64_t now_ns, struct fp_store_expiry *ret_expiry);

struct fp_store_query {
	const struct fp_aspect *aspect;
	const struct fp_selector *selector;
	struct fp_time_range range; // batches whose window starts in it
	const char *keep_label;	    // see merge.h
	uint64_t deadline_ns;	    // CLOCK_MONOTONIC; 0: none
	uint64_t max_rows;	    // sample rows read
	uint64_t max_memory_bytes;  // of the merged profile
};

struct fp_store_answer {
	struct fp_profile *profile; // merged; owned by the caller (fp_profile_free)
	struct fp_merge_facts facts;
	uint64_t holding[FP_PROFILE_TYPES]; // batches in the range that hold rows of each type
};
// Errors: -ETIMEDOUT, -E2BIG (rows, memory or a regular expression over its limit, with a
// sentence in error), -errno.
int fp_store_query(struct fp_store *store, const struct fp_store_query *query,
		   struct fp_store_answer *ret_answer, struct fp_buf *error);

int fp_store_hosts(struct fp_store *store, fp_host_fn fn, void *context);
int fp_store_label_names(struct fp_store *store, uint32_t limit, fp_text_fn fn, void *context);
int fp_store_label_values(struct fp_store *store, const char *name, const char *prefix,
			  uint32_t limit, fp_text_fn fn, void *context);

struct fp_store_stats {
	struct fp_manifest_totals totals;
	uint64_t bytes, segments;
	uint64_t syncs;		 // since the store was opened
	uint64_t series_refused; // label sets beyond max_series, since then
};
int fp_store_stats(struct fp_store *store, struct fp_store_stats *ret_stats);
