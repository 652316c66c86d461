// SPDX-License-Identifier: Apache-2.0
//
// questions: what others (agent/names.h) have to be asked before stacks can be resolved, asked as
// early as possible, since who could answer may be gone by the drain: the identity of a file
// when it is mapped, or when the first stack arrives from a process that has it mapped; a perf
// map to be opened when the first stack arrives from a process with code of no file, and to be kept
// as it is when the process ends or executes another program. A stack's
// arrival is also when its process is read, if it was not seen from its beginning, and when its
// walk is held against what was mapped (agent/unwind.h).
// Stage: between poll and resolve. Input: events and records, from the kernel. Ownership: keys of
// new records alone. Threads: one owner.
#pragma once

#include "records.h"
#include "resolve.h"
#include "sideband.h"
#include "unwind.h"

struct fp_new_record {
	struct fp_key key;
	uint32_t set;
};
struct fp_questions {
	struct fp_new_record *records; // arrived since fp_questions_ask_early
	size_t count, capacity;
	struct fp_unwind_source *unwind; // who is told of new records; NULL: nobody
};

void fp_questions_free(struct fp_questions *questions);
// A record has been put into the store. -ENOMEM.
int fp_questions_note(struct fp_questions *questions, const struct fp_stack_record *record);
// An event has been handed to the process table.
void fp_questions_event(const struct fp_resolver *resolver, const struct fp_event *event);
// Asks about the records that have arrived, and hands them to agent/unwind.h, which may cut them.
// Events up to their time have been handed in.
int fp_questions_ask_early(struct fp_questions *questions, struct fp_resolver *resolver,
			   struct fp_records *records);
// Asks all that the resolver will want to know of the record, JIT names included.
int fp_questions_ask(struct fp_resolver *resolver, const struct fp_stack_record *record);
