// SPDX-License-Identifier: Apache-2.0
#include "examples.h"

#include "tests/unit/cases.h"
#include "tests/unit/scratch.h"

#include <string.h>

static uint32_t text(struct fp_profile *profile, const char *string)
{
	uint32_t id;

	assert_int_equal(fp_profile_cstring(profile, string, &id), 0);
	return id;
}

static uint32_t stack(struct fp_profile *profile, const char *leaf)
{
	const char *const names[] = { leaf, "loop" };
	uint32_t frames[2], id;

	for (int i = 0; i < 2; i++) {
		struct fp_frame frame = { .kind = FP_FRAME_NAMED, .name = text(profile, names[i]) };

		assert_int_equal(fp_profile_frame(profile, &frame, &frames[i]), 0);
	}
	assert_int_equal(fp_profile_stack(profile, frames, 2, &id), 0);
	return id;
}

static void add_thread(struct fp_profile *profile, const char *thread, const char *leaf,
		       uint64_t value)
{
	struct fp_label label = { text(profile, "thread"), text(profile, thread) };
	struct fp_sample sample = { .type = FP_PROFILE_CPU, .count = value, .value = value };

	sample.stack = stack(profile, leaf);
	assert_int_equal(fp_profile_labels(profile, &label, 1, &sample.labels), 0);
	assert_int_equal(fp_profile_sample(profile, &sample), 0);
	sample.type = FP_PROFILE_OFF_CPU;
	sample.value = value * 1000000;
	assert_int_equal(fp_profile_sample(profile, &sample), 0);
}

struct fp_profile *example_profile(const struct example *example)
{
	uint64_t start_s = example->start_s;
	uint64_t value = example->cpu_value ? example->cpu_value : 10;
	struct fp_profile *profile;

	if (!start_s)
		start_s = EXAMPLE_START_S + 60 * example->sequence;
	assert_int_equal(fp_profile_new(&profile), 0);
	memcpy(profile->host_id, example->host, strlen(example->host));
	profile->sequence = example->sequence;
	profile->start_realtime_ns = start_s * EXAMPLE_S;
	profile->end_realtime_ns = (start_s + 60) * EXAMPLE_S;
	profile->end_boottime_ns = 60 * EXAMPLE_S;
	profile->period_ns = EXAMPLE_S / (example->hz ? example->hz : 19);
	profile->hostname = text(profile, example->host);
	add_thread(profile, "main", "query", value);
	add_thread(profile, example->thread ? example->thread : "io",
		   example->function ? example->function : "write", value);
	assert_int_equal(fp_quality_set_named(profile, FP_PROFILE_CPU, "samples", 2 * value), 0);
	assert_int_equal(fp_quality_set_named(profile, FP_PROFILE_CPU, "hz_actual",
					      example->hz ? example->hz : 19),
			 0);
	assert_int_equal(fp_quality_set_named(profile, FP_PROFILE_CPU, "cpu.runs", 2 * value), 0);
	return profile;
}

const char *example_directory(void)
{
	static char path[128];
	static int number;

	snprintf(path, sizeof(path), "%s/store-%d", scratch_directory(), number++);
	return path;
}

struct fp_store *example_open(const char *directory, const struct fp_store_options *more,
			      struct fp_store_recovery *ret_recovery)
{
	struct fp_store_options options = { .max_bytes = 1ULL << 30,
					    .retention_ns = 7 * 86400 * EXAMPLE_S,
					    .dedup_keep_ns = 48 * 3600 * EXAMPLE_S,
					    .max_series = 1000 };
	FP_AUTOBUF struct fp_buf error = { 0 };
	struct fp_store_recovery recovery;
	struct fp_store *store = NULL;

	if (more)
		options = *more;
	options.directory = directory;
	if (fp_store_open(&options, &store, &recovery, &error) < 0)
		fail_msg("%s", (char *)error.data);
	if (ret_recovery)
		*ret_recovery = recovery;
	return store;
}

int example_append_at(struct fp_store *store, const struct example *example, uint64_t received_ns)
{
	FP_AUTOPROFILE struct fp_profile *profile = example_profile(example);
	FP_AUTOBUF struct fp_buf bytes = { 0 };
	enum fp_store_verdict verdict;
	int r;

	assert_int_equal(fp_batch_encode(profile, &bytes), 0);
	r = fp_store_append(store, profile, bytes.data, bytes.len, received_ns, &verdict);
	return r < 0 ? r : (int)verdict;
}

int example_append(struct fp_store *store, const struct example *example)
{
	return example_append_at(store, example, EXAMPLE_START_S * EXAMPLE_S);
}

uint64_t example_sum(struct fp_store *store, const char *selector)
{
	FP_AUTOSELECTOR struct fp_selector parsed = { 0 };
	FP_AUTOBUF struct fp_buf error = { 0 };
	struct fp_store_answer answer = { 0 };
	struct fp_store_query query = { .aspect = fp_aspect_of(FP_PROFILE_CPU),
					.selector = &parsed,
					.range = { 0, INT64_MAX },
					.max_rows = UINT64_MAX,
					.max_memory_bytes = UINT64_MAX };

	assert_int_equal(fp_selector_parse(selector, strlen(selector), &parsed, &error), 0);
	if (fp_store_query(store, &query, &answer, &error) < 0)
		fail_msg("%s: %s", selector, error.len ? (char *)error.data : "failed");
	fp_profile_free(answer.profile);
	return answer.facts.samples;
}

struct fp_store_answer example_answer(struct fp_store *store, uint64_t from_s, uint64_t to_s,
				      const char *keep)
{
	const struct fp_selector everything = { 0 };
	FP_AUTOBUF struct fp_buf error = { 0 };
	struct fp_store_answer answer = { 0 };
	struct fp_store_query query = { .aspect = fp_aspect_of(FP_PROFILE_CPU),
					.selector = &everything,
					.range = { from_s * EXAMPLE_S, to_s * EXAMPLE_S },
					.keep_label = keep,
					.max_rows = UINT64_MAX,
					.max_memory_bytes = UINT64_MAX };

	assert_int_equal(fp_store_query(store, &query, &answer, &error), 0);
	return answer;
}
