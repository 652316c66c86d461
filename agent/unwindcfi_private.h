// SPDX-License-Identifier: Apache-2.0
//
// unwindcfi_private: what reading and running entries share. Private to agent/unwindcfi*.c.
// Trust, threads: as unwindcfi.h.
#pragma once

#include "unwindcfi.h"
#include "unwindcursor.h"

// A pointer of DW_EH_PE_* encoding; *ret_is_good becomes false for one that cannot be read.
uint64_t fp_cfi_pointer(struct fp_cursor *cursor, const struct fp_cfi_section *section,
			uint8_t encoding, bool *ret_is_good);
// Runs the common entry's program, which makes common->initial. False: it breaks the rules.
bool fp_cfi_run_common(const struct fp_cfi_section *section, const struct fp_cursor *program,
		       struct fp_cfi_common *common);
