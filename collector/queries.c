// SPDX-License-Identifier: Apache-2.0
#include "handlers.h"
#include "view.h"

#include "common/clock.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

// An exported SVG carries its own script and style; the sandbox gives it no origin, so it
// cannot read anything else here.
#define SVG_SECURITY                                                                               \
	"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "              \
	"sandbox allow-scripts; frame-ancestors 'none'"

static void append_time(uint64_t ns, struct fp_buf *text)
{
	time_t seconds = (time_t)(ns / FP_NS_PER_S);
	struct tm utc;
	char formatted[32];

	gmtime_r(&seconds, &utc);
	strftime(formatted, sizeof(formatted), "%Y-%m-%d %H:%M:%S", &utc);
	fp_buf_str(text, formatted);
}

static void describe(const struct fp_view *view, struct fp_buf *text)
{
	if (view->selector.count) {
		fp_selector_print(&view->selector, text);
		fp_buf_str(text, ", ");
	}
	append_time(view->range.from_ns, text);
	fp_buf_str(text, " to ");
	append_time(view->range.to_ns, text);
	fp_buf_printf(text, " UTC, %" PRIu64 " host%s", view->answer.facts.hosts,
		      view->answer.facts.hosts == 1 ? "" : "s");
}

static int render(const struct fp_view *view, struct fp_response *response)
{
	FP_AUTOBUF struct fp_buf subtitle = { 0 };
	FP_AUTOBUF struct fp_buf quality = { 0 };
	struct fp_render_options options = {
		.title = view->aspect->title,
		.type_name = view->aspect->name,
		.unit = fp_view_unit(view),
		.duration_ns = view->answer.facts.window_ns,
		.time_realtime_ns = view->answer.facts.first_start_ns,
		.width_px = view->width_px,
		.icicle = view->icicle,
		.rows = view->rows,
	};

	if (options.unit == FP_UNIT_SAMPLES)
		options.period_ns = view->answer.profile->period_ns;
	describe(view, &subtitle);
	fp_view_line(view, &quality);
	if (subtitle.error || quality.error)
		return -ENOMEM;
	options.subtitle = (char *)subtitle.data;
	options.quality = quality.len ? (char *)quality.data : NULL;
	return view->renderer->render(view->tree, &options, &response->body);
}

static int show(const struct fp_view *view, struct fp_response *response)
{
	int r = view->pprof ? 0 : render(view, response);

	response->content_type = view->renderer->content_type;
	if (strcmp(view->renderer->name, "svg") == 0)
		response->security = SVG_SECURITY;
	if (view->download || view->pprof)
		snprintf(response->file_name, sizeof(response->file_name),
			 "fleetprof-%s-%" PRIu64 ".%s", view->aspect->name,
			 (uint64_t)(view->range.from_ns / FP_NS_PER_S), view->renderer->extension);
	return r;
}

int fp_handle_query(struct fp_request *request, struct fp_response *response)
{
	FP_AUTOVIEW struct fp_view view = { 0 };
	int r;

	if (!fp_view_parse(request, &view, response) || !fp_view_load(request, &view, response))
		return 0;
	r = fp_view_fold(request, &view, &response->body);
	if (r < 0)
		return r;
	return view.renderer ? show(&view, response) : fp_view_json(&view, &response->body);
}

int fp_handle_quality(struct fp_request *request, struct fp_response *response)
{
	FP_AUTOVIEW struct fp_view view = { 0 };
	int r;

	if (!fp_view_parse(request, &view, response) || !fp_view_load(request, &view, response))
		return 0;
	fp_buf_byte(&response->body, '{');
	fp_view_json_stats(&view, &response->body);
	fp_buf_byte(&response->body, ',');
	r = fp_view_json_quality(&view, &response->body);
	fp_buf_str(&response->body, "}\n");
	return r;
}

// Samples whose stack passes through each build, counted once per stack.
static uint64_t *count_by_build(const struct fp_profile *profile)
{
	uint64_t *sums = calloc((size_t)profile->builds_count + 1, sizeof(*sums));
	FP_AUTOFREE uint32_t *last = calloc((size_t)profile->builds_count + 1, sizeof(*last));

	if (!sums || !last) {
		free(sums);
		return NULL;
	}
	for (uint32_t i = 0; i < profile->samples_count; i++) {
		const struct fp_sample *sample = &profile->samples[i];
		const struct fp_stack *stack = &profile->stacks[sample->stack];

		for (uint32_t j = 0; j < stack->count; j++) {
			uint32_t frame = profile->stack_frames[stack->first + j];
			uint32_t build = profile->frames[frame].build;

			if (build >= profile->builds_count || last[build] == i + 1)
				continue;
			last[build] = i + 1;
			sums[build] += sample->count;
		}
	}
	return sums;
}

static void append_build(const struct fp_view *view, uint32_t index, uint64_t samples,
			 struct fp_buf *json)
{
	static const char *const kinds[] = { "none", "gnu", "go", "hash" };
	const struct fp_build *build = &view->answer.profile->builds[index];
	char hex[2 * FP_BUILD_ID_MAX + 1];
	enum fp_symbol_status status = view->statuses[index];

	fp_build_id_print(build, hex);
	fp_buf_byte(json, '{');
	fp_json_member(json, "path", fp_profile_str(view->answer.profile, build->path));
	fp_buf_printf(json, ",\"build_id\":\"%s\",\"kind\":\"%s\",\"samples\":%" PRIu64 ",", hex,
		      kinds[build->kind <= FP_BUILD_HASH ? build->kind : 0], samples);
	fp_buf_printf(json, "\"found\":%s,", status == FP_SYMBOLS_FOUND ? "true" : "false");
	fp_json_member(json, "status", fp_symbol_status_text(status));
	fp_buf_byte(json, '}');
}

int fp_handle_builds(struct fp_request *request, struct fp_response *response)
{
	FP_AUTOVIEW struct fp_view view = { 0 };
	FP_AUTOFREE uint64_t *sums = NULL;
	struct fp_buf *json = &response->body;
	FP_AUTOBUF struct fp_buf unused = { 0 };
	bool first = true;
	int r;

	if (!fp_view_parse(request, &view, response) || !fp_view_load(request, &view, response))
		return 0;
	view.pprof = false;
	r = fp_view_fold(request, &view, &unused);
	if (r < 0)
		return r;
	sums = count_by_build(view.answer.profile);
	if (!sums)
		return -ENOMEM;
	fp_buf_byte(json, '{');
	fp_view_json_stats(&view, json);
	fp_buf_str(json, ",\"builds\":[");
	for (uint32_t i = 0; i < view.answer.profile->builds_count; i++) {
		if (!view.kinds[i])
			continue;
		fp_buf_str(json, first ? "" : ",");
		first = false;
		append_build(&view, i, sums[i], json);
	}
	return fp_buf_str(json, "]}\n");
}
