// SPDX-License-Identifier: Apache-2.0
#include "examples.h"

#include "tests/unit/cases.h"

#include <string.h>
#include <sys/stat.h>

static void what_is_stored_survives_a_restart(void **state)
{
	const char *path = example_directory();
	struct example batch = { .host = "a", .sequence = 1 };
	struct fp_store_recovery recovery;
	struct fp_store *store = OPENED(path);

	example_append(store, &batch);
	fp_store_close(store);
	store = example_open(path, NULL, &recovery);
	assert_int_equal(recovery.derived + recovery.torn_bytes, 0);
	assert_int_equal(example_sum(store, ""), 20);
	assert_int_equal(example_append(store, &batch), FP_STORE_DUPLICATE);
	fp_store_close(store);
}

static void a_lost_manifest_is_made_again_from_the_log(void **state)
{
	const char *path = example_directory();
	struct example batch = { .host = "a" };
	struct fp_store_recovery recovery;
	struct fp_store *store = OPENED(path);
	char name[256];

	for (batch.sequence = 1; batch.sequence <= 3; batch.sequence++)
		example_append(store, &batch);
	fp_store_close(store);
	snprintf(name, sizeof(name), "%s/manifest.sqlite", path);
	assert_int_equal(unlink(name), 0);
	store = example_open(path, NULL, &recovery);
	assert_int_equal(recovery.derived, 3);
	assert_int_equal(example_sum(store, ""), 60);
	batch.sequence = 2;
	assert_int_equal(example_append(store, &batch), FP_STORE_DUPLICATE);
	fp_store_close(store);
}

static void copy_file(const char *from, const char *to)
{
	FP_AUTOFCLOSE FILE *in = fopen(from, "r");
	FP_AUTOFCLOSE FILE *out = fopen(to, "w");
	int c;

	assert_non_null(in);
	assert_non_null(out);
	while ((c = fgetc(in)) != EOF)
		fputc(c, out);
}

static void a_crash_at_any_byte_neither_loses_nor_doubles(void **state)
{
	const char *path = example_directory();
	char directory[128], manifest[256], before[256], segment[256], torn[256];
	struct example batch = { .host = "a", .sequence = 1 };
	struct fp_store *store;
	struct stat status;

	strcpy(directory, path);
	snprintf(manifest, sizeof(manifest), "%s/manifest.sqlite", directory);
	snprintf(before, sizeof(before), "%s/before", directory);
	snprintf(segment, sizeof(segment), "%s/wal/00000000000000000002.wal", directory);
	snprintf(torn, sizeof(torn), "%s/torn", directory);
	store = OPENED(directory);
	example_append(store, &batch);
	fp_store_close(store);
	copy_file(manifest, before);
	store = OPENED(directory);
	batch.sequence = 2;
	example_append(store, &batch);
	fp_store_close(store);
	copy_file(segment, torn);
	assert_int_equal(stat(torn, &status), 0);
	for (off_t size = 0; size <= status.st_size; size += size < 40 ? 1 : 37) {
		struct fp_store_recovery recovery;
		bool whole = size == status.st_size;

		copy_file(before, manifest);
		copy_file(torn, segment);
		assert_int_equal(truncate(segment, size), 0);
		store = example_open(directory, NULL, &recovery);
		assert_int_equal(recovery.derived, whole);
		assert_int_equal(example_sum(store, ""), whole ? 40 : 20);
		batch.sequence = 1;
		assert_int_equal(example_append(store, &batch), FP_STORE_DUPLICATE);
		fp_store_close(store);
	}
	copy_file(before, manifest);
	copy_file(torn, segment);
	store = OPENED(directory);
	batch.sequence = 2;
	assert_int_equal(example_append(store, &batch), FP_STORE_DUPLICATE);
	assert_int_equal(example_sum(store, ""), 40);
	fp_store_close(store);
}

static void a_batch_twice_in_the_log_counts_once(void **state)
{
	const char *path = example_directory();
	char directory[128], manifest[256], first[256], third[256];
	struct fp_store_recovery recovery;
	struct fp_store *store = OPENED(strcpy(directory, path));

	example_append(store, &(struct example){ .host = "a", .sequence = 1 });
	fp_store_close(store);
	snprintf(manifest, sizeof(manifest), "%s/manifest.sqlite", directory);
	snprintf(first, sizeof(first), "%s/wal/00000000000000000001.wal", directory);
	snprintf(third, sizeof(third), "%s/wal/00000000000000000003.wal", directory);
	copy_file(first, third);
	store = example_open(directory, NULL, &recovery);
	assert_int_equal(recovery.derived, 0);
	assert_int_equal(recovery.repeated, 1);
	assert_int_equal(example_sum(store, ""), 20);
	fp_store_close(store);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FP_CASE("what is stored survives a restart", what_is_stored_survives_a_restart),
		FP_CASE("a lost manifest is made again from the log",
			a_lost_manifest_is_made_again_from_the_log),
		FP_CASE("a crash at any byte neither loses nor doubles",
			a_crash_at_any_byte_neither_loses_nor_doubles),
		FP_CASE("a batch twice in the log counts once",
			a_batch_twice_in_the_log_counts_once),
	};

	return cmocka_run_group_tests_name("store after a crash", tests, NULL, NULL);
}
