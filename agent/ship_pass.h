// SPDX-License-Identifier: Apache-2.0
//
// ship_pass: the ship role's settings, from the agent to the program that it executes as the
// role. They go through memory and not through the configuration file, which the role's user
// need not be able to read, and which may no longer say what is in force.
// Both sides are the same binary; what does not have the expected shape is refused.
// Threads: no state.
#pragma once

#include "ship.h"

#define FP_SHIP_PASS_STRINGS 6

struct fp_ship_pass {	// as it stands in the memory, then the strings, each with its NUL
	uint64_t size;	// of all of it
	int64_t parent; // pid of the agent
	int64_t log_level;
	struct fp_spool_limits limits;
	uint64_t retry_max_ns, loop_stale_ns;
};

// A memfd (close-on-exec) that holds the settings. -errno.
int fp_ship_pass_write(const struct fp_ship_config *config, pid_t parent, int *ret_fd);
// The strings of *ret_config point into text. -EBADMSG: not what fp_ship_pass_write wrote.
int fp_ship_pass_read(int fd, struct fp_buf *text, struct fp_ship_config *ret_config,
		      pid_t *ret_parent);
