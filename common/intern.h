// SPDX-License-Identifier: Apache-2.0
//
// intern: byte strings to dense ids 0,1,2,… in order of first sight. Id 0 is always the
// empty string. Strings may hold any byte but are stored NUL-terminated as well.
// Ownership: the table owns one copy of each string; pointers stay valid until free or
// clear. Threads: none shared.
#pragma once

#include "hashmap.h"

struct fp_intern {
	char **strings;
	uint32_t *sizes;
	uint32_t count;
	uint32_t capacity;
	size_t bytes;	 // memory held by the strings themselves
	uint32_t *index; // open-addressing table of id + 1, private
	uint32_t index_capacity;
};

#define FP_INTERN_NONE UINT32_MAX

int fp_intern_init(struct fp_intern *intern);
void fp_intern_free(struct fp_intern *intern);
// Id of the string, added when new. Errors: -ENOMEM.
int fp_intern_add(struct fp_intern *intern, const char *string, size_t size, uint32_t *ret_id);
uint32_t fp_intern_find(const struct fp_intern *intern, const char *string, size_t size);
static inline const char *fp_intern_get(const struct fp_intern *intern, uint32_t id)
{
	return intern->strings[id];
}
