/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * hash: the 128-bit key of a stack. Two independent 64-bit lanes, each a chain of
 * bijections (xor or add of the input, multiplication by an odd constant, xor-shift), so
 * equal-length inputs that differ in one word never meet in a lane by construction, and others
 * meet in both with probability 2^-128. Multipliers are xxHash's primes. Not for hostile
 * keys: an attacker who could choose return addresses could at best merge two of his own
 * stacks, since the process instance is mixed in first.
 * Pure logic: also compiled natively by the tests.
 */
#ifndef FLEETPROF_HASH_H
#define FLEETPROF_HASH_H

#include "bpf/abi.h"

struct fp_hash {
	fp_u64 a;
	fp_u64 b;
};

static inline __attribute__((always_inline)) void fp_hash_mix(struct fp_hash *hash, fp_u64 word)
{
	hash->a = (hash->a ^ word) * 0x9E3779B185EBCA87ULL;
	hash->a ^= hash->a >> 32;
	hash->b = (hash->b + word) * 0xC2B2AE3D27D4EB4FULL;
	hash->b ^= hash->b >> 29;
}

static inline __attribute__((always_inline)) fp_u64 fp_hash_finish_lane(fp_u64 lane)
{
	lane ^= lane >> 33;
	lane *= 0xff51afd7ed558ccdULL;
	lane ^= lane >> 33;
	return lane;
}

static inline __attribute__((always_inline)) void fp_hash_finish(const struct fp_hash *hash,
								 struct fp_key *ret_key)
{
	ret_key->hi = fp_hash_finish_lane(hash->a);
	ret_key->lo = fp_hash_finish_lane(hash->b);
}

#endif
