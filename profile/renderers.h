// SPDX-License-Identifier: Apache-2.0
//
// renderers: the functions behind the rows of fp_renderers, each in a file of its own.
// All take a finished tree (-EINVAL otherwise) whose names are foreign bytes, and append to
// ret_bytes. Private to profile/.
// Threads: no state.
#pragma once

#include "render.h"

int fp_render_svg(const struct fp_tree *tree, const struct fp_render_options *options,
		  struct fp_buf *ret_bytes);
int fp_render_table(const struct fp_tree *tree, const struct fp_render_options *options,
		    struct fp_buf *ret_bytes);
int fp_render_pprof(const struct fp_tree *tree, const struct fp_render_options *options,
		    struct fp_buf *ret_bytes);
int fp_render_json(const struct fp_tree *tree, const struct fp_render_options *options,
		   struct fp_buf *ret_bytes);
