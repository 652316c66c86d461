// SPDX-License-Identifier: Apache-2.0
//
// fuzz: the entry point every fuzz target defines. It returns 0; a defect shows as a
// sanitizer report or an abort.
#pragma once

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
