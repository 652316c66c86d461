// SPDX-License-Identifier: Apache-2.0
//
// examples: profiles for the tests of everything that reads or writes batches.
#pragma once

#include "proto/profile.h"

// The profile of the worked example in docs/wire.md: one host, two builds, two stacks.
struct fp_profile *example_documented(void);
// `scale` stacks over all kinds of frames and builds, label sets of several sizes, hostile
// strings, both types and full quality records; the same seed gives the same profile.
struct fp_profile *example_random(uint32_t scale, uint32_t seed);
// Fails the running cmocka test when the two differ in anything that the wire carries.
void assert_same_profile(const struct fp_profile *a, const struct fp_profile *b);
