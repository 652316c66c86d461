// SPDX-License-Identifier: Apache-2.0
//
// unwindcursor: bounded reading of DWARF's numbers from foreign bytes. Reading past the end gives
// zeros and sets `over`, which the reader looks at once behind a group of fields.
// Private to agent/unwind*. Trust: the bytes are foreign. Threads: no state.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct fp_cursor {
	const uint8_t *at, *end;
	bool over; // something was read that was not there
};

static inline size_t fp_cursor_left(const struct fp_cursor *cursor)
{
	return (size_t)(cursor->end - cursor->at);
}

// The next `size` bytes; NULL when there are fewer.
static inline const uint8_t *fp_cursor_take(struct fp_cursor *cursor, uint64_t size)
{
	const uint8_t *bytes = cursor->at;

	if (size > fp_cursor_left(cursor)) {
		cursor->over = true;
		cursor->at = cursor->end;
		return NULL;
	}
	cursor->at += size;
	return bytes;
}

// Little-endian, at most 8 bytes.
static inline uint64_t fp_cursor_unsigned(struct fp_cursor *cursor, size_t size)
{
	const uint8_t *bytes = fp_cursor_take(cursor, size);
	uint64_t value = 0;

	if (bytes)
		memcpy(&value, bytes, size);
	return value;
}

static inline int64_t fp_cursor_signed(struct fp_cursor *cursor, size_t size)
{
	uint64_t value = fp_cursor_unsigned(cursor, size), sign = 1ULL << (8 * size - 1);

	return (int64_t)((value ^ sign) - sign);
}

static inline uint8_t fp_cursor_byte(struct fp_cursor *cursor)
{
	if (cursor->at < cursor->end)
		return *cursor->at++;
	cursor->over = true;
	return 0;
}

// LEB128, DWARF 5, 7.6. Bits beyond 64 are lost, as they are to every reader.
static inline uint64_t fp_cursor_leb(struct fp_cursor *cursor, bool is_signed)
{
	uint64_t value = 0;
	unsigned int shift = 0;
	uint8_t byte;

	do {
		byte = fp_cursor_byte(cursor);
		if (shift < 64)
			value |= (uint64_t)(byte & 0x7f) << shift;
		shift += shift < 64 ? 7 : 0;
	} while (byte & 0x80);
	if (is_signed && (byte & 0x40) && shift < 64)
		value |= ~0ULL << shift;
	return value;
}

static inline uint64_t fp_cursor_uleb(struct fp_cursor *cursor)
{
	return fp_cursor_leb(cursor, false);
}

static inline int64_t fp_cursor_sleb(struct fp_cursor *cursor)
{
	return (int64_t)fp_cursor_leb(cursor, true);
}
