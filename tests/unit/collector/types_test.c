// SPDX-License-Identifier: Apache-2.0
// Types of profiles in the store: each is found by its name, wall time is made of several, and
// quality records are merged by what their numbers mean.
#include "examples.h"

#include "tests/unit/cases.h"

#include <sqlite3.h>
#include <string.h>

static uint32_t text(struct fp_profile *profile, const char *string)
{
	uint32_t id;

	assert_int_equal(fp_profile_cstring(profile, string, &id), 0);
	return id;
}

static void add(struct fp_profile *profile, enum fp_profile_type type, const char *state,
		uint64_t value)
{
	struct fp_label labels[] = {
		{ text(profile, "thread"), text(profile, "main") },
		{ text(profile, "state"), text(profile, state ? state : "") },
	};
	struct fp_frame frame = { .kind = FP_FRAME_NAMED, .name = text(profile, "query") };
	struct fp_sample sample = { .type = type, .count = 1, .value = value };
	uint32_t leaf;

	assert_int_equal(fp_profile_frame(profile, &frame, &leaf), 0);
	assert_int_equal(fp_profile_stack(profile, &leaf, 1, &sample.stack), 0);
	assert_int_equal(fp_profile_labels(profile, labels, state ? 2 : 1, &sample.labels), 0);
	assert_int_equal(fp_profile_sample(profile, &sample), 0);
}

struct waits { // of one window
	uint64_t sequence, hz;
	uint64_t cpu, blocked_ns, ready_ns, waker_ns;
};

static struct fp_profile *profile_of(const struct waits *waits)
{
	struct fp_profile *profile;

	assert_int_equal(fp_profile_new(&profile), 0);
	profile->sequence = waits->sequence;
	profile->start_realtime_ns = (EXAMPLE_START_S + 60 * waits->sequence) * EXAMPLE_S;
	profile->end_realtime_ns = profile->start_realtime_ns + 60 * EXAMPLE_S;
	profile->end_boottime_ns = 60 * EXAMPLE_S;
	profile->period_ns = EXAMPLE_S / waits->hz;
	profile->hostname = text(profile, "a");
	if (waits->cpu)
		add(profile, FP_PROFILE_CPU, NULL, waits->cpu);
	if (waits->blocked_ns)
		add(profile, FP_PROFILE_OFF_CPU, "interruptible", waits->blocked_ns);
	if (waits->ready_ns)
		add(profile, FP_PROFILE_RUN_QUEUE, "woken", waits->ready_ns);
	if (waits->waker_ns)
		add(profile, FP_PROFILE_WAKER, NULL, waits->waker_ns);
	profile->quality[FP_PROFILE_CPU].present = true;
	profile->quality[FP_PROFILE_OFF_CPU].present = waits->blocked_ns > 0;
	return profile;
}

static void append(struct fp_store *store, const struct waits *waits)
{
	FP_AUTOPROFILE struct fp_profile *profile = profile_of(waits);
	FP_AUTOBUF struct fp_buf bytes = { 0 };
	enum fp_store_verdict verdict;

	assert_int_equal(fp_batch_encode(profile, &bytes), 0);
	assert_int_equal(fp_store_append(store, profile, bytes.data, bytes.len,
					 EXAMPLE_START_S * EXAMPLE_S, &verdict),
			 0);
	assert_int_equal(verdict, FP_STORED);
}

static struct fp_store_answer ask(struct fp_store *store, const char *aspect, const char *keep)
{
	const struct fp_selector everything = { 0 };
	FP_AUTOBUF struct fp_buf error = { 0 };
	struct fp_store_answer answer = { 0 };
	struct fp_store_query query = { .aspect = fp_aspect_find(aspect),
					.selector = &everything,
					.range = { 0, INT64_MAX },
					.keep_label = keep,
					.max_rows = UINT64_MAX,
					.max_memory_bytes = UINT64_MAX };

	assert_non_null(query.aspect);
	assert_int_equal(fp_store_query(store, &query, &answer, &error), 0);
	return answer;
}

static const struct waits example[] = {
	{ .sequence = 1, .hz = 100, .cpu = 3, .blocked_ns = 500, .ready_ns = 40, .waker_ns = 500 },
	{ .sequence = 2, .hz = 50, .cpu = 2, .blocked_ns = 70 },
	{ .sequence = 3, .hz = 100, .cpu = 1 },
};

static struct fp_store *open_example(void)
{
	struct fp_store *store = OPENED(example_directory());

	for (size_t i = 0; i < FP_ARRAY_SIZE(example); i++)
		append(store, &example[i]);
	return store;
}

static void each_type_is_found_by_its_name(void **state)
{
	static const struct {
		const char *aspect;
		uint64_t batches, rows, ns;
	} cases[] = {
		{ "cpu", 3, 3, 3 * 10000000ULL + 2 * 20000000ULL + 10000000ULL },
		{ "off_cpu", 2, 2, 570 },
		{ "run_queue", 1, 1, 40 },
		{ "waker", 1, 1, 500 },
		{ "wall", 3, 6, 80000000ULL + 570 + 40 },
	};
	AUTOSTORE struct fp_store *store = open_example();

	for (size_t i = 0; i < FP_ARRAY_SIZE(cases); i++) {
		struct fp_store_answer answer = ask(store, cases[i].aspect, NULL);

		print_message("  %s\n", cases[i].aspect);
		assert_int_equal(answer.facts.batches, cases[i].batches);
		assert_int_equal(answer.facts.rows, cases[i].rows);
		assert_int_equal(answer.facts.nanoseconds, cases[i].ns);
		assert_int_equal(answer.holding[FP_PROFILE_CPU], 3);
		assert_int_equal(answer.holding[FP_PROFILE_OFF_CPU], 2);
		assert_int_equal(answer.holding[FP_PROFILE_RUN_QUEUE], 1);
		assert_int_equal(answer.holding[FP_PROFILE_WAKER], 1);
		fp_profile_free(answer.profile);
	}
}

// Rates differ, so CPU samples became time; all parts are of the same windows.
static void wall_time_adds_up_what_ran_and_what_waited(void **state)
{
	AUTOSTORE struct fp_store *store = open_example();
	struct fp_store_answer answer = ask(store, "wall", "thread");
	FP_AUTOPROFILE struct fp_profile *profile = answer.profile;
	uint64_t sums[FP_PROFILE_TYPES] = { 0 };

	assert_int_equal(profile->period_ns, 1);
	assert_false(answer.facts.mixed_periods);
	assert_int_equal(profile->samples_count, 3); // stacks meet; types and states stay apart
	for (uint32_t i = 0; i < profile->samples_count; i++) {
		const struct fp_sample *sample = &profile->samples[i];
		const struct fp_labels *labels = &profile->labels[sample->labels];

		sums[sample->type] += sample->value;
		// `thread` was asked for, `state` is for the marks.
		assert_int_equal(labels->count, sample->type == FP_PROFILE_CPU ? 1 : 2);
	}
	assert_int_equal(sums[FP_PROFILE_CPU], 80000000);
	assert_int_equal(sums[FP_PROFILE_OFF_CPU], 570);
	assert_int_equal(sums[FP_PROFILE_RUN_QUEUE], 40);
	assert_int_equal(sums[FP_PROFILE_WAKER], 0);
	assert_int_equal(answer.facts.type_ns[FP_PROFILE_CPU], 80000000);
	assert_int_equal(answer.facts.type_ns[FP_PROFILE_OFF_CPU], 570);
	assert_int_equal(answer.facts.recorded[FP_PROFILE_CPU], 3);
	assert_int_equal(answer.facts.recorded[FP_PROFILE_OFF_CPU], 2);
}

static void one_type_keeps_no_state(void **state)
{
	AUTOSTORE struct fp_store *store = open_example();
	struct fp_store_answer answer = ask(store, "off_cpu", NULL);
	FP_AUTOPROFILE struct fp_profile *profile = answer.profile;

	assert_int_equal(profile->samples_count, 1);
	assert_int_equal(profile->labels[profile->samples[0].labels].count, 0);
}

static void quality_is_merged_by_what_its_numbers_mean(void **state)
{
	static const struct {
		enum fp_quality_counter counter;
		uint64_t values[3], merged;
	} cases[] = {
		{ FP_QUALITY_INTERVALS, { 100, 20, 3 }, 123 },
		{ FP_QUALITY_INTERVALS_NS, { 5000, 600, 70 }, 5670 },
		{ FP_QUALITY_INTERVALS_CUT, { 4, 0, 5 }, 9 },
		{ FP_QUALITY_WALKS, { 10, 20, 30 }, 60 },
		// 0 is a window in which every interval was kept.
		{ FP_QUALITY_QUANTUM_MIN_NS, { 0, 4000, 2000 }, 2000 },
		{ FP_QUALITY_QUANTUM_MAX_NS, { 0, 16000, 8000 }, 16000 },
		{ FP_QUALITY_WEIGHT_MAX, { 1, 8, 2 }, 8 },
		{ FP_QUALITY_WALK_BUDGET, { 500, 500, 1000 }, 1000 },
		{ FP_QUALITY_HZ_ACTUAL, { 10, 20, 30 }, 20 },
		{ FP_QUALITY_SAMPLES, { 1, 2, 3 }, 6 },
	};
	const struct fp_selector everything = { 0 };
	struct fp_merge_options options = { .aspect = fp_aspect_wall, .selector = &everything };
	FP_AUTOMERGE struct fp_merge merge = { 0 };
	FP_AUTOPROFILE struct fp_profile *merged = NULL;

	assert_int_equal(fp_merge_init(&merge, &options), 0);
	for (uint64_t batch = 0; batch < 3; batch++) {
		FP_AUTOPROFILE struct fp_profile *profile =
		    profile_of(&(struct waits){ .hz = 10, .cpu = 1, .blocked_ns = 1 });
		struct fp_quality *quality = &profile->quality[FP_PROFILE_OFF_CPU];

		for (size_t i = 0; i < FP_ARRAY_SIZE(cases); i++)
			quality->counters[cases[i].counter] = cases[i].values[batch];
		assert_int_equal(fp_merge_add(&merge, profile), 0);
	}
	merged = fp_merge_take(&merge);
	for (size_t i = 0; i < FP_ARRAY_SIZE(cases); i++) {
		print_message("  %s\n", fp_quality_name(cases[i].counter));
		assert_int_equal(merged->quality[FP_PROFILE_OFF_CPU].counters[cases[i].counter],
				 cases[i].merged);
		assert_int_equal(merged->quality[FP_PROFILE_CPU].counters[cases[i].counter], 0);
	}
}

static void run_sql(const char *directory, const char *sql)
{
	char path[256];
	sqlite3 *db = NULL;

	snprintf(path, sizeof(path), "%s/manifest.sqlite", directory);
	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
		fail_msg("%s", sqlite3_errmsg(db));
	sqlite3_close(db);
}

// What a collector from before these types left behind.
static void a_manifest_of_the_first_version_is_taken_over(void **state)
{
	const char *directory = example_directory();
	struct fp_store_recovery recovery;
	struct fp_store *store = OPENED(directory);

	append(store, &example[1]);
	fp_store_close(store);
	run_sql(directory, "ALTER TABLE batch DROP COLUMN run_queue_rows;"
			   "ALTER TABLE batch DROP COLUMN run_queue_samples;"
			   "ALTER TABLE batch DROP COLUMN waker_rows;"
			   "ALTER TABLE batch DROP COLUMN waker_samples; PRAGMA user_version = 1;");
	for (int times = 0; times < 2; times++) {
		AUTOSTORE struct fp_store *again = example_open(directory, NULL, &recovery);
		struct fp_store_answer answer = ask(again, "wall", NULL);

		assert_int_equal(recovery.derived, 0); // the old rows are there still
		assert_int_equal(answer.facts.nanoseconds, 2 * 20000000ULL + 70);
		assert_int_equal(answer.holding[FP_PROFILE_WAKER], 0);
		fp_profile_free(answer.profile);
	}
	store = OPENED(directory);
	append(store, &example[0]);
	{
		struct fp_store_answer answer = ask(store, "run_queue", NULL);

		assert_int_equal(answer.facts.nanoseconds, 40);
		fp_profile_free(answer.profile);
	}
	fp_store_close(store);
}

static void a_manifest_of_a_later_version_is_refused(void **state)
{
	const char *directory = example_directory();
	struct fp_store_options options = { .directory = directory, .max_bytes = 1 << 30 };
	FP_AUTOBUF struct fp_buf error = { 0 };
	struct fp_store_recovery recovery;
	struct fp_store *store = OPENED(directory);

	fp_store_close(store);
	run_sql(directory, "PRAGMA user_version = 3;");
	assert_true(fp_store_open(&options, &store, &recovery, &error) < 0);
	assert_non_null(strstr((const char *)error.data, "version 3"));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		FP_CASE("each type is found by its name", each_type_is_found_by_its_name),
		FP_CASE("wall time adds up what ran and what waited",
			wall_time_adds_up_what_ran_and_what_waited),
		FP_CASE("one type keeps no state", one_type_keeps_no_state),
		FP_CASE("quality is merged by what its numbers mean",
			quality_is_merged_by_what_its_numbers_mean),
		FP_CASE("a manifest of the first version is taken over",
			a_manifest_of_the_first_version_is_taken_over),
		FP_CASE("a manifest of a later version is refused",
			a_manifest_of_a_later_version_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
