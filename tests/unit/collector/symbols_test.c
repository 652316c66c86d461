// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/cases.h"
#include "tests/unit/scratch.h"

#include "collector/symbolservice.h"
#include "collector/symbolupload.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>

#define MAX_TABLE 4096
#define MAX_BYTES (1 << 20)

static struct fp_buf compressed(const char *text, size_t size)
{
	struct fp_buf bytes = { 0 };

	assert_int_equal(fp_buf_reserve(&bytes, ZSTD_compressBound(size)), 0);
	bytes.len = ZSTD_compress(bytes.data, ZSTD_compressBound(size), text, size, 3);
	assert_false(ZSTD_isError(bytes.len));
	return bytes;
}

static struct fp_symbol_service *opened_with(const char *directory, size_t max_table_bytes,
					     uint64_t max_bytes)
{
	struct fp_symbol_service_options options = { .directory = directory,
						     .debug_dirs = "",
						     .cache_bytes = 1 << 20,
						     .max_table_bytes = max_table_bytes,
						     .max_bytes = max_bytes };
	struct fp_symbol_service *service = NULL;

	assert_int_equal(fp_symbol_service_open(&options, &service), 0);
	return service;
}

static struct fp_symbol_service *opened(const char *directory)
{
	return opened_with(directory, MAX_TABLE, MAX_BYTES);
}

// As the handler does: what is no table is never written.
static int put(struct fp_symbol_service *service, const struct fp_build *build,
	       const struct fp_buf *body)
{
	const char *reason = NULL;
	int r = fp_symbol_service_check(service, body->data, body->len, &reason);

	if (r == 0)
		r = fp_symbol_service_put(service, build, "[kernel]", body, &reason);
	if (r < 0)
		assert_non_null(reason);
	return r;
}

static const char *scratch_subdirectory(const char *name)
{
	static char path[256];

	snprintf(path, sizeof(path), "%s/%s", scratch_directory(), name);
	return path;
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

	assert_string_equal(lookup(service, profile), "(none)");
	assert_int_equal(fp_symbol_service_counts(service).missing, 1);
	assert_false(fp_symbol_service_has(service, build.id, build.id_len));
	assert_int_equal(put(service, &build, &bytes), 1);
	assert_true(fp_symbol_service_has(service, build.id, build.id_len));
	assert_string_equal(lookup(service, profile), "do_thing");
	assert_int_equal(fp_symbol_service_counts(service).found, 1);
	assert_int_equal(put(service, &build, &bytes), 0);
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
	FP_AUTOBUF struct fp_buf words = { 0 };
	struct fp_symbol_service *service = opened(scratch_directory());
	struct fp_build build;
	size_t size;

	assert_int_equal(fp_build_id_parse("ffee", &build), 0);
	while (text.len < 100 * MAX_TABLE)
		fp_buf_str(&text, "10 a\n");
	bomb = compressed((char *)text.data, text.len);
	assert_true(bomb.len < MAX_TABLE);
	assert_int_equal(put(service, &build, &bomb), -EMSGSIZE);
	assert_int_equal(put(service, &build, &prose), -EBADMSG);
	fp_buf_str(&words, "not zstd");
	assert_int_equal(put(service, &build, &words), -EBADMSG);
	for (size = good.len; good.len > 0;) {
		good.len--;
		assert_int_equal(put(service, &build, &good), -EBADMSG);
	}
	good.len = size;
	fp_buf_byte(&good, 0);
	assert_int_equal(put(service, &build, &good), -EBADMSG);
	assert_false(fp_symbol_service_has(service, build.id, build.id_len));
	fp_symbol_service_close(service);
}

static void memory_is_asked_for_as_the_frame_says(void **state)
{
	FP_AUTOBUF struct fp_buf good = compressed("10 a\n20 b\n", 10);
	FP_AUTOBUF struct fp_buf large = { 0 }, bomb = { 0 };
	struct fp_symbol_service *service = opened(scratch_subdirectory("memory"));

	assert_int_equal(fp_symbol_service_check_bytes(service, good.data, good.len), 10);
	while (large.len < 2 * MAX_TABLE)
		fp_buf_str(&large, "10 a\n");
	bomb = compressed((char *)large.data, large.len);
	assert_int_equal(fp_symbol_service_check_bytes(service, bomb.data, bomb.len), MAX_TABLE);
	assert_int_equal(fp_symbol_service_check_bytes(service, "not zstd", 8), MAX_TABLE);
	fp_symbol_service_close(service);
}

static void uploads_stop_at_the_bound_on_the_disk(void **state)
{
	const char *directory = scratch_subdirectory("full");
	FP_AUTOBUF struct fp_buf bytes = compressed("10 a\n20 b\n", 10);
	struct fp_symbol_service *service = opened_with(directory, MAX_TABLE, 3 * 4096 - 1);
	struct fp_build build;

	for (uint8_t i = 0; i < 2; i++) {
		assert_int_equal(fp_build_id_parse("aa00", &build), 0);
		build.id[1] = i;
		assert_int_equal(put(service, &build, &bytes), 1);
	}
	assert_int_equal(fp_symbol_service_counts(service).bytes, 2 * 4096);
	build.id[1] = 2;
	assert_int_equal(put(service, &build, &bytes), -ENOSPC);
	assert_false(fp_symbol_service_has(service, build.id, build.id_len));
	fp_symbol_service_close(service);
	service = opened_with(directory, MAX_TABLE, 3 * 4096 - 1);
	assert_int_equal(fp_symbol_service_counts(service).bytes, 2 * 4096);
	assert_int_equal(put(service, &build, &bytes), -ENOSPC);
	fp_symbol_service_close(service);
	service = opened_with(directory, MAX_TABLE, 3 * 4096);
	assert_int_equal(put(service, &build, &bytes), 1);
	fp_symbol_service_close(service);
}

// A table that has left the cache is read again, so that a file removed meanwhile tells.
static void uploaded_tables_leave_the_cache(void **state)
{
	const char *directory = scratch_subdirectory("cache");
	struct fp_symbol_service *service = opened_with(directory, 4 << 20, 64 << 20);
	FP_AUTOBUF struct fp_buf text = { 0 }, bytes = { 0 };
	struct fp_build build;
	FP_AUTOPROFILE struct fp_profile *profile = kernel_profile(&build);
	char path[320];

	fp_buf_str(&text, "1000 do_thing\n");
	for (unsigned int i = 0; i < 50000; i++) // beyond the 1 MiB that all may take
		fp_buf_printf(&text, "%x function_%u\n", 0x2000 + 16 * i, i);
	bytes = compressed((char *)text.data, text.len);
	for (uint8_t i = 0; i < 3; i++) {
		profile->builds[0].id[3] = i;
		assert_int_equal(put(service, &profile->builds[0], &bytes), 1);
		assert_string_equal(lookup(service, profile), "do_thing");
	}
	profile->builds[0].id[3] = 0; // it has left, and comes back
	assert_string_equal(lookup(service, profile), "do_thing");
	assert_int_equal(fp_symbol_service_counts(service).found, 3);
	snprintf(path, sizeof(path), "%s/symbols/00112201.sym", directory);
	assert_int_equal(unlink(path), 0);
	profile->builds[0].id[3] = 1;
	assert_string_equal(lookup(service, profile), "(none)");
	assert_int_equal(fp_symbol_service_counts(service).found, 2);
	assert_int_equal(fp_symbol_service_counts(service).missing, 1);
	fp_symbol_service_close(service);
}

// Would never end if counting waited for the lock that the acquirer holds.
static void counting_does_not_wait_for_a_query(void **state)
{
	struct fp_symbol_service *service = opened(scratch_subdirectory("count"));
	struct fp_build build;
	FP_AUTOPROFILE struct fp_profile *profile = kernel_profile(&build);
	const uint8_t kinds[] = { FP_FRAME_KERNEL };

	fp_symbol_service_acquire(service, profile);
	assert_int_equal(fp_symbol_service_counts(service).missing, 0);
	fp_symbol_service_release(service, profile, kinds, NULL);
	assert_int_equal(fp_symbol_service_counts(service).missing, 1);
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
		FP_CASE("memory is asked for as the frame says",
			memory_is_asked_for_as_the_frame_says),
		FP_CASE("uploads stop at the bound on the disk",
			uploads_stop_at_the_bound_on_the_disk),
		FP_CASE("uploaded tables leave the cache", uploaded_tables_leave_the_cache),
		FP_CASE("counting does not wait for a query", counting_does_not_wait_for_a_query),
		FP_CASE("build-IDs are read strictly", build_ids_are_read_strictly),
	};

	return cmocka_run_group_tests_name("symbols", tests, NULL, NULL);
}
