// SPDX-License-Identifier: Apache-2.0
//
// lots: numbers by lot, the same in every run; a test program sets random_state to begin anew.
#pragma once

#include <stdint.h>

static uint64_t random_state = 1;

// xorshift64* (Vigna 2016)
static inline uint32_t random_below(uint32_t bound)
{
	random_state ^= random_state >> 12;
	random_state ^= random_state << 25;
	random_state ^= random_state >> 27;
	return (uint32_t)((random_state * 0x2545F4914F6CDD1DULL >> 32) * bound >> 32);
}
