// SPDX-License-Identifier: Apache-2.0
// The log read again at start: whatever lies behind the end that the manifest knows of is
// entered now, unless its id has been counted; a torn end is cut off.
#include "storestate.h"

#include <errno.h>

struct recovery {
	struct fp_store *store;
	struct fp_store_recovery *counts;
};

static int derive_record(const struct fp_wal_record *record, void *context)
{
	struct recovery *recovery = context;
	FP_AUTOPROFILE struct fp_profile *profile = NULL;
	FP_AUTOFACTS struct fp_facts facts = { 0 };
	struct fp_batch_limits limits = fp_batch_default_limits;
	const char *reason;
	int r;

	// It was accepted once, perhaps under a larger setting.
	limits.compressed_bytes = record->position.size;
	r = fp_batch_decode(record->body, record->position.size, &limits, &profile, &reason);
	if (r == -ENOMEM)
		return r;
	if (r < 0) {
		recovery->counts->refused++;
		return 0;
	}
	r = fp_facts_derive(profile, record->body, record->position.size, record->received_ns,
			    &facts);
	if (r < 0)
		return r;
	facts.position = record->position;
	r = fp_manifest_add(&recovery->store->manifest, &facts);
	if (r < 0)
		return r;
	recovery->counts->derived += r == 1;
	recovery->counts->repeated += r == 0;
	return 0;
}

static int cut_torn_end(struct fp_store *store, uint64_t segment, const struct fp_wal_scan *scan,
			struct fp_store_recovery *counts)
{
	counts->torn_bytes += scan->file_bytes - scan->end;
	if (scan->end <= FP_WAL_MAGIC_BYTES)
		return fp_wal_unlink(store->waldirfd, segment); // nothing whole in it
	return fp_wal_truncate(store->waldirfd, segment, scan->end);
}

static int recover_segment(struct fp_store *store, uint64_t segment, bool last,
			   struct fp_store_recovery *counts)
{
	struct recovery recovery = { store, counts };
	struct fp_wal_scan scan;
	uint64_t end = 0, last_received_ns;
	int r = fp_manifest_segment(&store->manifest, segment, &end, &last_received_ns);

	if (r >= 0)
		r = fp_manifest_begin(&store->manifest);
	if (r < 0)
		return r;
	r = fp_wal_scan(store->waldirfd, segment, end, derive_record, &recovery, &scan);
	if (r == 0)
		r = fp_manifest_commit(&store->manifest);
	if (r < 0) {
		fp_manifest_rollback(&store->manifest);
		return r;
	}
	counts->damaged_bytes += scan.skipped_bytes;
	if (last && (scan.end < scan.file_bytes || scan.end <= FP_WAL_MAGIC_BYTES))
		return cut_torn_end(store, segment, &scan, counts);
	if (scan.end < scan.file_bytes)
		counts->damaged_bytes += scan.file_bytes - scan.end;
	return 0;
}

int fp_store_recover(struct fp_store *store, struct fp_store_recovery *ret_recovery,
		     uint64_t *ret_next_segment)
{
	FP_AUTOFREE uint64_t *segments = NULL;
	struct fp_store_recovery counts = { 0 };
	uint64_t floor;
	size_t count;
	int r = fp_wal_list(store->waldirfd, &segments, &count);

	if (r == 0)
		r = fp_manifest_floor(&store->manifest, &floor);
	for (size_t i = 0; r == 0 && i < count; i++) {
		if (segments[i] < floor)
			r = fp_wal_unlink(store->waldirfd, segments[i]);
		else
			r = recover_segment(store, segments[i], i + 1 == count, &counts);
	}
	if (r < 0)
		return r;
	*ret_recovery = counts;
	*ret_next_segment = count && segments[count - 1] >= floor ? segments[count - 1] + 1 : floor;
	return 0;
}
