// SPDX-License-Identifier: Apache-2.0
//
// labels_pods: names of Kubernetes pods and containers, from the names alone of what the kubelet
// keeps in its log directory:
//   containers/<pod>_<namespace>_<container>-<container id>.log
//   pods/<namespace>_<pod>_<pod uid>/<container>/
// The directories are read again when they changed, at most once a second, and only while
// somebody asks for what is not known. Nothing in them is opened.
// Trust: names are checked against Kubernetes' own rules for them.
// Ownership: strings belong to the index and live until the next fp_pods_refresh.
// Threads: one owner.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fp_pod_names { // NULL: not known
	const char *namespace, *pod, *container;
};

struct fp_pods;
int fp_pods_new(const char *log_directory, struct fp_pods **ret);
void fp_pods_free(struct fp_pods *pods);
static inline void fp_pods_freep(struct fp_pods **pods)
{
	fp_pods_free(*pods);
	*pods = NULL;
}
// Reads what changed, if that is allowed again. Returns how often the index has been read:
// while that stays the same, so do all answers. -ENOMEM.
int fp_pods_refresh(struct fp_pods *pods, uint64_t monotonic_ns, uint64_t *ret_generation);
// By the container, else by the pod's uid: then the container's name is known if the pod has
// only one and no container of it is named in containers/. "" for what is not known.
struct fp_pod_names fp_pods_find(const struct fp_pods *pods, const char *container_id,
				 const char *pod_uid);
// Entries that were too many for a directory to be read, each time that it was read: of one at
// most 4096 are, and 65536 more counted.
uint64_t fp_pods_unread(const struct fp_pods *pods);
size_t fp_pods_bytes(const struct fp_pods *pods);

// One name taken apart. False when it has not the form.
struct fp_pod_entry {
	char namespace[64], pod[254], container[64];
	char id[65]; // container id, or the pod's uid
};
bool fp_pod_link_parse(const char *name, struct fp_pod_entry *ret);
bool fp_pod_directory_parse(const char *name, struct fp_pod_entry *ret);
