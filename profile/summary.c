// SPDX-License-Identifier: Apache-2.0
//
// The quality record in sentences. Good news is one line each; everything that makes the
// picture less true gets a line of its own, with its weight, and with what to do about it.
#include "summary.h"

#include "aspect.h"
#include "framename.h"
#include "summaryparts.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define EXPECTED_LOW	    95 // percent of the expected samples below which a line says so
#define MAP_NEARLY_FULL	    90 // percent
#define FRAMES_WORTH_A_LINE 1  // percent of frames

static uint64_t counter(const struct fp_summary *summary, enum fp_quality_counter index)
{
	return fp_summary_counter(summary, index);
}

static void say(const struct fp_summary *summary, const char *words)
{
	fp_buf_str(summary->text, words);
}

static void say_count(const struct fp_summary *summary, uint64_t value)
{
	fp_text_count(value, summary->text);
}

static void say_share(const struct fp_summary *summary, uint64_t part, uint64_t whole)
{
	fp_text_percent(part, whole, 1, summary->text);
}

static void say_foreign(const struct fp_summary *summary, const char *name)
{
	fp_text_name(name, strlen(name), SIZE_MAX, summary->text);
}

uint64_t fp_summary_ns(const struct fp_summary *summary)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < summary->profile->samples_count; i++) {
		const struct fp_sample *sample = &summary->profile->samples[i];

		if (sample->type == summary->type &&
		    __builtin_add_overflow(sum, sample->value, &sum))
			return UINT64_MAX;
	}
	return sum;
}

// What a count and the nanoseconds of a type are of.
static const struct {
	const char *one, *many, *time;
} wait_words[FP_PROFILE_TYPES] = {
	[FP_PROFILE_OFF_CPU] = { "wait", "waits", "blocked" },
	[FP_PROFILE_RUN_QUEUE] = { "wait", "waits", "ready to run" },
	[FP_PROFILE_WAKER] = { "wake-up", "wake-ups", "blocked before them" },
};

// "2,970 samples of 2,974 expected (99.9 %)" or "1,204 waits, 12.3 s blocked".
static void say_amount(const struct fp_summary *summary)
{
	uint64_t samples = counter(summary, FP_QUALITY_SAMPLES);
	uint64_t expected = counter(summary, FP_QUALITY_EXPECTED_SAMPLES);

	say_count(summary, samples);
	if (summary->type != FP_PROFILE_CPU) {
		fp_buf_printf(summary->text, " %s, ",
			      samples == 1 ? wait_words[summary->type].one
					   : wait_words[summary->type].many);
		fp_text_duration(fp_summary_ns(summary), summary->text);
		fp_buf_printf(summary->text, " %s", wait_words[summary->type].time);
		return;
	}
	say(summary, samples == 1 ? " sample" : " samples");
	if (expected == 0)
		return;
	say(summary, " of ");
	say_count(summary, expected);
	say(summary, " expected (");
	say_share(summary, samples, expected);
	say(summary, ")");
}

static void say_rate(const struct fp_summary *summary)
{
	uint64_t actual = counter(summary, FP_QUALITY_HZ_ACTUAL);
	uint64_t asked = counter(summary, FP_QUALITY_HZ_REQUESTED);
	uint64_t cpus = counter(summary, FP_QUALITY_CPUS);

	if (summary->type == FP_PROFILE_CPU && actual > 0) {
		fp_buf_printf(summary->text, " at %" PRIu64 " Hz", actual);
		if (asked > 0 && asked != actual)
			fp_buf_printf(summary->text, " (%" PRIu64 " Hz asked for)", asked);
	}
	if (cpus > 0)
		fp_buf_printf(summary->text, " on %" PRIu64 " CPU%s", cpus, cpus == 1 ? "" : "s");
}

// "cpu.dropped.map_full" → "map full", "switch_in.missed.not_closed" → "not closed";
// NULL for other counters.
static const char *dropped_reason(const struct fp_summary *summary,
				  const struct fp_named_counter *row)
{
	const char *name = fp_profile_str(summary->profile, row->name);
	const char *dropped = strstr(name, ".dropped."), *missed = strstr(name, ".missed.");

	if (row->value == 0)
		return NULL;
	if (missed)
		return missed + strlen(".missed.");
	return dropped ? dropped + strlen(".dropped.") : NULL;
}

uint64_t fp_summary_dropped(const struct fp_summary *summary)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < summary->quality->named_count; i++) {
		if (dropped_reason(summary, &summary->quality->named[i]))
			sum += summary->quality->named[i].value;
	}
	return sum;
}

// "0 lost, 7 dropped": without frames, and not in the picture at all.
static void say_gone(const struct fp_summary *summary)
{
	say_count(summary, counter(summary, FP_QUALITY_STACKS_LOST));
	say(summary, " lost, ");
	say_count(summary, fp_summary_dropped(summary));
	say(summary, " dropped");
}

static void head_line(const struct fp_summary *summary)
{
	fp_buf_printf(summary->text, "%s: ", fp_aspect_of(summary->type)->title);
	say_amount(summary);
	say_rate(summary);
	say(summary, "; ");
	say_gone(summary);
	say(summary, ".\n");
}

static void missing_line(const struct fp_summary *summary)
{
	uint64_t samples = counter(summary, FP_QUALITY_SAMPLES);
	uint64_t expected = counter(summary, FP_QUALITY_EXPECTED_SAMPLES);
	uint64_t deficit;

	if (expected == 0 || samples >= expected ||
	    (__uint128_t)samples * 100 >= (__uint128_t)expected * EXPECTED_LOW)
		return;
	// A tick hits a task that shares its CPU by chance: three standard errors are no finding.
	deficit = expected - samples;
	if ((__uint128_t)deficit * deficit <= (__uint128_t)expected * 9)
		return;
	say(summary, "Missing: ");
	say_share(summary, expected - samples, expected);
	say(summary, " of the samples that busy CPU time predicts never came; what is drawn "
		     "stands for less than the whole.\n");
}

static void lost_line(const struct fp_summary *summary)
{
	uint64_t lost = counter(summary, FP_QUALITY_STACKS_LOST);

	if (lost == 0)
		return;
	say(summary, "Lost stacks: ");
	say_count(summary, lost);
	say(summary, " (");
	say_share(summary, lost, counter(summary, FP_QUALITY_SAMPLES));
	say(summary, ") were counted, but their frames never reached user space; they stand "
		     "under [stack lost].\n");
}

static void dropped_line(const struct fp_summary *summary)
{
	bool any = false;

	for (uint32_t i = 0; i < summary->quality->named_count; i++) {
		const struct fp_named_counter *row = &summary->quality->named[i];
		const char *reason = dropped_reason(summary, row);
		FP_AUTOBUF struct fp_buf words = { 0 };

		if (!reason)
			continue;
		for (; *reason; reason++)
			fp_buf_byte(&words, *reason == '_' ? ' ' : (uint8_t)*reason);
		if (fp_buf_byte(&words, 0))
			return;
		say(summary, any ? ", " : "Dropped in the kernel: ");
		say_count(summary, row->value);
		say(summary, " (");
		say_foreign(summary, (const char *)words.data);
		say(summary, ")");
		any = true;
	}
	if (any)
		say(summary, "; these are missing from the picture.\n");
}

static void map_line(const struct fp_summary *summary)
{
	uint64_t peak = counter(summary, FP_QUALITY_MAP_ENTRIES_PEAK);
	uint64_t capacity = counter(summary, FP_QUALITY_MAP_CAPACITY);

	if (capacity == 0 || (__uint128_t)peak * 100 < (__uint128_t)capacity * MAP_NEARLY_FULL)
		return;
	say(summary, "Map: ");
	say_count(summary, peak);
	say(summary, " of ");
	say_count(summary, capacity);
	say(summary, " places for stacks were taken in one epoch; beyond that, samples are "
		     "dropped.\n");
}

static const struct {
	enum fp_quality_counter counter;
	const char *text;
} frame_lacks[] = {
	{ FP_QUALITY_FRAMES_NO_BUILD_ID, "in files without a build-ID" },
	{ FP_QUALITY_FRAMES_ANON, "in executable memory that belongs to no file" },
	{ FP_QUALITY_FRAMES_UNMAPPED, "at addresses that no mapping covers" },
};

static void frame_line(const struct fp_summary *summary)
{
	uint64_t frames = counter(summary, FP_QUALITY_FRAMES);
	bool any = false;

	for (size_t i = 0; i < FP_ARRAY_SIZE(frame_lacks); i++) {
		uint64_t lacking = counter(summary, frame_lacks[i].counter);

		if ((__uint128_t)lacking * 100 < (__uint128_t)frames * FRAMES_WORTH_A_LINE ||
		    lacking == 0)
			continue;
		say(summary, any ? ", " : "Frames that cannot be named: ");
		say_share(summary, lacking, frames);
		fp_buf_printf(summary->text, " %s", frame_lacks[i].text);
		any = true;
	}
	if (any)
		say(summary, ".\n");
}

static void process_line(const struct fp_summary *summary)
{
	uint64_t unknown = counter(summary, FP_QUALITY_PROCESSES_UNKNOWN);
	uint64_t events = counter(summary, FP_QUALITY_SIDEBAND_LOST);

	if (unknown > 0) {
		say(summary, "Processes: ");
		say_count(summary, unknown);
		say(summary, unknown == 1 ? " sample (" : " samples (");
		say_share(summary, unknown, counter(summary, FP_QUALITY_SAMPLES));
		say(summary, ") came from processes whose mappings were never seen.\n");
	}
	if (events > 0) {
		say(summary, "Process events: the kernel lost ");
		say_count(summary, events);
		say(summary, "; names of programs that started then may be missing.\n");
	}
}

static bool summary_init(struct fp_summary *summary, const struct fp_profile *profile,
			 enum fp_profile_type type, struct fp_buf *text)
{
	*summary = (struct fp_summary){ profile, &profile->quality[type], type, text };
	return summary->quality->present;
}

int fp_summary_text(const struct fp_profile *profile, enum fp_profile_type type,
		    struct fp_buf *ret_text)
{
	struct fp_summary summary;

	if (!summary_init(&summary, profile, type, ret_text))
		return 0;
	head_line(&summary);
	fp_summary_waits(&summary);
	missing_line(&summary);
	lost_line(&summary);
	dropped_line(&summary);
	map_line(&summary);
	fp_summary_walks(&summary);
	frame_line(&summary);
	process_line(&summary);
	return ret_text->error;
}

int fp_summary_line(const struct fp_profile *profile, enum fp_profile_type type,
		    struct fp_buf *ret_text)
{
	struct fp_summary summary;

	if (!summary_init(&summary, profile, type, ret_text))
		return 0;
	say_amount(&summary);
	say_rate(&summary);
	say(&summary, "; ");
	say_gone(&summary);
	fp_summary_chance(&summary, "; ", " by chance");
	if (counter(&summary, FP_QUALITY_USER_STACKS) > 0) {
		say(&summary, "; user stacks ");
		fp_summary_walk_ends(&summary);
	}
	return ret_text->error;
}
