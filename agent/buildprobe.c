// SPDX-License-Identifier: Apache-2.0
#include "buildprobe.h"

#include "common/cleanup.h"
#include "sideband_record.h"

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

// One mapping record is at most about 4.2 KiB (the path); the ring is emptied after each.
#define RING_BYTES 16384u

struct fp_build_probe {
	int fd;
	struct perf_event_mmap_page *page;
	const uint8_t *data;
	uint64_t record[UINT16_MAX / sizeof(uint64_t) + 1]; // one that wraps around the end
};

static int open_event(void)
{
	struct perf_event_attr attr = { .type = PERF_TYPE_SOFTWARE,
					.size = sizeof(attr),
					.config = PERF_COUNT_SW_DUMMY,
					.sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME,
					.disabled = 1,
					.exclude_kernel = 1,
					.mmap = 1,
					.mmap2 = 1,
					.sample_id_all = 1,
					.use_clockid = 1,
					.clockid = CLOCK_MONOTONIC,
					.build_id = 1 };
	int fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

static void free_probe(struct fp_build_probe **probe)
{
	fp_build_probe_free(*probe);
	*probe = NULL;
}

int fp_build_probe_open(struct fp_build_probe **ret)
{
	FP_CLEANUP(free_probe) struct fp_build_probe *probe = calloc(1, sizeof(*probe));
	size_t page_size = (size_t)getpagesize();
	void *page;

	if (!probe)
		return -ENOMEM;
	probe->fd = open_event();
	if (probe->fd < 0)
		return probe->fd;
	page = mmap(NULL, RING_BYTES + page_size, PROT_READ | PROT_WRITE, MAP_SHARED, probe->fd, 0);
	if (page == MAP_FAILED)
		return -errno;
	probe->page = page;
	probe->data = (const uint8_t *)page + page_size;
	*ret = fp_take_ptr(probe);
	return 0;
}

void fp_build_probe_free(struct fp_build_probe *probe)
{
	if (!probe)
		return;
	if (probe->page)
		munmap(probe->page, RING_BYTES + (size_t)getpagesize());
	fp_close_fd(&probe->fd);
	free(probe);
}

// The record at the tail, made contiguous; NULL when the ring is empty.
static const struct perf_event_header *next_record(struct fp_build_probe *probe)
{
	uint64_t head = __atomic_load_n(&probe->page->data_head, __ATOMIC_ACQUIRE);
	uint64_t tail = probe->page->data_tail;
	size_t at = tail & (RING_BYTES - 1);
	const struct perf_event_header *header = (const void *)(probe->data + at);
	size_t first = RING_BYTES - at;

	if (tail == head)
		return NULL;
	if (header->size < FP_SIDEBAND_RECORD_MIN || header->size > head - tail)
		return NULL;
	if (first > header->size)
		first = header->size;
	memcpy(probe->record, probe->data + at, first);
	memcpy((uint8_t *)probe->record + first, probe->data, header->size - first);
	__atomic_store_n(&probe->page->data_tail, tail + header->size, __ATOMIC_RELEASE);
	return (const void *)probe->record;
}

int fp_build_probe_read(struct fp_build_probe *probe, int fd, uint8_t ret_id[20], uint8_t *ret_len)
{
	const struct perf_event_header *record;
	size_t page_size = (size_t)getpagesize();
	struct fp_event event;
	uint64_t lost = 0;
	void *mapped;
	int result = -ENODATA;

	if (ioctl(probe->fd, PERF_EVENT_IOC_ENABLE, 0))
		return -errno;
	mapped = mmap(NULL, page_size, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	if (mapped == MAP_FAILED)
		result = -errno;
	ioctl(probe->fd, PERF_EVENT_IOC_DISABLE, 0);
	while ((record = next_record(probe))) {
		if (fp_sideband_record_parse(record, &event, &lost) != 1 ||
		    event.kind != FP_EVENT_MMAP || event.start != (uint64_t)(uintptr_t)mapped)
			continue;
		memcpy(ret_id, event.build_id, sizeof(event.build_id));
		*ret_len = event.build_id_len;
		result = 0;
	}
	if (mapped != MAP_FAILED)
		munmap(mapped, page_size);
	return result;
}
