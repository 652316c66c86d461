// SPDX-License-Identifier: Apache-2.0
// Why user stacks are short, for the page: the builds in which most walks stopped, the share of all
// user stacks that each cut, and the reasons in the words of proto/profile.h. Of an aspect with
// several types they are added up.
#include "view.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define WORST_BUILDS  10
#define WORST_REASONS 5 // of a build; what is behind them is rare

struct worst {
	const struct fp_view *view;
	struct fp_build_quality *builds; // worst first
	struct fp_build_stop *stops;	 // room for those of one build
	uint32_t builds_count;
	uint64_t user_stacks;
};

static void worst_clear(struct worst *worst)
{
	free(worst->builds);
	free(worst->stops);
}

// The next type's record behind *type, or NULL.
static const struct fp_quality *next_record(const struct fp_view *view, int *type)
{
	while (++*type < FP_PROFILE_TYPES) {
		const struct fp_quality *quality = &view->answer.profile->quality[*type];

		if (fp_aspect_has(view->aspect, (uint32_t)*type) && quality->present)
			return quality;
	}
	return NULL;
}

static int by_build(const void *a, const void *b)
{
	const struct fp_build_quality *x = a, *y = b;

	return x->build < y->build ? -1 : x->build > y->build;
}

static int by_stopped(const void *a, const void *b)
{
	const struct fp_build_quality *x = a, *y = b;

	if (x->stopped != y->stopped)
		return x->stopped > y->stopped ? -1 : 1;
	return by_build(a, b);
}

static int by_reason(const void *a, const void *b)
{
	const struct fp_build_stop *x = a, *y = b;

	return x->reason < y->reason ? -1 : x->reason > y->reason;
}

static int by_count(const void *a, const void *b)
{
	const struct fp_build_stop *x = a, *y = b;

	if (x->count != y->count)
		return x->count > y->count ? -1 : 1;
	return by_reason(a, b);
}

static int make_room(struct worst *worst)
{
	size_t builds = 1, stops = 1;
	const struct fp_quality *quality;

	for (int type = 0; (quality = next_record(worst->view, &type));) {
		builds += quality->builds_count;
		stops += quality->stops_count;
		fp_merge_sum(&worst->user_stacks, quality->counters[FP_QUALITY_USER_STACKS]);
	}
	worst->builds = calloc(builds, sizeof(*worst->builds));
	worst->stops = calloc(stops, sizeof(*worst->stops));
	return worst->builds && worst->stops ? 0 : -ENOMEM;
}

// Rows of the same build become one.
static void take_builds(struct worst *worst)
{
	const struct fp_quality *quality;
	uint32_t count = 0, kept = 0;

	for (int type = 0; (quality = next_record(worst->view, &type));) {
		if (quality->builds_count)
			memcpy(&worst->builds[count], quality->builds,
			       quality->builds_count * sizeof(*quality->builds));
		count += quality->builds_count;
	}
	qsort(worst->builds, count, sizeof(*worst->builds), by_build);
	for (uint32_t i = 0; i < count; i++) {
		const struct fp_build_quality *row = &worst->builds[i];

		if (kept && worst->builds[kept - 1].build == row->build) {
			fp_merge_sum(&worst->builds[kept - 1].stacks, row->stacks);
			fp_merge_sum(&worst->builds[kept - 1].stopped, row->stopped);
		} else {
			worst->builds[kept++] = *row;
		}
	}
	worst->builds_count = kept;
	qsort(worst->builds, kept, sizeof(*worst->builds), by_stopped);
}

// The reasons of one build, the most frequent first; returns how many. There may be as many as a
// batch can hold.
static uint32_t take_stops(struct worst *worst, uint32_t build)
{
	const struct fp_quality *quality;
	uint32_t count = 0, kept = 0;

	for (int type = 0; (quality = next_record(worst->view, &type));)
		for (uint32_t i = 0; i < quality->stops_count; i++)
			if (quality->stops[i].build == build && quality->stops[i].count)
				worst->stops[count++] = quality->stops[i];
	qsort(worst->stops, count, sizeof(*worst->stops), by_reason);
	for (uint32_t i = 0; i < count; i++) {
		if (kept && worst->stops[kept - 1].reason == worst->stops[i].reason)
			fp_merge_sum(&worst->stops[kept - 1].count, worst->stops[i].count);
		else
			worst->stops[kept++] = worst->stops[i];
	}
	qsort(worst->stops, kept, sizeof(*worst->stops), by_count);
	return kept;
}

static void append_reasons(struct worst *worst, uint32_t build, struct fp_buf *json)
{
	uint32_t count = take_stops(worst, build);

	fp_buf_str(json, ",\"reasons\":[");
	for (uint32_t i = 0; i < count && i < WORST_REASONS; i++) {
		const char *label =
		    fp_profile_str(worst->view->answer.profile, worst->stops[i].reason);

		fp_buf_str(json, i ? ",{" : "{");
		fp_json_member(json, "reason", label);
		fp_buf_byte(json, ',');
		fp_json_member(json, "text", fp_stop_text(label));
		fp_buf_byte(json, ',');
		fp_json_member(json, "fix", fp_stop_fix(label));
		fp_buf_printf(json, ",\"stacks\":%" PRIu64 "}", worst->stops[i].count);
	}
	fp_buf_byte(json, ']');
}

static void append_build(struct worst *worst, const struct fp_build_quality *row,
			 struct fp_buf *json)
{
	const struct fp_profile *profile = worst->view->answer.profile;
	const struct fp_build *build = &profile->builds[row->build];
	char hex[2 * FP_BUILD_ID_MAX + 1];

	fp_build_id_print(build, hex);
	fp_buf_byte(json, '{');
	fp_json_member(json, "path", fp_profile_str(profile, build->path));
	fp_buf_printf(json,
		      ",\"build_id\":\"%s\",\"stacks\":%" PRIu64 ",\"stopped\":%" PRIu64
		      ",\"share\":%.6f",
		      hex, row->stacks, row->stopped,
		      worst->user_stacks ? (double)row->stopped / (double)worst->user_stacks : 0);
	append_reasons(worst, row->build, json);
	fp_buf_byte(json, '}');
}

int fp_view_json_worst_builds(const struct fp_view *view, struct fp_buf *json)
{
	FP_CLEANUP(worst_clear) struct worst worst = { .view = view };
	int r = make_room(&worst);

	if (r < 0)
		return r;
	take_builds(&worst);
	fp_buf_str(json, "\"worst_builds\":[");
	for (uint32_t i = 0; i < worst.builds_count && i < WORST_BUILDS; i++) {
		if (!worst.builds[i].stopped)
			break;
		if (i)
			fp_buf_byte(json, ',');
		append_build(&worst, &worst.builds[i], json);
	}
	return fp_buf_byte(json, ']');
}
