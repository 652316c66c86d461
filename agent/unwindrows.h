// SPDX-License-Identifier: Apache-2.0
//
// unwindrows: the rows of a table while it is made: from which file offset on which rule holds.
// Behind the last row of a finished list nothing is known, so that is a row of rule 0 (gap).
// Private to agent/unwind*. Ownership: the struct owns its arrays. Threads: none shared.
#pragma once

#include "common/cleanup.h"

#include <stddef.h>
#include <stdint.h>

struct fp_unwind_rows {
	uint32_t *offsets; // rising strictly
	uint16_t *rule_of; // neighbours differ; the first is not 0
	size_t count, capacity;
};

void fp_unwind_rows_free(struct fp_unwind_rows *rows);
#define FP_AUTOUNWINDROWS FP_CLEANUP(fp_unwind_rows_free)
// offset: not below the last row's; equal to it, the row is replaced. -EFBIG: more rows than a
// table may have; -ENOMEM.
int fp_unwind_rows_add(struct fp_unwind_rows *rows, uint32_t offset, uint16_t rule);
// Bytes from the offset on of which a finished list knows nothing; 0: there is a rule.
uint32_t fp_unwind_rows_gap(const struct fp_unwind_rows *rows, uint32_t offset);
// What `below` knows where `above` has gaps. Both lists are finished, and emptied.
int fp_unwind_rows_lay(struct fp_unwind_rows *above, struct fp_unwind_rows *below,
		       struct fp_unwind_rows *ret);
