// SPDX-License-Identifier: Apache-2.0
//
// demangle: linker names → names as people write them: C++ (with parameters) and Rust, both
// manglings, through libiberty. Private to profile/.
// Trust: names come from foreign symbol tables, and 175 bytes can stand for megabytes (each
// substitution may double what the ones before it said). So the output is counted as it
// comes, and a name that passes the bound stays mangled.
// Threads: no state.
#pragma once

#include "common/buf.h"

#define FP_DEMANGLE_INPUT_MAX  4096
#define FP_DEMANGLE_OUTPUT_MAX 8192

// Appends the readable name, or the name itself when it is no mangled one.
int fp_demangle(const char *name, struct fp_buf *ret_text);
