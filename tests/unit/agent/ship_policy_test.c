// SPDX-License-Identifier: Apache-2.0
// What an answer means and how long to wait, as tables.
#include "agent/ship_policy.h"
#include "common/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define S FP_NS_PER_S

static void every_status_has_its_rule(void **state)
{
	static const struct {
		long status;
		enum fp_ship_action action;
	} cases[] = {
		{ 0, FP_SHIP_RETRY },
		{ 200, FP_SHIP_DONE },
		{ 204, FP_SHIP_DONE },
		{ 299, FP_SHIP_DONE },
		{ 301, FP_SHIP_RETRY_AT_CAP },
		{ 308, FP_SHIP_RETRY_AT_CAP },
		{ 400, FP_SHIP_REJECTED },
		{ 401, FP_SHIP_RETRY_AT_CAP },
		{ 403, FP_SHIP_RETRY_AT_CAP },
		{ 404, FP_SHIP_RETRY_AT_CAP },
		{ 405, FP_SHIP_RETRY_AT_CAP },
		{ 407, FP_SHIP_RETRY_AT_CAP },
		{ 408, FP_SHIP_RETRY },
		{ 409, FP_SHIP_REJECTED },
		{ 413, FP_SHIP_TOO_LARGE },
		{ 415, FP_SHIP_RETRY_AT_CAP },
		{ 422, FP_SHIP_REJECTED },
		{ 425, FP_SHIP_RETRY },
		{ 429, FP_SHIP_RETRY },
		{ 499, FP_SHIP_RETRY_AT_CAP },
		{ 500, FP_SHIP_RETRY },
		{ 502, FP_SHIP_RETRY },
		{ 503, FP_SHIP_RETRY },
		{ 504, FP_SHIP_RETRY },
		{ 599, FP_SHIP_RETRY },
		{ 100, FP_SHIP_RETRY_AT_CAP },
		{ 600, FP_SHIP_RETRY_AT_CAP },
		{ 999, FP_SHIP_RETRY_AT_CAP },
		{ 100000, FP_SHIP_RETRY_AT_CAP },
		{ -1, FP_SHIP_RETRY_AT_CAP },
	};

	for (size_t i = 0; i < FP_ARRAY_SIZE(cases); i++)
		if (fp_ship_rule_for(cases[i].status)->action != cases[i].action)
			fail_msg("status %ld", cases[i].status);
}

static void retry_after_is_read_in_both_forms_and_clamped(void **state)
{
	// 2026-01-01 00:00:00 UTC
	const uint64_t now_s = 1767225600;
	static const struct {
		const char *value;
		uint64_t seconds;
	} cases[] = {
		{ "1", 1 },
		{ "120", 120 },
		{ "3600", 3600 },
		{ "3601", 3600 },
		{ "315360000", 3600 },
		{ "99999999999999999999999999", 3600 },
		{ "0", 0 },
		{ "-5", 0 },
		{ "1.5", 0 },
		{ "", 0 },
		{ "soon", 0 },
		{ "12 monkeys", 0 },
		{ "Thu, 01 Jan 2026 00:02:00 GMT", 120 },
		{ "Thursday, 01-Jan-26 00:02:00 GMT", 120 },
		{ "Thu, 01 Jan 2026 00:00:00 GMT", 0 },
		{ "Wed, 31 Dec 2025 00:00:00 GMT", 0 },
		{ "Thu, 01 Jan 2036 00:00:00 GMT", 3600 },
		{ "Thu, 99 Foo 2036 00:00:00 GMT", 0 },
	};

	for (size_t i = 0; i < FP_ARRAY_SIZE(cases); i++) {
		uint64_t ns = fp_ship_retry_after_ns(cases[i].value, now_s * S);

		if (ns != cases[i].seconds * S)
			fail_msg("'%s': %llu s", cases[i].value, (unsigned long long)(ns / S));
	}
}

static void delays_grow_to_the_cap_with_full_jitter(void **state)
{
	struct fp_ship_backoff low = { .max_ns = 300 * S }, high = low;
	uint64_t range = S;

	for (int i = 0; i < 100; i++) {
		uint64_t shortest = fp_ship_backoff_ns(&low, FP_SHIP_RETRY, 0, 0);
		uint64_t longest = fp_ship_backoff_ns(&high, FP_SHIP_RETRY, 0, UINT64_MAX);

		assert_int_equal(shortest, 100 * FP_NS_PER_MS); // never a busy loop
		assert_int_equal(longest, range);
		range = range * 2 > 300 * S ? 300 * S : range * 2;
	}
	assert_int_equal(low.failures, 100);
	low.failures = UINT32_MAX;
	assert_int_equal(fp_ship_backoff_ns(&low, FP_SHIP_RETRY, 0, UINT64_MAX), 300 * S);
	assert_int_equal(low.failures, UINT32_MAX);
	low.failures = 0;
	assert_int_equal(fp_ship_backoff_ns(&low, FP_SHIP_RETRY, 0, UINT64_MAX / 2), S / 2);
}

static void a_demand_of_the_collector_is_met_and_spread(void **state)
{
	struct fp_ship_backoff backoff = { .max_ns = 300 * S };

	assert_int_equal(fp_ship_backoff_ns(&backoff, FP_SHIP_RETRY, 50 * S, 0), 50 * S);
	assert_int_equal(fp_ship_backoff_ns(&backoff, FP_SHIP_RETRY, 50 * S, UINT64_MAX), 55 * S);
}

static void a_wrong_setup_is_tried_rarely(void **state)
{
	struct fp_ship_backoff backoff = { .max_ns = 300 * S };

	assert_int_equal(fp_ship_backoff_ns(&backoff, FP_SHIP_RETRY_AT_CAP, 0, 0), 150 * S);
	assert_int_equal(fp_ship_backoff_ns(&backoff, FP_SHIP_RETRY_AT_CAP, 0, UINT64_MAX),
			 300 * S);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_status_has_its_rule),
		cmocka_unit_test(retry_after_is_read_in_both_forms_and_clamped),
		cmocka_unit_test(delays_grow_to_the_cap_with_full_jitter),
		cmocka_unit_test(a_demand_of_the_collector_is_met_and_spread),
		cmocka_unit_test(a_wrong_setup_is_tried_rarely),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
