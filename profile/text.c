// SPDX-License-Identifier: Apache-2.0
#include "text.h"

#include <inttypes.h>
#include <string.h>

int fp_text_count(uint64_t value, struct fp_buf *ret_text)
{
	char digits[24];
	int count = snprintf(digits, sizeof(digits), "%" PRIu64, value);

	for (int i = 0; i < count; i++) {
		if (i > 0 && (count - i) % 3 == 0)
			fp_buf_byte(ret_text, ',');
		fp_buf_byte(ret_text, (uint8_t)digits[i]);
	}
	return ret_text->error;
}

int fp_text_percent(uint64_t part, uint64_t whole, unsigned int decimals, struct fp_buf *ret_text)
{
	static const uint64_t scales[] = { 1, 10, 100 };
	uint64_t scale = scales[decimals < 2 ? decimals : 2];
	uint64_t units = 0; // of 1/scale percent
	int places = decimals < 2 ? (int)decimals : 2;

	if (whole)
		units = (uint64_t)(((__uint128_t)part * 100 * scale + whole / 2) / whole);
	if (part > 0 && units == 0)
		return fp_buf_printf(ret_text, "<%.*f %%", places, 1.0 / (double)scale);
	if (part < whole && units >= 100 * scale)
		units = 100 * scale - 1;
	if (places == 0)
		return fp_buf_printf(ret_text, "%" PRIu64 " %%", units);
	return fp_buf_printf(ret_text, "%" PRIu64 ".%0*" PRIu64 " %%", units / scale, places,
			     units % scale);
}

int fp_text_duration(uint64_t ns, struct fp_buf *ret_text)
{
	static const struct {
		uint64_t ns;
		const char *unit;
	} units[] = { { 1000000000, "s" }, { 1000000, "ms" }, { 1000, "µs" } };

	for (size_t i = 0; i < FP_ARRAY_SIZE(units); i++) {
		double value = (double)ns / (double)units[i].ns;
		int places = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;

		// 999.6 µs is 1.00 ms, not 1000 µs.
		if (value < 0.9995)
			continue;
		if (value >= 999.5) {
			fp_text_count((ns + units[i].ns / 2) / units[i].ns, ret_text);
			return fp_buf_printf(ret_text, " %s", units[i].unit);
		}
		return fp_buf_printf(ret_text, "%.*f %s", places, value, units[i].unit);
	}
	return fp_buf_printf(ret_text, "%" PRIu64 " ns", ns);
}

static bool is_continuation(unsigned char byte)
{
	return (byte & 0xc0) == 0x80;
}

size_t fp_text_utf8(const char *text, size_t size)
{
	const unsigned char *b = (const unsigned char *)text;
	size_t length = b[0] < 0x80 ? 1 : b[0] < 0xc2 ? 0 : b[0] < 0xe0 ? 2 : b[0] < 0xf0 ? 3 : 4;

	if (length == 0 || b[0] > 0xf4 || length > size)
		return 0;
	for (size_t i = 1; i < length; i++) {
		if (!is_continuation(b[i]))
			return 0;
	}
	// Overlong forms, surrogates, and beyond U+10FFFF.
	if ((b[0] == 0xe0 && b[1] < 0xa0) || (b[0] == 0xed && b[1] > 0x9f) ||
	    (b[0] == 0xf0 && b[1] < 0x90) || (b[0] == 0xf4 && b[1] > 0x8f))
		return 0;
	return length;
}

// Characters that steer a terminal: C0, DEL, C1, and those that reorder or hide text.
static bool is_steering(const char *text, size_t length)
{
	const unsigned char *b = (const unsigned char *)text;

	if (length == 1)
		return b[0] < 0x20 || b[0] == 0x7f;
	if (length == 2)
		return b[0] == 0xc2 && b[1] < 0xa0;
	if (length == 3 && b[0] == 0xe2 && b[1] == 0x80)
		return (b[2] >= 0x8b && b[2] <= 0x8f) || (b[2] >= 0xa8 && b[2] <= 0xae);
	return length == 3 && b[0] == 0xe2 && b[1] == 0x81 && b[2] >= 0xa6 && b[2] <= 0xa9;
}

// Columns of a character: 2 for the East Asian scripts and pictographs, which are drawn so.
static size_t utf8_cells(const char *text, size_t length)
{
	static const struct {
		uint32_t first, last;
	} wide[] = { { 0x1100, 0x115f }, { 0x2e80, 0xa4cf },   { 0xac00, 0xd7a3 },
		     { 0xf900, 0xfaff }, { 0xfe30, 0xfe6f },   { 0xff00, 0xff60 },
		     { 0xffe0, 0xffe6 }, { 0x1f300, 0x1faff }, { 0x20000, 0x3fffd } };
	uint32_t code = (unsigned char)text[0] & (0xff >> (length + 1));

	for (size_t i = 1; i < length; i++)
		code = code << 6 | ((unsigned char)text[i] & 0x3f);
	for (size_t i = 0; length > 2 && i < FP_ARRAY_SIZE(wide); i++) {
		if (code >= wide[i].first && code <= wide[i].last)
			return 2;
	}
	return 1;
}

// One character as shown; *ret_cells is how many columns it takes.
static size_t name_step(const char *text, size_t size, char shown[24], size_t *ret_cells)
{
	size_t length = fp_text_utf8(text, size);

	if (length > 0 && !is_steering(text, length)) {
		memcpy(shown, text, length);
		shown[length] = '\0';
		*ret_cells = utf8_cells(text, length);
		return length;
	}
	if (length == 0)
		length = 1;
	for (size_t i = 0; i < length; i++)
		snprintf(shown + 4 * i, 5, "\\x%02x", (unsigned char)text[i]);
	*ret_cells = 4 * length;
	return length;
}

static size_t name_cells(const char *name, size_t size, size_t limit)
{
	size_t cells = 0;

	for (size_t i = 0; i < size && cells <= limit;) {
		char shown[24];
		size_t step;

		i += name_step(name + i, size - i, shown, &step);
		cells += step;
	}
	return cells;
}

size_t fp_text_name(const char *name, size_t size, size_t width, struct fp_buf *ret_text)
{
	bool cut = name_cells(name, size, width) > width;
	size_t room = cut ? (width > 2 ? width - 2 : 0) : width;
	size_t cells = 0;

	for (size_t i = 0; i < size;) {
		char shown[24];
		size_t step;

		i += name_step(name + i, size - i, shown, &step);
		if (cells + step > room)
			break;
		fp_buf_str(ret_text, shown);
		cells += step;
	}
	if (cut && width >= 2) {
		fp_buf_str(ret_text, "..");
		cells += 2;
	}
	return cells;
}
