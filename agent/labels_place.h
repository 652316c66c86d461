// SPDX-License-Identifier: Apache-2.0
//
// labels_place: where processes belong: control group → container, pod, unit, slice, and what
// Kubernetes calls them. What is the same for many stacks is looked up once: per control group,
// and where its id says nothing, per process instance, by /proc/PID/cgroup or what the parent
// had. Private to the labeler. Ownership: the struct owns its caches. Threads: one owner.
#pragma once

#include "cgroup_open.h"
#include "common/intern.h"
#include "labels.h"
#include "labels_pods.h"

struct fp_place { // ids in fp_places.strings; 0: ""
	struct fp_place_key {
		uint32_t container_id, pod_container_id, runtime, pod_uid, unit, slice;
		uint32_t has_name, is_claimed;
	} key;
	uint32_t namespace, pod, container;
	uint32_t service;	  // what the place says of it
	uint32_t version;	  // changes with the above
	uint64_t pods_generation; // of the index that was asked
};

struct fp_places {
	struct fp_cgroup_tree tree;
	bool is_v2;	      // the tree has every process where it belongs
	struct fp_pods *pods; // NULL: no log directory
	char *hostname;
	struct fp_intern strings;
	struct fp_place *places; // [0]: of whom nothing is known
	uint32_t count, capacity;
	struct fp_hashmap index;     // fp_place_key → place
	struct fp_hashmap cgroups;   // id → place, or NOWHERE
	struct fp_hashmap processes; // tgid → its last instance
	struct fp_labeler_stats stats;
};

int fp_places_init(struct fp_places *places, const struct fp_labeler_options *options);
void fp_places_free(struct fp_places *places);
size_t fp_places_bytes(const struct fp_places *places);

// Forgets when there is too much. True: ids and indexes from before are no longer good.
int fp_places_trim(struct fp_places *places, bool *ret_forgotten);
void fp_places_see(struct fp_places *places, const struct fp_stack_record *record);
// Index of the place of the record's process.
int fp_places_find(struct fp_places *places, const struct fp_stack_record *record,
		   const struct fp_labeler_process *process, uint32_t *ret_place);
