// SPDX-License-Identifier: Apache-2.0
#include "statements.h"

#include <errno.h>
#include <string.h>

#define SCHEMA_VERSION 2

// batch.segment is NULL once the segment has left; the row then only remembers the id.
static const char schema[] =
    "CREATE TABLE host(id INTEGER PRIMARY KEY, name TEXT NOT NULL, host_id BLOB NOT NULL,"
    " first_ns INTEGER NOT NULL, last_ns INTEGER NOT NULL, UNIQUE(host_id, name));"
    "CREATE TABLE batch(id BLOB PRIMARY KEY, content BLOB NOT NULL, received_ns INTEGER NOT NULL,"
    " segment INTEGER, offset INTEGER, size INTEGER, host INTEGER NOT NULL,"
    " start_ns INTEGER NOT NULL, end_ns INTEGER NOT NULL, period_ns INTEGER NOT NULL,"
    " cpu_rows INTEGER NOT NULL, cpu_samples INTEGER NOT NULL,"
    " off_cpu_rows INTEGER NOT NULL, off_cpu_samples INTEGER NOT NULL,"
    " run_queue_rows INTEGER NOT NULL DEFAULT 0, run_queue_samples INTEGER NOT NULL DEFAULT 0,"
    " waker_rows INTEGER NOT NULL DEFAULT 0, waker_samples INTEGER NOT NULL DEFAULT 0"
    ") WITHOUT ROWID;"
    "CREATE INDEX batch_time ON batch(start_ns) WHERE segment IS NOT NULL;"
    "CREATE INDEX batch_segment ON batch(segment) WHERE segment IS NOT NULL;"
    "CREATE INDEX batch_gone ON batch(received_ns) WHERE segment IS NULL;"
    "CREATE INDEX batch_host ON batch(host, segment);"
    "CREATE TABLE segment(number INTEGER PRIMARY KEY, recorded_end INTEGER NOT NULL,"
    " last_received_ns INTEGER NOT NULL);"
    "CREATE TABLE series(id INTEGER PRIMARY KEY, hash BLOB NOT NULL UNIQUE,"
    " labels BLOB NOT NULL, last_s INTEGER NOT NULL);"
    "CREATE TABLE label(name TEXT NOT NULL, value BLOB NOT NULL, series INTEGER NOT NULL,"
    " PRIMARY KEY(name, value, series)) WITHOUT ROWID;"
    "CREATE INDEX label_series ON label(series);"
    "CREATE TABLE floor(one INTEGER PRIMARY KEY CHECK(one = 1), segment INTEGER NOT NULL);"
    "INSERT INTO floor VALUES(1, 1);"
    "PRAGMA user_version = 2;";

// What makes the schema of a version that of the next. Columns stand where `schema` has them.
static const char *const migrations[SCHEMA_VERSION] = {
	// Collectors of version 1 refused batches with these types, so none holds any.
	[1] = "ALTER TABLE batch ADD COLUMN run_queue_rows INTEGER NOT NULL DEFAULT 0;"
	      "ALTER TABLE batch ADD COLUMN run_queue_samples INTEGER NOT NULL DEFAULT 0;"
	      "ALTER TABLE batch ADD COLUMN waker_rows INTEGER NOT NULL DEFAULT 0;"
	      "ALTER TABLE batch ADD COLUMN waker_samples INTEGER NOT NULL DEFAULT 0;"
	      "PRAGMA user_version = 2;",
};

static const char *const statements[FP_STMT_COUNT] = {
	[FP_STMT_BEGIN] = "BEGIN IMMEDIATE",
	[FP_STMT_COMMIT] = "COMMIT",
	[FP_STMT_ROLLBACK] = "ROLLBACK",
	[FP_STMT_FIND] = "SELECT content FROM batch WHERE id = ?1",
	[FP_STMT_HOST_ADD] =
	    "INSERT INTO host(name, host_id, first_ns, last_ns) VALUES(?1, ?2, ?3, ?4)"
	    " ON CONFLICT(host_id, name) DO UPDATE SET first_ns = min(first_ns, excluded.first_ns),"
	    " last_ns = max(last_ns, excluded.last_ns) RETURNING id",
	[FP_STMT_BATCH_ADD] = "INSERT INTO batch VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10,"
			      " ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18)",
	[FP_STMT_SEGMENT_ADD] =
	    "INSERT INTO segment VALUES(?1, ?2, ?3) ON CONFLICT(number) DO UPDATE SET"
	    " recorded_end = max(recorded_end, excluded.recorded_end),"
	    " last_received_ns = max(last_received_ns, excluded.last_received_ns)",
	[FP_STMT_SEGMENT_FIND] =
	    "SELECT recorded_end, last_received_ns FROM segment WHERE number = ?1",
	[FP_STMT_SERIES_LOAD] = "SELECT hash, last_s FROM series",
	[FP_STMT_SERIES_ADD] = "INSERT INTO series(hash, labels, last_s) VALUES(?1, ?2, ?3)",
	[FP_STMT_SERIES_SEEN] = "UPDATE series SET last_s = max(last_s, ?2) WHERE hash = ?1",
	[FP_STMT_LABEL_ADD] = "INSERT OR IGNORE INTO label VALUES(?1, ?2, ?3)",
	[FP_STMT_LIST] = "SELECT b.segment, b.offset, b.size, b.start_ns, b.end_ns, b.period_ns,"
			 " h.name, b.cpu_rows, b.off_cpu_rows, b.run_queue_rows, b.waker_rows"
			 " FROM batch b JOIN host h ON h.id = b.host"
			 " WHERE b.segment IS NOT NULL AND b.start_ns >= ?1 AND b.start_ns < ?2"
			 " ORDER BY b.segment, b.offset",
	[FP_STMT_DROP_BATCHES] = "UPDATE batch SET segment = NULL, offset = NULL, size = NULL"
				 " WHERE segment = ?1",
	[FP_STMT_DROP_SEGMENT] = "DELETE FROM segment WHERE number = ?1",
	[FP_STMT_FLOOR_GET] = "SELECT segment FROM floor",
	[FP_STMT_FLOOR_SET] = "UPDATE floor SET segment = max(segment, ?1)",
	[FP_STMT_FORGET_IDS] = "DELETE FROM batch WHERE segment IS NULL AND received_ns < ?1",
	[FP_STMT_FORGET_LABELS] =
	    "DELETE FROM label WHERE series IN (SELECT id FROM series WHERE last_s < ?1)",
	[FP_STMT_FORGET_SERIES] = "DELETE FROM series WHERE last_s < ?1",
	[FP_STMT_FORGET_HOSTS] =
	    "DELETE FROM host WHERE NOT EXISTS (SELECT 1 FROM batch WHERE batch.host = host.id)",
	[FP_STMT_HOSTS] =
	    "SELECT h.name, h.host_id, h.first_ns, h.last_ns, (SELECT count(*) FROM batch b"
	    " WHERE b.host = h.id AND b.segment IS NOT NULL) FROM host h ORDER BY h.name, "
	    "h.host_id",
	[FP_STMT_NAMES] = "SELECT DISTINCT name FROM label ORDER BY name LIMIT ?1",
	[FP_STMT_VALUES] = "SELECT DISTINCT value FROM label WHERE name = ?1 AND value >= ?2"
			   " AND substr(value, 1, length(?2)) = ?2 ORDER BY value LIMIT ?3",
	[FP_STMT_TOTALS] = "SELECT (SELECT count(*) FROM batch WHERE segment IS NOT NULL),"
			   " (SELECT count(*) FROM batch), (SELECT count(*) FROM series),"
			   " (SELECT count(*) FROM host),"
			   " (SELECT min(start_ns) FROM batch WHERE segment IS NOT NULL),"
			   " (SELECT max(start_ns) FROM batch WHERE segment IS NOT NULL)",
};

int fp_manifest_fail(struct fp_manifest *manifest)
{
	fp_buf_clear(&manifest->error);
	fp_buf_printf(&manifest->error, "manifest: %s", sqlite3_errmsg(manifest->db));
	switch (sqlite3_errcode(manifest->db)) {
	case SQLITE_FULL:
		return -ENOSPC;
	case SQLITE_NOMEM:
		return -ENOMEM;
	default:
		return -EIO;
	}
}

void fp_manifest_close(struct fp_manifest *manifest)
{
	for (size_t i = 0; i < FP_STMT_COUNT; i++)
		sqlite3_finalize(manifest->statements[i]);
	sqlite3_close(manifest->db);
	fp_hashmap_free(&manifest->series);
	fp_buf_free(&manifest->error);
	*manifest = (struct fp_manifest){ 0 };
}

static int execute(struct fp_manifest *manifest, const char *sql)
{
	if (sqlite3_exec(manifest->db, sql, NULL, NULL, NULL) != SQLITE_OK)
		return fp_manifest_fail(manifest);
	return 0;
}

static int version_row(void *context, int columns, char **values, char **names)
{
	*(int *)context = columns == 1 && values[0] ? atoi(values[0]) : -1;
	return 0;
}

static int prepare_schema(struct fp_manifest *manifest)
{
	int version = -1;
	int r;

	if (sqlite3_exec(manifest->db, "PRAGMA user_version", version_row, &version, NULL) !=
	    SQLITE_OK)
		return fp_manifest_fail(manifest);
	if (version == SCHEMA_VERSION)
		return 0;
	if (version < 0 || version > SCHEMA_VERSION) {
		fp_buf_printf(&manifest->error,
			      "manifest: version %d was written by another fleetprof, this one "
			      "reads version %d",
			      version, SCHEMA_VERSION);
		return -EIO;
	}
	r = execute(manifest, "BEGIN IMMEDIATE");
	for (; r == 0 && version > 0 && version < SCHEMA_VERSION; version++)
		r = execute(manifest, migrations[version]);
	if (r == 0 && version == 0)
		r = execute(manifest, schema);
	return r < 0 ? r : execute(manifest, "COMMIT");
}

int fp_manifest_load_series(struct fp_manifest *manifest)
{
	sqlite3_stmt *stmt = manifest->statements[FP_STMT_SERIES_LOAD];
	int r;

	fp_hashmap_clear(&manifest->series);
	for (r = sqlite3_step(stmt); r == SQLITE_ROW; r = sqlite3_step(stmt)) {
		bool is_new;
		uint32_t *seen;

		if (sqlite3_column_bytes(stmt, 0) != FP_HASH_LEN)
			continue;
		seen = fp_hashmap_put(&manifest->series, sqlite3_column_blob(stmt, 0), &is_new);
		if (seen)
			*seen = (uint32_t)sqlite3_column_int64(stmt, 1);
	}
	sqlite3_reset(stmt);
	return r == SQLITE_DONE ? 0 : fp_manifest_fail(manifest);
}

static int prepare(struct fp_manifest *manifest)
{
	for (size_t i = 0; i < FP_STMT_COUNT; i++)
		if (sqlite3_prepare_v3(manifest->db, statements[i], -1, SQLITE_PREPARE_PERSISTENT,
				       &manifest->statements[i], NULL) != SQLITE_OK)
			return fp_manifest_fail(manifest);
	return 0;
}

int fp_manifest_open(struct fp_manifest *manifest, const char *path, uint32_t max_series)
{
	const int flags =
	    SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW;
	int r;

	*manifest = (struct fp_manifest){ .max_series = max_series };
	manifest->series =
	    (struct fp_hashmap){ .key_size = FP_HASH_LEN, .value_size = sizeof(uint32_t) };
	if (sqlite3_open_v2(path, &manifest->db, flags, NULL) != SQLITE_OK)
		return fp_manifest_fail(manifest);
	sqlite3_busy_timeout(manifest->db, 5000);
	r = execute(manifest, "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;"
			      "PRAGMA temp_store=MEMORY; PRAGMA cache_size=-16384");
	if (r == 0)
		r = prepare_schema(manifest);
	if (r == 0)
		r = prepare(manifest);
	if (r == 0)
		r = fp_manifest_load_series(manifest);
	return r;
}
