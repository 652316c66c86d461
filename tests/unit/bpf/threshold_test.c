// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "bpf/threshold.h"

#define MS 1000000ULL

// A lot that takes every value below `quantum` once: the mean is then exact.
static uint64_t mean_over_all_lots(uint64_t duration, uint64_t quantum)
{
	uint64_t sum = 0;

	for (uint64_t lot = 0; lot < quantum; lot++)
		sum += fp_threshold_value(duration, quantum, lot);
	assert_int_equal(sum % quantum, 0);
	return sum / quantum;
}

static void an_interval_counts_for_its_length_on_average(void **state)
{
	static const uint64_t durations[] = { 0, 1, 2, 499, 500, 998, 999, 1000, 1001, 5000 };

	for (size_t i = 0; i < sizeof(durations) / sizeof(durations[0]); i++)
		assert_int_equal(mean_over_all_lots(durations[i], 1000), durations[i]);
}

static void a_long_one_is_always_kept_at_its_own_length(void **state)
{
	assert_int_equal(fp_threshold_value(10 * MS, 10 * MS, UINT64_MAX), 10 * MS);
	assert_int_equal(fp_threshold_value(10 * MS, 10 * MS, 0), 10 * MS);
	assert_int_equal(fp_threshold_value(3600ULL * 1000 * MS, MS, 17), 3600ULL * 1000 * MS);
	assert_int_equal(fp_threshold_value(5, 0, 17), 5); // no quantum: every interval
	assert_int_equal(fp_threshold_value(0, 0, 17), 0);
}

static void a_short_one_counts_for_the_quantum_or_not(void **state)
{
	assert_int_equal(fp_threshold_value(2 * MS, 10 * MS, 2 * MS - 1), 10 * MS);
	assert_int_equal(fp_threshold_value(2 * MS, 10 * MS, 2 * MS), 0);
	// Beyond 32 bits, too.
	assert_int_equal(fp_threshold_value(1ULL << 40, 1ULL << 41, (1ULL << 40) - 1), 1ULL << 41);
	assert_int_equal(fp_threshold_value(1ULL << 40, 1ULL << 41, 1ULL << 40), 0);
}

// The lots are evenly spread over 32 bits, so the mean is exact to their grain.
static void thirty_two_random_bits_serve_as_well(void **state)
{
	static const uint64_t durations[] = { 1, 999, 20000, 9999999 };
	const uint64_t quantum = 10 * MS, lots = 1 << 20;

	for (size_t i = 0; i < sizeof(durations) / sizeof(durations[0]); i++) {
		double kept = 0;

		for (uint64_t lot = 0; lot < lots; lot++) {
			uint64_t value = fp_threshold_narrow(durations[i], quantum,
							     (uint32_t)(lot * 4096 + 2048));

			assert_true(value == 0 || value == quantum);
			kept += value != 0;
		}
		assert_float_equal(kept / (double)lots * (double)quantum, (double)durations[i],
				   (double)quantum / (double)lots);
	}
	assert_int_equal(fp_threshold_narrow(quantum, quantum, UINT32_MAX), quantum);
	assert_int_equal(fp_threshold_narrow(0, quantum, 0), 0);
}

static void the_brake_doubles_for_every_further_share_of_walks(void **state)
{
	assert_int_equal(fp_brake_level(0, 49, 50), 0);
	assert_int_equal(fp_brake_level(0, 50, 50), 1);
	assert_int_equal(fp_brake_level(0, 149, 50), 2);
	assert_int_equal(fp_brake_level(3, 149, 50), 5);
	assert_int_equal(fp_brake_level(39, 100000, 50), FP_BRAKE_LEVELS);
	assert_int_equal(fp_brake_level(0, 100000, UINT64_MAX), 0);
	assert_int_equal(fp_brake_level(0, 5, 0), 0);
}

static void the_brake_carries_over_and_lets_go_slowly(void **state)
{
	// The next slice begins where this one ended.
	assert_int_equal(fp_brake_carry(2, 120, 50, 1), 4);
	// Neither too many nor few: as it is.
	assert_int_equal(fp_brake_carry(4, 30, 50, 1), 4);
	// Quiet: one doubling less, and one for each slice since without a walk.
	assert_int_equal(fp_brake_carry(4, 10, 50, 1), 3);
	assert_int_equal(fp_brake_carry(4, 10, 50, 3), 1);
	assert_int_equal(fp_brake_carry(4, 10, 50, 9), 0);
	assert_int_equal(fp_brake_carry(0, 0, 50, UINT64_MAX / 2), 0);
}

// A load of a million intervals of 10 µs a second, ideal lots: the walks of a second.
static void the_brake_alone_bounds_walks_from_any_start(void **state)
{
	uint64_t carried = 0, walks_in_all = 0;

	for (int slice = 0; slice < 20; slice++) {
		uint64_t walks = 0, level = carried;
		double owed = 0;

		for (int i = 0; i < 100000; i++) {
			uint64_t quantum;

			level = fp_brake_level(carried, walks, 50);
			quantum = fp_quantum_raised(1000, level);
			owed += 10000 >= quantum ? 1 : 10000.0 / (double)quantum;
			if (owed >= 1) {
				owed -= 1;
				walks++;
			}
		}
		carried = fp_brake_carry(carried, walks, 50, 1);
		if (slice >= 1) // the first finds its level
			assert_true(walks <= 100);
		walks_in_all += walks;
	}
	assert_true(walks_in_all < 20 * 100 + 1000);
}

static void quantum_and_weight_are_raised_within_bounds(void **state)
{
	assert_int_equal(fp_quantum_raised(5 * MS, 0), 5 * MS);
	assert_int_equal(fp_quantum_raised(0, 0), 0);
	assert_int_equal(fp_quantum_raised(0, 1), 2000);
	assert_int_equal(fp_quantum_raised(5 * MS, 3), 40 * MS);
	assert_int_equal(fp_quantum_raised(5 * MS, 40), FP_QUANTUM_MOST);
	assert_int_equal(fp_quantum_raised(FP_QUANTUM_MOST, 1), FP_QUANTUM_MOST);
	assert_int_equal(fp_weight_raised(1, 0), 1);
	assert_int_equal(fp_weight_raised(0, 0), 1);
	assert_int_equal(fp_weight_raised(3, 4), 48);
	assert_int_equal(fp_weight_raised(3, 25), FP_WEIGHT_MOST);
}

static void buckets_are_powers_of_two_of_microseconds(void **state)
{
	static const struct {
		uint64_t duration_ns;
		uint32_t bucket;
	} rows[] = {
		{ 0, 0 },
		{ 999, 0 },
		{ 1000, 1 },
		{ 1999, 1 },
		{ 2000, 2 },
		{ 3999, 2 },
		{ 4000, 3 },
		{ 10 * MS, 14 }, // 8192 µs to 16384 µs
		{ 16383999, 14 },
		{ 16384000, 15 },
		{ 1000ULL * (1ULL << 31) - 1, 31 },
		{ 1000ULL * (1ULL << 31), 32 },
		{ UINT64_MAX, FP_DURATION_BUCKETS - 1 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_int_equal(fp_duration_bucket(rows[i].duration_ns), rows[i].bucket);
	for (uint32_t i = 1; i < FP_DURATION_BUCKETS - 1; i++) {
		uint64_t least_ns = 1000ULL << (i - 1);

		assert_int_equal(fp_duration_bucket(least_ns), i);
		assert_int_equal(fp_duration_bucket(least_ns - 1), i - 1);
		assert_int_equal(fp_duration_bucket(2 * least_ns - 1), i);
	}
}

static void a_departure_is_one_word(void **state)
{
	uint64_t word = fp_away_word(1000000007, FP_AWAY_WOKEN, 63);

	assert_int_equal(fp_away_elapsed(word, 1000000009), 2);
	assert_int_equal(fp_away_elapsed(word, 1000000000), -7);
	assert_int_equal(fp_away_tag(word), 63);
	assert_int_equal(word & FP_AWAY_REASON_MASK, FP_AWAY_WOKEN);
	word = fp_away_moved(word, 5);
	assert_int_equal(word, fp_away_word(5, FP_AWAY_WOKEN, 63));
}

static void lengths_are_right_at_any_uptime(void **state)
{
	static const uint64_t days[] = { 0, 416, 417, 418, 834, 900, 5000 };
	const uint64_t day = 24ULL * 3600 * 1000 * MS;

	for (size_t i = 0; i < sizeof(days) / sizeof(days[0]); i++) {
		uint64_t left = days[i] * day + 5;
		uint64_t word = fp_away_word(left, FP_AWAY_INTERRUPTIBLE, 1);

		assert_int_equal(fp_away_elapsed(word, left + 10 * MS), 10 * MS);
		assert_int_equal(fp_away_elapsed(word, left + 100 * day), 100 * day);
		assert_int_equal(fp_away_elapsed(word, left - 3), -3);
	}
}

// The offset as it is after so many readings at one moment.
static struct fp_offset known_offset(uint64_t clock, uint64_t value)
{
	struct fp_offset offset = { 0 };

	for (int i = 0; i < FP_OFFSET_READINGS; i++)
		fp_offset_read(&offset, clock, clock + value);
	assert_int_equal(offset.value, value);
	assert_int_equal(fp_offset_due(&offset, clock + 4 * MS - 1), 0);
	assert_int_equal(fp_offset_due(&offset, clock + 4 * MS), 1);
	return offset;
}

static void an_offset_is_the_least_late_of_the_first_readings(void **state)
{
	static const uint64_t late[FP_OFFSET_READINGS] = { 1141041, 90000, 300, 700 };
	struct fp_offset offset = { 0 };
	uint64_t clock = 900 * MS;

	for (int i = 0; i < FP_OFFSET_READINGS; i++) {
		assert_true(fp_offset_due(&offset, clock));
		fp_offset_read(&offset, clock, clock + 5000 + late[i]);
		clock += MS;
	}
	assert_int_equal(offset.value, 5000 + 300);
	assert_false(fp_offset_due(&offset, clock));
}

// Where readings come so seldom that the clocks drift between them, each is used as it is.
static void an_offset_of_readings_far_apart_is_never_known(void **state)
{
	struct fp_offset offset = { 0 };

	for (uint64_t clock = 900 * MS; clock < 2000 * MS; clock += 10 * MS) {
		assert_true(fp_offset_due(&offset, clock));
		fp_offset_read(&offset, clock, clock + 5000);
	}
}

static void a_late_reading_of_the_clocks_is_not_believed(void **state)
{
	struct fp_offset offset = known_offset(900 * MS, 5000);

	fp_offset_read(&offset, 904 * MS, 904 * MS + 4000); // earlier: at once
	assert_int_equal(offset.value, 4000);
	fp_offset_read(&offset, 908 * MS, 908 * MS + 7900); // drift
	assert_int_equal(offset.value, 7900);
	fp_offset_read(&offset, 912 * MS, 914 * MS); // something came between
	for (int i = 1; i < FP_OFFSET_READINGS; i++) {
		assert_true(fp_offset_due(&offset, 912 * MS));
		fp_offset_read(&offset, 912 * MS, 912 * MS + 7950 + i);
	}
	assert_false(fp_offset_due(&offset, 912 * MS));
	assert_int_equal(offset.value, 7951);
	offset = known_offset(900 * MS, -5000ULL); // offsets may be negative
	fp_offset_read(&offset, 904 * MS, 904 * MS - 6000);
	assert_int_equal(offset.value, -6000ULL);
	fp_offset_read(&offset, 908 * MS, 908 * MS + 1);
	assert_true(fp_offset_due(&offset, 908 * MS));
}

// After a long time without, drift would excuse any delay.
static void one_reading_after_a_long_time_is_not_believed(void **state)
{
	struct fp_offset offset = known_offset(900 * MS, 5000);

	fp_offset_read(&offset, 5900 * MS, 5900 * MS + 5000 + 900000);
	for (int i = 1; i < FP_OFFSET_READINGS; i++) {
		assert_true(fp_offset_due(&offset, 5900 * MS));
		fp_offset_read(&offset, 5900 * MS, 5900 * MS + 6000);
	}
	assert_int_equal(offset.value, 6000);
}

static void clocks_that_were_set_apart_are_followed(void **state)
{
	struct fp_offset offset = known_offset(900 * MS, 5000);

	for (int i = 0; i < FP_OFFSET_READINGS; i++)
		fp_offset_read(&offset, 904 * MS, 5904 * MS + (i == 2 ? 0 : 10));
	assert_int_equal(offset.value, 5000 * MS); // the least late of them
	for (int i = 0; i < FP_OFFSET_READINGS; i++)
		fp_offset_read(&offset, 100 * MS, 5100 * MS + 20); // the first was set back
	assert_int_equal(offset.value, 5000 * MS + 20);
	assert_false(fp_offset_due(&offset, 101 * MS));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_interval_counts_for_its_length_on_average),
		cmocka_unit_test(a_long_one_is_always_kept_at_its_own_length),
		cmocka_unit_test(a_short_one_counts_for_the_quantum_or_not),
		cmocka_unit_test(thirty_two_random_bits_serve_as_well),
		cmocka_unit_test(the_brake_doubles_for_every_further_share_of_walks),
		cmocka_unit_test(the_brake_carries_over_and_lets_go_slowly),
		cmocka_unit_test(the_brake_alone_bounds_walks_from_any_start),
		cmocka_unit_test(quantum_and_weight_are_raised_within_bounds),
		cmocka_unit_test(buckets_are_powers_of_two_of_microseconds),
		cmocka_unit_test(a_departure_is_one_word),
		cmocka_unit_test(lengths_are_right_at_any_uptime),
		cmocka_unit_test(an_offset_is_the_least_late_of_the_first_readings),
		cmocka_unit_test(an_offset_of_readings_far_apart_is_never_known),
		cmocka_unit_test(a_late_reading_of_the_clocks_is_not_believed),
		cmocka_unit_test(one_reading_after_a_long_time_is_not_believed),
		cmocka_unit_test(clocks_that_were_set_apart_are_followed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
