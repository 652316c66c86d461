// SPDX-License-Identifier: Apache-2.0
//
// mark: frames that are no functions but say what the thread was doing. In wall time the last
// frame of a stack off the CPU says how it was off, so that one function's rectangle has its
// warm part and its cold part side by side. In a waker's stack `[woken by COMM]` parts the
// sleeper from the waker. A mark is known by its name, so that folded text keeps it.
// Private to profile/.
// Trust: names are foreign bytes. Threads: constants.
#pragma once

#include "tree.h"

#include "proto/profile.h"

#define FP_MARK_STATE_LABEL "state"

// The mark of a sample off the CPU; state: its label `state`, or NULL. False: it needs none.
bool fp_mark_frame(enum fp_profile_type type, const char *state, struct fp_tree_frame *ret_frame);
// The kind that a name in brackets has: of a mark, or FP_NODE_ERROR.
enum fp_node_kind fp_mark_kind(const char *name, size_t size);
