// SPDX-License-Identifier: Apache-2.0
//
// sideband_record: one perf record → one event. Apart from sideband.c so that it can be
// tested with bytes.
// Source: perf_event_open(2), PERF_RECORD_MMAP2/COMM/FORK/EXIT/LOST, each followed by the
// sample_id of sample_type TID|TIME: pid, tid, time.
// Trust: layout from the kernel, but sizes are checked. Threads: no state.
#pragma once

#include "sideband.h"

#include <linux/perf_event.h>

// CLOCK_MONOTONIC of any record of at least FP_SIDEBAND_RECORD_MIN bytes.
#define FP_SIDEBAND_RECORD_MIN (sizeof(struct perf_event_header) + 16)
static inline uint64_t fp_sideband_record_time(const struct perf_event_header *record)
{
	return *(const uint64_t *)((const uint8_t *)record + record->size - 8);
}

// 1: *ret is an event whose name points into the record. 0: the record is none of ours; a
// LOST record adds to *lost. The record is 8-byte aligned and whole.
int fp_sideband_record_parse(const struct perf_event_header *record, struct fp_event *ret,
			     uint64_t *lost);
