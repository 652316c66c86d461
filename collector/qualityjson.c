// SPDX-License-Identifier: Apache-2.0
// How far a profile can be trusted, for the page: the counters, the sentences of the summary,
// and one level with the reasons for it.
#include "view.h"

#include <inttypes.h>

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

struct reasons {
	struct fp_buf *json;
	enum level worst;
	bool any;
};

// before: what of several the reason is about, or "".
static void add_reason(struct reasons *reasons, enum level level, const char *before,
		       const char *text)
{
	FP_AUTOBUF struct fp_buf words = { 0 };

	if (level == GOOD)
		return;
	if (level > reasons->worst)
		reasons->worst = level;
	fp_buf_printf(&words, "%s%s%s", before, before[0] ? ": " : "", text);
	fp_buf_str(reasons->json, reasons->any ? ",{" : "{");
	reasons->any = true;
	fp_json_member(reasons->json, "level", level_names[level]);
	fp_buf_byte(reasons->json, ',');
	fp_json_member(reasons->json, "text", words.error ? text : (const char *)words.data);
	fp_buf_byte(reasons->json, '}');
}

// In wall time windows that lack a part make the others look greater than they are.
static void add_missing(const struct fp_view *view, struct reasons *reasons)
{
	static const enum fp_profile_type needed[] = { FP_PROFILE_CPU, FP_PROFILE_OFF_CPU };
	const struct fp_merge_facts *facts = &view->answer.facts;

	for (size_t i = 0; view->aspect == fp_aspect_wall && i < FP_ARRAY_SIZE(needed); i++) {
		const char *title = fp_aspect_of(needed[i])->title;

		if (facts->recorded[needed[i]] == 0)
			add_reason(reasons, BAD, title, "was not recorded in these windows");
		else if (facts->recorded[needed[i]] < facts->batches)
			add_reason(reasons, FAIR, title,
				   "was not recorded in some of these windows");
	}
}

static void append_level(const struct fp_view *view, struct fp_buf *json)
{
	struct reasons reasons = { .json = json };

	fp_buf_str(json, "\"reasons\":[");
	for (int type = 1; type < FP_PROFILE_TYPES; type++) {
		const struct fp_quality *quality = &view->answer.profile->quality[type];

		if (!fp_aspect_has(view->aspect, (uint32_t)type) || !quality->present)
			continue;
		for (size_t i = 0; i < FP_ARRAY_SIZE(rules); i++)
			add_reason(&reasons, judge(&rules[i], quality->counters),
				   view->aspect->type ? "" : fp_aspect_of(type)->title,
				   rules[i].text);
	}
	add_missing(view, &reasons);
	fp_buf_printf(json, "],\"level\":\"%s\",", level_names[reasons.worst]);
}

static void append_counters(const struct fp_profile *profile, const struct fp_quality *quality,
			    struct fp_buf *json)
{
	fp_buf_str(json, "\"hook\":");
	fp_json_string(json, fp_profile_str(profile, quality->hook),
		       profile->strings.sizes[quality->hook]);
	fp_buf_str(json, ",\"counters\":{");
	for (int i = 0; i < FP_QUALITY_COUNT; i++)
		fp_buf_printf(json, "%s\"%s\":%" PRIu64, i ? "," : "", fp_quality_name(i),
			      quality->counters[i]);
	for (uint32_t i = 0; i < quality->named_count; i++) {
		uint32_t name = quality->named[i].name;

		fp_buf_byte(json, ',');
		fp_json_string(json, fp_profile_str(profile, name), profile->strings.sizes[name]);
		fp_buf_printf(json, ":%" PRIu64, quality->named[i].value);
	}
	fp_buf_byte(json, '}');
}

// Of one type its own; of several an object for each.
static void append_records(const struct fp_view *view, struct fp_buf *json)
{
	const struct fp_profile *profile = view->answer.profile;
	bool any = false;

	if (view->aspect->type) {
		append_counters(profile, &profile->quality[view->aspect->type], json);
		fp_buf_byte(json, ',');
		return;
	}
	fp_buf_str(json, "\"parts\":{");
	for (int type = 1; type < FP_PROFILE_TYPES; type++) {
		if (!fp_aspect_has(view->aspect, (uint32_t)type) || !profile->quality[type].present)
			continue;
		fp_buf_printf(json, "%s\"%s\":{", any ? "," : "", fp_profile_type_name(type));
		append_counters(profile, &profile->quality[type], json);
		fp_buf_byte(json, '}');
		any = true;
	}
	fp_buf_str(json, "},");
}

static bool is_present(const struct fp_view *view)
{
	for (int type = 1; type < FP_PROFILE_TYPES; type++)
		if (fp_aspect_has(view->aspect, (uint32_t)type) &&
		    view->answer.profile->quality[type].present)
			return true;
	return false;
}

int fp_view_json_quality(const struct fp_view *view, struct fp_buf *json)
{
	FP_AUTOBUF struct fp_buf text = { 0 };
	FP_AUTOBUF struct fp_buf line = { 0 };
	int r;

	if (!is_present(view))
		return fp_buf_str(json, "\"quality\":null");
	fp_buf_str(json, "\"quality\":{");
	append_level(view, json);
	append_records(view, json);
	r = fp_view_json_worst_builds(view, json);
	if (r == 0)
		r = fp_buf_byte(json, ',');
	if (r == 0)
		r = fp_view_text(view, &text);
	if (r == 0)
		r = fp_view_line(view, &line);
	if (r < 0)
		return r;
	fp_json_member(json, "text", text.len ? (char *)text.data : "");
	fp_buf_byte(json, ',');
	fp_json_member(json, "line", line.len ? (char *)line.data : "");
	return fp_buf_byte(json, '}');
}
