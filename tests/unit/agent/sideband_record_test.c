// SPDX-License-Identifier: Apache-2.0
//
// Records as bytes, in the layout of perf_event_open(2).
#include "../cases.h"

#include "agent/sideband_record.h"
#include "common/buf.h"

#include <string.h>

#define TIME 123456789u

static void put32(struct fp_buf *buf, uint32_t value)
{
	fp_buf_append(buf, &value, sizeof(value));
}

static void put64(struct fp_buf *buf, uint64_t value)
{
	fp_buf_append(buf, &value, sizeof(value));
}

static void record_begin(struct fp_buf *buf, uint32_t type, uint16_t misc)
{
	struct perf_event_header header = { .type = type, .misc = misc };

	fp_buf_append(buf, &header, sizeof(header));
}

static void put_name(struct fp_buf *buf, const char *name)
{
	fp_buf_append(buf, name, strlen(name) + 1);
	while (buf->len % 8)
		fp_buf_byte(buf, 0);
}

// Adds the sample_id, sets the size and copies to memory of exactly that size.
static struct perf_event_header *record_end(struct fp_buf *buf)
{
	struct perf_event_header *record;

	put32(buf, 42);
	put32(buf, 43);
	put64(buf, TIME);
	record = malloc(buf->len);
	assert_non_null(record);
	memcpy(record, buf->data, buf->len);
	record->size = (uint16_t)buf->len;
	return record;
}

static struct perf_event_header *mmap_record(const char *name, bool build_id, uint64_t length)
{
	FP_AUTOBUF struct fp_buf buf = { 0 };
	uint8_t id[20];

	memset(id, 0xab, sizeof(id));
	record_begin(&buf, PERF_RECORD_MMAP2,
		     PERF_RECORD_MISC_USER | (build_id ? PERF_RECORD_MISC_MMAP_BUILD_ID : 0));
	put32(&buf, 42);
	put32(&buf, 43);
	put64(&buf, 0x7f0000001000);
	put64(&buf, length);
	put64(&buf, 0x2000);
	if (build_id) {
		put32(&buf, 20);
		fp_buf_append(&buf, id, sizeof(id));
	} else {
		put32(&buf, 0xfd);
		put32(&buf, 1);
		put64(&buf, 4711);
		put64(&buf, 5);
	}
	put32(&buf, 5);
	put32(&buf, 2);
	put_name(&buf, name);
	return record_end(&buf);
}

static struct perf_event_header *comm_record(const char *name, uint16_t misc)
{
	FP_AUTOBUF struct fp_buf buf = { 0 };

	record_begin(&buf, PERF_RECORD_COMM, misc);
	put32(&buf, 42);
	put32(&buf, 43);
	put_name(&buf, name);
	return record_end(&buf);
}

static struct perf_event_header *task_record(uint32_t type, uint32_t pid)
{
	FP_AUTOBUF struct fp_buf buf = { 0 };

	record_begin(&buf, type, 0);
	put32(&buf, pid);
	put32(&buf, 41);
	put32(&buf, 43);
	put32(&buf, 40);
	put64(&buf, TIME);
	return record_end(&buf);
}

static struct perf_event_header *lost_record(uint64_t lost)
{
	FP_AUTOBUF struct fp_buf buf = { 0 };

	record_begin(&buf, PERF_RECORD_LOST, 0);
	put64(&buf, 1);
	put64(&buf, lost);
	return record_end(&buf);
}

static void test_mmap_with_build_id(void **state)
{
	FP_AUTOFREE struct perf_event_header *record = mmap_record("/lib/libc.so.6", true, 0x3000);
	struct fp_event event;
	uint64_t lost = 0;

	assert_int_equal(fp_sideband_record_parse(record, &event, &lost), 1);
	assert_int_equal(event.kind, FP_EVENT_MMAP);
	assert_int_equal(event.time_ns, TIME);
	assert_int_equal(event.tgid, 42);
	assert_int_equal(event.tid, 43);
	assert_int_equal(event.start, 0x7f0000001000);
	assert_int_equal(event.length, 0x3000);
	assert_int_equal(event.page_offset, 0x2000);
	assert_int_equal(event.protection, 5);
	assert_int_equal(event.flags, 2);
	assert_int_equal(event.build_id_len, 20);
	assert_int_equal(event.build_id[0], 0xab);
	assert_int_equal(event.build_id[19], 0xab);
	assert_int_equal(event.inode, 0);
	assert_string_equal(event.name, "/lib/libc.so.6");
}

static void test_mmap_with_inode(void **state)
{
	FP_AUTOFREE struct perf_event_header *record = mmap_record("//anon", false, 0x3000);
	struct fp_event event;
	uint64_t lost = 0;

	assert_int_equal(fp_sideband_record_parse(record, &event, &lost), 1);
	assert_int_equal(event.build_id_len, 0);
	assert_int_equal(event.major, 0xfd);
	assert_int_equal(event.minor, 1);
	assert_int_equal(event.inode, 4711);
	assert_string_equal(event.name, "//anon");
}

static void test_build_id_length_is_checked(void **state)
{
	FP_AUTOFREE struct perf_event_header *record = mmap_record("/x", true, 0x3000);
	struct fp_event event;
	uint64_t lost = 0;

	((uint8_t *)record)[40] = 21; // build_id_size
	assert_int_equal(fp_sideband_record_parse(record, &event, &lost), 1);
	assert_int_equal(event.build_id_len, 0);
}

static void test_comm_and_exec(void **state)
{
	FP_AUTOFREE struct perf_event_header *comm = comm_record("worker-1", 0);
	FP_AUTOFREE struct perf_event_header *exec =
	    comm_record("a)\n;\xff", PERF_RECORD_MISC_COMM_EXEC);
	struct fp_event event;
	uint64_t lost = 0;

	assert_int_equal(fp_sideband_record_parse(comm, &event, &lost), 1);
	assert_int_equal(event.kind, FP_EVENT_COMM);
	assert_string_equal(event.name, "worker-1");
	assert_int_equal(fp_sideband_record_parse(exec, &event, &lost), 1);
	assert_int_equal(event.kind, FP_EVENT_EXEC);
	assert_int_equal(event.tgid, 42);
	assert_string_equal(event.name, "a)\n;\xff");
}

static void test_fork_and_exit(void **state)
{
	FP_AUTOFREE struct perf_event_header *fork_record = task_record(PERF_RECORD_FORK, 42);
	FP_AUTOFREE struct perf_event_header *exit_record = task_record(PERF_RECORD_EXIT, 42);
	struct fp_event event;
	uint64_t lost = 0;

	assert_int_equal(fp_sideband_record_parse(fork_record, &event, &lost), 1);
	assert_int_equal(event.kind, FP_EVENT_FORK);
	assert_int_equal(event.tgid, 42);
	assert_int_equal(event.tid, 43);
	assert_int_equal(event.parent_tgid, 41);
	assert_int_equal(event.time_ns, TIME);
	assert_int_equal(fp_sideband_record_parse(exit_record, &event, &lost), 1);
	assert_int_equal(event.kind, FP_EVENT_EXIT);
}

static void test_tasks_of_other_namespaces(void **state)
{
	static const uint32_t pids[] = { 0, UINT32_MAX };
	struct fp_event event = { .tgid = 7 };
	uint64_t lost = 0;

	for (size_t i = 0; i < FP_ARRAY_SIZE(pids); i++) {
		FP_AUTOFREE struct perf_event_header *record =
		    task_record(PERF_RECORD_FORK, pids[i]);

		assert_int_equal(fp_sideband_record_parse(record, &event, &lost), 0);
		assert_int_equal(event.tgid, 7);
	}
}

static void test_lost(void **state)
{
	FP_AUTOFREE struct perf_event_header *record = lost_record(17);
	struct fp_event event;
	uint64_t lost = 3;

	assert_int_equal(fp_sideband_record_parse(record, &event, &lost), 0);
	assert_int_equal(lost, 20);
}

static void test_senseless_ranges(void **state)
{
	FP_AUTOFREE struct perf_event_header *empty = mmap_record("/x", true, 0);
	FP_AUTOFREE struct perf_event_header *wrapping = mmap_record("/x", true, UINT64_MAX);
	struct fp_event event;
	uint64_t lost = 0;

	assert_int_equal(fp_sideband_record_parse(empty, &event, &lost), 0);
	assert_int_equal(fp_sideband_record_parse(wrapping, &event, &lost), 0);
}

// Every record cut to every shorter size, in memory of that size: nothing is read beyond it,
// and a name whose end is cut off is none.
static void test_short_records(void **state)
{
	struct perf_event_header *records[] = {
		mmap_record("/lib/long-name.so", true, 0x1000),
		comm_record("worker", 0),
		task_record(PERF_RECORD_FORK, 42),
		lost_record(1),
	};

	for (size_t i = 0; i < FP_ARRAY_SIZE(records); i++) {
		for (uint16_t size = sizeof(struct perf_event_header); size < records[i]->size;
		     size += 8) {
			FP_AUTOFREE struct perf_event_header *cut = malloc(size);
			struct fp_event event;
			uint64_t lost = 0;

			memcpy(cut, records[i], size);
			cut->size = size;
			if (fp_sideband_record_parse(cut, &event, &lost) && event.name)
				assert_true(event.name + strlen(event.name) <
					    (const char *)cut + size);
		}
		free(records[i]);
	}
}

int main(void)
{
	const struct CMUnitTest cases[] = {
		FP_CASE("a mapping with a build-ID", test_mmap_with_build_id),
		FP_CASE("a mapping with device and inode", test_mmap_with_inode),
		FP_CASE("a build-ID longer than its field is none",
			test_build_id_length_is_checked),
		FP_CASE("a new thread name and an exec are told apart", test_comm_and_exec),
		FP_CASE("fork and exit", test_fork_and_exit),
		FP_CASE("tasks that our PID namespace does not show are passed over",
			test_tasks_of_other_namespaces),
		FP_CASE("lost records are added up", test_lost),
		FP_CASE("mappings that are empty or wrap around are passed over",
			test_senseless_ranges),
		FP_CASE("a short record is never read beyond its end", test_short_records),
	};

	return cmocka_run_group_tests(cases, NULL, NULL);
}
