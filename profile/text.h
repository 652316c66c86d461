// SPDX-License-Identifier: Apache-2.0
//
// text: numbers and foreign names as people read them: grouped counts, shares that never
// round to a false 0 or 100, and names made safe for a terminal. Used by every renderer and
// by the summary. Private to profile/.
// Trust: names are foreign bytes: escape sequences, invalid UTF-8 and control characters
// come out as visible \xNN text.
// Ownership: everything is appended to the caller's buffer. Threads: no state.
#pragma once

#include "common/buf.h"

// "1,234,567"
int fp_text_count(uint64_t value, struct fp_buf *ret_text);
// "12.34 %" with `decimals` (0 to 2) places. 100 and 0 stand only for exactly that: 99.996
// becomes "99.99 %", a share too small for a digit "<0.01 %". A whole of 0 gives "0.00 %".
int fp_text_percent(uint64_t part, uint64_t whole, unsigned int decimals, struct fp_buf *ret_text);
// "845 ns", "12.3 µs", "1.04 ms", "12.3 s", "1,234 s": three digits.
int fp_text_duration(uint64_t ns, struct fp_buf *ret_text);
// The name for a terminal, cut to `width` columns with ".." at the cut; returns the number
// of columns taken.
size_t fp_text_name(const char *name, size_t size, size_t width, struct fp_buf *ret_text);
// Bytes of the valid UTF-8 character at text, 0 when there is none.
size_t fp_text_utf8(const char *text, size_t size);
