// SPDX-License-Identifier: Apache-2.0
//
// control_access: who may have a snapshot of which process. Root and the group: of any that
// has a user side. Others: of a process that a debugger of theirs could attach to, which is
// what the kernel's ptrace rules say: real, effective and saved uid and gid all theirs, not
// made undumpable, and no capabilities of its own.
// The agent asks again and again while a snapshot runs, because a process may exec a set-uid
// program, and once more before it hands anything out.
// Input: /proc/PID/{status,stat}; structure trusted, names not. Threads: no state.
#pragma once

#include "common/buf.h"

struct fp_process_facts {
	uint32_t tgid;
	uint32_t uids[3], gids[3]; // real, effective, saved
	uint32_t owner;		   // of /proc/PID/*: the effective uid, or 0 when not dumpable
	uint64_t capabilities;	   // permitted
	uint64_t start_time;	   // clock ticks since boot; with the tgid it names the process
	bool kernel_thread;
	bool dead; // zombie
	char comm[16];
};

// pid may be a thread's: *ret is about its process. -ESRCH: no such process.
int fp_process_facts_read(uint32_t pid, struct fp_process_facts *ret);
// The parts of it that read text, for tests. -EBADMSG: not what the kernel writes.
int fp_process_facts_parse_status(const char *text, struct fp_process_facts *facts);
int fp_process_facts_parse_stat(const char *text, struct fp_process_facts *facts);

struct fp_peer {
	uint32_t uid, gid, pid;
	bool trusted; // root, or of the group
};

enum fp_access {
	FP_ACCESS_GRANTED,
	FP_ACCESS_KERNEL_THREAD,
	FP_ACCESS_DEAD,
	FP_ACCESS_OTHER_USER, // ids differ
	FP_ACCESS_GUARDED,    // theirs by id, but set-id, undumpable or with capabilities
};
enum fp_access fp_access_decide(const struct fp_peer *peer, const struct fp_process_facts *facts);
