// SPDX-License-Identifier: Apache-2.0
//
// opener_open: the two ways in which the opener comes to a file. Both ask the mount tables
// first, hold a file by O_PATH (which neither opens a device nor waits for a FIFO's other end),
// look at what it is, and only then open it for reading.
// Trust: the request is the sampler's, everything it leads to is foreign. Threads: one.
#pragma once

#include "opener.h"

#include "common/buf.h"

struct fp_opener_question {
	const struct fp_opener_request *request;
	const char *name;     // NUL-terminated
	const char *deny;     // likewise
	const uint64_t *hung; // places, as many as the request says
	int notice_fd;	      // where notices go
};

// Fills error, refusal and the facts of *answer. Returns a descriptor to send, or -1.
int fp_opener_open_file(const struct fp_opener_question *question, struct fp_opener_answer *answer);
int fp_opener_open_map(const struct fp_opener_question *question, struct fp_opener_answer *answer);

// ---- shared by the two ----

// Tells that we enter a place (0: that we have left it). -EBUSY: it is one of the hung ones.
int fp_opener_enter(const struct fp_opener_question *question, uint64_t place);

// A process's user namespace as a place; 0 when it is ours, in which only root mounts anything.
// One that cannot be told apart from ours is none of ours. A process never comes back to ours: what
// is asked after something was opened holds for what was opened.
uint64_t fp_opener_namespace(int procfd);
// The mount table of a process by its held directory in /proc, NUL-terminated; empty when it has
// none any more. -E2BIG: too long, or too long in the reading. Each line costs the kernel as much
// as there are mounts upon one another, and any user can have many.
int fp_opener_mounts(int procfd, struct fp_buf *ret_text);
// openat2 below a root directory: no symbolic links, no way out. -errno.
int fp_opener_below(int rootfd, const char *path);
// The same of one name in a directory, upon which nothing may be mounted: -EXDEV.
int fp_opener_within(int dirfd, const char *name);
// root of a held directory in /proc, O_PATH. -errno.
int fp_opener_root(int procfd);

struct fp_opener_facts {
	uint64_t device, inode, mount_id, size, change_ns, modify_ns;
	uint32_t uid;
	bool others_write; // group or others may
	bool regular;
};
// Without asking a server or daemon for what it may have changed.
int fp_opener_facts(int fd, struct fp_opener_facts *ret);
// Opens for reading what is held by an O_PATH descriptor. -errno.
int fp_opener_reopen(int fd);
// Writes the refusal into the answer; returns -1, the descriptor that is not sent.
int fp_opener_refuse(struct fp_opener_answer *answer, enum fp_opener_refusal refusal);
// The answer of a file that is held: sent, or -EALREADY when the request knows it as it is.
struct fp_opener_held {
	int fd;
	uint64_t place;
	struct fp_opener_facts facts;
};
int fp_opener_deliver(const struct fp_opener_question *question, const struct fp_opener_held *held,
		      struct fp_opener_answer *answer);
