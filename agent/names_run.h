// SPDX-License-Identifier: Apache-2.0
//
// names_run: what happens to the operation under way, for names.c, which waits and decides
// what is begun next.
// Trust: what children say is foreign. Threads: the owner's.
#pragma once

#include "names_state.h"

// Called when the socket is readable.
void fp_names_take_opener(struct fp_names *names, uint64_t now_ns);
void fp_names_take_role(struct fp_names *names, uint64_t now_ns);
// Called when the child has ended by itself or was killed.
void fp_names_opener_died(struct fp_names *names, uint64_t now_ns);
void fp_names_role_died(struct fp_names *names, uint64_t now_ns);
// Ends an operation that has taken too long, and whoever did not answer.
void fp_names_enforce_deadline(struct fp_names *names, uint64_t now_ns);
