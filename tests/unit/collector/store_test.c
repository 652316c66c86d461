// SPDX-License-Identifier: Apache-2.0
#include "examples.h"

#include "tests/unit/cases.h"

#include <pthread.h>
#include <string.h>

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
		    example_answer(store, cases[i].from_s, cases[i].to_s, NULL);

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
	answer = example_answer(store, 0, 4000000000, NULL);
	assert_int_equal(answer.profile->stacks_count, 2);
	assert_int_equal(answer.profile->samples_count, 2);
	assert_int_equal(answer.profile->samples[0].value, 50);
	assert_int_equal(answer.facts.hosts, 2);
	assert_int_equal(answer.profile->quality[FP_PROFILE_CPU].counters[FP_QUALITY_SAMPLES], 100);
	assert_int_equal(answer.profile->quality[FP_PROFILE_CPU].counters[FP_QUALITY_HZ_ACTUAL],
			 19);
	assert_int_equal(answer.profile->quality[FP_PROFILE_CPU].named[0].value, 100);
	fp_profile_free(answer.profile);
	answer = example_answer(store, 0, 4000000000, "host");
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
	answer = example_answer(store, 0, 4000000000, NULL);
	assert_true(answer.facts.mixed_periods);
	assert_int_equal(answer.profile->period_ns, 1);
	for (uint32_t i = 0; i < answer.profile->samples_count; i++)
		sum += answer.profile->samples[i].value;
	assert_int_equal(sum, expected);
	assert_int_equal(answer.facts.nanoseconds, expected);
	fp_profile_free(answer.profile);
}

// Decoding refuses such numbers; the merge does not rely on it.
static void sums_stop_at_their_limit(void **state)
{
	const struct fp_selector everything = { 0 };
	FP_AUTOMERGE struct fp_merge merge = { 0 };
	struct fp_merge_options options = { .aspect = fp_aspect_of(FP_PROFILE_CPU),
					    .selector = &everything,
					    .mixed_periods = true };
	const char *const hosts[] = { "a", "b" };
	uint64_t sum = 0;

	assert_int_equal(fp_merge_init(&merge, &options), 0);
	for (int i = 0; i < 2; i++) {
		FP_AUTOPROFILE struct fp_profile *profile =
		    example_profile(&(struct example){ .host = hosts[i], .sequence = 1 });

		profile->period_ns = 1ULL << 63;
		profile->samples[0].count = 1ULL << 63;
		profile->end_boottime_ns = UINT64_MAX;
		profile->quality[FP_PROFILE_CPU].counters[FP_QUALITY_SAMPLES] = 1ULL << 63;
		assert_int_equal(fp_merge_add(&merge, profile), 0);
	}
	for (uint32_t i = 0; i < merge.profile->samples_count; i++)
		sum += merge.profile->samples[i].value;
	assert_int_equal(sum, INT64_MAX);
	assert_int_equal(merge.facts.nanoseconds, UINT64_MAX);
	assert_int_equal(merge.facts.samples, UINT64_MAX);
	assert_int_equal(merge.facts.window_ns, UINT64_MAX);
	assert_int_equal(merge.profile->quality[FP_PROFILE_CPU].counters[FP_QUALITY_SAMPLES],
			 UINT64_MAX);
}

// A crash between sync and manifest: the manifest is that of before. Then at every byte of the
// torn record behind it: what was whole counts, what was not is cut, nothing counts twice.
// As after a sync that failed: the log holds one batch twice.
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
		FP_CASE("sums stop at their limit", sums_stop_at_their_limit),
		FP_CASE("many at once agree on who was first", many_at_once_agree_on_who_was_first),
		FP_CASE("labels and values can be listed", labels_and_values_can_be_listed),
	};

	return cmocka_run_group_tests_name("store", tests, NULL, NULL);
}
