// SPDX-License-Identifier: Apache-2.0
//
// unwind_private: the inside of unwind, shared by unwind.c (tables: asked for, entered, evicted),
// unwind_maps.c (the maps), unwind_process.c (processes and their ranges), unwind_files.c (files as
// the kernel knows them), unwind_areas.c (what code a process has mapped) and unwind_record.c (what
// records tell).
// Threads: one owner.
#pragma once

#include "common/hashmap.h"
#include "unwind.h"
#include "unwinddemand.h"
#include "unwindpool.h"
#include "unwindranges.h"
#include "unwindtable.h"

#include <sys/queue.h>

// What code a process had mapped at some time and which of it had tables: what a walk went by.
struct fp_unwind_version {
	STAILQ_ENTRY(fp_unwind_version) later; // of those that hold no longer
	uint32_t number, tgid;
	uint64_t until_ns; // monotonic; when it was replaced
	const struct fp_unwind_source *source;
	uint64_t stamp;	      // of the mappings in the source's process table
	uint64_t ranges_hash; // of what was written
	uint32_t ranges;
	uint32_t count;
	struct fp_unwind_area areas[];
};
STAILQ_HEAD(fp_unwind_versions, fp_unwind_version);

struct fp_unwind_process {
	TAILQ_ENTRY(fp_unwind_process) by_use;
	TAILQ_ENTRY(fp_unwind_process) changes;
	uint32_t tgid, exec_id;
	// 0: it has just begun, and no stack has told them yet.
	uint64_t start_ns, start_boottime_ns;
	uint64_t since_ns;		       // of its exec, or of the first stack
	const struct fp_unwind_source *source; // who knows its mappings; NULL: gone
	bool changed;	   // in the list of those whose mappings are to be looked at
	bool unidentified; // some file's identity was not known yet
	uint64_t looked_ns;
	struct fp_unwind_version *version; // in force; NULL: none yet
	uint32_t parts;			   // in the map
};
TAILQ_HEAD(fp_unwind_process_list, fp_unwind_process);
TAILQ_HEAD(fp_unwind_known_list, fp_unwind_known);

struct fp_unwind {
	struct fp_names *names;
	uint64_t memory_bytes;
	struct fp_unwind_maps maps;
	int chunk_template;
	struct fp_unwind_memory memory;
	struct fp_unwind_pool *pool;
	struct fp_unwind_demand *demand;
	uint32_t asking; // build, or FP_UNWIND_NONE
	bool asking_by_path;
	uint64_t asked_ns, now_ns;

	struct fp_hashmap processes; // tgid → struct fp_unwind_process *
	struct fp_unwind_process_list by_use, changes;
	uint32_t parts; // in the map, of all
	uint32_t last_version;
	struct fp_hashmap versions; // number → struct fp_unwind_version *
	struct fp_unwind_versions past;
	uint64_t version_bytes, past_bytes;		     // of all; of those that hold no longer
	struct fp_unwind_range ranges[FP_UNWIND_RANGES_MAX]; // scratch

	struct fp_hashmap files; // struct fp_unwind_file_key → struct fp_unwind_known *
	struct fp_unwind_known_list known, nameless; // those without a build
	struct fp_unwind_stats stats;
};

// unwind_maps. Makes the maps and the memory of the pool.
int fp_unwind_maps_open(struct fp_unwind *unwind);
void fp_unwind_maps_close(struct fp_unwind *unwind);
uint64_t fp_unwind_maps_bytes(const struct fp_unwind *unwind); // of the fixed ones
uint64_t fp_unwind_chunk_bytes(void);			       // of one chunk's map
int fp_unwind_maps_put(const struct fp_unwind *unwind, uint32_t tgid, uint32_t part,
		       const struct fp_unwind_ranges *ranges);
void fp_unwind_maps_drop(const struct fp_unwind *unwind, uint32_t tgid, uint32_t part);

// unwind_areas. What the process has mapped by the view, in areas whose builds each have one more
// reference. *ret_pending: some identity is still to come. -ENOMEM.
int fp_unwind_areas(struct fp_unwind *unwind, uint32_t tgid, const struct fp_process_view *view,
		    struct fp_unwind_version **ret, bool *ret_pending);

// unwind_process. The process's ranges are made again of what it has mapped by the view.
struct fp_unwind_process *fp_unwind_process_of(struct fp_unwind *unwind, uint32_t tgid);
int fp_unwind_process_add(struct fp_unwind_source *source, const struct fp_stack_record *record,
			  struct fp_unwind_process **ret);
// A program has begun under the tgid. It is the first to go for another.
int fp_unwind_process_begin(struct fp_unwind_source *source, uint32_t tgid, uint64_t time_ns);
// Its first stack has come.
int fp_unwind_process_met(struct fp_unwind *unwind, struct fp_unwind_process *process,
			  const struct fp_stack_record *record);
static inline bool fp_unwind_process_is_new(const struct fp_unwind_process *process)
{
	return process->start_ns == 0;
}
void fp_unwind_process_remove(struct fp_unwind *unwind, struct fp_unwind_process *process);
void fp_unwind_process_touch(struct fp_unwind *unwind, struct fp_unwind_process *process);
void fp_unwind_process_changed(struct fp_unwind *unwind, struct fp_unwind_process *process);
// Looks at its mappings anew.
int fp_unwind_process_look(struct fp_unwind *unwind, struct fp_unwind_process *process);
void fp_unwind_processes_look(struct fp_unwind_source *source); // at all that have changed
// Whether its mappings are not those of the stamp, or not all known yet.
bool fp_unwind_process_is_stale(const struct fp_unwind_process *process, uint64_t stamp);
// A build's table has come or gone, or it is known by another number: all who have it mapped.
void fp_unwind_processes_write(struct fp_unwind *unwind, uint32_t build);
void fp_unwind_processes_forget(struct fp_unwind *unwind, uint32_t build);

// unwind_files. Looks at what programs of ours have met until sure_ns.
void fp_unwind_files_init(struct fp_unwind *unwind);
void fp_unwind_files_meet(struct fp_unwind_source *source, uint64_t sure_ns);
void fp_unwind_files_write(struct fp_unwind *unwind, uint32_t build); // as processes_write
void fp_unwind_files_forget(struct fp_unwind *unwind, uint32_t build);
void fp_unwind_files_forget_tag(struct fp_unwind *unwind, uint16_t tag); // of the build's table
void fp_unwind_files_empty(struct fp_unwind *unwind);
uint64_t fp_unwind_files_bytes(const struct fp_unwind *unwind); // of books

void fp_unwind_versions_expire(struct fp_unwind *unwind, uint64_t now_ns);
void fp_unwind_version_free(struct fp_unwind *unwind, struct fp_unwind_version *version);
const struct fp_unwind_version *fp_unwind_version_of(struct fp_unwind *unwind, uint32_t number);
