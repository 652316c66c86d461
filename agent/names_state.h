// SPDX-License-Identifier: Apache-2.0
//
// names_state: the client's inside, as the names_* files share it. Each of them owns the
// members under its heading; nobody else includes this header.
// One operation is under way at a time: a file that the opener sends to the role, or a question
// to the role alone. So whoever hangs or dies does so over a known file.
// Threads: the owner's.
#pragma once

#include "names.h"
#include "names_child.h"
#include "opener.h"
#include "symbolrole.h"

#include <errno.h>
#include <sys/queue.h>

#define FP_NAMES_IDENTITIES_MAX 16384u
#define FP_NAMES_QUEUE_MAX	4096u		   // identities asked for
#define FP_NAMES_WATCHES_MAX	4096u		   // process generations
#define FP_NAMES_MAPS_MAX	256u		   // perf maps open in the role
#define FP_NAMES_ADDRESSES_MAX	65536u		   // of one epoch
#define FP_NAMES_TEXT_MAX	((size_t)16 << 20) // names of one epoch
#define FP_NAMES_TABLE_MAX	((size_t)64 << 20) // bytes of one symbol or unwind table
#define FP_NAMES_HUNG_MAX	FP_OPENER_HUNG_MAX
#define FP_NAMES_PACKET_MAX	(sizeof(struct fp_role_packet) + FP_ROLE_PAYLOAD_MAX)

// ---- blame ----

// Somebody hung or died over it, which need not have been its fault: the host may have been busy,
// or the child killed for want of memory. So it is left alone for a while, each time longer.
struct fp_blame {
	uint64_t until_ns, delay_ns;
};
// error: -ETIMEDOUT, or anything else for a death.
void fp_blame_add(struct fp_blame *blame, int error, uint64_t now_ns);
static inline bool fp_blame_stands(const struct fp_blame *blame, uint64_t now_ns)
{
	return now_ns < blame->until_ns;
}
static inline bool fp_names_is_choking(int error)
{
	return error == -ETIMEDOUT || error == -EOWNERDEAD;
}

// ---- names_identity ----

struct fp_identity_key {
	uint64_t device, inode, name; // hash of the name: inode numbers are used again
};

struct fp_identity_entry {
	TAILQ_ENTRY(fp_identity_entry) by_use; // of all, most recently used first
	TAILQ_ENTRY(fp_identity_entry) queued;
	struct fp_identity_key key;
	enum fp_names_state state;
	bool is_queued, was_known;
	struct fp_blame blame;
	struct fp_role_identity identity;
	uint64_t answered_ns;
	// Of the file as it was read, to see whether it still is the same.
	uint64_t file_device, file_inode, change_ns, size;
	struct fp_names_file file; // while queued; the name is owned
};
TAILQ_HEAD(fp_identity_list, fp_identity_entry);

// ---- names_jit ----

enum fp_watch_state {
	FP_WATCH_WAITING, // no map yet; looked for again at due_ns
	FP_WATCH_OPEN,
	FP_WATCH_CLOSED, // ended without one, or with one that was refused or choked on
};

enum fp_watch_end { // with any of them the map is not looked for any more
	FP_WATCH_RUNS,
	FP_WATCH_MISSED,   // nobody told: it ended some time before ended_ns
	FP_WATCH_EXITED,   // at ended_ns
	FP_WATCH_REPLACED, // at ended_ns, by the program that it executed
};

struct fp_watch {
	TAILQ_ENTRY(fp_watch) by_use;
	TAILQ_ENTRY(fp_watch) needing; // of those with addresses
	TAILQ_ENTRY(fp_watch) sealing; // of those whose map is to be sealed
	struct fp_watch *next_of_tgid;
	struct fp_names_process process;
	enum fp_watch_state state;
	enum fp_watch_end ended;
	bool to_seal; // among those
	bool counted; // a refusal of it
	struct fp_blame blame;
	uint32_t handle;   // in the role, when OPEN
	uint64_t id;	   // never used again, in keys of addresses
	uint64_t due_ns;   // when to look (again)
	uint64_t asked_ns; // when it was looked for last
	uint64_t delay_ns;
	uint64_t ended_ns;
	uint64_t device, inode, size; // of the open map
	uint64_t *addresses;	      // waiting to be asked for
	uint32_t addresses_count, addresses_capacity;
};
TAILQ_HEAD(fp_watch_list, fp_watch);

struct fp_jit_key {
	uint64_t watch, address;
};
struct fp_jit_name {
	uint64_t at; // in the text
	uint32_t size;
	uint32_t padding;
};

// ---- the operation under way ----

enum fp_names_kind {
	FP_NAMES_IDLE,
	FP_NAMES_IDENTIFY,
	FP_NAMES_MAP_OPEN,
	FP_NAMES_MAP_LOOKUP,
	FP_NAMES_MAP_DROP,
	FP_NAMES_MAP_SEAL,
	FP_NAMES_TABLE,
	FP_NAMES_UNWIND,
};

struct fp_names_operation {
	enum fp_names_kind kind;
	uint32_t serial;
	uint64_t deadline_ns;
	bool opener_open, role_open;	// who has yet to answer
	bool role_died;			// before the opener had a file for it
	bool superseded;		// of a lookup: its epoch has ended
	struct fp_opener_answer answer; // the opener's
	struct fp_identity_entry *entry;
	struct fp_watch *watch;
	uint32_t handle;
	uint64_t addresses[FP_ROLE_ADDRESSES_MAX];
	uint32_t addresses_count;
	uint64_t place; // that the opener has entered; 0: none, and none is to be blamed
};

struct fp_names_table_job { // a symbol table or an unwind table
	bool wanted;
	bool root_only;
	struct fp_names_file file; // the name is owned
	struct fp_build build;
	fp_names_table_fn done; // fp_names_unwind_fn is the same
	void *context;
	int memory_fd;
};

struct fp_names {
	struct fp_names_options options; // strings are owned
	char *role_user, *deny;
	int epoll_fd, timer_fd;
	uint64_t timer_ns; // what the timer is set to
	struct fp_names_child opener, role;
	struct fp_names_operation operation;
	uint32_t serial, stray_serial;
	uint8_t *packet; // the role's answer, FP_NAMES_PACKET_MAX
	struct fp_names_stats stats;

	struct fp_hashmap identities;	// fp_identity_key → struct fp_identity_entry *
	struct fp_identity_list by_use; // of all
	struct fp_identity_list queue;	// of those asked for
	uint32_t queue_count;
	struct fp_hashmap hung_places; // uint64_t, of agent/opener.h → fp_blame

	struct fp_hashmap watches;	 // tgid → struct fp_watch *, the first of a chain
	struct fp_watch_list watch_list; // by use, most recently used first
	struct fp_watch_list needy;	 // those with addresses to be asked for
	struct fp_watch_list to_seal;	 // those whose map is to be sealed
	struct fp_names_reader *readers;
	uint64_t scan_ns; // when a watch may be due
	uint32_t watches_count;
	uint64_t watch_ids;
	struct fp_watch *handles[FP_NAMES_MAPS_MAX]; // who uses it
	bool drop[FP_NAMES_MAPS_MAX];		     // to be dropped in the role
	uint32_t drops;				     // how many of these
	struct fp_hashmap jit_names;		     // fp_jit_key → fp_jit_name
	struct fp_buf jit_text;

	struct fp_names_table_job table, unwind;
};

// names_run: operations. Each start function returns 0, or an error when nothing was begun.
uint32_t fp_names_serial(struct fp_names *names);
int fp_names_ask_role(struct fp_names *names, const struct fp_role_packet *packet,
		      const void *payload);
// Has the file opened and sent to the role with the packet. memory_fd: goes along, or -1.
struct fp_names_open_request {
	struct fp_opener_request head;
	const char *name;
	const struct fp_role_packet *packet;
	const void *payload;
	int memory_fd;
};
int fp_names_ask_opener(struct fp_names *names, const struct fp_names_open_request *request);
// True: nothing at the place is opened for now, since somebody hung there. The opener is told too:
// for most requests only it finds out where they lead.
bool fp_names_is_hung(const struct fp_names *names, uint64_t place, uint64_t now_ns);
// True when the file was not looked at for where it lies.
static inline bool fp_names_is_denial(const struct fp_opener_answer *answer)
{
	return answer->refusal == FP_OPENER_DENIED || answer->refusal == FP_OPENER_HUNG ||
	       answer->refusal == FP_OPENER_MOUNTS;
}

// An operation's end. error: 0, what opener or role said, or -ETIMEDOUT / -EPIPE when one of
// them hung or died. payload: of the role's answer, foreign.
struct fp_names_result {
	int error;
	uint64_t argument;
	const uint8_t *payload;
	size_t size;
	bool from_role; // the error is the role's answer
	uint64_t now_ns;
};

bool fp_names_identity_begin(struct fp_names *names, uint64_t now_ns);
// False: the answer makes no sense.
bool fp_names_identity_end(struct fp_names *names, const struct fp_names_result *result);
void fp_names_identity_free(struct fp_names *names);
// Makes an owned copy of a file. -ENOMEM.
int fp_names_file_copy(const struct fp_names_file *file, struct fp_names_file *ret);
void fp_names_file_head(const struct fp_names_file *file, struct fp_opener_request *head);

bool fp_names_jit_begin(struct fp_names *names, uint64_t now_ns);
bool fp_names_jit_end(struct fp_names *names, const struct fp_names_result *result);
void fp_names_jit_lost(struct fp_names *names, uint64_t now_ns); // the role died with its maps
uint64_t fp_names_jit_due_ns(const struct fp_names *names);	 // 0: nothing to be looked for
void fp_names_jit_free(struct fp_names *names);

bool fp_names_table_begin(struct fp_names *names, uint64_t now_ns);
bool fp_names_table_end(struct fp_names *names, const struct fp_names_result *result);
void fp_names_table_free(struct fp_names *names);

// For tests: the same client with other children.
int fp_names_open_with(const struct fp_names_options *options, fp_names_start_fn start_opener,
		       fp_names_start_fn start_role, void *context, struct fp_names **ret);
