// SPDX-License-Identifier: Apache-2.0
//
// names_jit: what the parts of the JIT names share: the watch list (names_jit.c), the maps that the
// role holds for it (names_maps.c), and what becomes of them when a process ends (names_ended.c).
// Threads: the owner's.
#pragma once

#include "names_state.h"

// None of the watch's addresses waits any more.
void fp_watch_satisfy(struct fp_names *names, struct fp_watch *watch);
// None of any watch, and what has been named is forgotten.
void fp_watch_forget_names(struct fp_names *names);
// Gives the watch's map back, if it has one; the role is told later.
void fp_watch_close_map(struct fp_names *names, struct fp_watch *watch);
// Likewise, and none is looked for any more.
void fp_watch_close_for_good(struct fp_names *names, struct fp_watch *watch);

// The process, or its program, has ended: an open map is sealed, any other not looked for.
void fp_watch_end(struct fp_names *names, struct fp_watch *watch, enum fp_watch_end how,
		  uint64_t ended_ns);
void fp_watch_seal(struct fp_names *names, struct fp_watch *watch);   // its map, which is open
void fp_watch_unseal(struct fp_names *names, struct fp_watch *watch); // it has none any more
bool fp_watch_begin_seal(struct fp_names *names);
void fp_watch_end_seal(struct fp_names *names, const struct fp_names_result *result);
// When the program began, CLOCK_MONOTONIC.
static inline uint64_t fp_watch_began_ns(const struct fp_names_process *process)
{
	return process->exec_ns > process->start_ns ? process->exec_ns : process->start_ns;
}
