// SPDX-License-Identifier: Apache-2.0
//
// spool_index: what the spool directory holds, oldest first. A scan reads the directory and
// keeps what it already knew: files are immutable, so a header is read once. Temporary files
// and names that are not ours are passed over.
// Ownership: the index owns its array. Threads: one owner.
#pragma once

#include "spool_file.h"

enum fp_spool_state {
	FP_SPOOL_GOOD,
	FP_SPOOL_BAD,	 // header damaged, or the file has another length than it says
	FP_SPOOL_FOREIGN // of another version: counts as bytes, is not shipped
};

struct fp_spool_entry {
	uint64_t sequence;
	uint64_t bytes;
	enum fp_spool_state state;
	struct fp_spool_header header; // zero unless GOOD
};

struct fp_spool_index {
	struct fp_spool_entry *entries;
	size_t count, capacity;
};

#define FP_SPOOL_NAME_MAX 32
// "<20 digits>.batch"
void fp_spool_name(uint64_t sequence, char ret_name[FP_SPOOL_NAME_MAX]);
bool fp_spool_name_parse(const char *name, uint64_t *ret_sequence);

void fp_spool_index_free(struct fp_spool_index *index);
int fp_spool_index_scan(struct fp_spool_index *index, int directory_fd); // 0 or -errno
void fp_spool_index_remove(struct fp_spool_index *index, size_t position);
// Calls fn(name) for every name in the directory but "." and "..". 0 or -errno.
int fp_spool_each_name(int directory_fd, int (*fn)(const char *name, void *context), void *context);
