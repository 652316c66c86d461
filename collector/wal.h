// SPDX-License-Identifier: Apache-2.0
//
// wal: the write-ahead log of batches, and the truth that everything else in the store is
// derived from. A directory of segments `<20-digit number>.wal`; a segment is an 8-byte
// magic and records [magic u32][size u32][received u64][checksum u64][body], little-endian,
// the checksum being XXH3-64 of the body seeded with the two fields before it.
// Input of reading: bytes on disk that may be torn by a crash; never trusted.
// Ownership: the writer owns its segment; readers open files of their own, so that a segment
// that is unlinked meanwhile stays readable to them. Threads: callers lock the writer;
// readers and scans need no lock.
#pragma once

#include "common/buf.h"

#include <sys/types.h>

#define FP_WAL_HEADER_BYTES 24
#define FP_WAL_MAGIC_BYTES  8

struct fp_wal {
	int dirfd; // the caller's
	int fd;	   // of the open segment, -1 before the first append
	uint64_t segment;
	uint64_t offset; // end of the open segment
	uint64_t opened_ns;
};

struct fp_wal_position {
	uint64_t segment;
	uint64_t offset; // of the record's header
	uint32_t size;	 // of the body
};

struct fp_wal_record {
	struct fp_wal_position position;
	uint64_t received_ns; // CLOCK_REALTIME
	const uint8_t *body;  // valid during the callback
};

void fp_wal_close(struct fp_wal *wal);
// Starts a writer whose first append creates segment `next_segment`.
void fp_wal_init(struct fp_wal *wal, int dirfd, uint64_t next_segment);
// Writes one record; it is durable only after a sync of the segment. On failure the segment
// is cut back to where it was. Errors: -errno of write (-ENOSPC).
int fp_wal_append(struct fp_wal *wal, const void *body, uint32_t size, uint64_t received_ns,
		  struct fp_wal_position *ret_position);
// Syncs and closes the open segment; the next append creates the next one.
int fp_wal_rotate(struct fp_wal *wal);
// Gives the open segment up without a sync (its disk refused one).
void fp_wal_abandon(struct fp_wal *wal);

// Numbers of the segments there are, ascending; the caller frees.
int fp_wal_list(int dirfd, uint64_t **ret_segments, size_t *ret_count);
int fp_wal_unlink(int dirfd, uint64_t segment); // and syncs the directory
int fp_wal_segment_bytes(int dirfd, uint64_t segment, uint64_t *ret_bytes);
int fp_wal_truncate(int dirfd, uint64_t segment, uint64_t size); // durable

struct fp_wal_scan {
	uint64_t end;		// end of the last whole record
	uint64_t file_bytes;	// what the file holds; end < file_bytes: the rest is torn
	uint64_t skipped_bytes; // damage before `end`, with whole records behind it
	uint64_t records;
};
// Calls fn for each whole record from `from` (0: the beginning) on, in order. Behind damage
// it looks for the next whole record. Stops at an error of fn, which it returns.
typedef int (*fp_wal_fn)(const struct fp_wal_record *record, void *context);
int fp_wal_scan(int dirfd, uint64_t segment, uint64_t from, fp_wal_fn fn, void *context,
		struct fp_wal_scan *ret_scan);

// Reads single records, keeping the last segment open.
struct fp_wal_reader {
	int dirfd;
	int fd;
	uint64_t segment;
};
void fp_wal_reader_init(struct fp_wal_reader *reader, int dirfd);
void fp_wal_reader_close(struct fp_wal_reader *reader);
// Errors: -ENOENT when the segment has left, -EBADMSG when the record is damaged.
int fp_wal_read(struct fp_wal_reader *reader, const struct fp_wal_position *position,
		struct fp_buf *ret_body);
