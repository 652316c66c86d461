// SPDX-License-Identifier: Apache-2.0
#include "wall.h"

#include "aspect.h"
#include "summary.h"
#include "summaryparts.h"

#include <string.h>

// In the order of the pictures: what ran, what waited, what was held up.
static const struct part {
	enum fp_profile_type type;
	const char *text;
	const char *missing; // what its absence means for the picture
} parts[] = {
	{ FP_PROFILE_CPU, "on the CPU",
	  "Not recorded: CPU samples; what is drawn is time off the CPU alone.\n" },
	{ FP_PROFILE_OFF_CPU, "blocked",
	  "Not recorded: time blocked; what is drawn is no wall time without it.\n" },
	{ FP_PROFILE_RUN_QUEUE, "ready to run",
	  "Not recorded: run-queue time; from wake-up to running counts as blocked, and time "
	  "preempted is not in the picture.\n" },
};

uint64_t fp_wall_sample_ns(const struct fp_profile *profile, const struct fp_sample *sample)
{
	uint64_t ns;

	if (sample->type != FP_PROFILE_CPU)
		return sample->value;
	return __builtin_mul_overflow(sample->value, profile->period_ns, &ns) ? UINT64_MAX : ns;
}

void fp_wall_time(const struct fp_profile *profile, struct fp_wall_time *ret_time)
{
	struct fp_wall_time time = { 0 };

	for (uint32_t i = 0; i < profile->samples_count; i++) {
		const struct fp_sample *sample = &profile->samples[i];
		uint64_t *sum = &time.ns[sample->type];

		if (__builtin_add_overflow(*sum, fp_wall_sample_ns(profile, sample), sum))
			*sum = UINT64_MAX;
		time.period_unknown |= sample->type == FP_PROFILE_CPU && !profile->period_ns;
	}
	*ret_time = time;
}

static bool is_recorded(const struct fp_profile *profile, const struct fp_wall_time *time,
			const struct part *part)
{
	return profile->quality[part->type].present || time->ns[part->type] > 0 ||
	       (part->type == FP_PROFILE_CPU && time->period_unknown);
}

// "12.3 s on the CPU, 45.6 s blocked, 1.20 s ready to run".
static void say_parts(const struct fp_profile *profile, const struct fp_wall_time *time,
		      struct fp_buf *text)
{
	bool any = false;

	for (size_t i = 0; i < FP_ARRAY_SIZE(parts); i++) {
		if (!is_recorded(profile, time, &parts[i]))
			continue;
		fp_buf_str(text, any ? ", " : "");
		any = true;
		if (parts[i].type == FP_PROFILE_CPU && time->period_unknown)
			fp_buf_str(text, "an unknown time");
		else
			fp_text_duration(time->ns[parts[i].type], text);
		fp_buf_printf(text, " %s", parts[i].text);
	}
}

static bool has_record(const struct fp_profile *profile)
{
	for (int type = 1; type < FP_PROFILE_TYPES; type++)
		if (fp_aspect_has(fp_aspect_wall, (uint32_t)type) && profile->quality[type].present)
			return true;
	return false;
}

static void missing_lines(const struct fp_profile *profile, const struct fp_wall_time *time,
			  struct fp_buf *text)
{
	if (time->period_unknown)
		fp_buf_str(text, "Warning: the sampling period is not known, so CPU samples are no "
				 "time and are left out of the picture.\n");
	for (size_t i = 0; i < FP_ARRAY_SIZE(parts); i++)
		if (!is_recorded(profile, time, &parts[i]))
			fp_buf_str(text, parts[i].missing);
}

int fp_wall_text(const struct fp_profile *profile, struct fp_buf *ret_text)
{
	struct fp_wall_time time;
	uint64_t sum = 0;
	int error = 0;

	if (!has_record(profile))
		return 0;
	fp_wall_time(profile, &time);
	for (size_t i = 0; i < FP_ARRAY_SIZE(parts); i++)
		if (__builtin_add_overflow(sum, time.ns[parts[i].type], &sum))
			sum = UINT64_MAX;
	fp_buf_str(ret_text, "Wall: ");
	say_parts(profile, &time, ret_text);
	fp_buf_str(ret_text, "; together ");
	fp_text_duration(sum, ret_text);
	fp_buf_str(ret_text, " of the threads' time.\n");
	missing_lines(profile, &time, ret_text);
	for (size_t i = 0; !error && i < FP_ARRAY_SIZE(parts); i++)
		error = fp_summary_text(profile, parts[i].type, ret_text);
	return error ? error : ret_text->error;
}

int fp_wall_line(const struct fp_profile *profile, struct fp_buf *ret_text)
{
	uint64_t lost = 0, dropped = 0;
	struct fp_wall_time time;

	if (!has_record(profile))
		return 0;
	fp_wall_time(profile, &time);
	say_parts(profile, &time, ret_text);
	for (size_t i = 0; i < FP_ARRAY_SIZE(parts); i++) {
		const struct fp_summary part = { profile, &profile->quality[parts[i].type],
						 parts[i].type, ret_text };

		lost += fp_summary_counter(&part, FP_QUALITY_STACKS_LOST);
		dropped += fp_summary_dropped(&part);
		if (parts[i].type == FP_PROFILE_OFF_CPU)
			fp_summary_chance(&part, "; time blocked ", " by chance");
	}
	fp_buf_str(ret_text, "; ");
	fp_text_count(lost, ret_text);
	fp_buf_str(ret_text, " lost, ");
	fp_text_count(dropped, ret_text);
	fp_buf_str(ret_text, " dropped");
	for (size_t i = 0; i < FP_ARRAY_SIZE(parts); i++)
		if (!is_recorded(profile, &time, &parts[i]))
			fp_buf_printf(ret_text, "; %s not recorded", parts[i].text);
	return ret_text->error;
}
