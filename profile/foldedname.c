// SPDX-License-Identifier: Apache-2.0
#include "foldedname.h"

#include "mark.h"
#include "text.h"

#include <string.h>

#define SUFFIX_SIZE 4 // "_[k]"
#define ESCAPE_SIZE 4 // "\xNN"

static const struct {
	enum fp_node_kind kind;
	char letter;
} suffixes[] = { { FP_NODE_KERNEL, 'k' }, { FP_NODE_JIT, 'j' }, { FP_NODE_INLINE, 'i' } };

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return -1;
}

// Index into suffixes of the suffix that ends the text, or -1.
static int suffix_find(const char *text, size_t size)
{
	const char *end = text + size;

	if (size < SUFFIX_SIZE || end[-4] != '_' || end[-3] != '[' || end[-1] != ']')
		return -1;
	for (size_t i = 0; i < FP_ARRAY_SIZE(suffixes); i++) {
		if (suffixes[i].letter == end[-2])
			return (int)i;
	}
	return -1;
}

bool fp_name_is_offset(const char *name, size_t size)
{
	size_t digits = 0;

	while (digits < size && hex_digit(name[size - digits - 1]) >= 0)
		digits++;
	return digits > 0 && size > digits + 3 && memcmp(name + size - digits - 3, "+0x", 3) == 0;
}

enum fp_node_kind fp_folded_name_kind(const char *text, size_t *size)
{
	int suffix = suffix_find(text, *size);

	if (suffix >= 0) {
		*size -= SUFFIX_SIZE;
		return suffixes[suffix].kind;
	}
	if (*size > 2 && text[0] == '[' && text[*size - 1] == ']')
		return fp_mark_kind(text, *size);
	if (fp_name_is_offset(text, *size))
		return FP_NODE_UNKNOWN;
	return FP_NODE_USER;
}

static bool must_escape(unsigned char byte)
{
	return byte < 0x20 || byte == 0x7f || byte == ';';
}

#define C1_LEAD	       0xc2 // U+0080 to U+009F: this and one of the bytes below
#define DIRECTION_LEAD 0xe2

static bool is_c1(unsigned char byte)
{
	return byte >= 0x80 && byte <= 0x9f;
}

// A control character of C1, of `length` bytes: as UTF-8, or the byte alone (length 0) as 8-bit
// terminals take it. "\x9b" begins an escape sequence just as "\x1b[" does.
static bool is_c1_at(const char *text, size_t length)
{
	if (length == 2)
		return (unsigned char)text[0] == C1_LEAD && is_c1((unsigned char)text[1]);
	return length == 0 && is_c1((unsigned char)text[0]);
}

// U+200E, U+200F, U+2028 to U+202E and U+2066 to U+2069: by these a name makes what stands behind
// it on the line read otherwise, in another direction or on another line.
static bool is_direction_at(const char *text, size_t length)
{
	unsigned char second, third;

	if (length != 3 || (unsigned char)text[0] != DIRECTION_LEAD)
		return false;
	second = (unsigned char)text[1];
	third = (unsigned char)text[2];
	if (second == 0x80)
		return third == 0x8e || third == 0x8f || (third >= 0xa8 && third <= 0xae);
	return second == 0x81 && third >= 0xa6 && third <= 0xa9;
}

static bool is_of_direction(unsigned char byte) // and not of C1
{
	return byte == DIRECTION_LEAD || (byte >= 0xa6 && byte <= 0xae);
}

// The byte an escape at text stands for, or -1 when there is none. Only what the writer
// writes is an escape: in foreign text `\x41` stays as it is.
static int escape_at(const char *text, size_t size)
{
	int high, low, byte;

	if (size < ESCAPE_SIZE || text[0] != '\\' || text[1] != 'x')
		return -1;
	high = hex_digit(text[2]);
	low = hex_digit(text[3]);
	if (high < 0 || low < 0)
		return -1;
	byte = high << 4 | low;
	if (must_escape((unsigned char)byte) || is_c1((unsigned char)byte) || byte == C1_LEAD ||
	    is_of_direction((unsigned char)byte) || byte == '\\' || byte == '[' || byte == ' ')
		return byte;
	return -1;
}

int fp_folded_name_decode(const char *text, size_t size, struct fp_buf *ret_name)
{
	for (size_t i = 0; i < size;) {
		int byte = escape_at(text + i, size - i);

		fp_buf_byte(ret_name, (uint8_t)(byte >= 0 ? byte : text[i]));
		i += byte >= 0 ? ESCAPE_SIZE : 1;
	}
	return ret_name->error;
}

// Offset of a byte that would be misread although it is ordinary: the bracket of a false
// suffix, or the blank before a last word of digits, which would look like a second value.
static size_t misread_at(const char *name, size_t size, bool is_leaf)
{
	size_t digits = 0;

	if (suffix_find(name, size) >= 0)
		return size - 3;
	if (!is_leaf)
		return SIZE_MAX;
	while (digits < size && name[size - digits - 1] >= '0' && name[size - digits - 1] <= '9')
		digits++;
	if (digits > 0 && digits < size && name[size - digits - 1] == ' ')
		return size - digits - 1;
	return SIZE_MAX;
}

static char suffix_letter(enum fp_node_kind kind)
{
	for (size_t i = 0; i < FP_ARRAY_SIZE(suffixes); i++) {
		if (suffixes[i].kind == kind)
			return suffixes[i].letter;
	}
	return 0;
}

// One character. Bytes that are no UTF-8 stay as they are, unless a terminal would obey them.
static size_t encode_character(const char *text, size_t size, bool misread, struct fp_buf *ret_text)
{
	size_t length = fp_text_utf8(text, size), count = length ? length : 1;
	bool escape = is_c1_at(text, length) || is_direction_at(text, length);

	if (count == 1)
		escape = escape || misread || must_escape((unsigned char)text[0]) ||
			 escape_at(text, size) >= 0;
	for (size_t i = 0; i < count; i++) {
		if (escape)
			fp_buf_printf(ret_text, "\\x%02x", (unsigned char)text[i]);
		else
			fp_buf_byte(ret_text, (uint8_t)text[i]);
	}
	return count;
}

int fp_folded_name_encode(const struct fp_tree_frame *frame, bool is_leaf, struct fp_buf *ret_text)
{
	const char *name = frame->name;
	size_t size = frame->name_size;
	char letter = suffix_letter(frame->kind);
	size_t misread = letter ? SIZE_MAX : misread_at(name, size, is_leaf);

	for (size_t i = 0; i < size;)
		i += encode_character(name + i, size - i, i == misread, ret_text);
	if (letter)
		fp_buf_printf(ret_text, "_[%c]", letter);
	return ret_text->error;
}
