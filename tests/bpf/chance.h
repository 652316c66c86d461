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

struct spread {
	double variance, largest; // the greatest that one interval's lot can change, s
};

// Of the estimate of a stack whose waits were so long, in buckets [waits, nanoseconds].
static inline struct spread sampling_spread(const json_t *lengths, double quantum, double weight)
{
	struct spread spread = { 0 };
	const json_t *bucket;
	size_t i;

	json_array_foreach(lengths, i, bucket)
	{
		double count = (double)json_integer_value(json_array_get(bucket, 0));
		double sum = (double)json_integer_value(json_array_get(bucket, 1)) / 1e9;

		if (sum / count < quantum) {
			spread.variance += sum * quantum - sum * sum / count;
			spread.largest = quantum;
		}
		if (weight > 1) {
			spread.variance += sum * sum / count * (weight - 1);
			spread.largest = weight * sum / count;
		}
	}
	return spread;
}

// What the error of a sum of independent lots exceeds with a probability below `error` / `tests`,
// by Bernstein's inequality, which holds however few lots there are.
static inline double chance_bound(const struct spread *spread, double error, uint32_t tests)
{
	double nats = log(2 * tests / error), third = spread->largest * nats / 3;

	return third + sqrt(third * third + 2 * spread->variance * nats);
}
