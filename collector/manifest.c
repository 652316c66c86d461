// SPDX-License-Identifier: Apache-2.0
#include "manifest.h"
#include "statements.h"

#include "common/clock.h"

#include <errno.h>
#include <string.h>

// Label sets are written again when they were last written this long ago: retention of
// labels is no finer than this, and a busy fleet does not rewrite its rows every minute.
#define SERIES_REFRESH_S 3600

static void bind_blob(sqlite3_stmt *stmt, int at, const void *bytes, size_t size)
{
	sqlite3_bind_blob(stmt, at, bytes, (int)size, SQLITE_STATIC);
}

static void bind_u64(sqlite3_stmt *stmt, int at, uint64_t number)
{
	sqlite3_bind_int64(stmt, at, (sqlite3_int64)(number > INT64_MAX ? INT64_MAX : number));
}

// Runs a statement that yields no row.
static int run(struct fp_manifest *manifest, sqlite3_stmt *stmt)
{
	int r = sqlite3_step(stmt);

	sqlite3_reset(stmt);
	return r == SQLITE_DONE ? 0 : fp_manifest_fail(manifest);
}

int fp_manifest_find(struct fp_manifest *manifest, const uint8_t id[FP_BATCH_ID_LEN],
		     uint8_t ret_content[FP_HASH_LEN])
{
	sqlite3_stmt *stmt = manifest->statements[FP_STMT_FIND];
	int r;

	bind_blob(stmt, 1, id, FP_BATCH_ID_LEN);
	r = sqlite3_step(stmt);
	if (r == SQLITE_ROW && sqlite3_column_bytes(stmt, 0) == FP_HASH_LEN)
		memcpy(ret_content, sqlite3_column_blob(stmt, 0), FP_HASH_LEN);
	sqlite3_reset(stmt);
	if (r == SQLITE_ROW)
		return 1;
	return r == SQLITE_DONE ? 0 : fp_manifest_fail(manifest);
}

int fp_manifest_begin(struct fp_manifest *manifest)
{
	return run(manifest, manifest->statements[FP_STMT_BEGIN]);
}

int fp_manifest_commit(struct fp_manifest *manifest)
{
	return run(manifest, manifest->statements[FP_STMT_COMMIT]);
}

void fp_manifest_rollback(struct fp_manifest *manifest)
{
	sqlite3_stmt *stmt = manifest->statements[FP_STMT_ROLLBACK];

	sqlite3_step(stmt);
	sqlite3_reset(stmt);
	// What the cache says was written may have been undone.
	fp_manifest_load_series(manifest);
}

static int add_host(struct fp_manifest *manifest, const struct fp_facts *facts,
		    sqlite3_int64 *ret_host)
{
	sqlite3_stmt *stmt = manifest->statements[FP_STMT_HOST_ADD];
	int r;

	sqlite3_bind_text(stmt, 1, facts->host, -1, SQLITE_STATIC);
	bind_blob(stmt, 2, facts->host_id, sizeof(facts->host_id));
	bind_u64(stmt, 3, facts->start_ns);
	bind_u64(stmt, 4, facts->end_ns);
	r = sqlite3_step(stmt);
	if (r == SQLITE_ROW)
		*ret_host = sqlite3_column_int64(stmt, 0);
	sqlite3_reset(stmt);
	return r == SQLITE_ROW ? 0 : fp_manifest_fail(manifest);
}

static int add_segment(struct fp_manifest *manifest, const struct fp_facts *facts)
{
	sqlite3_stmt *stmt = manifest->statements[FP_STMT_SEGMENT_ADD];
	const struct fp_wal_position *position = &facts->position;

	bind_u64(stmt, 1, position->segment);
	bind_u64(stmt, 2, position->offset + FP_WAL_HEADER_BYTES + position->size);
	bind_u64(stmt, 3, facts->received_ns);
	return run(manifest, stmt);
}

static int add_labels(struct fp_manifest *manifest, sqlite3_int64 series, const char *text,
		      uint32_t size)
{
	sqlite3_stmt *stmt = manifest->statements[FP_STMT_LABEL_ADD];

	for (uint32_t at = 0; at < size;) {
		const char *name = text + at;
		const char *value = name + strlen(name) + 1;
		int r;

		sqlite3_bind_text(stmt, 1, name, -1, SQLITE_STATIC);
		sqlite3_bind_blob(stmt, 2, value, (int)strlen(value), SQLITE_STATIC);
		sqlite3_bind_int64(stmt, 3, series);
		r = run(manifest, stmt);
		if (r < 0)
			return r;
		at = (uint32_t)(value + strlen(value) + 1 - text);
	}
	return 0;
}

static int insert_series(struct fp_manifest *manifest, const struct fp_facts *facts,
			 const struct fp_series_facts *series, uint32_t now_s)
{
	sqlite3_stmt *stmt = manifest->statements[FP_STMT_SERIES_ADD];
	const char *text = (const char *)facts->series_text.data + series->first;
	int r;

	bind_blob(stmt, 1, series->hash, FP_HASH_LEN);
	bind_blob(stmt, 2, text, series->size);
	bind_u64(stmt, 3, now_s);
	r = run(manifest, stmt);
	if (r < 0)
		return r;
	return add_labels(manifest, sqlite3_last_insert_rowid(manifest->db), text, series->size);
}

static int touch_series(struct fp_manifest *manifest, const struct fp_series_facts *series,
			uint32_t now_s)
{
	sqlite3_stmt *stmt = manifest->statements[FP_STMT_SERIES_SEEN];

	bind_blob(stmt, 1, series->hash, FP_HASH_LEN);
	bind_u64(stmt, 2, now_s);
	return run(manifest, stmt);
}

static int add_series(struct fp_manifest *manifest, const struct fp_facts *facts)
{
	uint32_t now_s = (uint32_t)(facts->received_ns / FP_NS_PER_S);

	for (uint32_t i = 0; i < facts->series_count; i++) {
		const struct fp_series_facts *series = &facts->series[i];
		uint32_t *seen = fp_hashmap_get(&manifest->series, series->hash);
		bool is_new = false;
		int r;

		if (seen && (now_s <= *seen || now_s - *seen < SERIES_REFRESH_S))
			continue;
		if (!seen && manifest->series.count >= manifest->max_series) {
			manifest->series_refused++;
			continue;
		}
		r = touch_series(manifest, series, now_s);
		if (r == 0 && sqlite3_changes(manifest->db) == 0)
			r = insert_series(manifest, facts, series, now_s);
		if (r < 0)
			return r;
		seen = fp_hashmap_put(&manifest->series, series->hash, &is_new);
		if (!seen)
			return -ENOMEM;
		*seen = now_s;
	}
	return 0;
}

static int add_batch(struct fp_manifest *manifest, const struct fp_facts *facts, sqlite3_int64 host)
{
	sqlite3_stmt *stmt = manifest->statements[FP_STMT_BATCH_ADD];

	bind_blob(stmt, 1, facts->id, FP_BATCH_ID_LEN);
	bind_blob(stmt, 2, facts->content, FP_HASH_LEN);
	bind_u64(stmt, 3, facts->received_ns);
	bind_u64(stmt, 4, facts->position.segment);
	bind_u64(stmt, 5, facts->position.offset);
	bind_u64(stmt, 6, facts->position.size);
	sqlite3_bind_int64(stmt, 7, host);
	bind_u64(stmt, 8, facts->start_ns);
	bind_u64(stmt, 9, facts->end_ns);
	bind_u64(stmt, 10, facts->period_ns);
	for (int type = 1; type < FP_PROFILE_TYPES; type++) { // two columns each, in their order
		bind_u64(stmt, 9 + 2 * type, facts->rows[type]);
		bind_u64(stmt, 10 + 2 * type, facts->samples[type]);
	}
	return run(manifest, stmt);
}

int fp_manifest_add(struct fp_manifest *manifest, const struct fp_facts *facts)
{
	uint8_t content[FP_HASH_LEN];
	sqlite3_int64 host = 0;
	int r = add_segment(manifest, facts);

	if (r < 0)
		return r;
	r = fp_manifest_find(manifest, facts->id, content);
	if (r != 0)
		return r < 0 ? r : 0;
	r = add_host(manifest, facts, &host);
	if (r == 0)
		r = add_batch(manifest, facts, host);
	if (r == 0)
		r = add_series(manifest, facts);
	return r < 0 ? r : 1;
}

int fp_manifest_drop(struct fp_manifest *manifest, uint64_t segment, uint64_t *ret_batches)
{
	uint64_t batches;
	int r;

	// The ids must outlive their segment: this commit, unlike others, is synced, and takes
	// every earlier one with it.
	sqlite3_exec(manifest->db, "PRAGMA synchronous=FULL", NULL, NULL, NULL);
	r = fp_manifest_begin(manifest);
	if (r < 0)
		return r;
	bind_u64(manifest->statements[FP_STMT_DROP_BATCHES], 1, segment);
	bind_u64(manifest->statements[FP_STMT_DROP_SEGMENT], 1, segment);
	bind_u64(manifest->statements[FP_STMT_FLOOR_SET], 1, segment + 1);
	r = run(manifest, manifest->statements[FP_STMT_DROP_BATCHES]);
	batches = (uint64_t)sqlite3_changes(manifest->db);
	if (r == 0)
		r = run(manifest, manifest->statements[FP_STMT_DROP_SEGMENT]);
	if (r == 0)
		r = run(manifest, manifest->statements[FP_STMT_FLOOR_SET]);
	if (r == 0)
		r = fp_manifest_commit(manifest);
	if (r < 0)
		fp_manifest_rollback(manifest);
	else
		*ret_batches = batches;
	sqlite3_exec(manifest->db, "PRAGMA synchronous=NORMAL", NULL, NULL, NULL);
	return r;
}

int fp_manifest_forget(struct fp_manifest *manifest, uint64_t ids_ns, uint64_t labels_ns)
{
	static const enum fp_statement label_statements[] = { FP_STMT_FORGET_LABELS,
							      FP_STMT_FORGET_SERIES };
	int r = fp_manifest_begin(manifest);

	if (r < 0)
		return r;
	bind_u64(manifest->statements[FP_STMT_FORGET_IDS], 1, ids_ns);
	r = run(manifest, manifest->statements[FP_STMT_FORGET_IDS]);
	for (size_t i = 0; r == 0 && i < FP_ARRAY_SIZE(label_statements); i++) {
		sqlite3_stmt *stmt = manifest->statements[label_statements[i]];

		bind_u64(stmt, 1, labels_ns / FP_NS_PER_S);
		r = run(manifest, stmt);
	}
	if (r == 0)
		r = run(manifest, manifest->statements[FP_STMT_FORGET_HOSTS]);
	if (r == 0)
		r = fp_manifest_commit(manifest);
	if (r < 0) {
		fp_manifest_rollback(manifest);
		return r;
	}
	return fp_manifest_load_series(manifest);
}
