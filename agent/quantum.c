// SPDX-License-Identifier: Apache-2.0
#include "quantum.h"

#include "common/clock.h"

#include <math.h>

double fp_quantum_walks(const struct fp_durations *durations, uint64_t quantum_ns)
{
	double walks = 0;

	for (int i = 0; i < FP_DURATION_BUCKETS; i++) {
		double count = (double)durations->count[i], sum = (double)durations->sum_ns[i];

		if (count == 0)
			continue;
		walks += sum / count >= (double)quantum_ns ? count : sum / (double)quantum_ns;
	}
	return walks;
}

uint64_t fp_quantum_for(const struct fp_durations *durations, double walks)
{
	uint64_t quantum = FP_QUANTUM_LEAST;

	while (quantum < FP_QUANTUM_MOST && fp_quantum_walks(durations, quantum) > walks)
		quantum += quantum / 8;
	return quantum < FP_QUANTUM_MOST ? quantum : FP_QUANTUM_MOST;
}

uint64_t fp_quantum_next(uint64_t quantum_ns, const struct fp_durations *durations,
			 uint64_t elapsed_ns, uint32_t walks_per_second)
{
	double seconds = (double)elapsed_ns / FP_NS_PER_S;
	uint64_t fitting = fp_quantum_for(durations, walks_per_second * seconds);

	return fitting < quantum_ns / 2 ? quantum_ns / 2 : fitting;
}

uint64_t fp_weight_next(uint64_t weight, uint64_t departures, uint64_t elapsed_ns,
			uint32_t walks_per_second)
{
	double walks = walks_per_second * ((double)elapsed_ns / FP_NS_PER_S);
	uint64_t fitting = 1;

	if (walks < (double)departures)
		fitting = walks >= 1 ? (uint64_t)ceil((double)departures / walks) : FP_WEIGHT_MOST;
	if (fitting > FP_WEIGHT_MOST)
		fitting = FP_WEIGHT_MOST;
	return fitting < weight / 2 ? weight / 2 : fitting;
}
