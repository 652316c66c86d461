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

// As the handler does: what is no table is never written. 1: stored, 0: the old one stays.
static int put(struct fp_symbol_service *service, const struct fp_build *build,
	       const struct fp_buf *body)
{
	const char *reason = NULL;
	int r = fp_symbol_service_check(service, build, body, &reason);

	if (r == 1)
		return 0;
	if (r == 0)
		r = fp_symbol_service_put(service, build, "[kernel]", body, &reason);
	if (r < 0)
		assert_non_null(reason);
	return r < 0 ? r : 1;
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

static void a_table_gives_way_to_one_with_more_functions(void **state)
{
	FP_AUTOBUF struct fp_buf none = compressed("", 0);
	FP_AUTOBUF struct fp_buf few =
	    compressed("1000 exported\n1003 -\n1100 another\n1103 -\n", 41);
	FP_AUTOBUF struct fp_buf more =
	    compressed("1000 exported\n1004 hidden\n1100 another\n", 39);
	FP_AUTOBUF struct fp_buf others =
	    compressed("1 longer_name_1\n2 longer_name_2\n3 longer_name_3\n", 48);
	struct fp_build build;
	FP_AUTOPROFILE struct fp_profile *profile = kernel_profile(&build);
	struct fp_symbol_service *service = opened(scratch_subdirectory("better"));

	assert_int_equal(put(service, &build, &none), 1);
	assert_true(fp_symbol_service_has(service, build.id, build.id_len));
	assert_string_equal(lookup(service, profile), "(none)");
	assert_int_equal(put(service, &build, &none), 0);
	assert_int_equal(put(service, &build, &few), 1);
	assert_string_equal(lookup(service, profile), "(none)"); // in the gap
	assert_int_equal(put(service, &build, &none), 0);
	assert_int_equal(put(service, &build, &more), 1);
	assert_string_equal(lookup(service, profile), "hidden");
	assert_int_equal(put(service, &build, &few), 0);
	assert_int_equal(put(service, &build, &others), 0);
	assert_string_equal(lookup(service, profile), "hidden");
	assert_int_equal(fp_symbol_service_counts(service).bytes, 4096); // one file, replaced
	fp_symbol_service_close(service);
}

static uint8_t status_of(struct fp_symbol_service *service, const struct fp_profile *profile)
{
	const uint8_t kinds[] = { FP_FRAME_FILE };
	uint8_t status = UINT8_MAX;

	fp_symbol_service_acquire(service, profile);
	fp_symbol_service_release(service, profile, kinds, &status);
	return status;
}

static void a_table_without_functions_says_that_the_file_is_stripped(void **state)
{
	FP_AUTOBUF struct fp_buf none = compressed("", 0);
	struct fp_build build;
	FP_AUTOPROFILE struct fp_profile *profile = kernel_profile(&build);
	struct fp_symbol_service *service = opened(scratch_subdirectory("stripped"));

	assert_int_equal(status_of(service, profile), FP_SYMBOLS_NO_FILE);
	assert_int_equal(put(service, &build, &none), 1);
	assert_int_equal(status_of(service, profile), FP_SYMBOLS_NO_SYMBOLS);
	fp_symbol_service_close(service);
}

static int wanted(struct fp_symbol_service *service, const struct fp_profile *profile)
{
	struct fp_build builds[FP_SYMBOLS_WANTED_MAX];

	return fp_symbol_service_wanted(service, profile, builds);
}

// A profile with one sample in a file of the build 00112233.
static struct fp_profile *file_profile(struct fp_build *build)
{
	struct fp_sample sample = { .type = FP_PROFILE_CPU, .count = 1, .value = 1 };
	struct fp_profile *profile = kernel_profile(build);
	struct fp_frame frame = { .kind = FP_FRAME_FILE, .offset = 0x1000 };
	uint32_t id;

	assert_int_equal(fp_profile_frame(profile, &frame, &id), 0);
	assert_int_equal(fp_profile_labels(profile, NULL, 0, &sample.labels), 0);
	assert_int_equal(fp_profile_stack(profile, &id, 1, &sample.stack), 0);
	assert_int_equal(fp_profile_sample(profile, &sample), 0);
	return profile;
}

static struct fp_symbol_service *opened_asking(const char *directory, const char *debug_dirs,
					       uint64_t max_bytes, bool request)
{
	struct fp_symbol_service_options options = { .directory = directory,
						     .debug_dirs = debug_dirs,
						     .request = request,
						     .cache_bytes = 1 << 20,
						     .max_table_bytes = MAX_TABLE,
						     .max_bytes = max_bytes };
	struct fp_symbol_service *service = NULL;

	assert_int_equal(fp_symbol_service_open(&options, &service), 0);
	return service;
}

static void only_builds_that_no_source_has_are_asked_for(void **state)
{
	FP_AUTOBUF struct fp_buf table = compressed("1000 a\n", 7);
	struct fp_build build;
	FP_AUTOPROFILE struct fp_profile *profile = file_profile(&build);
	char directory[256], path[1024];
	struct fp_symbol_service *service;

	snprintf(directory, sizeof(directory), "%s", scratch_subdirectory("asking"));
	service = opened_asking(directory, "", MAX_BYTES, false);
	assert_int_equal(wanted(service, profile), 0);
	fp_symbol_service_close(service);
	service = opened_asking(directory, "", MAX_BYTES, true);
	assert_int_equal(wanted(service, profile), 1);
	fp_symbol_service_close(service);
	snprintf(path, sizeof(path),
		 "mkdir -p %s/debug/.build-id/00 && touch %s/debug/.build-id/00/112233.debug",
		 directory, directory);
	assert_int_equal(system(path), 0);
	snprintf(path, sizeof(path), "%s/none:%s/debug", directory, directory);
	service = opened_asking(directory, path, MAX_BYTES, true);
	assert_int_equal(wanted(service, profile), 0);
	fp_symbol_service_close(service);
	service = opened_asking(directory, "", MAX_BYTES, true);
	assert_int_equal(put(service, &build, &table), 1);
	assert_int_equal(wanted(service, profile), 0);
	fp_symbol_service_close(service);
	profile->builds[0].id[3]++;
	service = opened_asking(directory, "", 4096, true); // full
	assert_int_equal(wanted(service, profile), 0);
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
	FP_AUTOBUF struct fp_buf large = { 0 }, bomb = { 0 }, words = { 0 };
	struct fp_symbol_service *service = opened(scratch_subdirectory("memory"));

	fp_buf_str(&words, "not zstd");
	assert_int_equal(fp_symbol_service_check_bytes(service, &good), 10);
	while (large.len < 2 * MAX_TABLE)
		fp_buf_str(&large, "10 a\n");
	bomb = compressed((char *)large.data, large.len);
	assert_int_equal(fp_symbol_service_check_bytes(service, &bomb), MAX_TABLE);
	assert_int_equal(fp_symbol_service_check_bytes(service, &words), MAX_TABLE);
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
		FP_CASE("a table gives way to one with more functions",
			a_table_gives_way_to_one_with_more_functions),
		FP_CASE("a table without functions says that the file is stripped",
			a_table_without_functions_says_that_the_file_is_stripped),
		FP_CASE("only builds that no source has are asked for",
			only_builds_that_no_source_has_are_asked_for),
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
