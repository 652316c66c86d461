// SPDX-License-Identifier: Apache-2.0
//
// process: the table of process instances and what they have mapped when. Fed by the
// side-band in time order; processes that ran before it are read lazily, the first time a
// stack of theirs is resolved (PROCMAP_QUERY where the kernel has it, else /proc/PID/maps).
// An instance is {tgid, start time}; every exec begins a new generation in it. Mapping sets
// are shared between parent and child after fork and copied on the first change.
// Exited instances that no stack was asked about leave with fp_process_table_retire_unwanted,
// the others with fp_process_table_retire, which the session calls after the epoch in which
// they ended has been resolved.
// Memory is bounded. What goes first when it is short: ended instances without a stack that
// waits (nothing is lost); then running ones, the least recently used first (read again from
// /proc when asked about); last ended ones whose stacks wait, oldest first (their frames become
// explained exceptions), but these before running ones where they are the majority. Never the
// one in use; all are counted. An address space of more than
// FP_PROCESS_MAPPINGS_MAX mappings is not held: only the mappings that stacks ask for are looked
// up, one by one, while the process runs.
// Trust: structure from the kernel; names foreign. Threads: one owner.
#pragma once

#include "bpf/abi.h"
#include "sideband.h"

struct fp_mapping {
	uint64_t start, end;
	uint64_t page_offset; // bytes
	uint32_t file;	      // index into the table's files
	uint64_t from_ns;     // CLOCK_MONOTONIC, valid since
};

enum fp_file_kind { FP_FILE_REGULAR, FP_FILE_VDSO, FP_FILE_ANON, FP_FILE_OTHER };
struct fp_file { // once per table: build-ID and name, or device, inode and name without one
	enum fp_file_kind kind;
	uint8_t build_id[20];
	uint8_t build_id_len; // 0: none known
	uint64_t device, inode;
	char *name;
};

struct fp_process_table;
struct fp_process_limits {
	uint32_t processes; // live and recently exited instances; 0: 65536
	uint32_t mappings;  // over all distinct sets; 0: 1,000,000
	uint64_t bytes;	    // of memory for all of it; 0: FP_PROCESS_BYTES_DEFAULT
};
#define FP_PROCESS_BYTES_DEFAULT ((uint64_t)16 << 20)
// Of one address space. Reading as many takes 30 ms on Linux 6.18 (7.6 us each).
#define FP_PROCESS_MAPPINGS_MAX 4096u

// What was let go of before its time. X(identifier, metric label, text)
#define FP_PROCESS_EVICTIONS(X)                                                                    \
	X(ENDED, "ended", "ended instances that no stack was asked about")                         \
	X(RUNNING, "running", "running instances, to be read again when asked about")              \
	X(WAITING, "waiting", "ended instances whose stacks were not resolved yet")                \
	X(PROGRAM, "program", "earlier programs of instances that exec in a loop")                 \
	X(MAPPINGS, "mappings", "address spaces with too many mappings to be held")
#define FP_PROCESS_EVICTION_ENUM(id, label, text) FP_EVICTED_##id,
enum fp_process_eviction { FP_PROCESS_EVICTIONS(FP_PROCESS_EVICTION_ENUM) FP_EVICTED_COUNT };

struct fp_process_stats { // for metrics and quality
	uint64_t processes, mappings, files, bytes;
	uint64_t events, lazy_reads, lazy_failed;
	uint64_t lookups; // single addresses asked of the kernel
	uint64_t evicted[FP_EVICTED_COUNT];
	uint64_t mappings_no_build_id; // file mappings seen without a build-ID
};

int fp_process_table_new(const struct fp_process_limits *limits, struct fp_process_table **ret);
void fp_process_table_free(struct fp_process_table *table);
static inline void fp_process_table_freep(struct fp_process_table **table)
{
	fp_process_table_free(*table);
	*table = NULL;
}
int fp_process_table_event(struct fp_process_table *table, const struct fp_event *event);
// Called after a process has been read lazily, so that the owner of the side-band can hand in
// what it has received meanwhile: an exec between the last event and the reading would
// otherwise give the old program's stack the new program's mappings. Optional.
void fp_process_table_set_catch_up(struct fp_process_table *table, int (*fn)(void *context),
				   void *context);
// Reads a running process at once, so that its stacks have mappings even if it ends before
// the first of them is resolved (a snapshot of one process does this first). -ESRCH: none.
int fp_process_table_preload(struct fp_process_table *table, uint32_t tgid);
// All events until time_ns have been handed in, but those told of with fp_process_table_lost.
void fp_process_table_settle(struct fp_process_table *table, uint64_t time_ns);
// Records that the kernel lost, since the table was settled. Call before it is settled again: with the
// first time later than before, the loss is over. No stack from between the two times is given
// mappings, since any may have given way to another unseen. Those from after it are, if the instance
// is read again while it runs, or executes a program; older ones as before.
void fp_process_table_lost(struct fp_process_table *table);
// Lets go of instances that ended before time_ns and were never asked about. No stack of theirs
// may still be on its way.
void fp_process_table_retire_unwanted(struct fp_process_table *table, uint64_t time_ns);
// Lets go of all instances that ended before time_ns.
void fp_process_table_retire(struct fp_process_table *table, uint64_t time_ns);
void fp_process_table_stats(const struct fp_process_table *table, struct fp_process_stats *ret);

struct fp_process_view { // what one stack record needs; valid until the next table call
	const struct fp_mapping *mappings; // sorted by start
	uint32_t count;
	const struct fp_file *files;
	const char *executable;	  // base name of the executable, "" when unknown
	uint32_t executable_file; // its file index, or UINT32_MAX
	uint32_t parent_tgid;	  // 0: not known
	uint64_t exec_ns;	  // when the generation began; 0: before we looked
	uint64_t stamp; // the same in two views of one table: the same mappings; 0: not to be told
	bool has_anon;	// some executable mapping belongs to no file: JIT names may exist
	bool has_unidentified; // some file has no build-ID from the kernel
	bool partial; // too many mappings to be held: an address that none covers may have one
};
// What kind of memory a mapping name of the kernel stands for.
enum fp_file_kind fp_file_kind_of(const char *name);
// Could what is mapped be JITed code? Memory of no file, or of one that exists in memory alone
// and has no build-ID.
bool fp_file_may_be_jit(const struct fp_file *file);
// What the view has at the address; NULL: nothing.
const struct fp_mapping *fp_process_view_at(const struct fp_process_view *view, uint64_t address);
// What names an instance to others (agent/names.h), as far as events tell: that its mappings
// changed, before any stack of it came. False when no stack told its start time yet.
bool fp_process_table_instance(const struct fp_process_table *table, uint32_t tgid,
			       uint64_t *ret_start_ns, uint64_t *ret_exec_ns);
// Whether the last instance of the tgid runs, as far as events tell.
bool fp_process_table_runs(const struct fp_process_table *table, uint32_t tgid);
// Whether it has ended. Neither is true where the tgid is not known.
bool fp_process_table_has_ended(const struct fp_process_table *table, uint32_t tgid);
// The instance and generation that the record was taken in; an instance asked about is kept
// until fp_process_table_retire. -ESRCH: never seen and gone, or what it had mapped then is not known
// for sure after a loss.
int fp_process_table_view(struct fp_process_table *table, const struct fp_stack_record *record,
			  struct fp_process_view *ret);
// What a running instance has mapped now, as far as it is known for sure without reading /proc.
// start_ns and exec_id as in its stack records; both 0: the newest instance of the tgid. -ESRCH: it
// is not known, has ended, runs another program by now, or is to be read again.
int fp_process_table_view_now(struct fp_process_table *table, uint32_t tgid, uint64_t start_ns,
			      uint32_t exec_id, struct fp_process_view *ret);
