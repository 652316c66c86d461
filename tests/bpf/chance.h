// SPDX-License-Identifier: Apache-2.0
//
// chance: how far the estimate of a stack may be from the truth when its intervals were sampled
// with a quantum T. An interval d < T counts T with probability d / T: the variance of its count
// is d (T - d), and its lot changes the sum by T at most. With a weight w, as on the way out, one
// interval in w counts w d: variance d² (w - 1). Times in seconds.
#pragma once

#include <jansson.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/abi.h"

struct spread {
	double variance, largest; // the greatest that one interval's lot can change, s
	double kept;
};

// Adds `count` intervals of `sum` seconds in all, about as long as one another.
static inline void spread_add(struct spread *spread, double count, double sum, double quantum,
			      double weight)
{
	double squares = sum * sum / count;

	if (sum / count < quantum) {
		spread->variance += sum * quantum - squares;
		spread->largest = fmax(spread->largest, quantum);
	}
	if (weight > 1) {
		spread->variance += squares * (weight - 1);
		spread->largest = fmax(spread->largest, sum / count * weight);
	}
}

// Of the estimate of a stack whose waits were so long, in buckets [waits, nanoseconds].
static inline struct spread stack_spread(const json_t *lengths, double quantum, double weight)
{
	struct spread spread = { 0 };
	const json_t *bucket;
	size_t i;

	json_array_foreach(lengths, i, bucket)
	{
		double count = (double)json_integer_value(json_array_get(bucket, 0));
		double sum = (double)json_integer_value(json_array_get(bucket, 1)) / 1e9;

		spread_add(&spread, count, sum, quantum, weight);
	}
	return spread;
}

// Of a whole sampler in one epoch. Its buckets are an octave wide: a sum of squares can be an
// eighth more than what equal lengths would make.
static inline void epoch_spread(struct spread *spread, const struct fp_durations *durations,
				double quantum, double weight)
{
	for (int i = 0; i < FP_DURATION_BUCKETS; i++) {
		if (durations->count[i] > 0)
			spread_add(spread, (double)durations->count[i],
				   (double)durations->sum_ns[i] / 1e9, quantum,
				   1 + (weight - 1) * 1.125);
	}
}

// What the error of a sum of independent lots exceeds with a probability below `error` / `tests`,
// by Bernstein's inequality, which holds however few lots there are; of many that were kept the
// sum is near enough to normal, and the bound is without what one lot alone can do.
static inline double chance_bound(const struct spread *spread, double error, uint32_t tests)
{
	double nats = log(2 * tests / error),
	       third = spread->kept < 500 ? spread->largest * nats / 3 : 0;

	return third + sqrt(third * third + 2 * spread->variance * nats);
}
