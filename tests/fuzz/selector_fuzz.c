// SPDX-License-Identifier: Apache-2.0
//
// selector_fuzz: the first line is a selector, the rest label values to match. What parses
// must print to a text that parses to the same print.
#include "fuzz.h"

#include "collector/selector.h"

#include <string.h>

static void print_and_reparse(const struct fp_selector *selector)
{
	FP_AUTOSELECTOR struct fp_selector again = { 0 };
	FP_AUTOBUF struct fp_buf first = { 0 };
	FP_AUTOBUF struct fp_buf second = { 0 };
	FP_AUTOBUF struct fp_buf error = { 0 };

	fp_selector_print(selector, &first);
	if (first.len > FP_SELECTOR_MAX_BYTES)
		return; // escapes made it longer than a selector may be
	if (fp_selector_parse((char *)first.data, first.len, &again, &error) < 0)
		abort();
	fp_selector_print(&again, &second);
	if (first.len != second.len || memcmp(first.data, second.data, first.len) != 0)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	FP_AUTOSELECTOR struct fp_selector selector = { 0 };
	FP_AUTOBUF struct fp_buf error = { 0 };
	const uint8_t *end = size ? memchr(data, '\n', size) : NULL;
	size_t text_size = end ? (size_t)(end - data) : size;
	struct fp_selector_label label = { "a", "", 0 };

	if (fp_selector_parse((const char *)data, text_size, &selector, &error) < 0) {
		if (error.len == 0)
			abort();
		return 0;
	}
	print_and_reparse(&selector);
	if (end) {
		label.value = (const char *)end + 1;
		label.value_size = size - text_size - 1;
	}
	fp_selector_match(&selector, &label, 1);
	return 0;
}
