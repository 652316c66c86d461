// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/cases.h"
#include "tests/unit/scratch.h"

#include "collector/symbolservice.h"
#include "collector/symbolupload.h"

#include <errno.h>
#include <string.h>
#include <zstd.h>

#define MAX_TABLE 4096

static struct fp_buf compressed(const char *text, size_t size)
{
	struct fp_buf bytes = { 0 };

	assert_int_equal(fp_buf_reserve(&bytes, ZSTD_compressBound(size)), 0);
	bytes.len = ZSTD_compress(bytes.data, ZSTD_compressBound(size), text, size, 3);
	assert_false(ZSTD_isError(bytes.len));
	return bytes;
}

static struct fp_symbol_service *opened(const char *directory)
{
	struct fp_symbol_service_options options = { .directory = directory,
						     .debug_dirs = "",
						     .cache_bytes = 1 << 20,
						     .max_table_bytes = MAX_TABLE };
	struct fp_symbol_service *service = NULL;

	assert_int_equal(fp_symbol_service_open(&options, &service), 0);
	return service;
}

static const char *lookup(struct fp_symbol_service *service, const struct fp_profile *profile)
{
	static char name[64];
	const uint8_t kinds[] = { FP_FRAME_KERNEL };
	struct fp_symbolizer *symbolizer = fp_symbol_service_acquire(service, profile);
	const char *found = fp_symbolizer_lookup(symbolizer, &profile->builds[0], "[kernel]",
						 FP_FRAME_KERNEL, 0x1005, true);

	snprintf(name, sizeof(name), "%s", found ? found : "(none)");
	fp_symbol_service_release(service, profile, kinds, NULL);
	return name;
}

static struct fp_profile *kernel_profile(struct fp_build *build)
{
	struct fp_profile *profile;
	uint32_t id;

	assert_int_equal(fp_profile_new(&profile), 0);
	assert_int_equal(fp_build_id_parse("00112233", build), 0);
	assert_int_equal(fp_profile_cstring(profile, "[kernel]", &build->path), 0);
	assert_int_equal(fp_profile_build(profile, build, &id), 0);
	return profile;
}

static void an_upload_names_what_was_stored_before_it(void **state)
{
	static const char text[] = "1000 do_thing\n2000 other\n";
	const char *directory = scratch_directory();
	FP_AUTOBUF struct fp_buf bytes = compressed(text, strlen(text));
	struct fp_build build;
	FP_AUTOPROFILE struct fp_profile *profile = kernel_profile(&build);
	struct fp_symbol_service *service = opened(directory);
	const char *reason;

	assert_string_equal(lookup(service, profile), "(none)");
	assert_int_equal(fp_symbol_service_counts(service).missing, 1);
	assert_false(fp_symbol_service_has(service, build.id, build.id_len));
	assert_int_equal(
	    fp_symbol_service_put(service, &build, "[kernel]", bytes.data, bytes.len, &reason), 1);
	assert_true(fp_symbol_service_has(service, build.id, build.id_len));
	assert_string_equal(lookup(service, profile), "do_thing");
	assert_int_equal(fp_symbol_service_counts(service).found, 1);
	assert_int_equal(
	    fp_symbol_service_put(service, &build, "[kernel]", bytes.data, bytes.len, &reason), 0);
	fp_symbol_service_close(service);
	service = opened(directory);
	assert_string_equal(lookup(service, profile), "do_thing");
	fp_symbol_service_close(service);
}

static void hostile_tables_are_refused(void **state)
{
	FP_AUTOBUF struct fp_buf text = { 0 };
	FP_AUTOBUF struct fp_buf bomb = { 0 };
	FP_AUTOBUF struct fp_buf prose = compressed("no symbols\nat all\n", 18);
	FP_AUTOBUF struct fp_buf good = compressed("10 a\n20 b\n", 10);
	struct fp_symbol_service *service = opened(scratch_directory());
	struct fp_build build;
	const char *reason = NULL;

	assert_int_equal(fp_build_id_parse("ffee", &build), 0);
	while (text.len < 100 * MAX_TABLE)
		fp_buf_str(&text, "10 a\n");
	bomb = compressed((char *)text.data, text.len);
	assert_true(bomb.len < MAX_TABLE);
	assert_int_equal(fp_symbol_service_put(service, &build, "", bomb.data, bomb.len, &reason),
			 -EMSGSIZE);
	assert_int_equal(fp_symbol_service_put(service, &build, "", prose.data, prose.len, &reason),
			 -EBADMSG);
	assert_int_equal(fp_symbol_service_put(service, &build, "", "not zstd", 8, &reason),
			 -EBADMSG);
	for (size_t size = 0; size < good.len; size++)
		assert_int_equal(
		    fp_symbol_service_put(service, &build, "", good.data, size, &reason), -EBADMSG);
	fp_buf_byte(&good, 0);
	assert_int_equal(fp_symbol_service_put(service, &build, "", good.data, good.len, &reason),
			 -EBADMSG);
	assert_false(fp_symbol_service_has(service, build.id, build.id_len));
	fp_symbol_service_close(service);
}

static void build_ids_are_read_strictly(void **state)
{
	static const char *const wrong[] = {
		"", "a", "abc", "AB", "0x12", "zz", "../", "a/", "12 3"
	};
	struct fp_build build;
	char hex[2 * FP_BUILD_ID_MAX + 1], long_hex[2 * FP_BUILD_ID_MAX + 3];

	for (size_t i = 0; i < FP_ARRAY_SIZE(wrong); i++)
		assert_int_equal(fp_build_id_parse(wrong[i], &build), -EINVAL);
	memset(long_hex, 'a', sizeof(long_hex) - 1);
	long_hex[sizeof(long_hex) - 1] = '\0';
	assert_int_equal(fp_build_id_parse(long_hex, &build), -EINVAL);
	assert_int_equal(fp_build_id_parse(long_hex + 2, &build), 0);
	assert_int_equal(build.id_len, FP_BUILD_ID_MAX);
	assert_int_equal(fp_build_id_parse("09af", &build), 0);
	fp_build_id_print(&build, hex);
	assert_string_equal(hex, "09af");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FP_CASE("an upload names what was stored before it",
			an_upload_names_what_was_stored_before_it),
		FP_CASE("hostile tables are refused", hostile_tables_are_refused),
		FP_CASE("build-IDs are read strictly", build_ids_are_read_strictly),
	};

	return cmocka_run_group_tests_name("symbols", tests, NULL, NULL);
}
