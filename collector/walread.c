// SPDX-License-Identifier: Apache-2.0
#include "walrecord.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <xxhash.h>

struct header {
	uint32_t magic;
	uint32_t size;
	uint64_t received_ns;
	uint64_t checksum;
};
_Static_assert(sizeof(struct header) == FP_WAL_HEADER_BYTES, "the record header has no padding");

static uint64_t checksum(const void *body, uint32_t size, uint64_t received_ns)
{
	return XXH3_64bits_withSeed(body, size, received_ns ^ ((uint64_t)size << 32));
}

void fp_wal_header_encode(const void *body, uint32_t size, uint64_t received_ns,
			  uint8_t ret_header[FP_WAL_HEADER_BYTES])
{
	struct header header = {
		.magic = htole32(FP_WAL_RECORD_MAGIC),
		.size = htole32(size),
		.received_ns = htole64(received_ns),
		.checksum = htole64(checksum(body, size, received_ns)),
	};

	memcpy(ret_header, &header, sizeof(header));
}

// 0, -ENODATA at the end of the file or inside a torn record, or -errno.
static int read_exactly(int fd, void *bytes, size_t size, uint64_t offset)
{
	uint8_t *at = bytes;

	while (size > 0) {
		ssize_t n = pread(fd, at, size, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return -ENODATA;
		at += n;
		size -= (size_t)n;
		offset += (uint64_t)n;
	}
	return 0;
}

// 0 and the body; -ENODATA: cut short; -EBADMSG: not a record.
static int read_record(int fd, uint64_t offset, struct fp_buf *body, uint64_t *ret_received_ns)
{
	struct header header;
	uint32_t size;
	uint64_t received_ns;
	int r = read_exactly(fd, &header, sizeof(header), offset);

	if (r < 0)
		return r;
	size = le32toh(header.size);
	received_ns = le64toh(header.received_ns);
	if (le32toh(header.magic) != FP_WAL_RECORD_MAGIC || size > FP_WAL_BODY_MAX)
		return -EBADMSG;
	r = read_exactly(fd, &(uint8_t){ 0 }, size > 0, offset + sizeof(header) + size - 1);
	if (r < 0)
		return r; // cut short: nothing is allocated for a size that is not there
	fp_buf_clear(body);
	r = fp_buf_reserve(body, size);
	if (r < 0)
		return r;
	r = read_exactly(fd, body->data, size, offset + sizeof(header));
	if (r < 0)
		return r;
	body->len = size;
	if (checksum(body->data, size, received_ns) != le64toh(header.checksum))
		return -EBADMSG;
	*ret_received_ns = received_ns;
	return 0;
}

static int open_to_read(int dirfd, uint64_t segment)
{
	char name[FP_WAL_NAME_BYTES];
	int fd;

	fp_wal_segment_name(segment, name);
	fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static bool has_magic(int fd)
{
	char magic[FP_WAL_MAGIC_BYTES];

	return read_exactly(fd, magic, sizeof(magic), 0) == 0 &&
	       memcmp(magic, FP_WAL_MAGIC, sizeof(magic)) == 0;
}

#define SEARCH_BYTES 65536

// Offset of the next record magic at or behind `from`, or file_bytes.
static uint64_t find_magic(int fd, uint64_t from, uint64_t file_bytes)
{
	const uint32_t magic = htole32(FP_WAL_RECORD_MAGIC);
	uint8_t window[SEARCH_BYTES];

	while (from + sizeof(magic) <= file_bytes) {
		uint64_t left = file_bytes - from;
		size_t size = left < sizeof(window) ? left : sizeof(window);
		const uint8_t *found;

		if (read_exactly(fd, window, size, from) < 0)
			break;
		found = memmem(window, size, &magic, sizeof(magic));
		if (found)
			return from + (uint64_t)(found - window);
		from += size - (sizeof(magic) - 1);
	}
	return file_bytes;
}

static int scan_records(int fd, uint64_t segment, fp_wal_fn fn, void *context,
			struct fp_wal_scan *scan)
{
	FP_AUTOBUF struct fp_buf body = { 0 };
	uint64_t at = scan->end;

	while (scan->file_bytes - at >= FP_WAL_HEADER_BYTES) {
		struct fp_wal_record record = { .position = { .segment = segment, .offset = at } };
		int r = read_record(fd, at, &body, &record.received_ns);

		if (r == -ENODATA || r == -EBADMSG) {
			at = find_magic(fd, at + 1, scan->file_bytes);
			continue;
		}
		if (r < 0)
			return r;
		record.position.size = (uint32_t)body.len;
		record.body = body.data;
		r = fn(&record, context);
		if (r < 0)
			return r;
		scan->skipped_bytes += at - scan->end;
		at += FP_WAL_HEADER_BYTES + body.len;
		scan->end = at;
		scan->records++;
	}
	return 0;
}

int fp_wal_scan(int dirfd, uint64_t segment, uint64_t from, fp_wal_fn fn, void *context,
		struct fp_wal_scan *ret_scan)
{
	FP_AUTOCLOSE int fd = open_to_read(dirfd, segment);
	struct fp_wal_scan scan = { .end = from };
	struct stat status;
	int r = 0;

	if (fd < 0)
		return fd;
	if (fstat(fd, &status) < 0)
		return -errno;
	scan.file_bytes = (uint64_t)status.st_size;
	if (from == 0)
		scan.end = has_magic(fd) ? FP_WAL_MAGIC_BYTES : 0;
	if (scan.end >= FP_WAL_MAGIC_BYTES && scan.end <= scan.file_bytes)
		r = scan_records(fd, segment, fn, context, &scan);
	if (r < 0)
		return r;
	*ret_scan = scan;
	return 0;
}

void fp_wal_reader_init(struct fp_wal_reader *reader, int dirfd)
{
	*reader = (struct fp_wal_reader){ .dirfd = dirfd, .fd = -1 };
}

void fp_wal_reader_close(struct fp_wal_reader *reader)
{
	fp_close_fd(&reader->fd);
}

int fp_wal_read(struct fp_wal_reader *reader, const struct fp_wal_position *position,
		struct fp_buf *ret_body)
{
	uint64_t received_ns;
	int r;

	if (reader->fd < 0 || reader->segment != position->segment) {
		fp_close_fd(&reader->fd);
		r = open_to_read(reader->dirfd, position->segment);
		if (r < 0)
			return r;
		reader->fd = r;
		reader->segment = position->segment;
	}
	r = read_record(reader->fd, position->offset, ret_body, &received_ns);
	if (r == -ENODATA || (r == 0 && ret_body->len != position->size))
		return -EBADMSG;
	return r;
}
