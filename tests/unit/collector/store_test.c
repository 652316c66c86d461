// SPDX-License-Identifier: Apache-2.0
#include "examples.h"

#include "tests/unit/cases.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define OPENED(path) example_open(path, NULL, NULL)
#define AUTOSTORE    FP_CLEANUP(fp_store_closep)

static void a_batch_counts_once(void **state)
{
	AUTOSTORE struct fp_store *store = OPENED(example_directory());
	struct example batch = { .host = "a", .sequence = 1 };

	assert_int_equal(example_append(store, &batch), FP_STORED);
	assert_int_equal(example_append(store, &batch), FP_STORE_DUPLICATE);
	assert_int_equal(example_sum(store, ""), 20);
	batch.cpu_value = 11;
	assert_int_equal(example_append(store, &batch), FP_STORE_CONFLICT);
	assert_int_equal(example_sum(store, ""), 20);
}

static void equal_content_of_two_windows_counts_twice(void **state)
{
	AUTOSTORE struct fp_store *store = OPENED(example_directory());
	struct example batch = { .host = "a", .sequence = 1, .start_s = EXAMPLE_START_S };

	assert_int_equal(example_append(store, &batch), FP_STORED);
	batch.sequence = 2;
	assert_int_equal(example_append(store, &batch), FP_STORED);
	assert_int_equal(example_sum(store, ""), 40);
}

static void selectors_choose_by_host_and_label(void **state)
{
	static const struct {
		const char *selector;
		uint64_t samples;
	} cases[] = {
		{ "{host=\"a\"}", 20 },
		{ "{host=~\"a|b\"}", 40 },
		{ "{host!=\"a\"}", 20 },
		{ "{thread=\"io\"}", 20 },
		{ "{thread=\"io\",host=\"b\"}", 10 },
		{ "{thread=~\"m.*\"}", 20 },
		{ "{nothing=\"x\"}", 0 },
		{ "{nothing=\"\"}", 40 },
		{ "{host=\"\"}", 0 },
	};
	AUTOSTORE struct fp_store *store = OPENED(example_directory());

	example_append(store, &(struct example){ .host = "a", .sequence = 1 });
	example_append(store, &(struct example){ .host = "b", .sequence = 1 });
	for (size_t i = 0; i < FP_ARRAY_SIZE(cases); i++)
		if (example_sum(store, cases[i].selector) != cases[i].samples)
			fail_msg("%s found %llu", cases[i].selector,
				 (unsigned long long)example_sum(store, cases[i].selector));
}

static struct fp_store_answer answer_of(struct fp_store *store, uint64_t from_s, uint64_t to_s,
					const char *keep)
{
	const struct fp_selector everything = { 0 };
	FP_AUTOBUF struct fp_buf error = { 0 };
	struct fp_store_answer answer = { 0 };
	struct fp_store_query query = { .type = FP_PROFILE_CPU,
					.selector = &everything,
					.range = { from_s * EXAMPLE_S, to_s * EXAMPLE_S },
					.keep_label = keep,
					.max_rows = UINT64_MAX,
					.max_memory_bytes = UINT64_MAX };

	assert_int_equal(fp_store_query(store, &query, &answer, &error), 0);
	return answer;
}

static void a_window_belongs_to_the_range_its_start_lies_in(void **state)
{
	AUTOSTORE struct fp_store *store = OPENED(example_directory());
	const struct {
		uint64_t from_s, to_s, batches;
	} cases[] = {
		{ 1060, 1120, 1 }, { 1061, 1120, 0 }, { 1060, 1121, 2 },
		{ 0, 1060, 0 },	   { 0, 1061, 1 },    { 0, 5000, 3 },
	};

	for (uint64_t i = 1; i <= 3; i++)
		example_append(store, &(struct example){
					  .host = "a", .sequence = i, .start_s = 1000 + 60 * i });
	for (size_t i = 0; i < FP_ARRAY_SIZE(cases); i++) {
		struct fp_store_answer answer =
		    answer_of(store, cases[i].from_s, cases[i].to_s, NULL);

		assert_int_equal(answer.facts.batches, cases[i].batches);
		fp_profile_free(answer.profile);
	}
}

static void equal_stacks_of_many_batches_become_one_row(void **state)
{
	AUTOSTORE struct fp_store *store = OPENED(example_directory());
	struct fp_store_answer answer;

	for (uint64_t i = 1; i <= 5; i++)
		example_append(store,
			       &(struct example){ .host = i % 2 ? "a" : "b", .sequence = i });
	answer = answer_of(store, 0, 4000000000, NULL);
	assert_int_equal(answer.profile->stacks_count, 2);
	assert_int_equal(answer.profile->samples_count, 2);
	assert_int_equal(answer.profile->samples[0].value, 50);
	assert_int_equal(answer.facts.hosts, 2);
	assert_int_equal(answer.profile->quality[FP_PROFILE_CPU].counters[FP_QUALITY_SAMPLES], 100);
	assert_int_equal(answer.profile->quality[FP_PROFILE_CPU].counters[FP_QUALITY_HZ_ACTUAL],
			 19);
	assert_int_equal(answer.profile->quality[FP_PROFILE_CPU].named[0].value, 100);
	fp_profile_free(answer.profile);
	answer = answer_of(store, 0, 4000000000, "host");
	assert_int_equal(answer.profile->samples_count, 4);
	fp_profile_free(answer.profile);
}

// 10 samples at 19 Hz and 10 at 99 Hz are not 20 samples of anything: they become time.
static void different_rates_are_added_as_time(void **state)
{
	AUTOSTORE struct fp_store *store = OPENED(example_directory());
	struct fp_store_answer answer;
	uint64_t expected = 20 * (EXAMPLE_S / 19) + 20 * (EXAMPLE_S / 99), sum = 0;

	example_append(store, &(struct example){ .host = "a", .sequence = 1 });
	example_append(store, &(struct example){ .host = "b", .sequence = 1, .hz = 99 });
	answer = answer_of(store, 0, 4000000000, NULL);
	assert_true(answer.facts.mixed_periods);
	assert_int_equal(answer.profile->period_ns, 1);
	for (uint32_t i = 0; i < answer.profile->samples_count; i++)
		sum += answer.profile->samples[i].value;
	assert_int_equal(sum, expected);
	assert_int_equal(answer.facts.nanoseconds, expected);
	fp_profile_free(answer.profile);
}

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

// A crash between sync and manifest: the manifest is that of before. Then at every byte of the
// torn record behind it: what was whole counts, what was not is cut, nothing counts twice.
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

// As after a sync that failed: the log holds one batch twice.
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

static void ids_outlive_the_batches_that_retention_removed(void **state)
{
	const char *path = example_directory();
	struct fp_store_options options = { .max_bytes = 1ULL << 30,
					    .retention_ns = 3600 * EXAMPLE_S,
					    .dedup_keep_ns = 26 * 3600 * EXAMPLE_S,
					    .max_series = 100 };
	struct example batch = { .host = "a", .sequence = 1 };
	uint64_t then_ns = EXAMPLE_START_S * EXAMPLE_S;
	struct fp_store_expiry expiry;
	struct fp_store_stats stats;
	struct fp_store *store = example_open(path, &options, NULL);

	example_append_at(store, &batch, then_ns);
	fp_store_close(store);
	store = example_open(path, &options, NULL); // the segment is closed now
	assert_int_equal(fp_store_maintain(store, then_ns + 3599 * EXAMPLE_S, &expiry), 0);
	assert_int_equal(expiry.segments, 0);
	assert_int_equal(fp_store_maintain(store, then_ns + 3601 * EXAMPLE_S, &expiry), 0);
	assert_int_equal(expiry.segments, 1);
	assert_int_equal(expiry.batches, 1);
	assert_int_equal(example_sum(store, ""), 0);
	assert_int_equal(fp_store_stats(store, &stats), 0);
	assert_int_equal(stats.bytes, 0);
	assert_int_equal(stats.totals.series, 0);
	fp_store_close(store);
	store = example_open(path, &options, NULL);
	assert_int_equal(example_append_at(store, &batch, then_ns + 25 * 3600 * EXAMPLE_S),
			 FP_STORE_DUPLICATE);
	assert_int_equal(fp_store_maintain(store, then_ns + 27 * 3600 * EXAMPLE_S, &expiry), 0);
	assert_int_equal(example_append(store, &batch), FP_STORED); // forgotten at last
	fp_store_close(store);
}

static void the_bound_on_bytes_removes_the_oldest_first(void **state)
{
	struct fp_store_options options = { .max_bytes = 16 * 400,
					    .retention_ns = 86400 * EXAMPLE_S,
					    .dedup_keep_ns = 26 * 3600 * EXAMPLE_S,
					    .max_series = 100 };
	AUTOSTORE struct fp_store *store = example_open(example_directory(), &options, NULL);
	uint64_t then_ns = EXAMPLE_START_S * EXAMPLE_S;
	struct fp_store_expiry expiry;
	struct fp_store_stats stats;
	struct fp_store_answer answer;

	for (uint64_t i = 1; i <= 40; i++)
		assert_int_equal(example_append_at(store,
						   &(struct example){ .host = "a", .sequence = i },
						   then_ns),
				 FP_STORED);
	assert_int_equal(fp_store_stats(store, &stats), 0);
	assert_true(stats.bytes > options.max_bytes);
	assert_true(stats.segments > 10);
	assert_int_equal(fp_store_maintain(store, then_ns, &expiry), 0);
	assert_true(expiry.batches > 0);
	assert_int_equal(fp_store_stats(store, &stats), 0);
	assert_true(stats.bytes <= options.max_bytes);
	assert_int_equal(stats.totals.batches, 40 - expiry.batches);
	assert_int_equal(stats.totals.ids, 40);
	answer = answer_of(store, 0, 4000000000, NULL);
	assert_int_equal(answer.facts.batches, 40 - expiry.batches);
	assert_int_equal(answer.facts.first_start_ns,
			 (EXAMPLE_START_S + 60 * (expiry.batches + 1)) * EXAMPLE_S);
	fp_profile_free(answer.profile);
}

static void one_directory_serves_one_store(void **state)
{
	const char *path = example_directory();
	AUTOSTORE struct fp_store *store = OPENED(path);
	struct fp_store_options options = { .directory = path, .max_bytes = 1 << 20 };
	FP_AUTOBUF struct fp_buf error = { 0 };
	struct fp_store_recovery recovery;
	struct fp_store *second = NULL;

	assert_int_equal(fp_store_open(&options, &second, &recovery, &error), -EBUSY);
	assert_non_null(strstr((char *)error.data, "another collector"));
	assert_null(second);
}

struct crowd {
	struct fp_store *store;
	uint64_t first;
	int verdicts[3];
};

#define CROWD  8
#define ROUNDS 25

static void *append_many(void *context)
{
	struct crowd *crowd = context;

	for (uint64_t i = 0; i < ROUNDS; i++) {
		struct example batch = { .host = "a", .sequence = i };
		int verdict = example_append(crowd->store, &batch);

		if (verdict >= 0)
			crowd->verdicts[verdict]++;
	}
	return NULL;
}

// Eight threads send the same 25 batches: each is stored by exactly one of them.
static void many_at_once_agree_on_who_was_first(void **state)
{
	AUTOSTORE struct fp_store *store = OPENED(example_directory());
	struct crowd crowd[CROWD] = { 0 };
	pthread_t threads[CROWD];
	int stored = 0, duplicate = 0;

	for (int i = 0; i < CROWD; i++) {
		crowd[i].store = store;
		assert_int_equal(pthread_create(&threads[i], NULL, append_many, &crowd[i]), 0);
	}
	for (int i = 0; i < CROWD; i++) {
		pthread_join(threads[i], NULL);
		stored += crowd[i].verdicts[FP_STORED];
		duplicate += crowd[i].verdicts[FP_STORE_DUPLICATE];
	}
	assert_int_equal(stored, ROUNDS);
	assert_int_equal(duplicate, ROUNDS * (CROWD - 1));
	assert_int_equal(example_sum(store, ""), 20 * ROUNDS);
}

struct texts {
	char joined[256];
};

static int join(const char *text, size_t size, void *context)
{
	struct texts *texts = context;

	strncat(texts->joined, text, size);
	strcat(texts->joined, ",");
	return 0;
}

static void labels_and_values_can_be_listed(void **state)
{
	AUTOSTORE struct fp_store *store = OPENED(example_directory());
	struct texts names = { 0 }, values = { 0 }, prefixed = { 0 };

	example_append(store, &(struct example){ .host = "a", .sequence = 1 });
	example_append(store, &(struct example){ .host = "b", .sequence = 1, .thread = "gc" });
	fp_store_label_names(store, 10, join, &names);
	assert_string_equal(names.joined, "host,thread,");
	fp_store_label_values(store, "thread", "", 10, join, &values);
	assert_string_equal(values.joined, "gc,io,main,");
	fp_store_label_values(store, "thread", "m", 10, join, &prefixed);
	assert_string_equal(prefixed.joined, "main,");
}

static void label_sets_beyond_the_bound_are_still_found(void **state)
{
	struct fp_store_options options = { .max_bytes = 1 << 30,
					    .retention_ns = 86400 * EXAMPLE_S,
					    .dedup_keep_ns = 26 * 3600 * EXAMPLE_S,
					    .max_series = 2 };
	AUTOSTORE struct fp_store *store = example_open(example_directory(), &options, NULL);
	struct fp_store_stats stats;

	example_append(store, &(struct example){ .host = "a", .sequence = 1 });
	example_append(store, &(struct example){ .host = "a", .sequence = 2, .thread = "new" });
	assert_int_equal(fp_store_stats(store, &stats), 0);
	assert_int_equal(stats.totals.series, 2);
	assert_int_equal(stats.series_refused, 1);
	assert_int_equal(example_sum(store, "{thread=\"new\"}"), 10);
}

static int query_bounded(struct fp_store *store, uint64_t rows, uint64_t memory,
			 uint64_t deadline_ns, struct fp_buf *error)
{
	const struct fp_selector everything = { 0 };
	struct fp_store_answer answer = { 0 };
	struct fp_store_query query = { .type = FP_PROFILE_CPU,
					.selector = &everything,
					.range = { 0, INT64_MAX },
					.deadline_ns = deadline_ns,
					.max_rows = rows,
					.max_memory_bytes = memory };
	int r = fp_store_query(store, &query, &answer, error);

	fp_profile_free(answer.profile);
	return r;
}

static void queries_keep_their_bounds(void **state)
{
	AUTOSTORE struct fp_store *store = OPENED(example_directory());
	FP_AUTOBUF struct fp_buf error = { 0 };

	example_append(store, &(struct example){ .host = "a", .sequence = 1 });
	assert_int_equal(query_bounded(store, 2, UINT64_MAX, 0, &error), 0);
	assert_int_equal(query_bounded(store, 1, UINT64_MAX, 0, &error), -E2BIG);
	assert_non_null(strstr((char *)error.data, "rows"));
	assert_int_equal(query_bounded(store, 2, 100, 0, &error), -E2BIG);
	assert_int_equal(query_bounded(store, 2, UINT64_MAX, 1, &error), -ETIMEDOUT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FP_CASE("a batch counts once, a conflict never", a_batch_counts_once),
		FP_CASE("equal content of two windows counts twice",
			equal_content_of_two_windows_counts_twice),
		FP_CASE("selectors choose by host and label", selectors_choose_by_host_and_label),
		FP_CASE("a window belongs to the range its start lies in",
			a_window_belongs_to_the_range_its_start_lies_in),
		FP_CASE("equal stacks of many batches become one row",
			equal_stacks_of_many_batches_become_one_row),
		FP_CASE("different rates are added as time", different_rates_are_added_as_time),
		FP_CASE("what is stored survives a restart", what_is_stored_survives_a_restart),
		FP_CASE("a lost manifest is made again from the log",
			a_lost_manifest_is_made_again_from_the_log),
		FP_CASE("a crash at any byte neither loses nor doubles",
			a_crash_at_any_byte_neither_loses_nor_doubles),
		FP_CASE("a batch twice in the log counts once",
			a_batch_twice_in_the_log_counts_once),
		FP_CASE("ids outlive the batches that retention removed",
			ids_outlive_the_batches_that_retention_removed),
		FP_CASE("the bound on bytes removes the oldest first",
			the_bound_on_bytes_removes_the_oldest_first),
		FP_CASE("one directory serves one store", one_directory_serves_one_store),
		FP_CASE("many at once agree on who was first", many_at_once_agree_on_who_was_first),
		FP_CASE("labels and values can be listed", labels_and_values_can_be_listed),
		FP_CASE("label sets beyond the bound are still found",
			label_sets_beyond_the_bound_are_still_found),
		FP_CASE("queries keep their bounds", queries_keep_their_bounds),
	};

	return cmocka_run_group_tests_name("store", tests, NULL, NULL);
}
