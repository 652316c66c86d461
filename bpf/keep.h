/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * keep: the lots that keep an interval or a departure, by the quantum and weight that user space
 * sets and the brake that raises both between two of its looks. The rules are bpf/threshold.h's;
 * here is their state, shared by all CPUs.
 */
#ifndef FLEETPROF_KEEP_H
#define FLEETPROF_KEEP_H

#include "bpf/kernel.h"
#include <bpf/bpf_helpers.h>
#include "bpf/threshold.h"

/* Set by user space while the programs run; see struct fp_offcpu_control. */
volatile struct fp_offcpu_control fp_control = { .weight = 1, .slice_walks = 1 };
volatile struct fp_offcpu_control fp_waker_control = { .weight = 1, .slice_walks = 1 };
volatile struct fp_brake fp_brake, fp_waker_brake;

static __always_inline u64 lot(void)
{
	return ((u64)bpf_get_prandom_u32() << 32) | bpf_get_prandom_u32();
}

/* Doublings of quantum and weight in effect now. */
static __always_inline u64 brake_level(volatile struct fp_brake *brake,
				       volatile struct fp_offcpu_control *control, u64 now)
{
	u64 elapsed = now - brake->slice_start_ns, level = brake->level, walks = brake->walks;

	if (!level && walks < control->slice_walks)
		return 0;
	if (elapsed < FP_BRAKE_SLICE_NS || elapsed >> 63)
		return fp_brake_level(level, walks, control->slice_walks);
	return fp_brake_carry(level, walks, control->slice_walks, elapsed / FP_BRAKE_SLICE_NS);
}

/* A stack is going to be walked. Whoever moves the slice's start begins the next slice. */
static __always_inline void brake_walk(volatile struct fp_brake *brake,
				       volatile struct fp_offcpu_control *control, u64 now)
{
	u64 start = brake->slice_start_ns, elapsed = now - start, walks;

	if (elapsed < FP_BRAKE_SLICE_NS || elapsed >> 63 ||
	    __sync_val_compare_and_swap(&brake->slice_start_ns, start, now) != start) {
		__sync_fetch_and_add(&brake->walks, 1);
	} else {
		walks = __sync_lock_test_and_set(&brake->walks, 1);
		brake->level = fp_brake_carry(brake->level, walks, control->slice_walks,
					      elapsed / FP_BRAKE_SLICE_NS);
	}
	brake->quantum_ns =
	    fp_quantum_raised(control->quantum_ns, brake_level(brake, control, now));
	if (brake->quantum_ns > brake->quantum_max_ns)
		brake->quantum_max_ns = brake->quantum_ns;
}

/* 32 random bits without a call: a linear congruential generator of 64 bits, of which the upper
 * half is good (Knuth, MMIX). */
static __always_inline u32 quick_lot(u64 *state)
{
	if (!*state)
		*state = lot();
	*state = *state * 6364136223846793005ULL + 1442695040888963407ULL;
	return *state >> 32;
}

/* A function to the verifier too: its branches do not multiply those of the walk. */
__attribute__((noinline)) u64 fp_keep_slowly(u64 duration_ns, u64 now, u32 wakers)
{
	volatile struct fp_offcpu_control *control = wakers ? &fp_waker_control : &fp_control;
	volatile struct fp_brake *brake = wakers ? &fp_waker_brake : &fp_brake;
	u64 quantum = fp_quantum_raised(control->quantum_ns, brake_level(brake, control, now));

	if (quantum > brake->quantum_max_ns)
		brake->quantum_max_ns = quantum;
	return fp_threshold_value(duration_ns, quantum, lot());
}

/* The value an interval counts for; 0: not kept. Most are short, and the quantum is known. */
static __always_inline u64 keep_interval(u64 *lots, u64 duration_ns, u64 now)
{
	u64 quantum = fp_control.quantum_ns;

	if (fp_brake.level || fp_brake.walks >= fp_control.slice_walks)
		quantum =
		    now - fp_brake.slice_start_ns < FP_BRAKE_SLICE_NS ? fp_brake.quantum_ns : 0;
	if (!quantum || quantum >= FP_QUANTUM_NARROW)
		return fp_keep_slowly(duration_ns, now, 0);
	return fp_threshold_narrow(duration_ns, quantum, quick_lot(lots));
}

/* fp_way_out: how many departures this one stands for; 0: it is left out. */
static __always_inline u64 keep_departure(u64 now)
{
	u64 weight = fp_weight_raised(fp_control.weight, brake_level(&fp_brake, &fp_control, now));

	if (weight > fp_brake.weight_max)
		fp_brake.weight_max = weight;
	return weight <= 1 || lot() % weight == 0 ? weight : 0;
}

#endif
