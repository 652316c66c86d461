// SPDX-License-Identifier: Apache-2.0
//
// query_fuzz: the times of a request, the table of routes, and an uploaded symbol table.
// Input: a byte that chooses, then the text.
#include "fuzz.h"

#include "collector/http.h"
#include "collector/symbolupload.h"
#include "collector/timerange.h"

#include <string.h>

#define NOW 1764450000000000000ULL

static void read_times(const char *text)
{
	FP_AUTOBUF struct fp_buf error = { 0 };
	struct fp_time_range range;
	const char *to = strchr(text, '\n');
	FP_AUTOFREE char *from = to ? strndup(text, (size_t)(to - text)) : NULL;

	if (fp_time_range_parse(from ? from : text, to ? to + 1 : NULL, NOW, &range, &error) < 0) {
		if (error.len == 0)
			abort();
		return;
	}
	if (range.from_ns >= range.to_ns)
		abort();
}

static void find_route(const char *path)
{
	static const char *const methods[] = { "GET", "HEAD", "POST", "PUT", "DELETE" };

	for (size_t i = 0; i < FP_ARRAY_SIZE(methods); i++) {
		struct fp_response refusal = { 0 };
		FP_AUTOFREE char *tail = NULL;
		const struct fp_route *route = fp_route_find(methods[i], path, &tail, &refusal);

		if (!route == !refusal.status)
			abort();
		fp_buf_free(&refusal.body);
	}
}

static void read_table(const uint8_t *data, size_t size)
{
	FP_AUTOBUF struct fp_buf text = { 0 };
	const char *reason = NULL;

	if (fp_symbol_upload_decompress(data, size, 65536, &text, &reason) < 0) {
		if (!reason)
			abort();
		return;
	}
	if (text.len > 65536)
		abort();
	fp_symbol_upload_check(&text, &reason);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	FP_AUTOFREE char *text = NULL;

	if (size < 1)
		return 0;
	text = strndup((const char *)data + 1, size - 1);
	if (!text)
		return 0;
	switch (data[0] % 3) {
	case 0:
		read_times(text);
		break;
	case 1:
		find_route(text);
		break;
	default:
		read_table(data + 1, size - 1);
	}
	return 0;
}
