// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/cases.h"
#include "tests/unit/scratch.h"

#include "collector/wal.h"
#include "common/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#define RECORDS 3
static const char *const bodies[RECORDS] = { "first body", "", "the third and longest body" };

struct seen {
	int count;
	struct fp_wal_position positions[16];
};

static int see(const struct fp_wal_record *record, void *context)
{
	struct seen *seen = context;
	const char *body = bodies[record->received_ns];

	assert_int_equal(record->position.size, strlen(body));
	assert_memory_equal(record->body, body, strlen(body));
	seen->positions[seen->count++] = record->position;
	return 0;
}

static int fresh_directory(void)
{
	char path[128];
	static int number;

	snprintf(path, sizeof(path), "%s/%d", scratch_directory(), number++);
	return fp_dir_open(path, 0700);
}

// Segment 1 with the three records; returns where each ends.
static void write_records(int dirfd, uint64_t ret_ends[RECORDS])
{
	struct fp_wal wal;

	fp_wal_init(&wal, dirfd, 1);
	for (uint64_t i = 0; i < RECORDS; i++) {
		struct fp_wal_position position;

		assert_int_equal(
		    fp_wal_append(&wal, bodies[i], (uint32_t)strlen(bodies[i]), i, &position), 0);
		ret_ends[i] = wal.offset;
	}
	assert_int_equal(fp_wal_rotate(&wal), 0);
	assert_int_equal(wal.segment, 2);
	fp_wal_close(&wal);
}

static void records_read_back(void **state)
{
	FP_AUTOCLOSE int dirfd = fresh_directory();
	FP_CLEANUP(fp_wal_reader_close) struct fp_wal_reader reader;
	FP_AUTOBUF struct fp_buf body = { 0 };
	struct fp_wal_scan scan;
	struct seen seen = { 0 };
	uint64_t ends[RECORDS];

	write_records(dirfd, ends);
	assert_int_equal(fp_wal_scan(dirfd, 1, 0, see, &seen, &scan), 0);
	assert_int_equal(seen.count, RECORDS);
	assert_int_equal(scan.end, scan.file_bytes);
	assert_int_equal(scan.skipped_bytes, 0);
	fp_wal_reader_init(&reader, dirfd);
	for (int i = RECORDS - 1; i >= 0; i--) {
		assert_int_equal(fp_wal_read(&reader, &seen.positions[i], &body), 0);
		assert_int_equal(body.len, strlen(bodies[i]));
		assert_memory_equal(body.data, bodies[i], body.len);
	}
	seen.positions[0].segment = 9;
	assert_int_equal(fp_wal_read(&reader, &seen.positions[0], &body), -ENOENT);
}

static void a_scan_can_start_behind_what_is_known(void **state)
{
	FP_AUTOCLOSE int dirfd = fresh_directory();
	struct fp_wal_scan scan;
	struct seen seen = { 0 };
	uint64_t ends[RECORDS];

	write_records(dirfd, ends);
	assert_int_equal(fp_wal_scan(dirfd, 1, ends[0], see, &seen, &scan), 0);
	assert_int_equal(seen.count, RECORDS - 1);
	assert_int_equal(seen.positions[0].offset, ends[0]);
}

// A crash may leave any prefix of what was written; exactly the whole records are found.
static void every_torn_tail_keeps_the_whole_records(void **state)
{
	FP_AUTOCLOSE int dirfd = fresh_directory();
	uint64_t ends[RECORDS];

	write_records(dirfd, ends);
	for (uint64_t size = ends[RECORDS - 1]; size-- > 0;) {
		struct fp_wal_scan scan;
		struct seen seen = { 0 };
		int whole = 0;

		assert_int_equal(fp_wal_truncate(dirfd, 1, size), 0);
		while (whole < RECORDS && ends[whole] <= size)
			whole++;
		assert_int_equal(fp_wal_scan(dirfd, 1, 0, see, &seen, &scan), 0);
		assert_int_equal(seen.count, whole);
		assert_int_equal(scan.file_bytes, size);
		if (whole)
			assert_int_equal(scan.end, ends[whole - 1]);
		else
			assert_true(scan.end <= FP_WAL_MAGIC_BYTES);
	}
}

static int see_any(const struct fp_wal_record *record, void *context)
{
	int *count = context;

	*count += 1;
	return 0;
}

// Whatever byte is damaged, its record is not given out, and the others are.
static void a_damaged_record_is_left_out(void **state)
{
	FP_AUTOCLOSE int dirfd = fresh_directory();
	FP_AUTOCLOSE int fd = -1;
	uint64_t ends[RECORDS];

	write_records(dirfd, ends);
	fd = openat(dirfd, "00000000000000000001.wal", O_RDWR);
	assert_true(fd >= 0);
	for (uint64_t at = FP_WAL_MAGIC_BYTES; at < ends[RECORDS - 1]; at++) {
		struct fp_wal_scan scan;
		int count = 0;
		uint8_t byte, damaged;

		assert_int_equal(pread(fd, &byte, 1, (off_t)at), 1);
		damaged = byte ^ 0x40;
		assert_int_equal(pwrite(fd, &damaged, 1, (off_t)at), 1);
		assert_int_equal(fp_wal_scan(dirfd, 1, 0, see_any, &count, &scan), 0);
		if (count != RECORDS - 1)
			fail_msg("byte %llu damaged: %d records", (unsigned long long)at, count);
		assert_true(scan.skipped_bytes > 0 || scan.end < scan.file_bytes);
		assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1);
	}
}

static void a_size_beyond_the_file_is_not_believed(void **state)
{
	FP_AUTOCLOSE int dirfd = fresh_directory();
	FP_AUTOCLOSE int fd = -1;
	const uint32_t size = 900 * 1024 * 1024;
	struct fp_wal_scan scan;
	int count = 0;
	uint64_t ends[RECORDS];

	write_records(dirfd, ends);
	fd = openat(dirfd, "00000000000000000001.wal", O_RDWR);
	assert_int_equal(pwrite(fd, &size, sizeof(size), FP_WAL_MAGIC_BYTES + 4), sizeof(size));
	assert_int_equal(fp_wal_scan(dirfd, 1, 0, see_any, &count, &scan), 0);
	assert_int_equal(count, RECORDS - 1);
}

static void an_append_that_fails_leaves_no_trace(void **state)
{
	FP_AUTOCLOSE int dirfd = fresh_directory();
	struct fp_wal wal;
	struct fp_wal_position position;
	uint64_t bytes;

	fp_wal_init(&wal, dirfd, 1);
	assert_int_equal(fp_wal_append(&wal, "x", 1, 1, &position), 0);
	fp_close_fd(&wal.fd);
	wal.fd = openat(dirfd, "00000000000000000001.wal", O_RDONLY);
	assert_int_equal(fp_wal_append(&wal, "y", 1, 1, &position), -EBADF);
	assert_int_equal(fp_wal_segment_bytes(dirfd, 1, &bytes), 0);
	assert_int_equal(bytes, FP_WAL_MAGIC_BYTES + FP_WAL_HEADER_BYTES + 1);
	fp_wal_close(&wal);
}

static void segments_are_listed_in_order_and_other_files_ignored(void **state)
{
	FP_AUTOCLOSE int dirfd = fresh_directory();
	FP_AUTOFREE uint64_t *segments = NULL;
	static const uint64_t numbers[] = { 10, 2, 100 };
	size_t count;

	for (size_t i = 0; i < FP_ARRAY_SIZE(numbers); i++) {
		struct fp_wal wal;
		struct fp_wal_position position;

		fp_wal_init(&wal, dirfd, numbers[i]);
		assert_int_equal(fp_wal_append(&wal, "x", 1, 1, &position), 0);
		fp_wal_close(&wal);
	}
	assert_int_equal(fp_file_write_durable(dirfd, "1.wal", "x", 1, 0600), 0);
	assert_int_equal(fp_wal_list(dirfd, &segments, &count), 0);
	assert_int_equal(count, 3);
	assert_int_equal(segments[0], 2);
	assert_int_equal(segments[2], 100);
	assert_int_equal(fp_wal_unlink(dirfd, 2), 0);
	assert_int_equal(fp_wal_unlink(dirfd, 2), 0); // once more is no error
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FP_CASE("records read back as they were written", records_read_back),
		FP_CASE("a scan can start behind what is known",
			a_scan_can_start_behind_what_is_known),
		FP_CASE("a tail torn at any byte keeps the whole records",
			every_torn_tail_keeps_the_whole_records),
		FP_CASE("a record with any byte damaged is left out alone",
			a_damaged_record_is_left_out),
		FP_CASE("a size beyond the end of the file is not believed",
			a_size_beyond_the_file_is_not_believed),
		FP_CASE("an append that fails leaves no trace",
			an_append_that_fails_leaves_no_trace),
		FP_CASE("segments are listed in order",
			segments_are_listed_in_order_and_other_files_ignored),
	};

	return cmocka_run_group_tests_name("wal", tests, NULL, NULL);
}
