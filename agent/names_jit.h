// SPDX-License-Identifier: Apache-2.0
//
// names_jit: what the two halves of the JIT names share: the watch list (names_jit.c) and the
// maps that the role holds for it (names_maps.c).
// Threads: the owner's.
#pragma once

#include "names_state.h"

// None of the watch's addresses waits any more.
void fp_watch_satisfy(struct fp_names *names, struct fp_watch *watch);
// Gives the watch's map back, if it has one; the role is told later.
void fp_watch_close_map(struct fp_names *names, struct fp_watch *watch);
