// SPDX-License-Identifier: Apache-2.0
//
// svgpage: everything of the SVG flame graph that is not a frame: the head with style, title
// and tools, the foot with legend and notes, and the palette. Frames and their layout are
// svg.c. Private to profile/.
// Trust: title, subtitle and quality hold foreign names; all text is escaped here.
// Threads: no state.
#pragma once

#include "render.h"

#define FP_SVG_PAD	 10 // left and right of the frames
#define FP_SVG_ROW	 18 // height of a row, one pixel of it a gap
#define FP_SVG_TOP	 92 // y of the first row
#define FP_SVG_MIN_PX	 0.1
#define FP_SVG_MAX_ROWS	 2000 // drawn; browsers draw nothing of far taller pictures
#define FP_SVG_CHAR_PX	 7.3  // of the monospaced 12 px font
#define FP_SVG_SHADES	 8
#define FP_SVG_MIN_WIDTH 720

struct fp_svg_page {
	const struct fp_tree *tree;
	const struct fp_render_options *options;
	uint32_t width;
	uint32_t rows;		       // drawn
	uint64_t culled, culled_value; // frames too narrow to draw, and what they cover together
	uint64_t deep, deep_value;     // frames beyond FP_SVG_MAX_ROWS
	bool has_kind[FP_NODE_KINDS];
	struct fp_buf foot; // legend and notes, drawn before the height is known
	uint32_t foot_y;
};

// Lays the foot out; page->rows and the counts must be set. Then height is known.
int fp_svg_page_measure(struct fp_svg_page *page);
uint32_t fp_svg_page_height(const struct fp_svg_page *page);
int fp_svg_page_head(const struct fp_svg_page *page, struct fp_buf *ret_bytes);
int fp_svg_page_foot(const struct fp_svg_page *page, struct fp_buf *ret_bytes);
// Class of a frame's colour: a letter for its kind, a shade by its name.
int fp_svg_class(enum fp_node_kind kind, const char *name, size_t size, struct fp_buf *ret_bytes);
// A value with its CPU time where that is known.
int fp_svg_value(const struct fp_render_options *options, uint64_t value, struct fp_buf *ret_bytes);
// Foreign text as the inside of an element: steering characters shown, then escaped.
int fp_svg_text(const char *text, size_t size, struct fp_buf *ret_bytes);
