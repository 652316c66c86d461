// SPDX-License-Identifier: Apache-2.0
//
// facts: what the manifest keeps of one batch: its identity, its window, what it holds and
// which label sets occur in it. Derived from a decoded profile, the same way when a batch
// arrives and when the write-ahead log is read again.
// The label `host` of every set is the batch's host name, whatever the agent put there.
// Ownership: the struct owns its memory. Threads: none shared.
#pragma once

#include "proto/batch.h"
#include "wal.h"

#define FP_HASH_LEN   16
#define FP_HOST_LABEL "host"

struct fp_series_facts {
	uint8_t hash[FP_HASH_LEN]; // XXH3-128 of the canonical text
	uint32_t first, size;	   // canonical text in series_text: name NUL value NUL …, by name
};

struct fp_facts {
	uint8_t id[FP_BATCH_ID_LEN];
	uint8_t content[FP_HASH_LEN]; // XXH3-128 of the batch's bytes
	uint64_t received_ns;
	struct fp_wal_position position;
	char *host;
	uint8_t host_id[16];
	uint64_t start_ns, end_ns; // CLOCK_REALTIME
	uint64_t period_ns;
	uint64_t rows[FP_PROFILE_TYPES];    // sample rows of each type
	uint64_t samples[FP_PROFILE_TYPES]; // their counts, summed
	struct fp_series_facts *series;
	uint32_t series_count;
	struct fp_buf series_text;
};

void fp_facts_free(struct fp_facts *facts);
#define FP_AUTOFACTS FP_CLEANUP(fp_facts_free)
// position is left zero. Errors: -ENOMEM.
int fp_facts_derive(const struct fp_profile *profile, const void *bytes, size_t size,
		    uint64_t received_ns, struct fp_facts *ret_facts);
