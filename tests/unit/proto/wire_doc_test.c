// SPDX-License-Identifier: Apache-2.0
// docs/wire.md is compared with the code: its example byte by byte, its ids, its limits.
#include "common/file.h"
#include "examples.h"
#include "proto/batch.h"

#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <zstd.h>

#include <cmocka.h>

static void read_page(struct fp_buf *page)
{
	assert_int_equal(fp_file_read(FP_SOURCE_DIR "/docs/wire.md", 1 << 20, page), 0);
}

// The bytes of the fenced block behind the marker; '#' starts a comment.
static void example_bytes(const struct fp_buf *page, struct fp_buf *ret_bytes)
{
	const char *at = strstr((const char *)page->data, "<!-- example -->\n```\n");

	assert_non_null(at);
	for (at = strchr(at, '`') + 4; *at != '`'; at++) {
		unsigned int byte;

		if (*at == '#')
			at = strchr(at, '\n');
		if (!isxdigit((unsigned char)*at))
			continue;
		assert_int_equal(sscanf(at, "%2x", &byte), 1);
		fp_buf_byte(ret_bytes, (uint8_t)byte);
		at++;
	}
	assert_int_equal(ret_bytes->error, 0);
}

static void the_example_is_what_the_encoder_writes(void **state)
{
	FP_AUTOPROFILE struct fp_profile *profile = example_documented();
	FP_AUTOBUF struct fp_buf page = { 0 }, bytes = { 0 }, frame = { 0 }, message = { 0 };
	size_t size;

	read_page(&page);
	example_bytes(&page, &bytes);
	assert_int_equal(fp_batch_encode(profile, &frame), 0);
	size = ZSTD_getFrameContentSize(frame.data, frame.len);
	assert_int_equal(size, bytes.len);
	assert_int_equal(fp_buf_reserve(&message, size), 0);
	assert_int_equal(ZSTD_decompress(message.data, size, frame.data, frame.len), size);
	assert_memory_equal(message.data, bytes.data, size);
}

static void the_example_can_be_read(void **state)
{
	FP_AUTOPROFILE struct fp_profile *expected = example_documented(), *decoded = NULL;
	FP_AUTOBUF struct fp_buf page = { 0 }, bytes = { 0 }, frame = { 0 };
	const char *reason;

	read_page(&page);
	example_bytes(&page, &bytes);
	assert_int_equal(fp_buf_reserve(&frame, ZSTD_compressBound(bytes.len)), 0);
	frame.len =
	    ZSTD_compress(frame.data, ZSTD_compressBound(bytes.len), bytes.data, bytes.len, 19);
	assert_int_equal(
	    fp_batch_decode(frame.data, frame.len, &fp_batch_default_limits, &decoded, &reason), 0);
	assert_same_profile(expected, decoded);
}

static void assert_page_holds(const struct fp_buf *page, const char *text)
{
	if (!strstr((const char *)page->data, text))
		fail_msg("docs/wire.md does not hold '%s'", text);
}

static void assert_page_holds_id(const struct fp_buf *page, const uint8_t id[16])
{
	char hex[40] = "`";

	for (size_t i = 0; i < 16; i++)
		snprintf(hex + 1 + 2 * i, 3, "%02x", id[i]);
	strcat(hex, "`");
	assert_page_holds(page, hex);
}

static void the_ids_are_those_of_the_example(void **state)
{
	FP_AUTOPROFILE struct fp_profile *profile = example_documented();
	FP_AUTOBUF struct fp_buf page = { 0 };
	uint8_t id[FP_BATCH_ID_LEN];

	read_page(&page);
	fp_batch_id(profile, id);
	assert_page_holds_id(&page, id);
	for (uint32_t i = 0; i < profile->stacks_count; i++)
		assert_page_holds_id(&page, profile->stacks[i].id);
}

#define LIMIT(name)                                                                                \
	{                                                                                          \
#name, fp_batch_default_limits.name                                                \
	}

static void the_limits_are_those_of_the_code(void **state)
{
	const struct {
		const char *name;
		size_t value;
	} limits[] = {
		LIMIT(compressed_bytes), LIMIT(message_bytes), LIMIT(strings),
		LIMIT(builds),		 LIMIT(frames),	       LIMIT(stacks),
		LIMIT(labels),		 LIMIT(samples),       LIMIT(stack_frames),
		LIMIT(label_pool),	 LIMIT(stack_depth),   LIMIT(string_bytes),
		LIMIT(counters),	 LIMIT(stops),
	};
	FP_AUTOBUF struct fp_buf page = { 0 };

	read_page(&page);
	for (size_t i = 0; i < FP_ARRAY_SIZE(limits); i++) {
		char row[96];

		snprintf(row, sizeof(row), "| `%s` | %zu |", limits[i].name, limits[i].value);
		assert_page_holds(&page, row);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_example_is_what_the_encoder_writes),
		cmocka_unit_test(the_example_can_be_read),
		cmocka_unit_test(the_ids_are_those_of_the_example),
		cmocka_unit_test(the_limits_are_those_of_the_code),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
