// SPDX-License-Identifier: Apache-2.0
//
// unwindrule: a state of call frame information → the rule by which the walker steps to the
// caller, and the set of a table's distinct rules. A state that no rule says exactly becomes a
// rule that says why it cannot be walked, never one that is nearly right.
// Private to agent/unwind*. Trust: states are of foreign bytes. Ownership: the set owns its
// memory. Threads: none shared.
#pragma once

#include "unwindcfi.h"

#include "bpf/abi.h"
#include "common/hashmap.h"

#define FP_UNWIND_TABLE_RULES_MAX 65536u // of one table: numbers have 16 bits

// is_signal: of the common entry. NULL: the entry breaks the format's rules.
struct fp_unwind_rule fp_unwind_rule_of(const struct fp_cfi_state *state, bool is_signal);
struct fp_unwind_rule fp_unwind_rule_cannot(enum fp_unwind_cannot reason);

struct fp_unwind_rules {
	struct fp_hashmap by_rule;    // struct fp_unwind_rule → uint32_t number
	struct fp_unwind_rule *rules; // by number
	uint32_t count, capacity;
	uint32_t last; // number that was asked for last: neighbours are often alike
};

// Number 0 is FP_UNWIND_GAP. -ENOMEM.
int fp_unwind_rules_init(struct fp_unwind_rules *set);
void fp_unwind_rules_free(struct fp_unwind_rules *set);
#define FP_AUTOUNWINDRULES FP_CLEANUP(fp_unwind_rules_free)
// The rule's number. A set that is full first forgets where rbx is, then gives the number of
// FP_UNWIND_CANNOT_RULES_FULL. -ENOMEM.
int fp_unwind_rules_number(struct fp_unwind_rules *set, const struct fp_unwind_rule *rule,
			   uint16_t *ret_number);
