// SPDX-License-Identifier: Apache-2.0
//
// spool: the directory that is the only thing between sampler and shipper. One immutable
// file per batch: temporary file, fdatasync, rename, fsync of the directory; acknowledged by
// unlink. The sampler writes, the ship role reads and unlinks. Bounds on bytes, age and free
// space; what is dropped is counted by reason. A file that cannot be read is moved to
// quarantine/ and counted, never fatal.
// File: 64-byte header (magic, version, CRCs, sizes, sequence, boot id, times), then the
// batch bytes (proto/batch.h). Layout in docs/spool.md.
#pragma once

#include "common/buf.h"
#include "proto/batch.h"

struct fp_spool_limits {
	uint64_t max_bytes;	   // 512 MiB
	uint64_t max_age_ns;	   // 26 h, by boottime within a boot, else by realtime
	uint32_t min_free_percent; // 5
	uint64_t
	    min_free_bytes; // 1 GiB; the larger of both floors holds, but never more than half the filesystem
};

// X(identifier, label, text): reasons a batch was dropped after it had been taken.
#define FP_SPOOL_DROPS(X)                                                                          \
	X(SPOOL_BYTES, "spool_bytes", "the spool was full and the oldest batch made room")         \
	X(SPOOL_AGE, "spool_age", "the batch was older than the spool keeps")                      \
	X(DISK_FULL, "disk_full", "the file system had no room to spool")                          \
	X(IO_ERROR, "io_error", "the batch could not be written or read")                          \
	X(CORRUPT, "corrupt", "the file's checksum or header was wrong; quarantined")              \
	X(REJECTED, "rejected", "the collector refused the batch for good")                        \
	X(TOO_LARGE, "too_large", "the collector's size limit was below one sample's batch")
#define FP_SPOOL_DROP_ENUM(id, label, text) FP_SPOOL_DROP_##id,
enum fp_spool_drop { FP_SPOOL_DROPS(FP_SPOOL_DROP_ENUM) FP_SPOOL_DROP_COUNT };

struct fp_spool;
struct fp_spool_stats {
	uint64_t bytes, batches, samples; // queued now
	uint64_t oldest_realtime_ns;	  // 0: empty
	uint64_t dropped_batches[FP_SPOOL_DROP_COUNT], dropped_samples[FP_SPOOL_DROP_COUNT];
};

// Opens (creating, 0700) and recovers: temporary files are removed, the next sequence is
// above every file's. Errors: -errno.
int fp_spool_open(const char *directory, const struct fp_spool_limits *limits,
		  struct fp_spool **ret);
void fp_spool_free(struct fp_spool *spool);
static inline void fp_spool_freep(struct fp_spool **spool)
{
	fp_spool_free(*spool);
	*spool = NULL;
}
uint64_t fp_spool_next_sequence(struct fp_spool *spool); // never repeats for a host id
// Writes the profile (identity fields set) as one file. Enforces the bounds first.
int fp_spool_put(struct fp_spool *spool, const struct fp_profile *profile);

struct fp_spool_item {
	char name[64];
	uint64_t sequence, samples, start_realtime_ns;
	uint8_t batch_id[FP_BATCH_ID_LEN];
	struct fp_buf bytes; // the batch; owned, fp_spool_item_clear
};
void fp_spool_item_clear(struct fp_spool_item *item);
// Reads the oldest (or newest) batch. -ENOENT: empty. Corrupt files are quarantined on the way.
int fp_spool_peek(struct fp_spool *spool, bool newest, struct fp_spool_item *ret);
int fp_spool_acknowledge(struct fp_spool *spool, const char *name);
int fp_spool_drop(struct fp_spool *spool, const char *name, enum fp_spool_drop reason);
void fp_spool_stats(struct fp_spool *spool, struct fp_spool_stats *ret); // rescans when stale

// Kernel and module symbol tables wait in the spool beside the batches:
// symbols/<build-id hex>.sym.zst, written once per build.
int fp_spool_put_symbols(struct fp_spool *spool, const uint8_t *id, size_t id_len, const char *path,
			 const char *text, size_t size);
