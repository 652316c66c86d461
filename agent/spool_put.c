// SPDX-License-Identifier: Apache-2.0
// Writing into the spool: batches small enough for their way, room made for them by the
// oldest ones, and no sequence used that a later start could hand out again.
#include "spool_state.h"

#include "common/clock.h"
#include "common/file.h"
#include "proto/slice.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/statvfs.h>

#define BATCH_TARGET_BYTES (4u << 20) // passes the default limits of common proxies
#define BATCH_FLOOR_BYTES  (64u << 10)

int fp_spool_learn_limit(struct fp_spool *spool, uint64_t size)
{
	uint64_t limit = size / 2 > BATCH_FLOOR_BYTES ? size / 2 : BATCH_FLOOR_BYTES;
	char text[32];
	int length = snprintf(text, sizeof(text), "%" PRIu64 "\n", limit);

	return fp_file_write_durable(spool->fd, FP_SPOOL_LIMIT_FILE, text, (size_t)length,
				     FP_SPOOL_FILE_MODE);
}

static uint64_t batch_limit(const struct fp_spool *spool)
{
	FP_AUTOBUF struct fp_buf text = { 0 };
	uint64_t limit;

	if (fp_file_read_at(spool->fd, FP_SPOOL_LIMIT_FILE, 64, &text) || !text.len)
		return BATCH_TARGET_BYTES;
	limit = strtoull((const char *)text.data, NULL, 10);
	if (limit < BATCH_FLOOR_BYTES || limit > BATCH_TARGET_BYTES)
		return BATCH_TARGET_BYTES;
	return limit;
}

static uint64_t age_of(const struct fp_spool_entry *entry, uint32_t boot_tag)
{
	bool same_boot = entry->header.boot_tag == boot_tag;
	uint64_t now = same_boot ? fp_boottime_ns() : fp_realtime_ns();
	uint64_t start =
	    same_boot ? entry->header.start_boottime_ns : entry->header.start_realtime_ns;

	return now > start ? now - start : 0; // a clock set back makes nothing old
}

static void drop_old(struct fp_spool *spool, const uint8_t boot_id[16])
{
	uint32_t boot_tag = fp_spool_boot_tag(boot_id);

	while (spool->index.count && spool->index.entries[0].state == FP_SPOOL_GOOD &&
	       age_of(spool->index.entries, boot_tag) > spool->limits.max_age_ns)
		fp_spool_drop_entry(spool, 0, FP_SPOOL_DROP_SPOOL_AGE);
}

static uint64_t spooled_bytes(const struct fp_spool *spool)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < spool->index.count; i++)
		bytes += spool->index.entries[i].bytes;
	return bytes;
}

// Drops the oldest batches until `size` bytes are free again. False: not even all of them
// were enough.
static bool drop_oldest(struct fp_spool *spool, uint64_t size, enum fp_spool_drop reason)
{
	uint64_t freed = 0;

	while (freed < size && spool->index.count) {
		freed += spool->index.entries[0].bytes;
		fp_spool_drop_entry(spool, 0, reason);
	}
	return freed >= size;
}

// True when the file system is so full that the spool must not grow. An unknown state is
// left to the write itself to find out.
static bool below_floor(const struct fp_spool *spool, uint64_t size)
{
	uint64_t total, available, floor;
	struct statvfs fs;

	if (fstatvfs(spool->fd, &fs) < 0)
		return false;
	total = (uint64_t)fs.f_blocks * fs.f_frsize;
	available = (uint64_t)fs.f_bavail * fs.f_frsize;
	floor = total / 100 * spool->limits.min_free_percent;
	if (floor < spool->limits.min_free_bytes)
		floor = spool->limits.min_free_bytes;
	if (floor > total / 2) // a small file system is not closed to us altogether
		floor = total / 2;
	return available < size || available - size < floor;
}

// Below the floor the newest batches replace the oldest: the spool keeps its size.
static int make_room(struct fp_spool *spool, uint64_t size, enum fp_spool_drop *ret_reason)
{
	uint64_t held = spooled_bytes(spool), max = spool->limits.max_bytes;

	*ret_reason = FP_SPOOL_DROP_SPOOL_BYTES;
	if (size > max ||
	    (held + size > max && !drop_oldest(spool, held + size - max, *ret_reason)))
		return -ENOSPC;
	*ret_reason = FP_SPOOL_DROP_DISK_FULL;
	if (below_floor(spool, size) && !drop_oldest(spool, size, *ret_reason))
		return -ENOSPC;
	return 0;
}

static bool is_full(int error)
{
	return error == -ENOSPC || error == -EDQUOT;
}

static int write_file(struct fp_spool *spool, uint64_t sequence, const struct fp_buf *file,
		      enum fp_spool_drop *ret_reason)
{
	char name[FP_SPOOL_NAME_MAX];
	int error = make_room(spool, file->len, ret_reason);

	if (error)
		return error;
	fp_spool_name(sequence, name);
	do { // quota, inodes and delayed allocation show only here
		error = fp_spool_reserve(spool, sequence);
		if (!error)
			error = fp_file_write_durable(spool->fd, name, file->data, file->len,
						      FP_SPOOL_FILE_MODE);
	} while (is_full(error) && drop_oldest(spool, 1, FP_SPOOL_DROP_DISK_FULL));
	*ret_reason = is_full(error) ? FP_SPOOL_DROP_DISK_FULL : FP_SPOOL_DROP_IO_ERROR;
	return error;
}

static int put_batch(struct fp_spool *spool, const struct fp_profile *profile, struct fp_buf *file)
{
	struct fp_spool_header header = {
		.payload_size = (uint32_t)(file->len - FP_SPOOL_HEADER_SIZE),
		.samples = fp_profile_count(profile),
		.start_boottime_ns = profile->start_boottime_ns,
		.start_realtime_ns = profile->start_realtime_ns,
		.boot_tag = fp_spool_boot_tag(profile->boot_id),
	};
	enum fp_spool_drop reason;
	int error;

	header.payload_hash =
	    fp_spool_payload_hash(file->data + FP_SPOOL_HEADER_SIZE, header.payload_size);
	fp_batch_id(profile, header.batch_id);
	fp_spool_header_write(&header, file->data);
	error = write_file(spool, profile->sequence, file, &reason);
	if (error)
		fp_spool_count_drop(spool, reason, header.samples);
	return error;
}

// Encodes behind room for the header. -E2BIG: above the limit of encoding or of our own.
static int encode(const struct fp_profile *profile, uint64_t limit, struct fp_buf *file)
{
	static const uint8_t no_header[FP_SPOOL_HEADER_SIZE];
	int error = fp_buf_append(file, no_header, sizeof(no_header));

	if (!error)
		error = fp_batch_encode(profile, file);
	if (!error && file->len - FP_SPOOL_HEADER_SIZE > limit)
		error = -E2BIG;
	return error;
}

static int put_split(struct fp_spool *spool, const struct fp_profile *profile, uint64_t limit);

// Rows [first, first + count) as batches of their own; the first part keeps the sequence.
static int put_part(struct fp_spool *spool, const struct fp_profile *profile, uint32_t first,
		    uint32_t count, uint64_t limit)
{
	FP_AUTOPROFILE struct fp_profile *part = NULL;
	int error = fp_profile_slice(profile, first, count, &part);

	if (error)
		return error;
	if (first)
		part->sequence = fp_spool_next_sequence(spool);
	return put_split(spool, part, limit);
}

static int put_split(struct fp_spool *spool, const struct fp_profile *profile, uint64_t limit)
{
	FP_AUTOBUF struct fp_buf file = { 0 };
	uint32_t half = profile->samples_count / 2;
	int error = encode(profile, limit, &file), second_error;

	if (!error)
		return put_batch(spool, profile, &file);
	if (error != -E2BIG || !half) {
		fp_spool_count_drop(
		    spool, error == -E2BIG ? FP_SPOOL_DROP_TOO_LARGE : FP_SPOOL_DROP_IO_ERROR,
		    fp_profile_count(profile));
		return error;
	}
	fp_buf_free(&file);
	error = put_part(spool, profile, 0, half, limit);
	second_error = put_part(spool, profile, half, profile->samples_count - half, limit);
	return error ? error : second_error;
}

int fp_spool_put(struct fp_spool *spool, const struct fp_profile *profile)
{
	int error = fp_spool_index_scan(&spool->index, spool->fd);

	if (error) {
		fp_spool_count_drop(spool, FP_SPOOL_DROP_IO_ERROR, fp_profile_count(profile));
		return error;
	}
	drop_old(spool, profile->boot_id);
	error = put_split(spool, profile, batch_limit(spool));
	fp_spool_index_scan(&spool->index, spool->fd);
	return error;
}
