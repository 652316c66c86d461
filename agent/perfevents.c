// SPDX-License-Identifier: Apache-2.0
#include "perfevents.h"

#include "common/clock.h"
#include "common/file.h"
#include "cpus.h"
#include "hotplug.h"
#include "privilege.h"

#include <errno.h>
#include <linux/capability.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

struct fp_perf_events {
	int program_fd;
	uint32_t hz;
	uint32_t sampled;
	struct fp_hotplug *hotplug;
	struct fp_cpus cpus; // scratch of sync
	int fds[FP_CPUS_MAX];
};

static uint32_t max_sample_rate(void)
{
	struct fp_buf text FP_AUTOBUF = {};
	uint32_t limit;

	if (fp_file_read("/proc/sys/kernel/perf_event_max_sample_rate", 64, &text) ||
	    fp_buf_byte(&text, 0))
		return UINT32_MAX;
	limit = (uint32_t)strtoul((const char *)text.data, NULL, 10);
	return limit ? limit : UINT32_MAX;
}

static int try_open(struct perf_event_attr *attr, uint32_t cpu)
{
	int fd = (int)syscall(SYS_perf_event_open, attr, -1, (int)cpu, -1, PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

// CPUs come back at any time, long after the daemon gave up what it does not need all the time.
int fp_perf_event_open(struct perf_event_attr *attr, uint32_t cpu)
{
	int fd = try_open(attr, cpu);
	uint64_t effective;

	// Who has it effective was refused for another reason, and keeps it.
	if (fd != -EACCES || fp_privilege_effective(&effective) ||
	    (effective & 1ULL << CAP_SYS_ADMIN))
		return fd;
	if (fp_privilege_admin(true))
		return fd;
	fd = try_open(attr, cpu);
	fp_privilege_admin(false);
	return fd;
}

// A period, not a frequency: it is the same to this event, but the kernel refuses frequencies
// above a limit that it lowers by itself ("interrupt took too long"), and then a CPU that
// comes back could not be sampled like the others.
static int open_event(uint32_t cpu, uint32_t hz, int program_fd)
{
	struct perf_event_attr attr = { .type = PERF_TYPE_SOFTWARE,
					.size = sizeof(attr),
					.config = PERF_COUNT_SW_CPU_CLOCK,
					.sample_period = FP_NS_PER_S / hz,
					.disabled = 1 };
	int fd FP_AUTOCLOSE = fp_perf_event_open(&attr, cpu);

	if (fd < 0)
		return fd;
	if (ioctl(fd, PERF_EVENT_IOC_SET_BPF, program_fd) || ioctl(fd, PERF_EVENT_IOC_ENABLE, 0))
		return -errno;
	return fp_take_fd(&fd);
}

static void let_go(struct fp_perf_events *events, uint32_t cpu)
{
	if (events->fds[cpu] < 0)
		return;
	fp_close_fd(&events->fds[cpu]);
	events->sampled--;
}

int fp_perf_events_sync(struct fp_perf_events *events)
{
	int error;

	// A CPU that leaves after this look is heard of at the next.
	fp_hotplug_look(events->hotplug);
	for (uint32_t cpu = 0; cpu < FP_CPUS_MAX; cpu++) {
		if (fp_hotplug_left(events->hotplug, cpu))
			let_go(events, cpu);
	}
	error = fp_cpus_read(&events->cpus);
	if (error)
		return error;
	for (uint32_t cpu = 0; cpu < FP_CPUS_MAX; cpu++) {
		if (!events->cpus.online[cpu])
			let_go(events, cpu);
		if (events->fds[cpu] >= 0 || !events->cpus.online[cpu])
			continue;
		int fd = open_event(cpu, events->hz, events->program_fd);

		if (fd == -ENODEV)
			continue; // went offline between the two looks
		if (fd < 0)
			return fd;
		events->fds[cpu] = fd;
		events->sampled++;
	}
	return (int)events->sampled;
}

static void free_events(struct fp_perf_events **events)
{
	fp_perf_events_free(*events);
	*events = NULL;
}

int fp_perf_events_open(int program_fd, uint32_t hz, struct fp_perf_events **ret, uint32_t *ret_hz)
{
	struct fp_perf_events *events FP_CLEANUP(free_events) = calloc(1, sizeof(*events));
	uint32_t limit = max_sample_rate();
	int result;

	if (!events)
		return -ENOMEM;
	for (uint32_t cpu = 0; cpu < FP_CPUS_MAX; cpu++)
		events->fds[cpu] = -1;
	events->program_fd = program_fd;
	events->hz = hz < limit ? hz : limit;
	result = fp_hotplug_open(&events->hotplug);
	if (result)
		return result;
	result = fp_perf_events_sync(events);
	if (result < 0)
		return result;
	*ret_hz = events->hz;
	*ret = fp_take_ptr(events);
	return 0;
}

void fp_perf_events_free(struct fp_perf_events *events)
{
	if (!events)
		return;
	for (uint32_t cpu = 0; cpu < FP_CPUS_MAX; cpu++)
		fp_close_fd(&events->fds[cpu]);
	fp_hotplug_free(events->hotplug);
	free(events);
}
