// SPDX-License-Identifier: Apache-2.0
//
// names_child: one of the two children behind fp_names: started, watched, killed when it must
// be, and started again after a pause that grows while it keeps dying.
// Trust: nothing that comes from a child is believed. Threads: the owner's.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

// A child that cannot even be killed (stuck in the kernel) is left to itself; so many at most.
#define FP_NAMES_STUCK_MAX 16

// Starts the child with its end of the socket. Returns the pid or -errno.
typedef int (*fp_names_start_fn)(int socket_fd, void *context);

struct fp_names_child {
	fp_names_start_fn start;
	void *context;
	int epoll_fd;  // the client's; socket and pidfd are watched there
	int socket_fd; // -1: not running
	int pid_fd;
	pid_t pid;
	uint64_t started_ns, delay_ns, due_ns; // CLOCK_MONOTONIC
	uint64_t starts;
	pid_t stuck[FP_NAMES_STUCK_MAX]; // killed, not yet gone
};

void fp_names_child_init(struct fp_names_child *child, int epoll_fd, fp_names_start_fn start,
			 void *context);
// Kills what runs and waits a moment for it.
void fp_names_child_free(struct fp_names_child *child);

static inline bool fp_names_child_runs(const struct fp_names_child *child)
{
	return child->socket_fd >= 0;
}
// Starts it when it does not run and its pause is over. True when it runs.
bool fp_names_child_ensure(struct fp_names_child *child, uint64_t now_ns);
// True once when it has ended by itself.
bool fp_names_child_has_died(struct fp_names_child *child, uint64_t now_ns);
// SIGKILL; the next start is after the pause.
void fp_names_child_kill(struct fp_names_child *child, uint64_t now_ns);
void fp_names_child_reap(struct fp_names_child *child); // those that were stuck
