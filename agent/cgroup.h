// SPDX-License-Identifier: Apache-2.0
//
// cgroup: which control-group hierarchy tells most about where a task belongs, and where it is
// mounted. On a host of cgroup v2 that is the default hierarchy. On v1 and hybrid hosts the
// default hierarchy is missing or has every task in its root as far as container runtimes are
// concerned, so that of a controller which they use is taken: memory, else pids, cpu, ….
// (A named hierarchy such as systemd's has no controller, by which BPF could find it.)
// Stage: before sampling. Input: /proc/self/mountinfo and the default hierarchy's
// cgroup.controllers, trusted. Threads: no state.
#pragma once

#include "common/buf.h"

#include <linux/limits.h>

#define FP_CGROUP_V2 0u // the default hierarchy; other values: a row of the controllers

struct fp_cgroup_choice {
	uint32_t subsystem;   // FP_CGROUP_V2 or an index for fp_cgroup_controller
	char mount[PATH_MAX]; // where the hierarchy is mounted, "" when it is not
};

// mountinfo: text of /proc/self/mountinfo. v2_has_controllers: the default hierarchy, where
// it is mounted, lends out controllers (a hybrid host's does not).
void fp_cgroup_choose_from(const char *mountinfo, bool v2_has_controllers,
			   struct fp_cgroup_choice *ret);
// The same for this host. Where nothing can be read, FP_CGROUP_V2 without a mount.
void fp_cgroup_choose(struct fp_cgroup_choice *ret);
// Where the hierarchy is mounted, as fp_cgroup_choose puts it. -ENOENT.
int fp_cgroup_mount(uint32_t subsystem, char ret_mount[PATH_MAX]);
// The kernel's name of the controller, "memory_cgrp_id" in enum cgroup_subsys_id and "memory"
// in mount options being those of subsystem 1. NULL: FP_CGROUP_V2 or no such row.
const char *fp_cgroup_controller(uint32_t subsystem);
