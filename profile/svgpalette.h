// SPDX-License-Identifier: Apache-2.0
//
// svgpalette: the colours of the SVG flame graph, one row per kind of frame: a range of hues,
// the letter of its classes, its words in the legend. Shades follow the name alone, so that
// a function looks the same in every graph. Private to profile/.
// Trust: names are only hashed. Threads: constants.
#pragma once

#include "svgpage.h"

int fp_svg_palette(struct fp_buf *ret_bytes); // as CSS rules
char fp_svg_kind_letter(enum fp_node_kind kind);
const char *fp_svg_kind_text(enum fp_node_kind kind); // NULL: not in the legend
