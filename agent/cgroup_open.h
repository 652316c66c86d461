// SPDX-License-Identifier: Apache-2.0
//
// cgroup_open: from the id of a control group, or from a process, to what its path says. An id
// is opened as a kernfs file handle on the hierarchy's mount, which needs CAP_DAC_READ_SEARCH,
// and read back as a path; ids are never used twice. Of a group or process that is gone
// nothing can be had. Nothing in a group is opened, and nothing here blocks.
// Trust: paths are foreign text. Threads: no state but the descriptor.
#pragma once

#include "cgroup_path.h"

#include <stdint.h>

struct fp_cgroup_tree {
	int fd; // of the mount, -1: no id can be opened
	size_t mount_size;
};

// Of the hierarchy (agent/cgroup.h) as it is mounted here; without one fd is -1.
void fp_cgroup_tree_open(uint32_t subsystem, struct fp_cgroup_tree *ret);
void fp_cgroup_tree_close(struct fp_cgroup_tree *tree);
// -ESTALE or -ENOENT: gone. -EXDEV: outside of the part that is mounted here. After -EPERM,
// -EOPNOTSUPP or -ENOSYS no id will ever open. Others may pass. Containers and pods are believed
// where root made the group, that is where the group around it is root's.
int fp_cgroup_tree_find(const struct fp_cgroup_tree *tree, uint64_t id,
			struct fp_cgroup_facts *ret);

// Of the process, if it started between the two (clock ticks as in /proc/PID/stat, both
// included). -ESRCH: there is no such process.
int fp_cgroup_process_find(uint32_t tgid, uint64_t first_ticks, uint64_t last_ticks,
			   struct fp_cgroup_facts *ret);
