// SPDX-License-Identifier: Apache-2.0
#include "sideband.h"

#include "cpus.h"
#include "hotplug.h"
#include "perfevents.h"
#include "procfs.h"
#include "sideband_record.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>

// 512 KiB hold about 3600 mapping records, or what some 240 execs leave on one CPU: half a second of
// nothing else, or several where that many programs run that the agent has to wait for its turn.
#define RING_BYTES_DEFAULT  (512u * 1024)
#define RINGS_BYTES_DEFAULT (8L << 20)
// Of one ring, before its reader is woken; half of a small one.
#define WAKE_BYTES_DEFAULT (64u * 1024)
// Less than this holds no maximal record together with anything else.
#define RING_BYTES_MIN (16u * 1024)
// The longest record: a mapping with a name of PATH_MAX. While that much is free, none is lost.
#define RECORD_BYTES_MAX (4096u + 256u)

struct ring {
	int fd;
	uint32_t cpu;
	struct perf_event_mmap_page *page;
	const uint8_t *data;
	size_t size; // of data, a power of two
	uint64_t tail, head;
	uint64_t next_ns; // time of the record at tail, while reading
	bool gone;	  // the CPU went offline: close once empty
};

struct fp_sideband {
	int epoll_fd;
	uint32_t ring_bytes, wake_bytes;
	bool no_build_ids; // the kernel is older than 5.12
	struct fp_hotplug *hotplug;
	struct ring *rings;
	size_t count, capacity;
	uint64_t lost; // not yet reported
	uint64_t sure_ns;
	uint64_t record[UINT16_MAX / sizeof(uint64_t) + 1]; // one that wraps around its ring's end
};

static void ring_close(struct ring *ring)
{
	if (ring->page)
		munmap(ring->page, ring->size + (size_t)getpagesize());
	ring->page = NULL;
	fp_close_fd(&ring->fd);
}

static int event_open(struct fp_sideband *sideband, uint32_t cpu, uint32_t ring_bytes)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_DUMMY,
		.sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME,
		.disabled = 1,
		.mmap = 1,
		.mmap2 = 1,
		.comm = 1,
		.comm_exec = 1,
		.task = 1,
		.sample_id_all = 1,
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC,
		.watermark = 1,
		.wakeup_watermark =
		    sideband->wake_bytes < ring_bytes / 2 ? sideband->wake_bytes : ring_bytes / 2,
		.build_id = !sideband->no_build_ids,
	};
	int fd = fp_perf_event_open(&attr, cpu);

	if (fd == -EINVAL && attr.build_id) {
		attr.build_id = 0;
		fd = fp_perf_event_open(&attr, cpu);
		if (fd >= 0)
			sideband->no_build_ids = true;
	}
	return fd;
}

// The kernel bounds unprivileged ring memory (kernel.perf_event_mlock_kb): a smaller ring
// loses records under a storm, which is counted, and is better than none.
static int ring_map(struct fp_sideband *sideband, uint32_t cpu, struct ring *ring)
{
	uint32_t bytes;
	int error = -EINVAL;

	for (bytes = sideband->ring_bytes; bytes >= RING_BYTES_MIN; bytes /= 2) {
		void *page;

		ring->fd = event_open(sideband, cpu, bytes);
		if (ring->fd < 0)
			return ring->fd;
		page = mmap(NULL, bytes + (size_t)getpagesize(), PROT_READ | PROT_WRITE, MAP_SHARED,
			    ring->fd, 0);
		if (page != MAP_FAILED) {
			ring->page = page;
			ring->data = (const uint8_t *)page + getpagesize();
			ring->size = bytes;
			return 0;
		}
		error = -errno;
		fp_close_fd(&ring->fd);
		if (error != -EPERM && error != -ENOMEM)
			return error;
	}
	return error;
}

static int ring_add(struct fp_sideband *sideband, uint32_t cpu)
{
	FP_CLEANUP(ring_close) struct ring ring = { .fd = -1, .cpu = cpu };
	struct epoll_event readable = { .events = EPOLLIN };
	int r;

	if (sideband->count == sideband->capacity) {
		size_t capacity = sideband->capacity ? 2 * sideband->capacity : 16;
		struct ring *rings =
		    reallocarray(sideband->rings, capacity, sizeof(*sideband->rings));

		if (!rings)
			return -ENOMEM;
		sideband->rings = rings;
		sideband->capacity = capacity;
	}
	r = ring_map(sideband, cpu, &ring);
	if (r < 0)
		return r;
	if (epoll_ctl(sideband->epoll_fd, EPOLL_CTL_ADD, ring.fd, &readable) < 0 ||
	    ioctl(ring.fd, PERF_EVENT_IOC_ENABLE, 0) < 0)
		return -errno;
	sideband->rings[sideband->count++] = ring;
	ring = (struct ring){ .fd = -1 };
	return 0;
}

// What is in the ring is read before it is closed. The event is dead, or, where we only hear
// that its CPU may have left, must be: another is about to say the same.
static void ring_leave(struct ring *ring)
{
	ring->gone = true;
	(void)ioctl(ring->fd, PERF_EVENT_IOC_DISABLE, 0);
}

int fp_sideband_sync_cpus(struct fp_sideband *sideband)
{
	struct fp_cpus cpus;
	int r;

	// A CPU that leaves after this look is heard of at the next.
	fp_hotplug_look(sideband->hotplug);
	for (size_t i = 0; i < sideband->count; i++) {
		if (fp_hotplug_left(sideband->hotplug, sideband->rings[i].cpu))
			ring_leave(&sideband->rings[i]);
	}
	r = fp_cpus_read(&cpus);
	if (r < 0)
		return r;
	for (size_t i = 0; i < sideband->count; i++) {
		struct ring *ring = &sideband->rings[i];

		if (!cpus.online[ring->cpu])
			ring_leave(ring);
		if (!ring->gone)
			cpus.online[ring->cpu] = 0;
	}
	for (uint32_t cpu = 0; cpu <= cpus.highest; cpu++) {
		if (!cpus.online[cpu])
			continue;
		r = ring_add(sideband, cpu);
		if (r == -ENODEV) // went offline meanwhile
			cpus.count--;
		else if (r < 0)
			return r;
	}
	return (int)cpus.count;
}

uint32_t fp_sideband_default_ring_bytes(void)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	uint32_t bytes = RING_BYTES_DEFAULT;

	while (bytes > RING_BYTES_MIN && cpus * (long)bytes > RINGS_BYTES_DEFAULT)
		bytes /= 2;
	return bytes;
}

int fp_sideband_open_waking(uint32_t ring_bytes, uint32_t wake_bytes, struct fp_sideband **ret)
{
	FP_CLEANUP(fp_sideband_freep) struct fp_sideband *sideband = calloc(1, sizeof(*sideband));
	int r;

	if (!sideband)
		return -ENOMEM;
	sideband->epoll_fd = -1;
	sideband->ring_bytes = ring_bytes ? ring_bytes : fp_sideband_default_ring_bytes();
	sideband->wake_bytes = wake_bytes ? wake_bytes : WAKE_BYTES_DEFAULT;
	if (sideband->ring_bytes < RING_BYTES_MIN ||
	    (sideband->ring_bytes & (sideband->ring_bytes - 1)))
		return -EINVAL;
	sideband->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (sideband->epoll_fd < 0)
		return -errno;
	r = fp_hotplug_open(&sideband->hotplug);
	if (r < 0)
		return r;
	r = fp_sideband_sync_cpus(sideband);
	if (r < 0)
		return r;
	*ret = fp_take_ptr(sideband);
	return 0;
}

void fp_sideband_free(struct fp_sideband *sideband)
{
	if (!sideband)
		return;
	for (size_t i = 0; i < sideband->count; i++)
		ring_close(&sideband->rings[i]);
	free(sideband->rings);
	fp_hotplug_free(sideband->hotplug);
	fp_close_fd(&sideband->epoll_fd);
	free(sideband);
}

uint64_t fp_sideband_sure_until(const struct fp_sideband *sideband)
{
	return sideband->sure_ns;
}

uint64_t fp_sideband_ring_bytes(const struct fp_sideband *sideband)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < sideband->count; i++)
		bytes += sideband->rings[i].size + (uint64_t)getpagesize();
	return bytes;
}

int fp_sideband_fd(const struct fp_sideband *sideband)
{
	return sideband->epoll_fd;
}

// Looks at the record at the tail. False when there is none; a size that makes no sense
// gives up what is left in the ring, counted as one lost record.
static bool ring_peek(struct ring *ring, uint64_t *lost)
{
	const struct perf_event_header *header;
	size_t at = ring->tail & (ring->size - 1);
	size_t time_at;

	if (ring->tail == ring->head)
		return false;
	// Records are multiples of 8 bytes, so neither header nor time wraps around the end.
	header = (const void *)(ring->data + at);
	if (header->size < FP_SIDEBAND_RECORD_MIN || header->size % 8 != 0 ||
	    header->size > ring->head - ring->tail) {
		ring->tail = ring->head;
		*lost += 1;
		return false;
	}
	time_at = (at + header->size - 8) & (ring->size - 1);
	ring->next_ns = *(const uint64_t *)(ring->data + time_at);
	return true;
}

static const struct perf_event_header *ring_record(struct ring *ring, uint64_t *wrapped)
{
	size_t at = ring->tail & (ring->size - 1);
	const struct perf_event_header *header = (const void *)(ring->data + at);
	size_t before_end = ring->size - at;

	if (header->size <= before_end)
		return header;
	memcpy(wrapped, header, before_end);
	memcpy((uint8_t *)wrapped + before_end, ring->data, header->size - before_end);
	return (const void *)wrapped;
}

// The ring whose next record is the oldest one not younger than the cutoff.
static struct ring *ring_oldest(struct ring **active, size_t count, uint64_t cutoff_ns)
{
	struct ring *oldest = NULL;

	for (size_t i = 0; i < count; i++) {
		if (active[i]->next_ns <= cutoff_ns &&
		    (!oldest || active[i]->next_ns < oldest->next_ns))
			oldest = active[i];
	}
	return oldest;
}

static void rings_release(struct fp_sideband *sideband)
{
	size_t kept = 0;

	for (size_t i = 0; i < sideband->count; i++) {
		struct ring *ring = &sideband->rings[i];

		__atomic_store_n(&ring->page->data_tail, ring->tail, __ATOMIC_RELEASE);
		if (ring->gone && ring->tail == ring->head)
			ring_close(ring);
		else
			sideband->rings[kept++] = *ring;
	}
	sideband->count = kept;
}

// Notes how far each ring goes and lists those that hold something.
static size_t rings_snapshot(struct fp_sideband *sideband, struct ring **active, bool *ret_roomy)
{
	size_t count = 0;

	*ret_roomy = true;
	for (size_t i = 0; i < sideband->count; i++) {
		struct ring *ring = &sideband->rings[i];

		ring->head = __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE);
		if (ring->head - ring->tail + RECORD_BYTES_MAX > ring->size)
			*ret_roomy = false;
		if (ring_peek(ring, &sideband->lost))
			active[count++] = ring;
	}
	return count;
}

// What is younger than the cutoff stays for the next call: another ring, looked at earlier,
// may have got something older meanwhile, and a child's exec must never come before the
// fork that its parent made on another CPU.
int fp_sideband_read(struct fp_sideband *sideband, fp_event_fn fn, void *context,
		     uint64_t *ret_lost)
{
	FP_AUTOFREE struct ring **active = calloc(sideband->count + 1, sizeof(struct ring *));
	uint64_t cutoff_ns = fp_procfs_monotonic_ns();
	struct ring *ring;
	size_t count;
	bool roomy;
	int r = 0;

	if (!active)
		return -ENOMEM;
	count = rings_snapshot(sideband, active, &roomy);
	while (r >= 0 && (ring = ring_oldest(active, count, cutoff_ns))) {
		const struct perf_event_header *record = ring_record(ring, sideband->record);
		uint16_t size = record->size;
		struct fp_event event;

		if (fp_sideband_record_parse(record, &event, &sideband->lost))
			r = fn(&event, context);
		ring->tail += size;
		if (!ring_peek(ring, &sideband->lost))
			ring->next_ns = UINT64_MAX;
	}
	rings_release(sideband);
	if (r < 0)
		return r;
	if (roomy)
		sideband->sure_ns = cutoff_ns;
	*ret_lost = sideband->lost;
	sideband->lost = 0;
	return 0;
}
