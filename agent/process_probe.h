// SPDX-License-Identifier: Apache-2.0
//
// process_probe: asks the kernel for the build-ID of a file that a process read from /proc has
// mapped, on kernels whose PROCMAP_QUERY cannot tell (before 6.11), through agent/buildprobe.h.
// Each file, by device and inode, is asked about once. The file is opened through
// /proc/PID/map_files, so it is the mapped one whatever its path says now.
// Threads: the owner of the table.
#pragma once

#include "process_table.h"
#include "procfs.h"

void fp_process_probe_init(struct fp_process_table *table); // without a probe nothing is asked
void fp_process_probe_free(struct fp_process_table *table);
// Fills in build_id and build_id_len of file where the kernel knows them.
void fp_process_probe(struct fp_process_table *table, int dirfd, const struct fp_procfs_map *map,
		      struct fp_file *file);
