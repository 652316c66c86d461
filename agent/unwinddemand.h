// SPDX-License-Identifier: Apache-2.0
//
// unwinddemand: which builds are to have unwind tables, and which have to go when room is short.
// Every build met in sampled stacks is wanted; those in which walks were seen to stop come first,
// then the hottest. Heat is the number of different stacks that the build was met in, halved every
// minute.
// When there is no room, those not seen for a minute make it, the longest unseen first, and then
// those that are far cooler than who wants it: four times, and sixteen times for five minutes after
// a build was itself evicted. So two working sets that alternate do not drive each other out: one
// stays. A table is left alone for a minute after it was loaded.
// What failed is remembered with its reason and tried again later, what cannot change not for an
// hour.
// Pure logic; time is handed in. Ownership: the demand owns builds and the names of their files.
// Cost: noting is constant; picking and evicting, linear in builds, happen once per table.
// Threads: one owner.
#pragma once

#include "names.h"
#include "proto/profile.h"
#include "unwindpool.h"

#define FP_UNWIND_BUILDS_MAX 8192u

struct fp_unwind_key { // what a table is of
	// 0: of whatever file has the identity and can be written by root alone. Else of this file
	// alone, which others can write: they could claim any identity.
	uint64_t device, inode;
	uint8_t kind, id_len; // as in struct fp_build
	uint8_t id[FP_BUILD_ID_MAX];
	uint8_t padding[6];
};

enum fp_unwind_state {
	FP_UNWIND_WAITING, // to be asked for
	FP_UNWIND_ASKED,
	FP_UNWIND_LOADED,
};

struct fp_unwind_build {
	struct fp_unwind_key key;
	bool used; // the slot
	enum fp_unwind_state state;
	enum fp_stop lack;	      // why it has none, unless LOADED
	struct fp_unwind_place place; // LOADED
	uint32_t refs;		      // who may still name it by its number
	uint32_t blocks;	      // that it takes of the pool; 0: not known
	uint32_t failures;	      // in a row
	double heat, stops;
	bool preload; // wanted without having been seen
	uint64_t seen_ns, loaded_ns, seen_stack;
	uint64_t retry_ns;	   // not before
	uint64_t held_ns;	   // evicted: until then only for something much hotter
	bool untrusted;		   // others than root can write files with this identity
	struct fp_names_file file; // where it was mapped last; the name is owned, NULL: nowhere
};

struct fp_unwind_demand;
int fp_unwind_demand_new(struct fp_unwind_demand **ret);
// Places are not given back to the pool.
void fp_unwind_demand_free(struct fp_unwind_demand *demand);
static inline void fp_unwind_demand_freep(struct fp_unwind_demand **demand)
{
	fp_unwind_demand_free(*demand);
	*demand = NULL;
}

// The number of the build, with one more reference; made when new. -ENOSPC: there are
// FP_UNWIND_BUILDS_MAX in use; -ENOMEM.
int fp_unwind_demand_take(struct fp_unwind_demand *demand, const struct fp_unwind_key *key,
			  uint32_t *ret_build);
void fp_unwind_demand_ref(struct fp_unwind_demand *demand, uint32_t number);
void fp_unwind_demand_give(struct fp_unwind_demand *demand, uint32_t number);
uint32_t fp_unwind_demand_count(const struct fp_unwind_demand *demand); // of numbers given
// Valid until the next take.
struct fp_unwind_build *fp_unwind_demand_at(struct fp_unwind_demand *demand, uint32_t number);
// Where its file can be had by now.
int fp_unwind_demand_place(struct fp_unwind_demand *demand, uint32_t number,
			   const struct fp_names_file *file);
// It was met in the stack of that number; counted once however often it is met there.
void fp_unwind_demand_note(struct fp_unwind_demand *demand, uint32_t number, uint64_t stack,
			   uint64_t now_ns);
// That stack ended in it, short of the outermost frame.
void fp_unwind_demand_stopped(struct fp_unwind_demand *demand, uint32_t number);
// Lets heat cool down. Call every some seconds.
void fp_unwind_demand_cool(struct fp_unwind_demand *demand, uint64_t now_ns);

#define FP_UNWIND_NONE UINT32_MAX
// The build to ask for next, or FP_UNWIND_NONE: not one that needs more than free_blocks.
uint32_t fp_unwind_demand_next(const struct fp_unwind_demand *demand, uint64_t free_blocks,
			       uint64_t now_ns);
void fp_unwind_demand_asked(struct fp_unwind_demand *demand, uint32_t number);
// What came of it. place is taken over.
void fp_unwind_demand_loaded(struct fp_unwind_demand *demand, uint32_t number,
			     const struct fp_unwind_place *place, uint64_t now_ns);
// -errno of the table's making or entering; -ENOSPC with the blocks that it needs.
void fp_unwind_demand_failed(struct fp_unwind_demand *demand, uint32_t number, int error,
			     uint32_t blocks, uint64_t now_ns);
// Who has to go so that the one who most wants room has it, or nobody: then that one waits. With
// excess_blocks, so much has to be freed first. At most FP_UNWIND_VICTIMS_MAX. Returns their number.
#define FP_UNWIND_VICTIMS_MAX 256u
uint32_t fp_unwind_demand_victims(struct fp_unwind_demand *demand, uint64_t free_blocks,
				  uint64_t excess_blocks, uint64_t now_ns,
				  uint32_t victims[FP_UNWIND_VICTIMS_MAX]);
// The place is the caller's to give back.
void fp_unwind_demand_evicted(struct fp_unwind_demand *demand, uint32_t number, uint64_t now_ns,
			      struct fp_unwind_place *ret_place);

struct fp_unwind_demand_stats {
	uint32_t builds, waiting, loaded;
	uint64_t evictions, no_room; // times that a table found no room
	uint64_t book_bytes;
};
void fp_unwind_demand_stats(const struct fp_unwind_demand *demand,
			    struct fp_unwind_demand_stats *ret);
