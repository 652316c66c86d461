// SPDX-License-Identifier: Apache-2.0
//
// unwind_callers: a caller's registers, by libdw's word and by a table's rule, out of made-up
// registers and memory: whoever reads another register or another place gets other numbers.
#pragma once

#include "bpf/abi.h"

#include <elfutils/libdw.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RBX	  3
#define RBP	  6
#define RSP	  7
#define RIP	  16
#define REGISTERS 17

struct machine {
	uint64_t regs[REGISTERS];
	uint64_t seed; // of memory
};

enum what { // what is said of a register of the caller
	KNOWN,
	UNDEFINED,
	NOT_SAID, // in a form that is not understood
};
struct said {
	enum what what;
	uint64_t value;
};
struct caller {
	struct said cfa, rip, rbp, rbx;
};

uint64_t callers_mix(uint64_t x); // a number for a number
// Standing at address; state: which of the many.
struct machine callers_machine(uint64_t address, uint64_t state);
struct caller callers_by_libdw(Dwarf_Frame *frame, const struct machine *machine);
// rule: of a kind that finds a frame.
struct caller callers_by_rule(const struct fp_unwind_rule *rule, const struct machine *machine);
