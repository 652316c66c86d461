// SPDX-License-Identifier: Apache-2.0
//
// perfevents: one sampling perf event per online CPU with a BPF program on it. A CPU that
// goes offline takes its event with it for good, so every so often the set is compared with
// the online CPUs and with what hotplug.h heard of those that left, and mended.
// Source: perf_event_open(2); PERF_COUNT_SW_CPU_CLOCK is an hrtimer of fixed period 1e9/Hz.
#pragma once

#include <stdint.h>

struct fp_perf_events;

// hz (at least 1) is clamped to kernel.perf_event_max_sample_rate as it is now; *ret_hz is what
// the kernel got, and what CPUs that come later get.
// Errors: -errno of perf_event_open or of attaching the program.
int fp_perf_events_open(int program_fd, uint32_t hz, struct fp_perf_events **ret, uint32_t *ret_hz);
void fp_perf_events_free(struct fp_perf_events *events); // stops sampling
// perf_event_open(2) for all processes on one CPU, here and in sideband.c. Some kernels want
// CAP_SYS_ADMIN for it (privilege.h): where it is permitted it becomes effective for this one
// call. A descriptor or -errno.
struct perf_event_attr;
int fp_perf_event_open(struct perf_event_attr *attr, uint32_t cpu);
// Number of CPUs sampled afterwards, or -errno.
int fp_perf_events_sync(struct fp_perf_events *events);
