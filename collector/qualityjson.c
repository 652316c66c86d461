// SPDX-License-Identifier: Apache-2.0
// How far a profile can be trusted, for the page: the counters, the sentences of the summary,
// and one level with the reasons for it.
#include "view.h"

#include "profile/summary.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#define WORST_BUILDS 10

enum level { GOOD, FAIR, BAD };
static const char *const level_names[] = { "good", "fair", "bad" };

// A rule compares part with whole, in 1/1000: below (or above, for what should be rare) the
// first bound the level is fair, beyond the second bad. Few samples prove nothing.
static const struct rule {
	enum fp_quality_counter part, whole;
	bool should_be_rare;
	unsigned int fair, bad;
	uint64_t least_whole;
	const char *text;
} rules[] = {
	{ FP_QUALITY_SAMPLES, FP_QUALITY_EXPECTED_SAMPLES, false, 970, 900, 100,
	  "Samples are missing" },
	{ FP_QUALITY_STACKS_LOST, FP_QUALITY_SAMPLES, true, 1, 10, 1,
	  "Stacks were lost on their way out of the kernel" },
	{ FP_QUALITY_USER_COMPLETE, FP_QUALITY_USER_STACKS, false, 900, 500, 20,
	  "User stacks are cut short" },
	{ FP_QUALITY_FRAMES_UNMAPPED, FP_QUALITY_FRAMES, true, 10, 100, 100,
	  "Frames lie at addresses that no known mapping covers" },
};

static enum level judge(const struct rule *rule, const uint64_t *counters)
{
	uint64_t part = counters[rule->part], whole = counters[rule->whole];
	uint64_t share;

	if (whole < rule->least_whole)
		return GOOD;
	share = part > UINT64_MAX / 1000 ? 1000 : part * 1000 / whole;
	if (rule->should_be_rare)
		return share >= rule->bad ? BAD : share >= rule->fair ? FAIR : GOOD;
	return share < rule->bad ? BAD : share < rule->fair ? FAIR : GOOD;
}

static void append_level(const struct fp_quality *quality, struct fp_buf *json)
{
	enum level worst = GOOD;
	bool first = true;

	fp_buf_str(json, "\"reasons\":[");
	for (size_t i = 0; i < FP_ARRAY_SIZE(rules); i++) {
		enum level level = judge(&rules[i], quality->counters);

		if (level == GOOD)
			continue;
		if (level > worst)
			worst = level;
		fp_buf_str(json, first ? "{" : ",{");
		first = false;
		fp_json_member(json, "level", level_names[level]);
		fp_buf_byte(json, ',');
		fp_json_member(json, "text", rules[i].text);
		fp_buf_byte(json, '}');
	}
	fp_buf_printf(json, "],\"level\":\"%s\",", level_names[worst]);
}

static void append_counters(const struct fp_profile *profile, const struct fp_quality *quality,
			    struct fp_buf *json)
{
	fp_buf_str(json, "\"counters\":{");
	for (int i = 0; i < FP_QUALITY_COUNT; i++)
		fp_buf_printf(json, "%s\"%s\":%" PRIu64, i ? "," : "", fp_quality_name(i),
			      quality->counters[i]);
	for (uint32_t i = 0; i < quality->named_count; i++) {
		uint32_t name = quality->named[i].name;

		fp_buf_byte(json, ',');
		fp_json_string(json, fp_profile_str(profile, name), profile->strings.sizes[name]);
		fp_buf_printf(json, ":%" PRIu64, quality->named[i].value);
	}
	fp_buf_str(json, "},");
}

static int by_stopped(const void *a, const void *b)
{
	const struct fp_build_quality *x = a, *y = b;

	return x->stopped > y->stopped ? -1 : x->stopped < y->stopped;
}

static int append_builds(const struct fp_profile *profile, const struct fp_quality *quality,
			 struct fp_buf *json)
{
	size_t size = quality->builds_count * sizeof(*quality->builds);
	FP_AUTOFREE struct fp_build_quality *sorted = malloc(size + 1);

	if (!sorted)
		return -ENOMEM;
	if (size)
		memcpy(sorted, quality->builds, size);
	qsort(sorted, quality->builds_count, sizeof(*sorted), by_stopped);
	fp_buf_str(json, "\"worst_builds\":[");
	for (uint32_t i = 0; i < quality->builds_count && i < WORST_BUILDS; i++) {
		const struct fp_build *build = &profile->builds[sorted[i].build];
		char hex[2 * FP_BUILD_ID_MAX + 1];

		if (!sorted[i].stopped)
			break;
		fp_build_id_print(build, hex);
		fp_buf_str(json, i ? ",{" : "{");
		fp_json_member(json, "path", fp_profile_str(profile, build->path));
		fp_buf_printf(
		    json, ",\"build_id\":\"%s\",\"stacks\":%" PRIu64 ",\"stopped\":%" PRIu64 "}",
		    hex, sorted[i].stacks, sorted[i].stopped);
	}
	return fp_buf_str(json, "],");
}

int fp_view_json_quality(const struct fp_view *view, struct fp_buf *json)
{
	const struct fp_profile *profile = view->answer.profile;
	const struct fp_quality *quality = &profile->quality[view->type];
	FP_AUTOBUF struct fp_buf text = { 0 };
	FP_AUTOBUF struct fp_buf line = { 0 };
	int r;

	if (!quality->present)
		return fp_buf_str(json, "\"quality\":null");
	fp_buf_str(json, "\"quality\":{");
	append_level(quality, json);
	append_counters(profile, quality, json);
	r = append_builds(profile, quality, json);
	if (r == 0)
		r = fp_summary_text(profile, view->type, &text);
	if (r == 0)
		r = fp_summary_line(profile, view->type, &line);
	if (r < 0)
		return r;
	fp_json_member(json, "text", text.len ? (char *)text.data : "");
	fp_buf_byte(json, ',');
	fp_json_member(json, "line", line.len ? (char *)line.data : "");
	return fp_buf_byte(json, '}');
}
