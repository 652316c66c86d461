// SPDX-License-Identifier: Apache-2.0
//
// quantum: the controller that keeps off-CPU stack walks within a budget. From the durations of
// all intervals of the last epoch it reckons how many walks a second each quantum would cost,
// and takes the least quantum that stays within the budget: more walks than that cost the host,
// fewer waste accuracy. Upwards it goes at once; downwards by at most half a step at a time, so
// that a load in bursts does not meet too small a quantum at every burst.
// Source: for threshold sampling with quantum T the expected walks are the intervals of T and
// more, and Σd / T over the shorter ones (bpf/threshold.h).
// Pure: no clock, no state but its arguments.
#pragma once

#include "bpf/abi.h"

#include <stdint.h>

// Expected walks for intervals like these with this quantum. Within a bucket all intervals are
// taken to be of its mean length.
double fp_quantum_walks(const struct fp_durations *durations, uint64_t quantum_ns);
// The least quantum, in steps of an eighth, with at most `walks` expected walks.
// Between FP_QUANTUM_LEAST and FP_QUANTUM_MOST.
uint64_t fp_quantum_for(const struct fp_durations *durations, double walks);
// The quantum of the next epoch, after one of elapsed_ns with these durations.
uint64_t fp_quantum_next(uint64_t quantum_ns, const struct fp_durations *durations,
			 uint64_t elapsed_ns, uint32_t walks_per_second);
// The same for the weight of departures kept on the way out, `departures` of them.
uint64_t fp_weight_next(uint64_t weight, uint64_t departures, uint64_t elapsed_ns,
			uint32_t walks_per_second);
