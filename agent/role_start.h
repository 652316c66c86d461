// SPDX-License-Identifier: Apache-2.0
//
// role_start: how a child becomes a role of the agent. A role is this same binary, executed anew
// with an argument that names it, so that no memory of the sampler, BPF rings and all, stays
// with a process that talks to others or reads what others wrote. What it must not have is
// given up before the exec, in an order in which each step is still allowed; what cannot be
// given up ends the child.
// Threads: call from a process with one thread. Only the child logs.
#pragma once

#include "common/cleanup.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define FP_ROLE_FDS_MAX	  3
#define FP_ROLE_FIRST_FD  (STDERR_FILENO + 1) // where the executed role finds what it is given
#define FP_ROLE_EXIT_LOST 1		      // exit code when rights could not be given up

struct fp_role_account {
	bool change; // we are root and a user is configured
	uid_t uid;
	gid_t gid;
};
// "" or not being root: stay. A user that does not exist is warned of, and the role stays too.
void fp_role_account_find(const char *role, const char *user, struct fp_role_account *ret);

struct fp_role {
	const char *name;     // of the process: "fleetprof-ship"
	const char *argument; // "--ship-role"
	struct fp_role_account account;
	uint64_t keep;	// capabilities that stay, as a mask; none of them without being permitted
	int end_signal; // when the parent dies
	bool apart;	// from the terminal: an interrupt is the parent's affair
	int fds[FP_ROLE_FDS_MAX]; // become FP_ROLE_FIRST_FD and following; nothing else stays open
	size_t fds_count;
};
// Forks and executes. Returns the pid or -errno of the fork.
int fp_role_start(const struct fp_role *role);

// The steps, for roles that are forked without an exec. All return 0 or -errno.
// Signals as new, every descriptor from first_closed on closed, the account's user, no
// capability, no_new_privs, and a signal when the parent dies.
int fp_role_give_up(const struct fp_role *role, pid_t parent, unsigned int first_closed);
// After an exec, which may have cleared the tie to the parent: the capabilities outside `keep`
// are taken away once more, so that they do not depend on how the binary was installed.
int fp_role_settle(const struct fp_role *role, pid_t parent);
// No core dump, the name, and a seccomp filter that answers EPERM to what an intruder would
// like: exec, tracing, BPF, mounts, namespaces, modules, keys; `more` adds to the list. Without
// a filter the role goes on, with a warning.
void fp_role_confine(const struct fp_role *role, const int *more, size_t more_count);
// Logs that the rights could not be given up and ends the process.
void fp_role_fail(const struct fp_role *role, int error) __attribute__((noreturn));

// The roles' main(): true when the command line asks for a role, which has then run.
bool fp_role_main(int argc, char **argv, int *ret_code);
