// SPDX-License-Identifier: Apache-2.0
//
// brief: what a process that lives for some milliseconds does, and what it says of it. brief.c
// is such a program; briefs.c starts thousands and has children of its own that do the same
// without an exec. The work is done in leaves whose CPU time is measured around every call, so
// that the samples they must have are known; so is the time of the one wait before it.
#pragma once

#include <stdint.h>

#define BRIEF_LEAVES 4
#define BRIEF_FD     3 // where a process writes its report before it ends

struct brief_report {
	uint64_t leaf_cpu_ns;
	uint64_t waited_ns;
	uint32_t leaf;
	uint32_t forked; // 1: a child that executed no program
};
