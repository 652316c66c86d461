// SPDX-License-Identifier: Apache-2.0
//
// array: growth of the profile's plain arrays, used inside proto/ only. An array is a
// pointer, a count and a capacity, all uint32_t: 4 Gi entries are far above every limit of
// a batch. Capacity doubles, so adding is amortised constant.
// Ownership: the array belongs to its struct. Threads: none shared.
#pragma once

#include "common/cleanup.h"

#include <errno.h>
#include <stdint.h>

static inline int fp_array_grow_bytes(void *pointer_to_array, size_t entry_size, uint32_t *capacity,
				      uint64_t wanted)
{
	void **array = pointer_to_array;
	uint64_t room = *capacity ? *capacity : 16;
	void *grown;

	if (wanted <= *capacity)
		return 0;
	while (room < wanted)
		room *= 2;
	if (room > UINT32_MAX)
		return -ENOMEM;
	grown = reallocarray(*array, room, entry_size);
	if (!grown)
		return -ENOMEM;
	*array = grown;
	*capacity = (uint32_t)room;
	return 0;
}

// Makes room for `extra` more entries after the first `count`. 0 or -ENOMEM.
#define fp_array_grow(array, capacity, count, extra)                                               \
	fp_array_grow_bytes((array), sizeof(**(array)), (capacity), (uint64_t)(count) + (extra))
