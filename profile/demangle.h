// SPDX-License-Identifier: Apache-2.0
//
// demangle: linker names → names as people write them: C++ (with parameters), Rust legacy
// and v0, D, through libiberty. Input longer than 4,096 bytes stays as it is: what the demangler
// makes of a name can be far longer than the name. Private to profile/.
// Trust: names come from foreign symbol tables. Threads: no state.
#pragma once

#include "common/buf.h"

#define FP_DEMANGLE_INPUT_MAX  4096
#define FP_DEMANGLE_OUTPUT_MAX 8192

// Appends the readable name, or the name itself when it is no mangled one.
int fp_demangle(const char *name, struct fp_buf *ret_text);
