// SPDX-License-Identifier: Apache-2.0
//
// opener: the child that opens files of other processes for the symbols role. Opening may block
// for ever (a FUSE daemon that never answers, a server that is gone), so neither the sampler
// nor the parser does it: the opener may be killed at any moment. What it has opened it sends
// straight to the role, so that the sampler never holds a descriptor whose close could block.
// It has three of the sampler's capabilities (SYS_PTRACE, DAC_READ_SEARCH, CHECKPOINT_RESTORE),
// reads no byte of the files, and keeps nothing from one request to the next.
// This header is the protocol that agent/names.c speaks with it over a SOCK_SEQPACKET socket:
// one request, one answer, in order. Before the answer come as many notices as the opener enters
// places where it may hang: an answer with -EINPROGRESS that tells the place. Who then misses the
// deadline hung there; who has said nothing hung over this request alone.
// A *place* is the device of a file system (major << 32 | minor), or FP_OPENER_NAMESPACE with the
// inode of a user namespace, for what an unprivileged user has mounted in one of their own: which
// device lies there they choose themselves, and no device is blamed for it. With FP_OPENER_PROCESS
// it stands for one process, whose namespace could not be asked for.
// Trust: requests trusted; paths, files and mount tables foreign. Threads: one.
#pragma once

#include "role_start.h"

#include <stddef.h>
#include <stdint.h>

#define FP_OPENER_ROLE_ARGUMENT "--opener-role"
#define FP_OPENER_TEXT_MAX	((size_t)16 << 10) // of a request: what follows its head
#define FP_OPENER_NAMESPACE	(1ULL << 63)
#define FP_OPENER_PROCESS	(1ULL << 62) // of a namespace that is not to be known
#define FP_OPENER_HUNG_MAX	64u // places of a request at which nothing is opened for now

enum fp_opener_kind {
	FP_OPENER_FILE = 1, // the file mapped at start-end, by map_files or else by its name
	FP_OPENER_PERF_MAP, // the process's perf map
	FP_OPENER_KINDS
};

// Descriptors that come with a request: the socket to send to; what else is to be sent, if any.
#define FP_OPENER_FDS_MAX 2

struct fp_opener_request { // then hung places, name, deny list and packet, without NULs
	uint32_t kind;
	uint32_t serial;
	uint32_t tgid, parent_tgid;
	uint64_t start, end;	   // FILE: of the mapping
	uint64_t device, inode;	   // FILE: major << 32 | minor, of the file that is expected;
				   // with start and end all 0: any file of that name
	uint64_t process_start_ns; // PERF_MAP: CLOCK_MONOTONIC, 0: not known
	uint64_t not_before_ns;	   // PERF_MAP: CLOCK_REALTIME, a file last written earlier is
				   // an older process's
	uint64_t max_bytes;	   // PERF_MAP
	uint64_t known_device;	   // of an earlier answer: when nothing has changed, nothing is
	uint64_t known_inode;	   // sent. 0: no earlier answer
	uint64_t known_change_ns, known_size; // FILE alone: content counts
	uint32_t name_size, deny_size, packet_size;
	uint32_t hung_count; // places, uint64_t each
	uint32_t root_only;  // FILE: 1: none that others than root may write
	uint32_t padding;
};

enum fp_opener_refusal {
	FP_OPENER_NOT_REFUSED,
	FP_OPENER_DENIED, // file system of the deny list
	FP_OPENER_OWNER,  // PERF_MAP: neither root's nor the process's user's; FILE: root_only
	FP_OPENER_TYPE,	  // no regular file
	FP_OPENER_SIZE,
	FP_OPENER_HUNG,	   // at one of the request's hung places
	FP_OPENER_MOUNTS,  // the mount table is too long; device: the namespace to blame, or 0
	FP_OPENER_MOUNTED, // something is mounted upon the perf map
	FP_OPENER_REFUSALS
};

struct fp_opener_answer {
	uint32_t kind, serial; // of the request
	int32_t error;	  // 0: sent; -EALREADY: as known; -ESRCH: the process has gone; -ENOENT;
			  // -EINPROGRESS: a notice, device is the place entered, 0: left again
	uint32_t refusal; // with -EACCES: enum fp_opener_refusal
	uint64_t device, inode, change_ns, size; // of the file, with 0 and -EALREADY
};

struct fp_role fp_opener_role(void); // how it is started
// main() of the executed role; its socket is descriptor 3. Returns the exit code.
int fp_opener_main(void);
// The loop on a socket, without any confinement, for tests. Returns when the peer has closed.
int fp_opener_serve(int socket_fd);
