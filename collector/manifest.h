// SPDX-License-Identifier: Apache-2.0
//
// manifest: the SQLite database beside the write-ahead log: which batch is where and covers
// what, which ids have been counted, which label sets were seen. Derived from the log except
// for one thing: the ids of batches whose segments have left, so that a late repeat is known.
// Rows are written after the log is synced; a commit need not be durable (synchronous=NORMAL),
// for what it lacks is derived again at the next start. Dropping a segment is the exception.
// Ownership: one struct owns the connection and its statements. Threads: the caller locks.
#pragma once

#include "common/hashmap.h"
#include "facts.h"

#include <sqlite3.h>

enum fp_statement {
	FP_STMT_BEGIN,
	FP_STMT_COMMIT,
	FP_STMT_ROLLBACK,
	FP_STMT_FIND,
	FP_STMT_HOST_ADD,
	FP_STMT_BATCH_ADD,
	FP_STMT_SEGMENT_ADD,
	FP_STMT_SEGMENT_FIND,
	FP_STMT_SERIES_LOAD,
	FP_STMT_SERIES_ADD,
	FP_STMT_SERIES_SEEN,
	FP_STMT_LABEL_ADD,
	FP_STMT_LIST,
	FP_STMT_DROP_BATCHES,
	FP_STMT_DROP_SEGMENT,
	FP_STMT_FLOOR_GET,
	FP_STMT_FLOOR_SET,
	FP_STMT_FORGET_IDS,
	FP_STMT_FORGET_LABELS,
	FP_STMT_FORGET_SERIES,
	FP_STMT_FORGET_HOSTS,
	FP_STMT_HOSTS,
	FP_STMT_NAMES,
	FP_STMT_VALUES,
	FP_STMT_TOTALS,
	FP_STMT_COUNT
};

struct fp_manifest {
	sqlite3 *db;
	sqlite3_stmt *statements[FP_STMT_COUNT];
	struct fp_hashmap series; // hash → uint32_t seconds of the last time written
	uint32_t max_series;
	uint64_t series_refused; // label sets beyond max_series
	struct fp_buf error;	 // text of the last failure
};

void fp_manifest_close(struct fp_manifest *manifest);
// Errors: -EIO with text in manifest->error (the database is damaged or of a newer version).
int fp_manifest_open(struct fp_manifest *manifest, const char *path, uint32_t max_series);

// 1 and the content hash when the id has been counted before, else 0.
int fp_manifest_find(struct fp_manifest *manifest, const uint8_t id[FP_BATCH_ID_LEN],
		     uint8_t ret_content[FP_HASH_LEN]);
// Between begin and commit rows are added; an id that is there already is left alone (returns
// 0; 1 when added). The segment's recorded end moves to the record's end either way.
int fp_manifest_begin(struct fp_manifest *manifest);
int fp_manifest_add(struct fp_manifest *manifest, const struct fp_facts *facts);
int fp_manifest_commit(struct fp_manifest *manifest);
void fp_manifest_rollback(struct fp_manifest *manifest);

// What the manifest knows of a segment: its recorded end and when its last batch arrived.
// 1 when it knows it, else 0.
int fp_manifest_segment(struct fp_manifest *manifest, uint64_t segment, uint64_t *ret_end,
			uint64_t *ret_last_received_ns);
// The smallest segment number that has not been dropped.
int fp_manifest_floor(struct fp_manifest *manifest, uint64_t *ret_segment);
// Forgets the segment's batches but not their ids, durably. Returns the batches dropped.
int fp_manifest_drop(struct fp_manifest *manifest, uint64_t segment, uint64_t *ret_batches);
// Forgets ids that arrived before ids_ns and label sets not seen since labels_ns.
int fp_manifest_forget(struct fp_manifest *manifest, uint64_t ids_ns, uint64_t labels_ns);

struct fp_manifest_row {
	struct fp_wal_position position;
	uint64_t start_ns, end_ns, period_ns;
	uint64_t rows[FP_PROFILE_TYPES];
	const char *host; // valid during the callback
};
typedef int (*fp_manifest_row_fn)(const struct fp_manifest_row *row, void *context);
// Batches whose window starts in [from_ns, to_ns), in the order of the log.
int fp_manifest_list(struct fp_manifest *manifest, uint64_t from_ns, uint64_t to_ns,
		     fp_manifest_row_fn fn, void *context);

struct fp_host {
	const char *name;
	const uint8_t *host_id;	    // 16 bytes
	uint64_t first_ns, last_ns; // of windows: earliest start, latest end
	uint64_t batches;
};
typedef int (*fp_host_fn)(const struct fp_host *host, void *context);
int fp_manifest_hosts(struct fp_manifest *manifest, fp_host_fn fn, void *context);
// Names, or values of one name that start with prefix, in byte order, `limit` at most.
typedef int (*fp_text_fn)(const char *text, size_t size, void *context);
int fp_manifest_label_names(struct fp_manifest *manifest, uint32_t limit, fp_text_fn fn,
			    void *context);
int fp_manifest_label_values(struct fp_manifest *manifest, const char *name, const char *prefix,
			     uint32_t limit, fp_text_fn fn, void *context);

struct fp_manifest_totals {
	uint64_t batches, ids, series, hosts, oldest_ns, newest_ns;
};
int fp_manifest_totals(struct fp_manifest *manifest, struct fp_manifest_totals *ret_totals);
