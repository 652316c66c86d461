// SPDX-License-Identifier: Apache-2.0
//
// process_find: a running process that has a build mapped, so that the build's file can be had
// from it whatever its path says by now. Beside the process table, which need not know what a
// build is asked for.
// Anyone may run a file that claims to be the build: who looks tries one file after the other.
// Cost: one pass over the table's files, and over the mappings of running processes until one
// is found that still is as the table says; reads of /proc, as a rule one.
// Threads: the owner of the table.
#pragma once

#include "names.h"
#include "process.h"

struct fp_process_find {
	struct fp_build build;	   // with its kind; no path
	struct fp_names_file file; // as /proc shows it now
	char name[4096];	   // file.name
};

#define FP_PROCESS_TRIES_MAX 64u

struct fp_process_tried { // files that did not do
	uint32_t count;
	struct fp_process_tried_file {
		uint64_t device, inode; // as found
	} files[FP_PROCESS_TRIES_MAX];
};
// False: there are enough.
static inline bool fp_process_tried_add(struct fp_process_tried *tried,
					const struct fp_names_file *file)
{
	if (tried->count >= FP_PROCESS_TRIES_MAX)
		return false;
	tried->files[tried->count++] = (struct fp_process_tried_file){ file->device, file->inode };
	return true;
}

// names: for files that the kernel gave no build-ID of, NULL: they are not looked at.
// -ENOENT: no process that runs has it mapped from a file that was not tried; -ENOMEM.
int fp_process_table_find_build(const struct fp_process_table *table, const struct fp_names *names,
				const struct fp_build *wanted, const struct fp_process_tried *tried,
				struct fp_process_find *ret);
struct fp_session;
int fp_session_find_build(const struct fp_session *session, const struct fp_build *wanted,
			  const struct fp_process_tried *tried, struct fp_process_find *ret);
