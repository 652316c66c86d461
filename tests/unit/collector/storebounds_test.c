// SPDX-License-Identifier: Apache-2.0
#include "examples.h"

#include "tests/unit/cases.h"

#include <errno.h>
#include <string.h>

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
	answer = example_answer(store, 0, 4000000000, NULL);
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

static int query_selected(struct fp_store *store, const char *text, uint64_t deadline_ns,
			  struct fp_buf *error)
{
	FP_AUTOSELECTOR struct fp_selector selector = { 0 };
	struct fp_store_answer answer = { 0 };
	struct fp_store_query query = { .aspect = fp_aspect_of(FP_PROFILE_CPU),
					.selector = &selector,
					.range = { 0, INT64_MAX },
					.deadline_ns = deadline_ns,
					.max_rows = UINT64_MAX,
					.max_memory_bytes = UINT64_MAX };
	int r;

	fp_buf_clear(error);
	assert_int_equal(fp_selector_parse(text, strlen(text), &selector, error), 0);
	r = fp_store_query(store, &query, &answer, error);
	fp_profile_free(answer.profile);
	return r;
}

static int query_bounded(struct fp_store *store, uint64_t rows, uint64_t memory,
			 uint64_t deadline_ns, struct fp_buf *error)
{
	const struct fp_selector everything = { 0 };
	struct fp_store_answer answer = { 0 };
	struct fp_store_query query = { .aspect = fp_aspect_of(FP_PROFILE_CPU),
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

// Also while batches are picked, before the first one is read.
static void picking_hosts_keeps_the_bounds_of_a_query(void **state)
{
	AUTOSTORE struct fp_store *store = OPENED(example_directory());
	FP_AUTOBUF struct fp_buf error = { 0 };

	for (uint64_t i = 1; i <= 3; i++)
		example_append(store, &(struct example){ .host = "aaaaaaaaaaaaaa", .sequence = i });
	example_append(store, &(struct example){ .host = "b", .sequence = 1 });
	assert_int_equal(query_selected(store, "{host=\"none\"}", 0, &error), 0);
	assert_int_equal(query_selected(store, "{host=\"none\"}", 1, &error), -ETIMEDOUT);
	assert_non_null(strstr((char *)error.data, "ran out of time"));
	assert_int_equal(query_selected(store, "{host=~\"(a|a|a|aa)*[xy]\"}", 0, &error), -E2BIG);
	assert_non_null(strstr((char *)error.data, "regular expression"));
	assert_int_equal(example_sum(store, "{host=~\"a+\"}"), 60);
	assert_int_equal(example_sum(store, "{host!~\"a+\"}"), 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FP_CASE("ids outlive the batches that retention removed",
			ids_outlive_the_batches_that_retention_removed),
		FP_CASE("the bound on bytes removes the oldest first",
			the_bound_on_bytes_removes_the_oldest_first),
		FP_CASE("one directory serves one store", one_directory_serves_one_store),
		FP_CASE("label sets beyond the bound are still found",
			label_sets_beyond_the_bound_are_still_found),
		FP_CASE("queries keep their bounds", queries_keep_their_bounds),
		FP_CASE("picking hosts keeps the bounds of a query",
			picking_hosts_keeps_the_bounds_of_a_query),
	};

	return cmocka_run_group_tests_name("bounds of the store", tests, NULL, NULL);
}
