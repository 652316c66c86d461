// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/cases.h"

#include "collector/timerange.h"

#include <errno.h>
#include <string.h>

#define S   1000000000ULL
#define NOW (1764450000 * S + 5)

static const struct {
	const char *text;
	int result;
	uint64_t ns;
} times[] = {
	{ "now", 0, NOW },
	{ "now-0s", 0, NOW },
	{ "now-15m", 0, NOW - 900 * S },
	{ "now-2h", 0, NOW - 7200 * S },
	{ "now-1d", 0, NOW - 86400 * S },
	{ "0", 0, 0 },
	{ "1764450000", 0, 1764450000 * S },
	{ "1764450000.5", 0, 1764450000 * S + S / 2 },
	{ "1764450000.1234567891234", 0, 1764450000 * S + 123456789 },
	{ "", -EINVAL, 0 },
	{ "now ", -EINVAL, 0 },
	{ "now+5m", -EINVAL, 0 },
	{ "now-", -EINVAL, 0 },
	{ "now-5", -EINVAL, 0 },
	{ "now-5w", -EINVAL, 0 },
	{ "now-5mm", -EINVAL, 0 },
	{ "now--5m", -EINVAL, 0 },
	{ "now-99999999999d", -EINVAL, 0 },
	{ "now-9223372036d", -EINVAL, 0 },
	{ "now-1764450001s", -EINVAL, 0 },
	{ "-5", -EINVAL, 0 },
	{ "1e9", -EINVAL, 0 },
	{ "5.", -EINVAL, 0 },
	{ "5.x", -EINVAL, 0 },
	{ "99999999999999999999999", -EINVAL, 0 },
	{ "9223372036", -EINVAL, 0 },
};

static void times_read_as_stated(void **state)
{
	for (size_t i = 0; i < FP_ARRAY_SIZE(times); i++) {
		FP_AUTOBUF struct fp_buf error = { 0 };
		uint64_t ns = 0;
		int r = fp_time_parse(times[i].text, NOW, &ns, &error);

		if (r != times[i].result || ns != times[i].ns)
			fail_msg("'%s' gave %d, %llu", times[i].text, r, (unsigned long long)ns);
		assert_true((r < 0) == (error.len > 0));
	}
}

static void ranges_have_defaults_and_a_direction(void **state)
{
	FP_AUTOBUF struct fp_buf error = { 0 };
	struct fp_time_range range = { 0 };

	assert_int_equal(fp_time_range_parse(NULL, NULL, NOW, &range, &error), 0);
	assert_int_equal(range.from_ns, NOW - FP_TIME_RANGE_DEFAULT_NS);
	assert_int_equal(range.to_ns, NOW);
	assert_int_equal(fp_time_range_parse(NULL, "now-1h", NOW, &range, &error), 0);
	assert_int_equal(range.from_ns, NOW - 3600 * S - FP_TIME_RANGE_DEFAULT_NS);
	assert_int_equal(fp_time_range_parse("10", "20", NOW, &range, &error), 0);
	assert_int_equal(range.from_ns, 10 * S);
	assert_int_equal(fp_time_range_parse("20", "10", NOW, &range, &error), -EINVAL);
	assert_int_equal(fp_time_range_parse("10", "10", NOW, &range, &error), -EINVAL);
	assert_int_equal(fp_time_range_parse("x", NULL, NOW, &range, &error), -EINVAL);
	assert_int_equal(range.from_ns, 10 * S); // untouched by the refusals
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FP_CASE("times read as stated or are refused", times_read_as_stated),
		FP_CASE("ranges have defaults and a direction",
			ranges_have_defaults_and_a_direction),
	};

	return cmocka_run_group_tests_name("timerange", tests, NULL, NULL);
}
