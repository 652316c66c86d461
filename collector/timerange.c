// SPDX-License-Identifier: Apache-2.0
#include "timerange.h"

#include "common/clock.h"

#include <errno.h>
#include <string.h>

// Unix seconds up to the year 2262, where nanoseconds still fit in 63 bits.
#define MAX_SECONDS 9223372036ULL

static int refuse_time(const char *text, struct fp_buf *error)
{
	fp_buf_printf(error, "time '%.40s': write unix seconds, now, or now-15m (s, m, h, d)",
		      text);
	return -EINVAL;
}

// Reads digits up to MAX_SECONDS; returns the end, or NULL when there is no such number.
static const char *read_number(const char *text, uint64_t *ret_number)
{
	uint64_t number = 0;

	if (*text < '0' || *text > '9')
		return NULL;
	for (; *text >= '0' && *text <= '9'; text++) {
		number = number * 10 + (uint64_t)(*text - '0');
		if (number > MAX_SECONDS)
			return NULL;
	}
	*ret_number = number;
	return text;
}

static int parse_relative(const char *text, uint64_t now_ns, uint64_t *ret_ns)
{
	static const struct {
		char unit;
		uint64_t seconds;
	} units[] = { { 's', 1 }, { 'm', 60 }, { 'h', 3600 }, { 'd', 86400 } };
	uint64_t number;
	const char *end = read_number(text, &number);

	if (!end || !end[0] || end[1])
		return -EINVAL;
	for (size_t i = 0; i < FP_ARRAY_SIZE(units); i++) {
		if (units[i].unit != *end)
			continue;
		if (number > MAX_SECONDS / units[i].seconds ||
		    number * units[i].seconds > now_ns / FP_NS_PER_S)
			return -EINVAL;
		*ret_ns = now_ns - number * units[i].seconds * FP_NS_PER_S;
		return 0;
	}
	return -EINVAL;
}

static int parse_absolute(const char *text, uint64_t *ret_ns)
{
	uint64_t seconds, fraction = 0, scale = FP_NS_PER_S;
	const char *end = read_number(text, &seconds);

	if (!end)
		return -EINVAL;
	if (*end == '.') {
		if (!end[1])
			return -EINVAL;
		for (end++; *end >= '0' && *end <= '9'; end++) {
			scale /= 10; // reaches 0: digits beyond nanoseconds say nothing
			fraction += (uint64_t)(*end - '0') * scale;
		}
	}
	if (*end || seconds >= MAX_SECONDS)
		return -EINVAL;
	*ret_ns = seconds * FP_NS_PER_S + fraction;
	return 0;
}

int fp_time_parse(const char *text, uint64_t now_ns, uint64_t *ret_ns, struct fp_buf *error)
{
	int r;

	if (strcmp(text, "now") == 0) {
		*ret_ns = now_ns;
		return 0;
	}
	if (strncmp(text, "now-", 4) == 0)
		r = parse_relative(text + 4, now_ns, ret_ns);
	else
		r = parse_absolute(text, ret_ns);
	return r < 0 ? refuse_time(text, error) : 0;
}

int fp_time_range_parse(const char *from, const char *to, uint64_t now_ns,
			struct fp_time_range *ret_range, struct fp_buf *error)
{
	struct fp_time_range range = { .to_ns = now_ns };
	int r = 0;

	if (to)
		r = fp_time_parse(to, now_ns, &range.to_ns, error);
	if (r < 0)
		return r;
	range.from_ns =
	    range.to_ns > FP_TIME_RANGE_DEFAULT_NS ? range.to_ns - FP_TIME_RANGE_DEFAULT_NS : 0;
	if (from)
		r = fp_time_parse(from, now_ns, &range.from_ns, error);
	if (r < 0)
		return r;
	if (range.from_ns >= range.to_ns) {
		fp_buf_str(error, "the range is empty: 'from' must lie before 'to'");
		return -EINVAL;
	}
	*ret_range = range;
	return 0;
}
