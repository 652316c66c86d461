// SPDX-License-Identifier: Apache-2.0
//
// clock: nanosecond clocks. Monotonic is what BPF and the side-band stamp (it stops in
// suspend); boottime measures ages and windows; realtime is only for people and the wire.
#pragma once

#include <stdint.h>
#include <time.h>

#define FP_NS_PER_S  1000000000ULL
#define FP_NS_PER_MS 1000000ULL

static inline uint64_t fp_clock_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * FP_NS_PER_S + (uint64_t)ts.tv_nsec;
}

static inline uint64_t fp_monotonic_ns(void)
{
	return fp_clock_ns(CLOCK_MONOTONIC);
}
static inline uint64_t fp_boottime_ns(void)
{
	return fp_clock_ns(CLOCK_BOOTTIME);
}
static inline uint64_t fp_realtime_ns(void)
{
	return fp_clock_ns(CLOCK_REALTIME);
}
