// SPDX-License-Identifier: Apache-2.0
#include "render.h"

#include "folded.h"
#include "renderers.h"
#include "text.h"

#include <string.h>

static int render_folded(const struct fp_tree *tree, const struct fp_render_options *options,
			 struct fp_buf *ret_bytes)
{
	return fp_folded_write(tree, ret_bytes);
}

const struct fp_renderer fp_renderers[] = {
	{ "folded", "text/plain; charset=utf-8", "folded", render_folded,
	  "one line per stack, for other tools" },
	{ "svg", "image/svg+xml", "svg", fp_render_svg, "flame graph in one file, for a browser" },
	{ "table", "text/plain; charset=utf-8", "txt", fp_render_table,
	  "hottest functions, for a terminal" },
	{ "pprof", "application/vnd.google.protobuf+gzip", "pb.gz", fp_render_pprof,
	  "profile.proto for go tool pprof" },
	{ "json", "application/json", "json", fp_render_json, "the tree in columns, for programs" },
};
const size_t fp_renderers_count = FP_ARRAY_SIZE(fp_renderers);

const struct fp_renderer *fp_renderer_find(const char *name)
{
	for (size_t i = 0; i < fp_renderers_count; i++) {
		if (strcmp(fp_renderers[i].name, name) == 0)
			return &fp_renderers[i];
	}
	return NULL;
}

int fp_render_value(enum fp_unit unit, uint64_t value, struct fp_buf *ret_text)
{
	if (unit == FP_UNIT_NANOSECONDS)
		return fp_text_duration(value, ret_text);
	fp_text_count(value, ret_text);
	return fp_buf_str(ret_text, value == 1 ? " sample" : " samples");
}
