// SPDX-License-Identifier: Apache-2.0
//
// walrecord: the bytes of a write-ahead log, shared by its writer (wal.c) and its readers
// (walread.c). Not for other files.
#pragma once

#include "wal.h"

#define FP_WAL_MAGIC	    "FPWAL1\n"	// with its NUL: FP_WAL_MAGIC_BYTES
#define FP_WAL_RECORD_MAGIC 0x31525046u // "FPR1"
#define FP_WAL_NAME_BYTES   25
// No record is larger: a size field beyond it is damage, and is not allocated for.
#define FP_WAL_BODY_MAX (1024u * 1024 * 1024)

void fp_wal_segment_name(uint64_t segment, char ret_name[FP_WAL_NAME_BYTES]);
void fp_wal_header_encode(const void *body, uint32_t size, uint64_t received_ns,
			  uint8_t ret_header[FP_WAL_HEADER_BYTES]);
