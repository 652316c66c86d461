// SPDX-License-Identifier: Apache-2.0
//
// spool_state: the handle behind spool.h, shared by the files that implement it.
#pragma once

#include "spool_index.h"

#include <time.h>

#define FP_SPOOL_FILE_MODE     0640 // the group decides who ships; others see nothing
#define FP_SPOOL_SEQUENCE_FILE "sequence"
#define FP_SPOOL_LIMIT_FILE    "batch-limit"
#define FP_SPOOL_QUARANTINE    "quarantine"
#define FP_SPOOL_SYMBOLS       "symbols"
#define FP_SPOOL_WANTED	       "wanted" // below symbols

struct fp_spool {
	int fd, quarantine_fd, symbols_fd, wanted_fd;
	struct timespec wanted_seen; // the directory's time of change at the last look
	struct fp_spool_limits limits;
	struct fp_spool_index index;
	uint64_t next_sequence;
	uint64_t reserved_sequence; // everything below may be used without asking the disk
	uint64_t dropped_batches[FP_SPOOL_DROP_COUNT], dropped_samples[FP_SPOOL_DROP_COUNT];
};

void fp_spool_count_drop(struct fp_spool *spool, enum fp_spool_drop reason, uint64_t samples);
// Unlinks the entry and counts it, unless the other process was faster.
void fp_spool_drop_entry(struct fp_spool *spool, size_t position, enum fp_spool_drop reason);
// Makes sure that no later start hands out `sequence` again. 0 or -errno.
int fp_spool_reserve(struct fp_spool *spool, uint64_t sequence);
