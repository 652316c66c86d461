// SPDX-License-Identifier: Apache-2.0
//
// array: one way to grow the flat arrays of this directory: pointer, count, capacity.
// Private to profile/.
// Ownership: the caller's pointer owns the memory. Threads: no state.
#pragma once

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

// Room for `extra` more elements of `size` bytes behind *count of them. 0 or -ENOMEM.
static inline int fp_array_reserve(void **array, size_t *capacity, size_t count, size_t extra,
				   size_t size)
{
	size_t wanted = *capacity ? *capacity : 16;
	void *grown;

	if (extra > SIZE_MAX / 2 - count)
		return -ENOMEM;
	if (count + extra <= *capacity)
		return 0;
	while (wanted < count + extra)
		wanted *= 2;
	grown = reallocarray(*array, wanted, size);
	if (!grown)
		return -ENOMEM;
	*array = grown;
	*capacity = wanted;
	return 0;
}

// FP_ARRAY_ROOM(store, items, 1): store->items has room for one more.
#define FP_ARRAY_ROOM(owner, field, extra)                                                         \
	fp_array_reserve((void **)&(owner)->field, &(owner)->field##_capacity,                     \
			 (owner)->field##_count, (extra), sizeof(*(owner)->field))
