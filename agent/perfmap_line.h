// SPDX-License-Identifier: Apache-2.0
//
// perfmap_line: one line of a perf map. Private to perfmap. Trust: foreign bytes.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Numbers and blanks before the name: the longest ones take 38 bytes.
#define FP_PERF_LINE_HEAD 96

struct fp_perf_line {
	uint64_t start;
	uint32_t size;	  // > 0, and start + size does not wrap
	size_t name;	  // where the name begins
	size_t name_size; // without the end of the line, \n or \r\n; > 0
};

// text: the line without its \n, or its first FP_PERF_LINE_HEAD bytes or more.
bool fp_perf_line_parse(const char *text, size_t size, struct fp_perf_line *ret_line);
