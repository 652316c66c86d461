// SPDX-License-Identifier: Apache-2.0
//
// buf: a growable byte buffer that is also a string builder. The bytes at [0, len) are
// the content; after fp_buf_printf/fp_buf_str/fp_buf_byte a NUL stands at data[len] that
// is not part of it. Growth failure is sticky: `error` is set to -ENOMEM and later calls
// do nothing, so a caller may check once at the end.
// Ownership: the struct owns data. Threads: none shared.
#pragma once

#include "cleanup.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fp_buf {
	uint8_t *data;
	size_t len;
	size_t capacity;
	int error; // 0 or -ENOMEM, sticky
};

void fp_buf_free(struct fp_buf *buf); // frees the content and zeroes the struct
#define FP_AUTOBUF FP_CLEANUP(fp_buf_free)

int fp_buf_reserve(struct fp_buf *buf, size_t extra); // room for `extra` more bytes and a NUL
int fp_buf_append(struct fp_buf *buf, const void *bytes, size_t size);
int fp_buf_byte(struct fp_buf *buf, uint8_t byte);
int fp_buf_str(struct fp_buf *buf, const char *string);
int fp_buf_printf(struct fp_buf *buf, const char *format, ...) FP_PRINTF(2, 3);
// Appends `string` as the inside of a JSON string / of XML text: always valid UTF-8,
// invalid bytes become \xNN text, XML-forbidden control characters likewise.
int fp_buf_json(struct fp_buf *buf, const char *string, size_t size);
int fp_buf_xml(struct fp_buf *buf, const char *string, size_t size);
void fp_buf_clear(struct fp_buf *buf); // len = 0, keeps the memory
// Moves the content out, NUL-terminated; the buffer is empty afterwards. NULL if error.
char *fp_buf_take(struct fp_buf *buf);
