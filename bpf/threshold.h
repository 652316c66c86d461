/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * threshold: which off-CPU intervals are kept and what they count for. With quantum T an
 * interval of d >= T is kept and counts d; a shorter one is kept with probability d / T and
 * counts T: the expected count is d either way, so totals are unbiased and no length is left
 * out, while at most (time off the CPU) / T short ones are kept. This is priority sampling's
 * fixed-threshold form (Duffield, Lund, Thorup: "Learn more, sample less", 2005).
 * On the way out durations are not known: one departure in `weight` is kept, at random, and
 * what it comes to counts weight times.
 * The brake: when a slice of time brings more walks than its share, quantum and weight double
 * for each further share, and what a slice ended with the next one begins with. The quantum of
 * an interval depends on those before it alone, never on its own lot, so nothing is biased.
 * Pure logic: also compiled natively by the tests.
 */
#ifndef FLEETPROF_THRESHOLD_H
#define FLEETPROF_THRESHOLD_H

#include "bpf/abi.h"

#define FP_BRAKE_LEVELS 40ULL

/* What an interval counts for, 0: it is not kept. `random` is uniform over 64 bits; the bias of
 * the remainder is below 2^-18. */
static inline __attribute__((always_inline)) fp_u64
fp_threshold_value(fp_u64 duration_ns, fp_u64 quantum_ns, fp_u64 random)
{
	if (duration_ns >= quantum_ns)
		return duration_ns;
	return random % quantum_ns < duration_ns ? quantum_ns : 0;
}

/*
 * The same with 32 random bits and without a division, for quanta below FP_QUANTUM_NARROW: an
 * interval's chance is then off by at most quantum / 2^32 ns, 3 % of a nanosecond.
 */
#define FP_QUANTUM_NARROW (1ULL << 27) /* 134 ms */

static inline __attribute__((always_inline)) fp_u64
fp_threshold_narrow(fp_u64 duration_ns, fp_u64 quantum_ns, fp_u32 random)
{
	if (duration_ns >= quantum_ns)
		return duration_ns;
	return ((fp_u64)random * quantum_ns) >> 32 < duration_ns ? quantum_ns : 0;
}

/* Doublings in effect: those carried over and those of this slice. */
static inline __attribute__((always_inline)) fp_u64 fp_brake_level(fp_u64 carried, fp_u64 walks,
								   fp_u64 slice_walks)
{
	fp_u64 level = carried;

	if (walks >= slice_walks && slice_walks)
		level += walks / slice_walks;
	return level < FP_BRAKE_LEVELS ? level : FP_BRAKE_LEVELS;
}

/*
 * What is carried into the slice that begins `slices` (at least 1) after the one that had `walks`:
 * what that came to, or one doubling less if it was quiet, and one less for each slice since then
 * without any walk.
 */
static inline __attribute__((always_inline)) fp_u64
fp_brake_carry(fp_u64 carried, fp_u64 walks, fp_u64 slice_walks, fp_u64 slices)
{
	fp_u64 level = fp_brake_level(carried, walks, slice_walks);
	fp_u64 less = slices - 1;

	if (walks * 2 < slice_walks)
		less++;
	return level > less ? level - less : 0;
}

static inline __attribute__((always_inline)) fp_u64 fp_quantum_raised(fp_u64 quantum_ns,
								      fp_u64 level)
{
	fp_u64 least = quantum_ns > FP_QUANTUM_LEAST ? quantum_ns : FP_QUANTUM_LEAST;

	if (!level)
		return quantum_ns;
	if (level >= 46 || least > FP_QUANTUM_MOST >> level)
		return FP_QUANTUM_MOST;
	return least << level;
}

static inline __attribute__((always_inline)) fp_u64 fp_weight_raised(fp_u64 weight, fp_u64 level)
{
	fp_u64 least = weight ? weight : 1;

	if (level >= 20 || least > FP_WEIGHT_MOST >> level)
		return FP_WEIGHT_MOST;
	return least << level;
}

/* See struct fp_durations. */
static inline __attribute__((always_inline)) fp_u32 fp_duration_bucket(fp_u64 duration_ns)
{
	/* BPF divides where native code multiplies, at every switch: by 2^38 / 1000 rounded up, which
	 * is exact over 32 bits. */
	fp_u64 rest = duration_ns >> 32 ? duration_ns / 1000 : duration_ns * 274877907 >> 38;
	fp_u32 bucket = 0;

	if (rest >> 32)
		return FP_DURATION_BUCKETS - 1;
	if (rest >> 16) {
		bucket += 16;
		rest >>= 16;
	}
	if (rest >> 8) {
		bucket += 8;
		rest >>= 8;
	}
	if (rest >> 4) {
		bucket += 4;
		rest >>= 4;
	}
	if (rest >> 2) {
		bucket += 2;
		rest >>= 2;
	}
	if (rest >> 1) {
		bucket += 1;
		rest >>= 1;
	}
	bucket += rest;
	return bucket < FP_DURATION_BUCKETS ? bucket : FP_DURATION_BUCKETS - 1;
}

/*
 * The offset from one clock to another, found out anew now and then. The second clock is read after
 * the first, so a reading can be late, when something came between them, but never early:
 * downwards it is believed at once, upwards by no more than two clocks may drift apart (1 in 1,024)
 * in the time since the last. What is later than that, or comes after so long a time that this
 * would say little, is not believed alone: the least late of FP_OFFSET_READINGS close to one another
 * is. All zero: not known yet.
 */
struct fp_offset {
	fp_u64 value;  /* second clock less first */
	fp_u64 read;   /* the first clock when it was found out, or the first of `wanted` taken */
	fp_u64 least;  /* of the readings taken so far */
	fp_u64 wanted; /* more readings until it is known; 0: it is */
};

#define FP_OFFSET_READINGS 4
#define FP_OFFSET_GOOD_NS  4000000ULL
#define FP_OFFSET_DRIFT_NS 16000000ULL /* so at most 16 us too late */

/* Whether both clocks are to be read; else the second is at `clock` + value. */
static inline __attribute__((always_inline)) int fp_offset_due(const struct fp_offset *offset,
							       fp_u64 clock)
{
	return offset->wanted || clock - offset->read >= FP_OFFSET_GOOD_NS;
}

/* The first clock was at `clock`, and then the second at `second`. */
static inline __attribute__((always_inline)) void fp_offset_read(struct fp_offset *offset,
								 fp_u64 clock, fp_u64 second)
{
	fp_u64 reading = second - clock, elapsed = clock - offset->read;

	if (elapsed > FP_OFFSET_DRIFT_NS) {
		offset->wanted = FP_OFFSET_READINGS;
	} else if (!offset->wanted) {
		if ((long long)(reading - offset->value - (elapsed >> 10)) <= 0) {
			offset->value = reading;
			offset->read = clock;
			return;
		}
		offset->wanted = FP_OFFSET_READINGS;
	}
	if (offset->wanted == FP_OFFSET_READINGS) {
		offset->read = clock;
		offset->least = reading;
	} else if ((long long)(reading - offset->least) < 0) {
		offset->least = reading;
	}
	if (--offset->wanted)
		return;
	offset->value = offset->least;
	offset->read = clock;
}

/*
 * A departure is one word, so that it is taken, cut and replaced atomically: the time in ns, and
 * in the bits below it a tag, which says whose or which it is, and the reason (enum
 * fp_away_reason). 0: not away.
 */
#define FP_AWAY_REASON_MASK 7ULL
#define FP_AWAY_TAG_SHIFT   3
#define FP_AWAY_TAG_MASK    63ULL
#define FP_AWAY_TIME_SHIFT  9

static inline __attribute__((always_inline)) fp_u64 fp_away_word(fp_u64 time_ns, fp_u32 reason,
								 fp_u32 tag)
{
	return (time_ns << FP_AWAY_TIME_SHIFT) |
	       ((fp_u64)(tag & FP_AWAY_TAG_MASK) << FP_AWAY_TAG_SHIFT) |
	       (reason & FP_AWAY_REASON_MASK);
}

/* Nanoseconds from the departure to `time_ns`, negative before it. The word holds the lower 55 bits
 * of the time, 417 days; so distances up to half of that are right at any uptime. */
static inline __attribute__((always_inline)) long long fp_away_elapsed(fp_u64 word, fp_u64 time_ns)
{
	fp_u64 left = word & ~((1ULL << FP_AWAY_TIME_SHIFT) - 1);

	return (long long)((time_ns << FP_AWAY_TIME_SHIFT) - left) >> FP_AWAY_TIME_SHIFT;
}

static inline __attribute__((always_inline)) fp_u32 fp_away_tag(fp_u64 word)
{
	return (fp_u32)(word >> FP_AWAY_TAG_SHIFT) & FP_AWAY_TAG_MASK;
}

/* The same departure at another time. */
static inline __attribute__((always_inline)) fp_u64 fp_away_moved(fp_u64 word, fp_u64 time_ns)
{
	return (time_ns << FP_AWAY_TIME_SHIFT) | (word & ((1ULL << FP_AWAY_TIME_SHIFT) - 1));
}

#endif
