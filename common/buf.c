// SPDX-License-Identifier: Apache-2.0
#include "buf.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

void fp_buf_free(struct fp_buf *buf)
{
	free(buf->data);
	*buf = (struct fp_buf){ 0 };
}

int fp_buf_reserve(struct fp_buf *buf, size_t extra)
{
	size_t needed, capacity = buf->capacity ? buf->capacity : 64;
	uint8_t *data;

	if (buf->error)
		return buf->error;
	// One more than asked for: the NUL behind text.
	if (__builtin_add_overflow(buf->len, extra, &needed) || needed >= SIZE_MAX / 2)
		return buf->error = -ENOMEM;
	needed++;
	if (needed <= buf->capacity)
		return 0;
	while (capacity < needed)
		capacity *= 2;
	data = realloc(buf->data, capacity);
	if (!data)
		return buf->error = -ENOMEM;
	buf->data = data;
	buf->capacity = capacity;
	return 0;
}

int fp_buf_append(struct fp_buf *buf, const void *bytes, size_t size)
{
	if (fp_buf_reserve(buf, size) < 0)
		return buf->error;
	if (size > 0)
		memcpy(buf->data + buf->len, bytes, size);
	buf->len += size;
	buf->data[buf->len] = '\0';
	return 0;
}

int fp_buf_byte(struct fp_buf *buf, uint8_t byte)
{
	return fp_buf_append(buf, &byte, 1);
}

int fp_buf_str(struct fp_buf *buf, const char *string)
{
	return fp_buf_append(buf, string, strlen(string));
}

int fp_buf_printf(struct fp_buf *buf, const char *format, ...)
{
	va_list args;
	int length;

	if (fp_buf_reserve(buf, 0) < 0)
		return buf->error;
	va_start(args, format);
	length = vsnprintf((char *)buf->data + buf->len, buf->capacity - buf->len, format, args);
	va_end(args);
	if (length < 0)
		return buf->error = -ENOMEM;
	if ((size_t)length >= buf->capacity - buf->len) {
		if (fp_buf_reserve(buf, (size_t)length) < 0)
			return buf->error;
		va_start(args, format);
		vsnprintf((char *)buf->data + buf->len, buf->capacity - buf->len, format, args);
		va_end(args);
	}
	buf->len += (size_t)length;
	return 0;
}

// Length of the UTF-8 sequence at p (1–4) by Unicode table 3-7, or 0 when it is not one.
static size_t utf8_length(const uint8_t *p, size_t size)
{
	uint8_t first = p[0], low = 0x80, high = 0xbf;
	size_t length;

	if (first < 0x80)
		return 1;
	if (first < 0xc2 || first > 0xf4)
		return 0;
	length = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
	if (first == 0xe0)
		low = 0xa0; // no overlong form
	else if (first == 0xed)
		high = 0x9f; // no surrogates
	else if (first == 0xf0)
		low = 0x90;
	else if (first == 0xf4)
		high = 0x8f; // nothing above U+10FFFF
	if (size < length || p[1] < low || p[1] > high)
		return 0;
	for (size_t i = 2; i < length; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	return length;
}

int fp_buf_json(struct fp_buf *buf, const char *string, size_t size)
{
	const uint8_t *p = (const uint8_t *)string, *end = p + size;

	while (p < end) {
		size_t length = utf8_length(p, (size_t)(end - p));

		if (length == 0) {
			fp_buf_printf(buf, "\\\\x%02x", *p++);
			continue;
		}
		if (*p == '"' || *p == '\\')
			fp_buf_printf(buf, "\\%c", *p);
		else if (*p < 0x20 || *p == 0x7f)
			fp_buf_printf(buf, "\\u%04x", *p);
		else
			fp_buf_append(buf, p, length);
		p += length;
	}
	return buf->error;
}

// XML 1.0 section 2.2 forbids control characters other than tab and newlines, U+FFFE and
// U+FFFF; \r is left out as well, because parsers turn it into \n.
static bool xml_allowed(const uint8_t *p, size_t length)
{
	if (length == 1)
		return (*p >= 0x20 && *p != 0x7f) || *p == '\t' || *p == '\n';
	return !(length == 3 && p[0] == 0xef && p[1] == 0xbf && p[2] >= 0xbe);
}

static const char *xml_entity(uint8_t byte)
{
	switch (byte) {
	case '<':
		return "&lt;";
	case '>':
		return "&gt;";
	case '&':
		return "&amp;";
	case '"':
		return "&quot;";
	case '\'':
		return "&#39;";
	default:
		return NULL;
	}
}

int fp_buf_xml(struct fp_buf *buf, const char *string, size_t size)
{
	const uint8_t *p = (const uint8_t *)string, *end = p + size;

	while (p < end) {
		size_t length = utf8_length(p, (size_t)(end - p));
		const char *entity = xml_entity(*p);

		if (length == 0 || !xml_allowed(p, length)) {
			length = length ? length : 1;
			for (size_t i = 0; i < length; i++)
				fp_buf_printf(buf, "\\x%02x", p[i]);
		} else if (entity) {
			fp_buf_str(buf, entity);
		} else {
			fp_buf_append(buf, p, length);
		}
		p += length;
	}
	return buf->error;
}

void fp_buf_clear(struct fp_buf *buf)
{
	buf->len = 0;
	buf->error = 0;
	if (buf->data)
		buf->data[0] = '\0';
}

char *fp_buf_take(struct fp_buf *buf)
{
	char *text;

	if (fp_buf_reserve(buf, 0) < 0)
		return NULL;
	buf->data[buf->len] = '\0';
	text = (char *)buf->data;
	*buf = (struct fp_buf){ 0 };
	return text;
}
