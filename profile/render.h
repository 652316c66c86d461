// SPDX-License-Identifier: Apache-2.0
//
// render: a finished tree as something people look at. Renderers are rows of one table
// (fp_renderers), looked up by name: folded, svg, table, pprof, json.
#pragma once

#include "tree.h"

enum fp_unit { FP_UNIT_SAMPLES, FP_UNIT_NANOSECONDS };

struct fp_render_options {
	const char *title;    // e.g. "CPU"; never NULL
	const char *subtitle; // e.g. host, range, rate; may be NULL
	const char *quality;  // one line on how far the profile can be trusted; may be NULL
	enum fp_unit unit;
	const char *type_name;	   // pprof: what nanoseconds are, "wall"; NULL: "off_cpu"
	uint64_t period_ns;	   // CPU samples: nanoseconds per sample; 0 when not known
	uint64_t duration_ns;	   // of the window, 0 when not known
	uint64_t time_realtime_ns; // start of the window, for pprof; 0 when not known
	uint32_t width_px;	   // svg; 0: 1200
	bool icicle;		   // svg: root on top
	uint32_t rows;		   // table: functions shown; 0: 30
	bool color;		   // table: terminal colours
	uint32_t columns;	   // table: terminal width; 0: 100
};

struct fp_renderer {
	const char *name;	  // "svg"
	const char *content_type; // "image/svg+xml"
	const char *extension;	  // "svg"
	int (*render)(const struct fp_tree *tree, const struct fp_render_options *options,
		      struct fp_buf *ret_bytes);
	const char *help;
};
extern const struct fp_renderer fp_renderers[];
extern const size_t fp_renderers_count;
const struct fp_renderer *fp_renderer_find(const char *name); // NULL when unknown
// "1,234 samples", "12.3 ms"; for titles and tables.
int fp_render_value(enum fp_unit unit, uint64_t value, struct fp_buf *ret_text);
