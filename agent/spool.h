// SPDX-License-Identifier: Apache-2.0
//
// spool: the directory that is the only thing between sampler and shipper. One immutable
// file per batch: temporary file, fdatasync, rename, fsync of the directory; acknowledged by
// unlink. The sampler writes (fp_spool_open), the ship role reads and unlinks
// (fp_spool_attach). Bounds on bytes, age and free space; what is dropped is counted by
// reason. A file that cannot be read is moved to quarantine/ and counted, never fatal.
// Layout of files and directory, ownership: docs/spool.md.
// Threads: one owner per handle; the two processes meet in the directory only.
#pragma once

#include "common/buf.h"
#include "proto/batch.h"

#include <sys/types.h>

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

// Opens for writing, creating what is missing (0700), and recovers: temporary files are
// removed, the next sequence is above everything that was ever handed out. One at a time.
// Errors: -errno.
int fp_spool_open(const char *directory, const struct fp_spool_limits *limits,
		  struct fp_spool **ret);
// Opens beside the writer, to read and unlink. Errors: -errno, -ENOENT before fp_spool_open.
int fp_spool_attach(const char *directory, const struct fp_spool_limits *limits,
		    struct fp_spool **ret);
// Lets processes of the group read and unlink: group `gid` and mode 2770 for the directories,
// files follow. Needs root or membership of the group. Errors: -errno.
int fp_spool_share(const char *directory, gid_t gid);
void fp_spool_free(struct fp_spool *spool);
static inline void fp_spool_freep(struct fp_spool **spool)
{
	fp_spool_free(*spool);
	*spool = NULL;
}
uint64_t fp_spool_next_sequence(struct fp_spool *spool); // never repeats for a host id
// Writes the profile (identity fields set) as one file, or as several with sequences of their
// own when its batch would be larger than batches may be. Enforces the bounds first.
// Errors: -errno; whatever part was not written has been counted as dropped.
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
void fp_spool_stats(struct fp_spool *spool, struct fp_spool_stats *ret);
// Notes that the collector refused a batch of `size` bytes as too large: until the next
// fp_spool_open, batches are written at no more than half of that (64 KiB at least).
int fp_spool_learn_limit(struct fp_spool *spool, uint64_t size);

// Symbol tables wait in the spool beside the batches. Those of the kernel and its modules:
// symbols/<build-id hex>.sym.zst, written once per build and kept, since a collector may lose its
// copy.
int fp_spool_put_symbols(struct fp_spool *spool, const uint8_t *id, size_t id_len, const char *path,
			 const char *text, size_t size);
#define FP_SPOOL_ID_MAX (2 * FP_BUILD_ID_MAX + 1) // hex and NUL
struct fp_spool_symbols {
	char id[FP_SPOOL_ID_MAX];
	struct fp_buf path;  // display name, NUL-terminated
	struct fp_buf bytes; // zstd of the text
};
void fp_spool_symbols_clear(struct fp_spool_symbols *symbols);
// Hex ids of all tables, as a NULL-terminated array of strings to be freed one by one.
int fp_spool_list_symbols(struct fp_spool *spool, char ***ret_ids);
int fp_spool_read_symbols(struct fp_spool *spool, const char *id, struct fp_spool_symbols *ret);
bool fp_spool_has_symbols(const struct fp_spool *spool, const char *id); // a table waits

// Tables that the collector asks for. The ship role notes the wish, the sampler takes one at a
// time, puts the table and drops the wish, the ship role sends the table once.
// Sampler and ship role both may call each; ids are hex.
#define FP_SPOOL_WANTED_MAX 256
// -EINVAL: no id; -EEXIST: noted already, or a table waits; -ENOSPC: too many wishes; -errno.
int fp_spool_want_symbols(struct fp_spool *spool, const char *id);
bool fp_spool_wanted_changed(struct fp_spool *spool); // since the last call of this handle
int fp_spool_next_wanted(struct fp_spool *spool, char ret_id[FP_SPOOL_ID_MAX]); // -ENOENT: none
int fp_spool_drop_wanted(struct fp_spool *spool, const char *id);
// Whether another table may be put: those that wait are bounded in number and bytes.
bool fp_spool_wanted_room(const struct fp_spool *spool);
// text: of fp_names_table; empty for a build whose file names no function.
int fp_spool_put_wanted(struct fp_spool *spool, const struct fp_build *build, const char *path,
			const struct fp_buf *text);
// The collector has it, or will never take it: removed if it was asked for. Says whether it was.
bool fp_spool_sent_symbols(struct fp_spool *spool, const char *id);
