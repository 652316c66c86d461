// SPDX-License-Identifier: Apache-2.0
#include "examples.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static uint32_t string_of(struct fp_profile *profile, const char *text)
{
	uint32_t id = 0;

	assert_int_equal(fp_profile_cstring(profile, text, &id), 0);
	return id;
}

static uint32_t frame_of(struct fp_profile *profile, struct fp_frame frame)
{
	uint32_t id = 0;

	assert_int_equal(fp_profile_frame(profile, &frame, &id), 0);
	return id;
}

static uint32_t build_of(struct fp_profile *profile, struct fp_build build)
{
	uint32_t id = 0;

	assert_int_equal(fp_profile_build(profile, &build, &id), 0);
	return id;
}

static struct fp_profile *new_profile(void)
{
	struct fp_profile *profile = NULL;

	assert_int_equal(fp_profile_new(&profile), 0);
	for (uint8_t i = 0; i < 16; i++) {
		profile->host_id[i] = i;
		profile->boot_id[i] = (uint8_t)(0xf0 + i);
	}
	profile->hostname = string_of(profile, "web-1");
	profile->kernel_release = string_of(profile, "6.12.0");
	profile->machine = string_of(profile, "x86_64");
	profile->agent_version = string_of(profile, "0.1.0");
	return profile;
}

struct fp_profile *example_documented(void)
{
	struct fp_profile *profile = new_profile();
	struct fp_build program = { .kind = FP_BUILD_GNU,
				    .id_len = 4,
				    .id = { 0xc0, 0xff, 0xee, 1 } };
	struct fp_build kernel = { .kind = FP_BUILD_GNU, .id_len = 4, .id = { 0xbe, 0xef, 0, 2 } };
	struct fp_label labels[1];
	uint32_t main_frame, work_frame, entry_frame, stack, set;

	profile->sequence = 7;
	profile->start_boottime_ns = 1000000000;
	profile->end_boottime_ns = 61000000000;
	profile->start_realtime_ns = 1700000000000000000;
	profile->end_realtime_ns = 1700000060000000000;
	profile->period_ns = 52631578;
	program.path = string_of(profile, "/usr/bin/demo");
	kernel.path = string_of(profile, "[kernel]");
	main_frame = frame_of(profile, (struct fp_frame){ .kind = FP_FRAME_FILE,
							  .build = build_of(profile, program),
							  .offset = 0x1139 });
	work_frame = frame_of(profile, (struct fp_frame){ .kind = FP_FRAME_FILE,
							  .build = build_of(profile, program),
							  .offset = 0x1180 });
	entry_frame = frame_of(profile, (struct fp_frame){ .kind = FP_FRAME_KERNEL,
							   .build = build_of(profile, kernel),
							   .offset = 0x2000 });
	labels[0] = (struct fp_label){ string_of(profile, "thread"), string_of(profile, "demo") };
	assert_int_equal(fp_profile_labels(profile, labels, 1, &set), 0);
	assert_int_equal(
	    fp_profile_stack(profile, (uint32_t[]){ work_frame, main_frame }, 2, &stack), 0);
	assert_int_equal(
	    fp_profile_sample(profile, &(struct fp_sample){ FP_PROFILE_CPU, set, stack, 19, 19 }),
	    0);
	assert_int_equal(fp_profile_stack(profile,
					  (uint32_t[]){ entry_frame, work_frame, main_frame }, 3,
					  &stack),
			 0);
	assert_int_equal(
	    fp_profile_sample(profile, &(struct fp_sample){ FP_PROFILE_CPU, set, stack, 1, 1 }), 0);
	profile->quality[FP_PROFILE_CPU].present = true;
	profile->quality[FP_PROFILE_CPU].hook = string_of(profile, "perf_event");
	profile->quality[FP_PROFILE_CPU].counters[FP_QUALITY_SAMPLES] = 20;
	assert_int_equal(fp_quality_set_named(profile, FP_PROFILE_CPU, "cpu.runs", 1140), 0);
	return profile;
}

// xorshift32: small, seeded, the same everywhere.
static uint32_t next(uint32_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 17;
	*state ^= *state << 5;
	return *state;
}

static uint32_t random_string(struct fp_profile *profile, uint32_t *state)
{
	static const char *const hostile[] = { "a;b\nc", "\x1b[31m", "\xff\xfe\x80", "(deleted)" };
	char text[80];
	uint32_t id = 0;

	if (next(state) % 8 == 0)
		return string_of(profile, hostile[next(state) % 4]);
	snprintf(text, sizeof(text), "/srv/%u/%x", next(state) % 50, next(state) % 4096);
	if (next(state) % 4 == 0)
		text[5] = '\0'; // strings may hold NUL bytes
	assert_int_equal(fp_profile_string(profile, text, 12, &id), 0);
	return id;
}

static struct fp_frame random_frame(struct fp_profile *profile, uint32_t *state)
{
	struct fp_build build = { .kind = next(state) % 4, .path = random_string(profile, state) };
	struct fp_frame frame = { .kind = 1 + next(state) % 7 };

	if (build.kind)
		build.id_len = build.kind == FP_BUILD_GNU ? 20 : 16;
	for (uint8_t i = 0; i < build.id_len; i++)
		build.id[i] = (uint8_t)(i * build.path);
	if (fp_frame_kind_has_build(frame.kind)) {
		frame.build = build_of(profile, build);
		frame.offset = (uint64_t)next(state) << (next(state) % 33);
	}
	if (fp_frame_kind_has_name(frame.kind))
		frame.name = random_string(profile, state);
	return frame;
}

static uint32_t random_stack(struct fp_profile *profile, uint32_t *state)
{
	uint32_t frames[64], count = next(state) % 64, stack = 0;

	for (uint32_t i = 0; i < count; i++)
		frames[i] = frame_of(profile, random_frame(profile, state));
	assert_int_equal(fp_profile_stack(profile, frames, count, &stack), 0);
	return stack;
}

static uint32_t random_labels(struct fp_profile *profile, uint32_t *state)
{
	struct fp_label labels[4];
	uint32_t count = next(state) % 5, set = 0;

	for (uint32_t i = 0; i < count; i++)
		labels[i] = (struct fp_label){ random_string(profile, state),
					       random_string(profile, state) };
	assert_int_equal(fp_profile_labels(profile, labels, count, &set), 0);
	return set;
}

static void random_quality(struct fp_profile *profile, enum fp_profile_type type, uint32_t *state)
{
	struct fp_quality *quality = profile->quality + type;

	quality->present = true;
	quality->hook = random_string(profile, state);
	for (int i = 0; i < FP_QUALITY_COUNT; i++)
		quality->counters[i] = next(state) % 3 ? next(state) : 0;
	for (int i = 0; i < 5; i++) {
		char name[40];

		snprintf(name, sizeof(name), "switch_in.dropped.reason_%d", i);
		assert_int_equal(fp_quality_set_named(profile, type, name, next(state)), 0);
	}
	for (uint32_t build = 0; build < profile->builds_count; build += 1 + next(state) % 4) {
		struct fp_build_quality *row = fp_quality_build(profile, type, build);

		assert_non_null(row);
		row->stacks = next(state);
		row->stopped = row->stacks / 2;
		for (int i = 0; i < 3 && build % 16 == 0; i++)
			assert_int_equal(fp_quality_stop(profile, type, build,
							 random_string(profile, state),
							 next(state)),
					 0);
	}
}

struct fp_profile *example_random(uint32_t scale, uint32_t seed)
{
	struct fp_profile *profile = new_profile();
	uint32_t state = seed * 2654435761u + 1;

	profile->sequence = UINT64_MAX - seed;
	profile->start_boottime_ns = seed;
	profile->end_boottime_ns = UINT64_MAX;
	profile->period_ns = 1000;
	for (uint32_t i = 0; i < scale; i++) {
		struct fp_sample sample = { .type = 1 + next(&state) % (FP_PROFILE_TYPES - 1),
					    .labels = random_labels(profile, &state),
					    .stack = random_stack(profile, &state),
					    .count = next(&state),
					    .value = next(&state) };

		if (sample.type != FP_PROFILE_CPU)
			sample.value <<= 12;
		assert_int_equal(fp_profile_sample(profile, &sample), 0);
	}
	// Of two types, so that most of a large example is rows.
	random_quality(profile, FP_PROFILE_CPU, &state);
	random_quality(profile, FP_PROFILE_RUN_QUEUE, &state);
	return profile;
}

#define assert_same_field(a, b, field) assert_int_equal((a)->field, (b)->field)
#define assert_same_array(a, b, array, count)                                                      \
	do {                                                                                       \
		assert_int_equal((a)->count, (b)->count);                                          \
		if ((a)->count)                                                                    \
			assert_memory_equal((a)->array, (b)->array,                                \
					    (a)->count * sizeof(*(a)->array));                     \
	} while (0)

static void assert_same_strings(const struct fp_profile *a, const struct fp_profile *b)
{
	assert_int_equal(a->strings.count, b->strings.count);
	for (uint32_t i = 0; i < a->strings.count; i++) {
		assert_int_equal(a->strings.sizes[i], b->strings.sizes[i]);
		assert_memory_equal(fp_profile_str(a, i), fp_profile_str(b, i),
				    a->strings.sizes[i]);
	}
}

static void assert_same_quality(const struct fp_quality *a, const struct fp_quality *b)
{
	assert_int_equal(a->present, b->present);
	assert_memory_equal(a->counters, b->counters, sizeof(a->counters));
	assert_int_equal(a->hook, b->hook);
	assert_int_equal(a->named_count, b->named_count);
	for (uint32_t i = 0; i < a->named_count; i++) {
		assert_int_equal(a->named[i].name, b->named[i].name);
		assert_int_equal(a->named[i].value, b->named[i].value);
	}
	assert_int_equal(a->builds_count, b->builds_count);
	for (uint32_t i = 0; i < a->builds_count; i++) {
		assert_int_equal(a->builds[i].build, b->builds[i].build);
		assert_int_equal(a->builds[i].stacks, b->builds[i].stacks);
		assert_int_equal(a->builds[i].stopped, b->builds[i].stopped);
	}
	assert_int_equal(a->stops_count, b->stops_count);
	for (uint32_t i = 0; i < a->stops_count; i++) {
		assert_int_equal(a->stops[i].build, b->stops[i].build);
		assert_int_equal(a->stops[i].reason, b->stops[i].reason);
		assert_int_equal(a->stops[i].count, b->stops[i].count);
	}
}

void assert_same_profile(const struct fp_profile *a, const struct fp_profile *b)
{
	assert_memory_equal(a->host_id, b->host_id, sizeof(a->host_id));
	assert_memory_equal(a->boot_id, b->boot_id, sizeof(a->boot_id));
	assert_same_field(a, b, sequence);
	assert_same_field(a, b, start_boottime_ns);
	assert_same_field(a, b, end_boottime_ns);
	assert_same_field(a, b, start_realtime_ns);
	assert_same_field(a, b, end_realtime_ns);
	assert_same_field(a, b, period_ns);
	assert_same_field(a, b, hostname);
	assert_same_field(a, b, kernel_release);
	assert_same_field(a, b, machine);
	assert_same_field(a, b, agent_version);
	assert_same_strings(a, b);
	assert_same_array(a, b, builds, builds_count);
	assert_same_array(a, b, frames, frames_count);
	assert_same_array(a, b, stacks, stacks_count);
	assert_same_array(a, b, stack_frames, stack_frames_count);
	assert_same_array(a, b, label_pool, label_pool_count);
	assert_same_array(a, b, labels, labels_count);
	assert_int_equal(a->samples_count, b->samples_count);
	for (uint32_t i = 0; i < a->samples_count; i++) {
		assert_same_field(a, b, samples[i].type);
		assert_same_field(a, b, samples[i].labels);
		assert_same_field(a, b, samples[i].stack);
		assert_same_field(a, b, samples[i].count);
		assert_same_field(a, b, samples[i].value);
	}
	for (int type = 0; type < FP_PROFILE_TYPES; type++)
		assert_same_quality(a->quality + type, b->quality + type);
}
