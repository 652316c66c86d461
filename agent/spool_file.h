// SPDX-License-Identifier: Apache-2.0
//
// spool_file: the 64 bytes before the batch in a spool file: what the shipper needs without
// parsing the batch, and the checksums that tell a whole file from a damaged one.
// Input of parse: a file that a crash, a full disk or another version may have left behind.
// Threads: no state.
#pragma once

#include "spool.h"

#define FP_SPOOL_HEADER_SIZE 64

struct fp_spool_header {
	uint32_t payload_size;
	uint64_t payload_hash; // XXH64
	uint8_t batch_id[FP_BATCH_ID_LEN];
	uint64_t samples; // sum of the samples' counts
	uint64_t start_boottime_ns, start_realtime_ns;
	uint32_t boot_tag; // XXH32 of the boot id: tells boots apart
};

uint32_t fp_spool_boot_tag(const uint8_t boot_id[16]);
uint64_t fp_spool_payload_hash(const uint8_t *payload, size_t size);
void fp_spool_header_write(const struct fp_spool_header *header,
			   uint8_t ret_bytes[FP_SPOOL_HEADER_SIZE]);
// -EBADMSG: not a header or damaged. -EPROTONOSUPPORT: of another version, to be left alone.
int fp_spool_header_parse(const uint8_t *bytes, size_t size, struct fp_spool_header *ret);
