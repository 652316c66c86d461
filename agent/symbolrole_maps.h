// SPDX-License-Identifier: Apache-2.0
//
// symbolrole_maps: the perf maps that the symbols role holds, by the client's handle. What has
// been read of them is a cache under one bound: the map used longest ago gives up its ranges
// first and reads its file anew when it is asked again. What a sealed one gives up is gone: its
// file may be another program's by now. Private to the symbols role.
// Trust: the files are foreign. Ownership: the maps own their descriptors. Threads: one.
#pragma once

#include "common/buf.h"
#include "common/hashmap.h"

#define FP_ROLE_MAPS_MAX 4096u
#define FP_ROLE_MAPS_BYTES_MAX                                                                     \
	((size_t)96 << 20) // of ranges and kept text: the largest map and a half

struct fp_role_maps {
	struct fp_hashmap by_handle; // uint64_t → struct role_map
	size_t bytes, bytes_max;     // of ranges and kept text
	uint64_t clock;
};

void fp_role_maps_init(struct fp_role_maps *maps);
void fp_role_maps_free(struct fp_role_maps *maps);
// fd: taken over when 0 is returned. Reading begins at once, while nobody waits for a name. Errors: -EINVAL no regular file, -ENOSPC too many maps, -ENOMEM.
int fp_role_maps_add(struct fp_role_maps *maps, uint64_t handle, int fd);
int fp_role_maps_drop(struct fp_role_maps *maps, uint64_t handle); // -ENOENT
// As fp_perf_map_seal, one step of it. -ENOENT no such handle.
int fp_role_maps_seal(struct fp_role_maps *maps, uint64_t handle, uint64_t ended_ns);
// answer: for each address a uint16_t length, 0 for none, and the bytes of the name. Errors:
// -ENOENT no such handle, -ESTALE the file changes faster than it can be read, or is sealed and its
// names are gone, else those of fp_perf_map_refresh.
int fp_role_maps_lookup(struct fp_role_maps *maps, uint64_t handle, const uint64_t *addresses,
			size_t count, struct fp_buf *answer);
