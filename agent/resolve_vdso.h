// SPDX-License-Identifier: Apache-2.0
//
// resolve_vdso: the build-ID of the vDSO that this kernel gives to 64-bit processes, read
// from our own copy of it in memory. Threads: first call initialises, one owner.
#pragma once

#include <stddef.h>
#include <stdint.h>

// The id, or NULL with length 0 when there is no vDSO or it has no note.
const uint8_t *fp_vdso_build_id(size_t *ret_len);
