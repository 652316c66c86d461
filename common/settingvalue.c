// SPDX-License-Identifier: Apache-2.0
#include "settingvalue.h"

#include "clock.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <strings.h>

struct unit {
	const char *name;
	uint64_t factor;
};

// Smallest first. Plain numbers use a table without names.
static const struct unit plain_units[] = { { "", 1 }, { NULL, 0 } };
static const struct unit size_units[] = {
	{ "B", 1 }, { "KiB", 1ULL << 10 }, { "MiB", 1ULL << 20 }, { "GiB", 1ULL << 30 }, { NULL, 0 }
};
static const struct unit duration_units[] = { { "us", 1000 },
					      { "ms", FP_NS_PER_MS },
					      { "s", FP_NS_PER_S },
					      { "min", 60 * FP_NS_PER_S },
					      { "h", 3600 * FP_NS_PER_S },
					      { "d", 86400 * FP_NS_PER_S },
					      { NULL, 0 } };

static const struct unit *units_of(const struct fp_setting *row)
{
	switch (row->type) {
	case FP_SETTING_SIZE:
		return size_units;
	case FP_SETTING_DURATION:
		return duration_units;
	default:
		return plain_units;
	}
}

static uint64_t max_of(const struct fp_setting *row)
{
	uint64_t type_max = row->type == FP_SETTING_U32 ? UINT32_MAX : UINT64_MAX;

	return row->max > 0 && row->max < type_max ? row->max : type_max;
}

// In the largest unit that leaves no remainder; no time at all in seconds.
static void format_number(const struct fp_setting *row, uint64_t value, struct fp_buf *text)
{
	const struct unit *units = units_of(row), *best = units;

	for (const struct unit *unit = units; unit->name; unit++)
		if (value != 0 ? value % unit->factor == 0 : unit->factor == FP_NS_PER_S)
			best = unit;
	fp_buf_printf(text, "%" PRIu64 "%s", value / best->factor, best->name);
}

static int refuse(struct fp_buf *cause, const char *why)
{
	fp_buf_str(cause, why);
	return -EINVAL;
}

static int refuse_unit(const struct unit *units, const char *found, struct fp_buf *cause)
{
	if (units == plain_units)
		return refuse(cause, "not a whole number");
	if (found[0])
		fp_buf_printf(cause, "unknown unit '%s', expected ", found);
	else
		fp_buf_str(cause, "the unit is missing, expected ");
	for (const struct unit *unit = units; unit->name; unit++)
		fp_buf_printf(cause, "%s%s", unit == units ? "" : ", ", unit->name);
	return -EINVAL;
}

static int parse_number(const struct fp_setting *row, const char *text, uint64_t *ret_value,
			struct fp_buf *cause)
{
	const struct unit *units = units_of(row), *unit = units;
	unsigned long long number;
	uint64_t value;
	char *rest;

	if (text[0] < '0' || text[0] > '9')
		return refuse(cause, "not a whole number");
	errno = 0;
	number = strtoull(text, &rest, 10);
	if (*rest == '.')
		return refuse(cause, "fractions are not accepted, use a smaller unit");
	while (*rest == ' ')
		rest++;
	while (unit->name && strcmp(unit->name, rest) != 0)
		unit++;
	if (!unit->name)
		return refuse_unit(units, rest, cause);
	if (errno == ERANGE || __builtin_mul_overflow(number, unit->factor, &value) ||
	    value < row->min || value > max_of(row)) {
		fp_buf_str(cause, "out of range, allowed is ");
		fp_setting_format_range(row, cause);
		return -EINVAL;
	}
	*ret_value = value;
	return 0;
}

static int parse_bool(const char *text, bool *ret_value, struct fp_buf *cause)
{
	static const char *const yes[] = { "yes", "true", "on" }, *const no[] = { "no", "false",
										  "off" };

	for (size_t i = 0; i < FP_ARRAY_SIZE(yes); i++) {
		bool is_yes = strcasecmp(text, yes[i]) == 0;

		if (is_yes || strcasecmp(text, no[i]) == 0) {
			*ret_value = is_yes;
			return 0;
		}
	}
	return refuse(cause, "neither yes nor no");
}

static int parse_choice(const struct fp_setting *row, const char *text, uint32_t *ret_index,
			struct fp_buf *cause)
{
	for (uint32_t i = 0; row->choices[i]; i++) {
		if (strcmp(text, row->choices[i]) == 0) {
			*ret_index = i;
			return 0;
		}
	}
	fp_buf_str(cause, "not one of ");
	fp_setting_format_range(row, cause);
	return -EINVAL;
}

// Strings must survive being dumped and read back.
static int check_string(const char *text, struct fp_buf *cause)
{
	size_t length = strlen(text);

	for (const unsigned char *p = (const unsigned char *)text; *p; p++)
		if (*p < 0x20 || *p == 0x7f)
			return refuse(cause, "control characters are not accepted");
	if (length > 0 && (text[0] == ' ' || text[length - 1] == ' '))
		return refuse(cause, "leading and trailing spaces are not accepted");
	if (text[0] == ';' || strstr(text, " ;"))
		return refuse(cause, "' ;' begins a comment and is not accepted in a value");
	return 0;
}

// A label name as in Prometheus selectors, with the dots of OpenTelemetry's names.
static bool is_label_name(const char *name, size_t size)
{
	static const char first[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_";

	if (size == 0 || !strchr(first, name[0]))
		return false;
	for (size_t i = 1; i < size; i++)
		if (!strchr(first, name[i]) && !strchr("0123456789.", name[i]))
			return false;
	return true;
}

static void trim(const char **start, size_t *size)
{
	while (*size > 0 && **start == ' ') {
		(*start)++;
		(*size)--;
	}
	while (*size > 0 && (*start)[*size - 1] == ' ')
		(*size)--;
}

static int check_pair(const char *pair, size_t size, const char *all, struct fp_buf *cause)
{
	const char *equals = memchr(pair, '=', size), *value;
	size_t name_size, value_size;

	if (!equals)
		return refuse(cause, "expected name=value, name=value");
	name_size = (size_t)(equals - pair);
	value = equals + 1;
	value_size = size - name_size - 1;
	trim(&pair, &name_size);
	trim(&value, &value_size);
	if (!is_label_name(pair, name_size) || value_size == 0) {
		fp_buf_printf(cause, "'%.*s' has no valid name or no value", (int)size, pair);
		return -EINVAL;
	}
	// Among the pairs before this one.
	for (const char *p = all; p < pair; p = strchr(p, ',') + 1) {
		size_t other_size = strcspn(p, "=");
		const char *other = p;

		trim(&other, &other_size);
		if (other != pair && other_size == name_size &&
		    memcmp(other, pair, name_size) == 0) {
			fp_buf_printf(cause, "'%.*s' is given twice", (int)name_size, pair);
			return -EINVAL;
		}
		if (!strchr(p, ','))
			break;
	}
	return 0;
}

static int check_pairs(const char *text, struct fp_buf *cause)
{
	for (const char *p = text; *text;) {
		size_t size = strcspn(p, ",");
		int r = check_pair(p, size, text, cause);

		if (r < 0)
			return r;
		if (!p[size])
			break;
		p += size + 1;
	}
	return 0;
}

static int store_string(char **field, const char *text)
{
	char *copy = strdup(text);

	if (!copy)
		return -ENOMEM;
	free(*field);
	*field = copy;
	return 0;
}

static int check_lines(const char *text, struct fp_buf *cause)
{
	while (*text) {
		size_t size = strcspn(text, "\n");
		char *line FP_AUTOFREE = strndup(text, size);
		int r = line ? check_string(line, cause) : -ENOMEM;

		if (r < 0)
			return r;
		text += size + (text[size] == '\n');
	}
	return 0;
}

int fp_setting_add_line(const struct fp_setting *row, void *settings, const char *text,
			struct fp_buf *cause)
{
	char **field = (char **)((char *)settings + row->offset);
	const char *before = *field ? *field : "";
	FP_AUTOBUF struct fp_buf both = { 0 };
	int r = check_lines(text, cause);

	if (r == 0)
		r = fp_buf_printf(&both, "%s%s%s", before, before[0] && text[0] ? "\n" : "", text);
	return r < 0 ? r : store_string(field, (char *)both.data);
}

int fp_setting_parse(const struct fp_setting *row, void *settings, const char *text,
		     struct fp_buf *cause)
{
	void *field = (char *)settings + row->offset;
	uint64_t number = 0;
	int r;

	switch (row->type) {
	case FP_SETTING_BOOL:
		return parse_bool(text, field, cause);
	case FP_SETTING_CHOICE:
		return parse_choice(row, text, field, cause);
	case FP_SETTING_U32:
		r = parse_number(row, text, &number, cause);
		if (r == 0)
			*(uint32_t *)field = (uint32_t)number;
		return r;
	case FP_SETTING_SIZE:
	case FP_SETTING_DURATION:
		return parse_number(row, text, field, cause);
	case FP_SETTING_STRING:
	case FP_SETTING_PAIRS:
		r = check_string(text, cause);
		if (r == 0 && row->type == FP_SETTING_PAIRS)
			r = check_pairs(text, cause);
		return r < 0 ? r : store_string(field, text);
	case FP_SETTING_LINES:
		r = check_lines(text, cause);
		return r < 0 ? r : store_string(field, text);
	}
	return -EINVAL;
}

int fp_setting_format(const struct fp_setting *row, const void *settings, struct fp_buf *text)
{
	const void *field = (const char *)settings + row->offset;
	const char *string;

	switch (row->type) {
	case FP_SETTING_BOOL:
		return fp_buf_str(text, *(const bool *)field ? "yes" : "no");
	case FP_SETTING_CHOICE:
		return fp_buf_str(text, row->choices[*(const uint32_t *)field]);
	case FP_SETTING_U32:
		format_number(row, *(const uint32_t *)field, text);
		break;
	case FP_SETTING_SIZE:
	case FP_SETTING_DURATION:
		format_number(row, *(const uint64_t *)field, text);
		break;
	case FP_SETTING_STRING:
	case FP_SETTING_PAIRS:
	case FP_SETTING_LINES:
		string = *(char *const *)field;
		return fp_buf_str(text, string ? string : "");
	}
	return text->error;
}

int fp_setting_format_range(const struct fp_setting *row, struct fp_buf *text)
{
	switch (row->type) {
	case FP_SETTING_BOOL:
		return fp_buf_str(text, "yes, no");
	case FP_SETTING_CHOICE:
		for (size_t i = 0; row->choices[i]; i++)
			fp_buf_printf(text, "%s%s", i ? ", " : "", row->choices[i]);
		break;
	case FP_SETTING_U32:
	case FP_SETTING_SIZE:
	case FP_SETTING_DURATION:
		format_number(row, row->min, text);
		if (max_of(row) == UINT64_MAX)
			return fp_buf_str(text, " or more");
		fp_buf_str(text, " to ");
		format_number(row, max_of(row), text);
		break;
	case FP_SETTING_STRING:
		return fp_buf_str(text, "text");
	case FP_SETTING_PAIRS:
		return fp_buf_str(text, "name=value, …");
	case FP_SETTING_LINES:
		return fp_buf_str(text, "text, one line a key");
	}
	return text->error;
}
