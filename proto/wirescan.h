// SPDX-License-Identifier: Apache-2.0
//
// wirescan: a walk over the bytes of a Batch message before protobuf-c unpacks it. The
// unpacker allocates for every field it meets and for every element of a packed column; the
// scan makes sure beforehand that this stays in proportion: every field stands once, the
// number of fields (unknown ones too) has a bound, columns are packed, and no column has
// more elements than its limit.
// Input: hostile bytes, read in place. Threads: no state.
#pragma once

#include "batch.h"

// 0, -EBADMSG or -EMSGSIZE; then *ret_reason is a static sentence.
int fp_wire_scan(const uint8_t *bytes, size_t size, const struct fp_batch_limits *limits,
		 const char **ret_reason);
