// SPDX-License-Identifier: Apache-2.0
//
// mapset: the executable mappings of one address space and what they replaced. Live
// mappings are sorted and do not overlap; what a newer mapping covers moves to the
// superseded ones with the time it ended, so that the set can be asked as of any time
// since the last prune.
// Sets are shared by reference counts; only a set with one reference may be changed.
// Ownership: the set owns its arrays and its references to files. Threads: one owner.
#pragma once

#include "process_files.h"

struct fp_superseded {
	struct fp_mapping mapping;
	uint64_t to_ns;
};

struct fp_mapset {
	uint32_t refs;
	bool complete;		// nothing that was mapped is missing
	bool failed;		// it is not complete and can never be any more
	bool awaits_executable; // after an exec: the next file mapped is the program
	bool sparse;		// too large to be held: live has what stacks asked for
	bool has_anon;		// of all that has been in it: fp_file_may_be_jit
	bool has_unidentified;	// a file without a build-ID
	uint32_t owner_tgid;	// the process that had it first, where it can be read
	uint32_t executable;	// file, or FP_FILES_NONE
	struct fp_mapping *live;
	uint32_t live_count, live_capacity;
	struct fp_superseded *old; // in order of to_ns
	uint32_t old_count, old_capacity;
	uint64_t newest_ns;  // no mapping is valid since later than this
	uint64_t read_ns;    // when it was last read from /proc; 0: never
	uint32_t read_tgid;  // of which process: one of those that share the set
	uint64_t since_ns;   // what was found then is taken to hold since
	uint32_t read_count; // live mappings then
	uint64_t dropped_ns; // sparse: what was held before is forgotten since then
	uint64_t stamp;	     // of what is live: never the same for two that differ; 0: nothing yet
};

// What sets have in common: the files, and a budget to count against.
struct fp_mapset_pool {
	struct fp_files files;
	uint64_t mappings; // live and superseded, over all sets
	uint64_t bytes;	   // of sets and their arrays
	uint64_t stamps;   // given so far
};

struct fp_mapset *fp_mapset_new(struct fp_mapset_pool *pool,
				uint32_t owner_tgid); // one reference; NULL: -ENOMEM
static inline struct fp_mapset *fp_mapset_ref(struct fp_mapset *set)
{
	set->refs++;
	return set;
}
void fp_mapset_unref(struct fp_mapset_pool *pool, struct fp_mapset *set);
struct fp_mapset *fp_mapset_clone(struct fp_mapset_pool *pool, const struct fp_mapset *set);

// Adds a mapping; takes over the caller's reference to its file, also on failure.
int fp_mapset_insert(struct fp_mapset_pool *pool, struct fp_mapset *set,
		     const struct fp_mapping *mapping);
// Makes the live mappings those of a complete reading at read_ns (sorted, not overlapping;
// the references to files are taken over). Mappings already known keep their from_ns, others
// hold since since_ns; known ones that the reading lacks ended. Where it has something else than
// what was known, the known is sure until since_ns and the other from read_ns on: what was
// there between is not guessed. Events of before the reading may be handed in after it: what it
// found in their place holds since the event, not earlier.
int fp_mapset_reconcile(struct fp_mapset_pool *pool, struct fp_mapset *set,
			struct fp_mapping *reading, uint32_t count, uint64_t since_ns,
			uint64_t read_ns);
// What is mapped at the address in a sparse set, found by asking: takes over the reference to the
// file, also on failure. Cut to what lies between mappings that are held.
int fp_mapset_fill_gap(struct fp_mapset_pool *pool, struct fp_mapset *set, uint64_t address,
		       const struct fp_mapping *mapping);
// Forgets the live mappings.
void fp_mapset_drop_live(struct fp_mapset_pool *pool, struct fp_mapset *set);
// Forgets all that is known of it: as new, but for who has it.
void fp_mapset_forget(struct fp_mapset_pool *pool, struct fp_mapset *set);
// Is a live mapping at the address, whenever it came?
bool fp_mapset_covers(const struct fp_mapset *set, uint64_t address);
// Forgets what ended before time_ns.
void fp_mapset_prune(struct fp_mapset_pool *pool, struct fp_mapset *set, uint64_t time_ns);

// The mappings valid at time_ns, sorted: the live array itself where that is right, else
// collected into scratch.
struct fp_mapset_scratch {
	struct fp_mapping *mappings;
	uint32_t capacity;
};
int fp_mapset_at(const struct fp_mapset *set, uint64_t time_ns, struct fp_mapset_scratch *scratch,
		 const struct fp_mapping **ret_mappings, uint32_t *ret_count);
