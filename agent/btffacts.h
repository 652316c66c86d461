// SPDX-License-Identifier: Apache-2.0
//
// btffacts: what the running kernel's type information says of tracepoints and enumerations.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct btf;

// Arguments of the tracepoint `name`, 0 when the kernel does not have it.
uint32_t fp_btf_tracepoint_arguments(const struct btf *btf, const char *name);
// The value of `name` in the enumeration. False: no such enumeration or name.
bool fp_btf_enumerator(const struct btf *btf, const char *enumeration, const char *name,
		       uint32_t *ret);
