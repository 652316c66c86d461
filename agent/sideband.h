// SPDX-License-Identifier: Apache-2.0
//
// sideband: what changed in processes, from the kernel: one dummy software perf event per
// CPU with mmap2|build_id|comm|comm_exec|task streams fork, exec, comm, mmap (executable
// ones) and exit, with the build-ID read by the kernel, stamped CLOCK_MONOTONIC like the
// stack records.
// Source: perf_event_open(2), PERF_RECORD_MMAP2/COMM/FORK/EXIT/LOST.
// Output: events in time order, trusted structure, foreign strings. Threads: one owner.
#pragma once

#include "common/buf.h"

enum fp_event_kind { FP_EVENT_FORK, FP_EVENT_EXEC, FP_EVENT_COMM, FP_EVENT_MMAP, FP_EVENT_EXIT };

struct fp_event {
	enum fp_event_kind kind;
	uint64_t time_ns; // CLOCK_MONOTONIC
	uint32_t tgid, tid;
	uint32_t parent_tgid; // FORK
	// MMAP
	uint64_t start, length, page_offset; // page_offset in bytes
	uint32_t protection, flags;
	uint32_t major, minor; // when the kernel gave no build-ID
	uint64_t inode;
	uint8_t build_id[20];
	uint8_t build_id_len; // 0: none
	const char *name;     // MMAP: file name; COMM/EXEC: thread name; valid in the callback
};

struct fp_sideband;
typedef int (*fp_event_fn)(const struct fp_event *event, void *context);

// 8 MiB at most over all CPUs, as long as a ring stays useful.
uint32_t fp_sideband_default_ring_bytes(void);
// ring_bytes per CPU (power of two of pages; 0: default). The descriptor becomes readable with every
// wake_bytes that a CPU adds, or half a ring; 0: default. Errors: -errno of perf_event_open/mmap.
int fp_sideband_open_waking(uint32_t ring_bytes, uint32_t wake_bytes, struct fp_sideband **ret);
static inline int fp_sideband_open(uint32_t ring_bytes, struct fp_sideband **ret)
{
	return fp_sideband_open_waking(ring_bytes, 0, ret);
}
void fp_sideband_free(struct fp_sideband *sideband);
static inline void fp_sideband_freep(struct fp_sideband **sideband)
{
	fp_sideband_free(*sideband);
	*sideband = NULL;
}
int fp_sideband_fd(const struct fp_sideband *sideband); // epoll fd
// Takes everything out of the rings and hands it out in time order over all CPUs.
// Returns 0 or -errno; *ret_lost gets the number of records the kernel says it lost.
int fp_sideband_read(struct fp_sideband *sideband, fp_event_fn fn, void *context,
		     uint64_t *ret_lost);
// Nothing that happened until then is missing in what has been handed out, but for records
// reported as lost: the kernel tells of a loss only with the next record that fits, so that
// after a ring was found full, nothing is sure until the next reading.
uint64_t fp_sideband_sure_until(const struct fp_sideband *sideband);
uint64_t fp_sideband_ring_bytes(const struct fp_sideband *sideband); // kernel memory of the rings
// Opens the CPUs that came online or left and came back (agent/hotplug.h) since the last call,
// lets go of those that left; what their rings hold is still read. Number of CPUs or -errno.
int fp_sideband_sync_cpus(struct fp_sideband *sideband);
