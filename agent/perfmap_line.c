// SPDX-License-Identifier: Apache-2.0
#include "perfmap_line.h"

static int digit_of(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

// Moves *position behind the number.
static bool read_hex(const char *text, size_t size, size_t *position, uint64_t *ret_value)
{
	size_t at = *position, digits = 0;
	uint64_t value = 0;

	if (size - at > 2 && text[at] == '0' && (text[at + 1] | 0x20) == 'x')
		at += 2;
	for (; at < size && digit_of(text[at]) >= 0; at++, digits++) {
		if (value >> 60)
			return false; // it does not fit
		value = value << 4 | (uint64_t)digit_of(text[at]);
	}
	if (digits == 0)
		return false;
	*position = at;
	*ret_value = value;
	return true;
}

static bool skip_blanks(const char *text, size_t size, size_t *position)
{
	size_t start = *position;

	while (*position < size && (text[*position] == ' ' || text[*position] == '\t'))
		++*position;
	return *position > start && *position < size;
}

bool fp_perf_line_parse(const char *text, size_t size, struct fp_perf_line *ret_line)
{
	uint64_t start, length, end;
	size_t at = 0, name_end = size;

	if (!read_hex(text, size, &at, &start) || !skip_blanks(text, size, &at) ||
	    !read_hex(text, size, &at, &length) || !skip_blanks(text, size, &at))
		return false;
	if (text[name_end - 1] == '\r')
		name_end--;
	// No function has 4 GiB, and one of no size covers nothing. Two bytes of the name must be
	// in the head, so that its first is not taken for the end of the line.
	if (name_end <= at || at >= FP_PERF_LINE_HEAD - 1 || length == 0 || length > UINT32_MAX ||
	    __builtin_add_overflow(start, length, &end))
		return false;
	*ret_line = (struct fp_perf_line){ start, (uint32_t)length, at, name_end - at };
	return true;
}
