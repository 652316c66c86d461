// SPDX-License-Identifier: Apache-2.0
#include "statements.h"

#include <errno.h>
#include <string.h>

static uint64_t column_u64(sqlite3_stmt *stmt, int at)
{
	return (uint64_t)sqlite3_column_int64(stmt, at);
}

static int finish(struct fp_manifest *manifest, sqlite3_stmt *stmt, int step, int result)
{
	sqlite3_reset(stmt);
	if (result < 0)
		return result;
	return step == SQLITE_DONE || step == SQLITE_ROW ? result : fp_manifest_fail(manifest);
}

int fp_manifest_segment(struct fp_manifest *manifest, uint64_t segment, uint64_t *ret_end,
			uint64_t *ret_last_received_ns)
{
	sqlite3_stmt *stmt = manifest->statements[FP_STMT_SEGMENT_FIND];
	int step;

	sqlite3_bind_int64(stmt, 1, (sqlite3_int64)segment);
	step = sqlite3_step(stmt);
	if (step == SQLITE_ROW) {
		*ret_end = column_u64(stmt, 0);
		*ret_last_received_ns = column_u64(stmt, 1);
	}
	return finish(manifest, stmt, step, step == SQLITE_ROW);
}

int fp_manifest_floor(struct fp_manifest *manifest, uint64_t *ret_segment)
{
	sqlite3_stmt *stmt = manifest->statements[FP_STMT_FLOOR_GET];
	int step = sqlite3_step(stmt);

	if (step == SQLITE_ROW)
		*ret_segment = column_u64(stmt, 0);
	return finish(manifest, stmt, step, step == SQLITE_ROW ? 0 : -EIO);
}

int fp_manifest_list(struct fp_manifest *manifest, uint64_t from_ns, uint64_t to_ns,
		     fp_manifest_row_fn fn, void *context)
{
	sqlite3_stmt *stmt = manifest->statements[FP_STMT_LIST];
	int step, r = 0;

	sqlite3_bind_int64(stmt, 1, (sqlite3_int64)from_ns);
	sqlite3_bind_int64(stmt, 2, (sqlite3_int64)to_ns);
	for (step = sqlite3_step(stmt); step == SQLITE_ROW && r == 0; step = sqlite3_step(stmt)) {
		struct fp_manifest_row row = {
			.position = { .segment = column_u64(stmt, 0),
				      .offset = column_u64(stmt, 1),
				      .size = (uint32_t)column_u64(stmt, 2) },
			.start_ns = column_u64(stmt, 3),
			.end_ns = column_u64(stmt, 4),
			.period_ns = column_u64(stmt, 5),
			.host = (const char *)sqlite3_column_text(stmt, 6),
		};

		for (int type = 1; type < FP_PROFILE_TYPES; type++)
			row.rows[type] = column_u64(stmt, 6 + type);
		r = row.host ? fn(&row, context) : -ENOMEM;
	}
	return finish(manifest, stmt, step, r);
}

int fp_manifest_hosts(struct fp_manifest *manifest, fp_host_fn fn, void *context)
{
	sqlite3_stmt *stmt = manifest->statements[FP_STMT_HOSTS];
	int step, r = 0;

	for (step = sqlite3_step(stmt); step == SQLITE_ROW && r == 0; step = sqlite3_step(stmt)) {
		struct fp_host host = {
			.name = (const char *)sqlite3_column_text(stmt, 0),
			.host_id = sqlite3_column_blob(stmt, 1),
			.first_ns = column_u64(stmt, 2),
			.last_ns = column_u64(stmt, 3),
			.batches = column_u64(stmt, 4),
		};

		r = host.name && host.host_id ? fn(&host, context) : -ENOMEM;
	}
	return finish(manifest, stmt, step, r);
}

static int each_text(struct fp_manifest *manifest, sqlite3_stmt *stmt, fp_text_fn fn, void *context)
{
	int step, r = 0;

	for (step = sqlite3_step(stmt); step == SQLITE_ROW && r == 0; step = sqlite3_step(stmt)) {
		const char *text = sqlite3_column_blob(stmt, 0);

		r = fn(text ? text : "", (size_t)sqlite3_column_bytes(stmt, 0), context);
	}
	return finish(manifest, stmt, step, r);
}

int fp_manifest_label_names(struct fp_manifest *manifest, uint32_t limit, fp_text_fn fn,
			    void *context)
{
	sqlite3_stmt *stmt = manifest->statements[FP_STMT_NAMES];

	sqlite3_bind_int64(stmt, 1, limit);
	return each_text(manifest, stmt, fn, context);
}

int fp_manifest_label_values(struct fp_manifest *manifest, const char *name, const char *prefix,
			     uint32_t limit, fp_text_fn fn, void *context)
{
	sqlite3_stmt *stmt = manifest->statements[FP_STMT_VALUES];

	sqlite3_bind_text(stmt, 1, name, -1, SQLITE_STATIC);
	sqlite3_bind_blob(stmt, 2, prefix, (int)strlen(prefix), SQLITE_STATIC);
	sqlite3_bind_int64(stmt, 3, limit);
	return each_text(manifest, stmt, fn, context);
}

int fp_manifest_totals(struct fp_manifest *manifest, struct fp_manifest_totals *ret_totals)
{
	sqlite3_stmt *stmt = manifest->statements[FP_STMT_TOTALS];
	int step = sqlite3_step(stmt);

	if (step == SQLITE_ROW)
		*ret_totals = (struct fp_manifest_totals){
			.batches = column_u64(stmt, 0),
			.ids = column_u64(stmt, 1),
			.series = column_u64(stmt, 2),
			.hosts = column_u64(stmt, 3),
			.oldest_ns = column_u64(stmt, 4),
			.newest_ns = column_u64(stmt, 5),
		};
	return finish(manifest, stmt, step, step == SQLITE_ROW ? 0 : -EIO);
}
