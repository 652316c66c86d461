// SPDX-License-Identifier: Apache-2.0
//
// unwind: unwind tables for the BPF walker, from demand to maps. Which builds get tables
// (agent/unwinddemand.h), where these lie (agent/unwindpool.h), which processes have them mapped
// where (agent/unwindranges.h), and the glue to the maps that the programs read.
// One serves all sessions of a program, one after the other or at once: their programs share the
// maps, so that a snapshot finds what the host's session has loaded, and a reload loses nothing.
// Stage: beside drain and resolve. Input: stack records, mappings, tables made by the symbols role
// (foreign: checked as they are entered). Output: maps; records cut where their walk cannot be
// believed.
// Cost: a record costs a look-up per frame, a change of a process's mappings some microseconds, a
// table its copying. What goes through all builds or processes happens once per table.
// Threads: one owner; nothing here blocks.
#pragma once

#include "names.h"
#include "process.h"
#include "sampler.h"
#include "sideband.h"

#include <stdbool.h>

#define FP_UNWIND_MEMORY_DEFAULT ((uint64_t)64 << 20)
#define FP_UNWIND_MEMORY_MIN	 ((uint64_t)16 << 20)
#define FP_UNWIND_MEMORY_MAX	 ((uint64_t)80 << 20) // all chunks, and some

struct fp_unwind;

// Makes the maps. names: who makes the tables; outlives it. memory_bytes bounds maps and books
// together. Errors: -errno of bpf(2), -ENOMEM.
int fp_unwind_open(struct fp_names *names, uint64_t memory_bytes, struct fp_unwind **ret);
void fp_unwind_free(struct fp_unwind *unwind); // after all samplers that have its maps
static inline void fp_unwind_freep(struct fp_unwind **unwind)
{
	fp_unwind_free(*unwind);
	*unwind = NULL;
}
void fp_unwind_set_memory(struct fp_unwind *unwind, uint64_t memory_bytes);
// Gives up all tables and forgets all processes. Waits for a grace period of the kernel.
void fp_unwind_empty(struct fp_unwind *unwind);
const struct fp_unwind_maps *fp_unwind_maps(const struct fp_unwind *unwind);

// ---- what a session tells ----

struct fp_unwind_source {	  // a session, as the one that knows about processes
	struct fp_unwind *unwind; // NULL: without tables
	struct fp_process_table *processes;
	uint32_t tgid; // the one process, or 0
};
void fp_unwind_source_end(struct fp_unwind_source *source); // the process table goes

// The process table has taken the event.
void fp_unwind_event(struct fp_unwind_source *source, const struct fp_event *event);
// A record has arrived and its process is known; stamp: of the view that it was taken in. Sees to
// it that the process has ranges, notes the builds that it met, says in the record why its walk
// stopped, and cuts off the frames that a table of something else found. -ENOMEM.
int fp_unwind_record(struct fp_unwind_source *source, struct fp_stack_record *record,
		     uint64_t stamp);
// The process is the only one that counts: its builds' tables are wanted at once. True: some files'
// identities are still to come; call again.
bool fp_unwind_preload(struct fp_unwind_source *source, uint32_t tgid);
// Whether some of the tables are still to come.
bool fp_unwind_preloading(const struct fp_unwind_source *source);
// After events and records: brings the ranges of changed processes up to date, learns of files that
// programs of ours have met, asks for the next table. sure_ns: no event until then is missing. Call
// at every turn.
void fp_unwind_turn(struct fp_unwind_source *source, uint64_t sure_ns);
// Before the epoch is switched: removes what has to make room. After it, and only if every program
// run from before has ended: what was removed is room.
void fp_unwind_make_room(struct fp_unwind *unwind);
void fp_unwind_take_room(struct fp_unwind *unwind);

// ---- books ----

struct fp_unwind_stats {	   // for metrics and status; sums unless said otherwise
	uint64_t bytes, bytes_max; // now: maps and books; the bound
	uint64_t rows;		   // now, like what follows up to processes
	uint32_t tables, builds, waiting, rules, pages;
	uint32_t processes, ranges; // with ranges; entries of these in the map
	uint64_t asked, loaded, failed[FP_STOP_COUNT], evicted, no_room;
	uint64_t asked_ns; // from asking to having
	uint64_t versions; // of ranges written
	uint64_t processes_evicted, ranges_failed;
	uint64_t records;		  // that came
	uint64_t records_by_table;	  // with frames found by table
	uint64_t records_cut, frames_cut; // since other code was there than the ranges said
};
void fp_unwind_stats(const struct fp_unwind *unwind, struct fp_unwind_stats *ret);
