// SPDX-License-Identifier: Apache-2.0
//
// process_table: the inside of the process table, shared by its files: process.c (instances and
// lookup), process_limit.c (what goes when), process_event.c (what events do), process_read.c
// (reading /proc), process_sparse.c (address spaces too large to be held), process_lost.c (what is
// no longer known once events were lost) and process_view.c (the instance of a stack record).
// Ownership: the table owns instances, an instance its generations, a generation one
// reference to its mapping set. Threads: one owner.
#pragma once

#include "mapset.h"

struct fp_generation {	  // between two execs, or losses of events
	uint64_t from_ns; // 0: since the instance began
	uint64_t exec_ns; // when its program began; 0: with the instance, or before we looked
	struct fp_mapset *set;
	uint32_t exec_id;
	bool exec_id_known;
	bool after_loss; // it may be another program than the generation before, or the same
};

struct fp_process_list;

struct fp_process {
	struct fp_process *older;	    // the same tgid before, or found out about later
	struct fp_process *previous, *next; // in list
	struct fp_process_list *list;	    // table's running, ended or waiting
	uint32_t tgid, parent_tgid;
	uint32_t threads;	 // running, when counted
	uint64_t counted_losses; // table's losses when threads was right; UINT64_MAX: never
	uint64_t known_losses;	 // table's losses that the newest generation takes account of
	uint64_t start_ns;	 // of the stack records that are its own; 0: none came yet
	uint64_t start_ticks;	 // the same as /proc/PID/stat shows it; 0: not known
	uint64_t fork_ns;	 // of the FORK event; 0: not seen
	uint64_t seen_ns;	 // it was running then
	uint64_t exit_ns;	 // 0: runs
	uint32_t turn;		 // table's turn when it was last touched
	bool wanted;		 // a stack was asked about in this turn or the one before
	bool overgrown;		 // it has far more mappings than can be there: to be read again
	struct fp_generation *generations; // oldest first, at least one
	uint32_t count, capacity;
};

struct fp_process_list {
	struct fp_process *first, *last;
	uint32_t count;
};

// A poll reports one loss at most, and polls are 8 ms apart or more: two seconds of losses. What was
// known of a process before an older one is given up.
#define FP_LOSSES_KNOWN 256u

struct fp_process_table {
	struct fp_process_limits limits;
	uint32_t file_limit;
	struct fp_hashmap index; // tgid → struct fp_process *, the one that runs or ran last
	struct fp_process_list running; // least recently used first
	struct fp_process_list ended;	// nobody asked about; in order of exit_ns
	struct fp_process_list waiting; // ended, with stacks to be resolved; likewise
	struct fp_process *in_use;	// not to be evicted
	uint32_t turn;			// retires so far
	uint64_t forgotten_ns; // evicted running instances changed until then, as far as known
	struct fp_mapset_pool pool;
	struct fp_mapset_scratch scratch;
	struct fp_process_stats stats;
	uint64_t losses;			 // times that the kernel lost events
	uint64_t loss_since_ns[FP_LOSSES_KNOWN]; // by number of the loss: it is younger than this
	uint64_t losses_over;			 // of these it is known when they were over
	uint64_t whole_since_ns;		 // since the last of these no event is missing
	uint64_t settled_ns;
	int (*catch_up)(void *context);
	void *catch_up_context;
	char executable[256];
	struct fp_build_probe *probe; // build-IDs where PROCMAP_QUERY is missing; may be NULL
	struct fp_hashmap probed;     // {device, inode} → what the probe said
};

static inline struct fp_generation *fp_process_newest(struct fp_process *process)
{
	return &process->generations[process->count - 1];
}

// A new instance with one generation that holds `set` (the reference is taken over, also on
// failure), as the newest of its tgid. NULL: -ENOMEM.
struct fp_process *fp_process_add(struct fp_process_table *table, uint32_t tgid,
				  struct fp_mapset *set);
void fp_process_remove(struct fp_process_table *table, struct fp_process *process);
struct fp_process *fp_process_get(const struct fp_process_table *table, uint32_t tgid);
// The instance that events of tgid are about: the newest unless it is known to be over.
struct fp_process *fp_process_current(const struct fp_process_table *table, uint32_t tgid);
// Moves the instance in the chain of its tgid to just behind another one.
void fp_process_put_behind(struct fp_process_table *table, struct fp_process *process,
			   struct fp_process *newer);
void fp_process_end(struct fp_process_table *table, struct fp_process *process, uint64_t time_ns);
// It is used: by an event that changes it or a stack that is asked about.
void fp_process_touch(struct fp_process_table *table, struct fp_process *process);
void fp_process_want(struct fp_process_table *table, struct fp_process *process);
void fp_process_list_append(struct fp_process_list *list, struct fp_process *process);
void fp_process_list_remove(struct fp_process *process);
// Forgets the oldest generations.
void fp_process_forget(struct fp_process_table *table, struct fp_process *process, uint32_t count);
void fp_process_revive(struct fp_process_table *table, struct fp_process *process);
// Opens a generation; takes over the reference to set, also on failure.
int fp_process_exec(struct fp_process_table *table, struct fp_process *process, uint64_t from_ns,
		    struct fp_mapset *set);
void fp_process_limits_init(struct fp_process_table *table);
void fp_process_enforce_limits(struct fp_process_table *table);

// Makes the newest generation's set its own, to be changed.
int fp_process_unshare(struct fp_process_table *table, struct fp_process *process);
// Completes a set that nobody has read yet, from `process` or who else still has it. tid: a
// thread that may outlive its leader, or 0. -ESRCH: no longer possible.
int fp_process_fill(struct fp_process_table *table, struct fp_process *process, uint32_t tid,
		    struct fp_mapset *set);
// Is what runs under the PID of the directory, or thread, the instance that we mean? 0 and the
// name of its maps file, or -ESRCH.
struct fp_procfs_stat;
#define FP_PROCESS_MAPS_NAME 32
int fp_process_check(const struct fp_process *process, int dirfd, uint32_t tid,
		     struct fp_procfs_stat *ret_stat, char ret_name[FP_PROCESS_MAPS_NAME]);
// The file of a mapping read from /proc, with one more reference.
struct fp_procfs_map;
int fp_process_map_file(struct fp_process_table *table, int dirfd, const struct fp_procfs_map *map,
			uint32_t *ret_slot);
// The name of a program whose exec was told of, but not yet what it maps. Leaves it unknown where the
// process has gone. Calls catch_up. -ENOMEM.
int fp_process_read_name(struct fp_process_table *table, struct fp_process *process);
// From here on the set is not held: mappings are looked up as stacks ask for them. What it held
// is forgotten; records older than its last change, or than time_ns, can no longer be answered.
void fp_process_make_sparse(struct fp_process_table *table, struct fp_mapset *set,
			    uint64_t time_ns);
// Looks up what covers the record's addresses in a sparse set of the process, as far as not held.
int fp_process_look_up(struct fp_process_table *table, struct fp_process *process,
		       struct fp_mapset *set, const struct fp_stack_record *record);
// Whether the newest generation takes account of every loss.
static inline bool fp_process_is_sure(const struct fp_process_table *table,
				      const struct fp_process *process)
{
	return process->known_losses == table->losses;
}
// How many losses something that was seen at time_ns takes account of.
uint64_t fp_process_losses_at(const struct fp_process_table *table, uint64_t time_ns);
// Whether events may be missing between what is known of the process and time_ns.
bool fp_process_in_doubt(const struct fp_process_table *table, const struct fp_process *process,
			 uint64_t time_ns);
// Gives up what the newest generation says of times that events are missing for. -ENOMEM.
int fp_process_give_up(struct fp_process_table *table, struct fp_process *process);
// After losses that are over, begins a generation that is to be read and that later events are of.
// Nothing when there were none, or while it is not known when they were over. -ENOMEM.
int fp_process_renew(struct fp_process_table *table, struct fp_process *process);
// Reads a process whose mappings are known, and many more, again.
int fp_process_reread(struct fp_process_table *table, struct fp_process *process, uint32_t tid,
		      uint64_t since_ns);
