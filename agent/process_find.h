// SPDX-License-Identifier: Apache-2.0
//
// process_find: a running process that has a build mapped, so that the build's file can be had
// from it whatever its path says by now. Beside the process table, which need not know what a
// build is asked for.
// Cost: one pass over the table's files, and over the mappings of running processes until one
// is found that still is as the table says; a few reads of /proc.
// Threads: the owner of the table.
#pragma once

#include "names.h"
#include "process.h"

struct fp_process_find {
	struct fp_build build;	   // with its kind; no path
	struct fp_names_file file; // as /proc shows it now
	char name[4096];	   // file.name
};

// names: for files that the kernel gave no build-ID of, NULL: they are not looked at.
// -ENOENT: no process that runs has it mapped; -ENOMEM.
int fp_process_table_find_build(const struct fp_process_table *table, const struct fp_names *names,
				const struct fp_build *wanted, struct fp_process_find *ret);
struct fp_session;
int fp_session_find_build(const struct fp_session *session, const struct fp_build *wanted,
			  struct fp_process_find *ret);
