// SPDX-License-Identifier: Apache-2.0
//
// names: what the sampler must not find out by itself, because it would have to parse a
// foreign file or wait for a foreign file system: the identity of a mapped file whose build-ID
// the kernel did not give, the names of JITed functions, a build's symbol table.
// Two children do it. The *opener* (agent/opener.h) has the sampler's rights, opens files and
// may block in a file system that never answers; the *symbols role* (agent/symbolrole.h) has no
// rights at all, gets descriptors and parses. Each works on one request at a time under a
// deadline; one that misses it, or dies, is killed, counted and started again, and what it
// choked on is left alone for a while, each time longer.
// Stage: beside resolve. One client serves all sessions of a process.
// Trust: both children's answers are checked as foreign input. Threads: one owner, no locks.
#pragma once

#include "common/buf.h"
#include "proto/profile.h"

struct fp_names;

struct fp_names_options {
	const char *role_user; // account of the symbols role; "" = stay
	const char
	    *deny_file_systems; // "fuse, nfs, …": types (or `type.subtype` prefixes) never opened
	bool jit;		// read perf maps
	uint64_t request_deadline_ns; // 0: 2 s
	uint64_t perf_map_max_bytes;  // 0: 64 MiB
};

// Starts both children. Call before the process gives up root, so that the role can have its
// own user. Errors: -errno of fork and socketpair.
int fp_names_open(const struct fp_names_options *options, struct fp_names **ret);
void fp_names_free(struct fp_names *names); // ends the children
static inline void fp_names_freep(struct fp_names **names)
{
	fp_names_free(*names);
	*names = NULL;
}

// Other settings from now on; role_user stays what it was. -E2BIG: the list is too long.
int fp_names_set_options(struct fp_names *names, const struct fp_names_options *options);

int fp_names_fd(const struct fp_names *names); // epoll descriptor; readable: call fp_names_pump
// Takes what has been answered, sends what is queued, enforces deadlines, restarts children.
// Never blocks. Call when the descriptor is readable and at least once a second.
int fp_names_pump(struct fp_names *names);
// As pump, but waits until nothing is outstanding or until budget_ns has gone by.
// Returns the number of requests still outstanding.
uint32_t fp_names_settle(struct fp_names *names, uint64_t budget_ns);

// ---- identity of mapped files ----

struct fp_names_file { // a file mapping as the kernel described it, without a build-ID
	uint32_t tgid, parent_tgid;
	uint64_t start, end;	// of the mapping in tgid
	uint64_t device, inode; // as in struct fp_file; 0, 0: as the mapping says
	const char *name;	// as the kernel spelled it
};
enum fp_names_state {
	FP_NAMES_PENDING, // asked for, or to be asked for with fp_names_want_identity
	FP_NAMES_KNOWN,
	FP_NAMES_NONE, // the file has been read and nothing identifies it, or it cannot be read
};
// Queues the question unless it has an answer or is asked already. -ENOSPC: queue full, counted.
int fp_names_want_identity(struct fp_names *names, const struct fp_names_file *file);
// kind, id_len and id of ret_build when KNOWN (the path is untouched).
enum fp_names_state fp_names_identity(const struct fp_names *names,
				      const struct fp_names_file *file, struct fp_build *ret_build);

// ---- JIT names ----

struct fp_names_process {
	uint32_t tgid;
	uint64_t start_ns; // with tgid the instance, as in the stack record
	uint64_t exec_ns;  // when its generation began: an exec ends a map's validity
};
// A process has executable anonymous memory: its perf map is opened as soon as it exists. Cheap when
// repeated.
int fp_names_watch_jit(struct fp_names *names, const struct fp_names_process *process);
// At time_ns, CLOCK_MONOTONIC as of events, the process ended, or with `exec` became another
// program: what ran before keeps the names that its map has now, whatever is written to the file
// later. If that is not known in time, or the file was written to first, they are gone, and counted.
// An end that nobody tells is found when a name is wanted, and then later.
void fp_names_end_process(struct fp_names *names, uint32_t tgid, uint64_t time_ns, bool exec);
// Queues an address; its name can be had after the next settle. Names are forgotten at
// fp_names_end_epoch, because the map may give the address to another function later.
int fp_names_want_jit(struct fp_names *names, const struct fp_names_process *process,
		      uint64_t address);
// NULL: no perf map, or none of its functions covers the address. Bytes, valid until the next
// call that is not a look-up.
const char *fp_names_jit(const struct fp_names *names, const struct fp_names_process *process,
			 uint64_t address, size_t *ret_size);
// Whoever resolves stacks, epoch by epoch, says so: the maps of ended processes are kept until no
// reader can hold a stack of them. A reader is its owner's and leaves before it goes; adding one
// that is there and removing one that is not do nothing.
struct fp_names_reader {
	struct fp_names_reader *next;
	uint64_t settled_ns; // what ended before is done with
};
void fp_names_add_reader(struct fp_names *names, struct fp_names_reader *reader);
void fp_names_remove_reader(struct fp_names *names, struct fp_names_reader *reader);
// An epoch that began at began_ns, CLOCK_MONOTONIC as of events, is resolved: the stacks of all that
// ended before were in it or earlier ones.
void fp_names_end_epoch(struct fp_names *names, struct fp_names_reader *reader, uint64_t began_ns);

// ---- symbol tables for the collector ----

// The table as text (fp_symbolizer_add_table in profile/symbols.h), or an error: -ENOENT the file
// cannot be had any more, -EPERM others than root may write it, -ENODATA it has no symbols,
// -EBADMSG not an ELF file, another build, or nobody survived reading it.
typedef void (*fp_names_table_fn)(const struct fp_build *build, int error,
				  const struct fp_buf *text, void *context);
// A file without start, end, device and inode stands for whatever lies at its name, below the root
// of tgid or our own. One at a time: -EBUSY. The file's build is verified by the role before it is
// read.
int fp_names_table(struct fp_names *names, const struct fp_names_file *file,
		   const struct fp_build *build, fp_names_table_fn done, void *context);

// ---- unwind tables for the walker ----

// The table (struct fp_unwind_table, bpf/abi.h), borrowed for the call; its bytes are ours alone
// and have passed fp_unwind_table_check. Or an error: -ENOENT, -EPERM as for a symbol table, -ENOENT also
// of a file that is another build; -ENODATA the file has no call frame information, -ENOTSUP it is not of x86-64, -EFBIG its table
// would be too large, -EBADMSG no ELF file. And what may be the host's fault: -ETIMEDOUT opening it
// took longer than request_deadline_ns, or reading it five times as long, -EOWNERDEAD the child that
// read it has ended.
typedef void (*fp_names_unwind_fn)(const struct fp_build *build, int error,
				   const struct fp_buf *table, void *context);
struct fp_names_unwind_wish {
	struct fp_names_file file; // as for a symbol table; the vDSO's is that of agent/vdsofile.h
	struct fp_build build;
	// Only of a file that others than root may not write. Anyone can link a file with any
	// build-ID: a table that is made of any file must be used for that file alone.
	bool root_only;
	fp_names_unwind_fn done;
	void *context;
};
// One at a time, beside a symbol table: -EBUSY. The wish is copied.
int fp_names_unwind(struct fp_names *names, const struct fp_names_unwind_wish *wish);
// Nobody is told what comes of the wish that is under way, if there is one.
void fp_names_unwind_cancel(struct fp_names *names);

// ---- books ----

struct fp_names_stats { // running sums, for metrics and `status`
	uint64_t identities_asked, identities_known, identities_none;
	uint64_t denied;     // files on a file system of the deny list
	uint64_t timeouts;   // requests that missed their deadline
	uint64_t queue_full; // questions that found no room
	uint64_t role_starts, opener_starts;
	uint64_t maps_open, maps_refused, map_bytes; // perf maps; refused: owner, type or size
	uint64_t maps_lost; // of ended processes, with names gone before they were wanted
	uint64_t jit_asked, jit_named;
	uint64_t tables_made, table_bytes;
	uint64_t unwinds_made, unwind_bytes;
};
void fp_names_stats(const struct fp_names *names, struct fp_names_stats *ret);
