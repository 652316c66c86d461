// SPDX-License-Identifier: Apache-2.0
//
// view: a request's parameters → merged profile → tree, ready for a renderer. This is the
// one function behind every way of looking: select, merge, symbolize, fold.
// Input: foreign parameters. Ownership: the view owns what it loaded.
#pragma once

#include "http.h"

#include "profile/fold.h"
#include "profile/render.h"

struct fp_view {
	// Asked for.
	const struct fp_aspect *aspect;
	struct fp_selector selector;
	struct fp_time_range range;
	const struct fp_renderer *renderer; // NULL: the page's JSON
	bool pprof;			    // straight from the profile, with addresses
	char *root;			    // label as the outermost frame, or NULL
	bool icicle, raw, kernel, download;
	uint32_t width_px, rows, max_nodes;
	// Loaded.
	struct fp_store_answer answer;
	struct fp_tree *tree;
	uint8_t *kinds;	   // per build of the profile: enum fp_frame_kind it is used with, or 0
	uint8_t *statuses; // per build: enum fp_symbol_status
	uint64_t elapsed_ns;
};

void fp_view_free(struct fp_view *view);
#define FP_AUTOVIEW FP_CLEANUP(fp_view_free)
// False: the response says what is wrong with the parameters.
bool fp_view_parse(const struct fp_request *request, struct fp_view *ret_view,
		   struct fp_response *response);
// Runs the selection. False: the response says why not (over a limit, busy, failed).
bool fp_view_load(const struct fp_request *request, struct fp_view *view,
		  struct fp_response *response);
// Folds the loaded profile into view->tree, or writes pprof for view->pprof.
int fp_view_fold(const struct fp_request *request, struct fp_view *view, struct fp_buf *ret_pprof);
// The quality record in one line, or in several.
int fp_view_line(const struct fp_view *view, struct fp_buf *text);
int fp_view_text(const struct fp_view *view, struct fp_buf *text);
enum fp_unit fp_view_unit(const struct fp_view *view);

// JSON parts (viewjson.c, quality*.c); each appends `"key":value`, without a comma.
int fp_view_json(const struct fp_view *view, struct fp_buf *json);
void fp_view_json_stats(const struct fp_view *view, struct fp_buf *json);
int fp_view_json_quality(const struct fp_view *view, struct fp_buf *json);
int fp_view_json_worst_builds(const struct fp_view *view, struct fp_buf *json);
int fp_view_json_tree(const struct fp_view *view, struct fp_buf *json);
int fp_view_json_functions(const struct fp_view *view, struct fp_buf *json);
