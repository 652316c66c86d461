// SPDX-License-Identifier: Apache-2.0
#include "view.h"

#include "common/clock.h"
#include "profile/summary.h"
#include "profile/wall.h"

#include <errno.h>
#include <string.h>

void fp_view_free(struct fp_view *view)
{
	fp_selector_free(&view->selector);
	fp_profile_free(view->answer.profile);
	fp_tree_free(view->tree);
	free(view->root);
	free(view->kinds);
	free(view->statuses);
	*view = (struct fp_view){ 0 };
}

enum fp_unit fp_view_unit(const struct fp_view *view)
{
	return view->answer.facts.mixed_periods ? FP_UNIT_NANOSECONDS : view->aspect->unit;
}

static bool is_wall(const struct fp_view *view)
{
	return view->aspect == fp_aspect_wall;
}

int fp_view_line(const struct fp_view *view, struct fp_buf *text)
{
	const struct fp_profile *profile = view->answer.profile;

	return is_wall(view) ? fp_wall_line(profile, text)
			     : fp_summary_line(profile, view->aspect->type, text);
}

int fp_view_text(const struct fp_view *view, struct fp_buf *text)
{
	const struct fp_profile *profile = view->answer.profile;

	return is_wall(view) ? fp_wall_text(profile, text)
			     : fp_summary_text(profile, view->aspect->type, text);
}

static void count_result(struct fp_collector *collector, int result)
{
	switch (result) {
	case 0:
		fp_collector_count(collector, QUERIES_OK, 1);
		break;
	case -E2BIG:
	case -ETIMEDOUT:
		fp_collector_count(collector, QUERIES_LIMIT, 1);
		break;
	default:
		fp_collector_count(collector, QUERIES_FAILED, 1);
	}
}

static bool refuse_load(struct fp_collector *collector, struct fp_response *response, int result,
			const struct fp_buf *error)
{
	const char *reason = error->len ? (const char *)error->data : strerror(-result);

	count_result(collector, result);
	if (result == -E2BIG || result == -ETIMEDOUT)
		fp_response_error(response, MHD_HTTP_UNPROCESSABLE_CONTENT, "over_limit", "%s",
				  reason);
	else
		fp_response_error(response, MHD_HTTP_INTERNAL_SERVER_ERROR, "internal", "%s",
				  reason);
	return false;
}

static bool wait_turn(struct fp_collector *collector, struct fp_response *response)
{
	uint64_t until_ns = fp_realtime_ns() + collector->config.query_max_ns;
	struct timespec until = { .tv_sec = (time_t)(until_ns / FP_NS_PER_S),
				  .tv_nsec = (long)(until_ns % FP_NS_PER_S) };
	int r;

	do
		r = sem_timedwait(&collector->query_turns, &until);
	while (r < 0 && errno == EINTR);
	if (r == 0)
		return true;
	count_result(collector, -ETIMEDOUT);
	fp_response_error(response, MHD_HTTP_SERVICE_UNAVAILABLE, "busy",
			  "other queries are running; try again");
	response->retry_after_s = 2;
	return false;
}

bool fp_view_load(const struct fp_request *request, struct fp_view *view,
		  struct fp_response *response)
{
	struct fp_collector *collector = request->collector;
	const struct fp_collector_config *config = &collector->config;
	FP_AUTOBUF struct fp_buf error = { 0 };
	uint64_t begun_ns = fp_monotonic_ns();
	struct fp_store_query query = {
		.aspect = view->aspect,
		.selector = &view->selector,
		.range = view->range,
		.keep_label = view->root,
		.deadline_ns = begun_ns + config->query_max_ns,
		.max_rows = config->query_max_rows,
		.max_memory_bytes = config->query_max_memory_bytes,
	};
	int r;

	if (!wait_turn(collector, response))
		return false;
	r = fp_store_query(collector->store, &query, &view->answer, &error);
	sem_post(&collector->query_turns);
	view->elapsed_ns = fp_monotonic_ns() - begun_ns;
	fp_collector_count(collector, QUERY_SECONDS, view->elapsed_ns);
	if (r < 0)
		return refuse_load(collector, response, r, &error);
	fp_collector_count(collector, QUERY_ROWS, view->answer.facts.rows_read);
	fp_collector_count(collector, DAMAGED_BATCHES, view->answer.facts.damaged);
	count_result(collector, 0);
	return true;
}

// A build is used with one kind of frame; which one decides how its symbols are found.
static int note_kinds(struct fp_view *view)
{
	const struct fp_profile *profile = view->answer.profile;

	view->kinds = calloc((size_t)profile->builds_count + 1, 1);
	view->statuses = calloc((size_t)profile->builds_count + 1, 1);
	if (!view->kinds || !view->statuses)
		return -ENOMEM;
	for (uint32_t i = 0; i < profile->frames_count; i++) {
		const struct fp_frame *frame = &profile->frames[i];

		if (frame->build < profile->builds_count)
			view->kinds[frame->build] = frame->kind;
	}
	return 0;
}

static int fold_tree(struct fp_view *view, const struct fp_fold_options *options,
		     struct fp_symbolizer *symbolizer)
{
	FP_AUTOTREE struct fp_tree *tree = NULL;
	int r = fp_tree_new(&tree);

	if (r == 0)
		r = fp_fold_profile(view->answer.profile, options, symbolizer, tree);
	if (r == 0)
		r = fp_tree_finish(tree);
	if (r == 0)
		view->tree = fp_take_ptr(tree);
	return r;
}

int fp_view_fold(const struct fp_request *request, struct fp_view *view, struct fp_buf *ret_pprof)
{
	struct fp_symbol_service *symbols = request->collector->symbols;
	const struct fp_fold_options options = { .type = view->aspect->type,
						 .wall = is_wall(view),
						 .root_label = view->root,
						 .raw = view->raw,
						 .kernel_frames = view->kernel };
	struct fp_symbolizer *symbolizer;
	int r = note_kinds(view);

	if (r < 0)
		return r;
	symbolizer = fp_symbol_service_acquire(symbols, view->answer.profile);
	if (view->pprof)
		r = fp_fold_pprof(view->answer.profile, &options, symbolizer, ret_pprof);
	else
		r = fold_tree(view, &options, symbolizer);
	fp_symbol_service_release(symbols, view->answer.profile, view->kinds, view->statuses);
	return r;
}
