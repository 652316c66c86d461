// SPDX-License-Identifier: Apache-2.0
//
// cgroup_path: what a control group's path says about who lives in it: container, pod, systemd
// unit and slice. Every runtime spells it its own way; the spellings are in cgroup_path.c and
// cgroup_word.c, and tests/unit/agent/cgroup_paths.h has an example of each.
// Of nested containers the innermost counts, of nested units too (a container's own scope is
// none). Input: paths as the kernel prints them, chosen by whoever may create control groups:
// words that do not have the shape are passed over. Pure. Threads: no state.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define FP_CONTAINER_ID_MAX 128 // with the NUL
#define FP_UNIT_NAME_MAX    256

struct fp_cgroup_facts {			// "" where the path says nothing
	char container_id[FP_CONTAINER_ID_MAX]; // as the runtime spells it; a name for LXC, nspawn
	char pod_container_id[FP_CONTAINER_ID_MAX]; // the container right in the pod: the same,
						    // or the one around containers of its own
	char runtime[24]; // docker, containerd, cri-o, podman, lxc, nspawn, ecs, buildkit, garden
	bool has_name;	  // container_id is a name that somebody gave
	bool is_claimed;  // container_id is what a user's own group says; runtime ends in -rootless
	char pod_uid[37]; // 8-4-4-4-12, or 32 digits for static pods
	char unit[FP_UNIT_NAME_MAX];  // as systemctl shows it, with its \x2d
	char slice[FP_UNIT_NAME_MAX]; // innermost that is not one pod's own
};

// believed: how many bytes of the path, of whole words, are groups that root made. Whoever makes
// a group names it, so containers and pods are only taken from these, except for the claim of a
// rootless runtime's container. Units and slices are taken from all of it.
void fp_cgroup_path_parse(const char *path, size_t size, size_t believed,
			  struct fp_cgroup_facts *ret);
// The text of /proc/PID/cgroup: the line that tells most, v1, v2 or hybrid. Believed is what does
// not stand below a user@UID.service.
void fp_cgroup_text_parse(const char *text, size_t size, struct fp_cgroup_facts *ret);
