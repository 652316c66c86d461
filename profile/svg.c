// SPDX-License-Identifier: Apache-2.0
//
// The flame graph as one SVG file. The picture is complete without its script, for viewers
// that run none; the script lays the same frames out again for the window's width.
// Children are drawn from the left in name order, a frame's own value to the right of them.
#include "renderers.h"
#include "svgpage.h"
#include "text.h"
#include "treewalk.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_WIDTH	1200
#define MIN_LABEL_CHARS 3
#define TEXT_PAD	3
#define LABEL_CHARS_MAX 1000

struct graph {
	struct fp_svg_page page;
	struct fp_tree_walk walk;
	uint64_t *start;  // by node: the left edge, in the profile's unit
	uint64_t *cursor; // by node: where its next child begins
	uint8_t *drawn;	  // by node
};

static void graph_free(struct graph *graph)
{
	fp_tree_walk_free(&graph->walk);
	free(graph->start);
	free(graph->cursor);
	free(graph->drawn);
	fp_buf_free(&graph->page.foot);
}
#define AUTOGRAPH FP_CLEANUP(graph_free)

static double pixels(const struct graph *graph, uint64_t value)
{
	return (double)value * (graph->page.width - 2 * FP_SVG_PAD) /
	       (double)graph->page.tree->nodes[FP_TREE_ROOT].total;
}

// Whether the node is drawn; the outermost of those left out carry their weight to the notes.
static bool graph_decide(struct graph *graph, uint32_t index)
{
	const struct fp_node *node = &graph->page.tree->nodes[index];
	bool deep = graph->walk.depth[index] >= FP_SVG_MAX_ROWS;
	bool narrow = pixels(graph, node->total) < FP_SVG_MIN_PX;
	bool outermost = index == FP_TREE_ROOT || graph->drawn[node->parent];

	if (!deep && !narrow)
		return true;
	if (narrow) {
		graph->page.culled++;
		graph->page.culled_value += outermost ? node->total : 0;
	} else {
		graph->page.deep++;
		graph->page.deep_value += outermost ? node->total : 0;
	}
	return false;
}

static void graph_layout(struct graph *graph)
{
	const struct fp_tree *tree = graph->page.tree;

	for (uint32_t i = 0; i < tree->count; i++) {
		uint32_t index = graph->walk.nodes[i];
		const struct fp_node *node = &tree->nodes[index];

		if (index != FP_TREE_ROOT) {
			graph->start[index] = graph->cursor[node->parent];
			graph->cursor[node->parent] += node->total;
		}
		graph->cursor[index] = graph->start[index];
		graph->drawn[index] = graph_decide(graph, index);
		if (!graph->drawn[index])
			continue;
		graph->page.has_kind[node->kind] = true;
		if (graph->walk.depth[index] >= graph->page.rows)
			graph->page.rows = graph->walk.depth[index] + 1;
	}
}

static const char *const kind_texts[] = {
	[FP_NODE_ROOT] = "",
	[FP_NODE_LABEL] = "thread or program",
	[FP_NODE_USER] = "",
	[FP_NODE_KERNEL] = "kernel",
	[FP_NODE_JIT] = "JIT or named code",
	[FP_NODE_INLINE] = "inlined",
	[FP_NODE_ERROR] = "explanation, not a function",
	[FP_NODE_UNKNOWN] = "no symbol",
	[FP_NODE_WAIT] = "off the CPU: blocked",
	[FP_NODE_READY] = "off the CPU: ready to run",
	[FP_NODE_WAKE] = "sleeper below, its waker above",
};

// Line 2 of a frame's title: what it is and where its code lies.
static void frame_what(const struct graph *graph, const struct fp_node *node,
		       struct fp_buf *ret_bytes)
{
	const struct fp_intern *names = &graph->page.tree->names;
	const char *kind = kind_texts[node->kind];

	fp_buf_str(ret_bytes, kind);
	if (kind[0] && names->sizes[node->module])
		fp_buf_str(ret_bytes, ", ");
	fp_svg_text(fp_intern_get(names, node->module), names->sizes[node->module], ret_bytes);
}

static void frame_title(const struct graph *graph, const struct fp_node *node,
			const struct fp_buf *name, struct fp_buf *ret_bytes)
{
	fp_buf_str(ret_bytes, "<title>");
	fp_buf_xml(ret_bytes, (const char *)name->data, name->len);
	fp_buf_byte(ret_bytes, '\n');
	frame_what(graph, node, ret_bytes);
	fp_buf_byte(ret_bytes, '\n');
	fp_svg_value(graph->page.options, node->total, ret_bytes);
	fp_buf_str(ret_bytes, ", ");
	fp_text_percent(node->total, graph->page.tree->nodes[FP_TREE_ROOT].total, 2, ret_bytes);
	fp_buf_str(ret_bytes, "</title>");
}

static void frame_label(const struct fp_buf *name, double x, double y, double width,
			struct fp_buf *ret_bytes)
{
	FP_AUTOBUF struct fp_buf label = { 0 };
	double room = (width - 2 * TEXT_PAD) / FP_SVG_CHAR_PX;

	if (room < MIN_LABEL_CHARS)
		return;
	fp_text_name((const char *)name->data, name->len,
		     room > LABEL_CHARS_MAX ? LABEL_CHARS_MAX : (size_t)room, &label);
	fp_buf_printf(ret_bytes, "<text x=\"%.2f\" y=\"%.0f\">", x + TEXT_PAD, y + 13);
	if (label.len > 0)
		fp_buf_xml(ret_bytes, (const char *)label.data, label.len);
	fp_buf_str(ret_bytes, "</text>");
}

static int frame_name(const struct graph *graph, uint32_t index, struct fp_buf *ret_name)
{
	const struct fp_intern *names = &graph->page.tree->names;
	const struct fp_node *node = &graph->page.tree->nodes[index];

	if (index == FP_TREE_ROOT)
		return fp_buf_str(ret_name, "all");
	fp_text_name(fp_intern_get(names, node->name), names->sizes[node->name], SIZE_MAX,
		     ret_name);
	return ret_name->len ? ret_name->error : fp_buf_str(ret_name, "(no name)");
}

static int graph_frame(const struct graph *graph, uint32_t index, struct fp_buf *ret_bytes)
{
	const struct fp_node *node = &graph->page.tree->nodes[index];
	uint32_t depth = graph->walk.depth[index];
	uint32_t row = graph->page.options->icicle ? depth : graph->page.rows - 1 - depth;
	double x = FP_SVG_PAD + pixels(graph, graph->start[index]);
	double y = FP_SVG_TOP + (double)row * FP_SVG_ROW;
	double width = pixels(graph, node->total);
	FP_AUTOBUF struct fp_buf name = { 0 };

	if (frame_name(graph, index, &name))
		return -ENOMEM;
	fp_buf_str(ret_bytes, "<g class=\"");
	fp_svg_class(node->kind, (const char *)name.data, name.len, ret_bytes);
	fp_buf_printf(ret_bytes, "\" data-f=\"%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu32 "\">",
		      graph->start[index], node->total, node->self, depth);
	frame_title(graph, node, &name, ret_bytes);
	// Half a pixel between neighbours, where there is room for it.
	fp_buf_printf(ret_bytes, "<rect x=\"%.2f\" y=\"%.0f\" width=\"%.2f\" height=\"%d\"/>", x, y,
		      width > 2 ? width - 0.5 : width, FP_SVG_ROW - 1);
	frame_label(&name, x, y, width, ret_bytes);
	return fp_buf_str(ret_bytes, "</g>\n");
}

static int graph_init(struct graph *graph)
{
	uint32_t count = graph->page.tree->count;
	int error = fp_tree_walk_new(graph->page.tree, &graph->walk);

	if (error)
		return error;
	graph->start = calloc(count, sizeof(*graph->start));
	graph->cursor = calloc(count, sizeof(*graph->cursor));
	graph->drawn = calloc(count, sizeof(*graph->drawn));
	return graph->start && graph->cursor && graph->drawn ? 0 : -ENOMEM;
}

static int graph_frames(const struct graph *graph, struct fp_buf *ret_bytes)
{
	int error = 0;

	fp_buf_str(ret_bytes, "<g class=\"frames\" font-family=\"monospace\" font-size=\"12\">\n");
	for (uint32_t i = 0; !error && i < graph->page.tree->count; i++) {
		if (graph->drawn[graph->walk.nodes[i]])
			error = graph_frame(graph, graph->walk.nodes[i], ret_bytes);
	}
	return error ? error : fp_buf_str(ret_bytes, "</g>\n");
}

int fp_render_svg(const struct fp_tree *tree, const struct fp_render_options *options,
		  struct fp_buf *ret_bytes)
{
	AUTOGRAPH struct graph graph = { .page = { .tree = tree, .options = options } };
	int error = graph_init(&graph);

	if (error)
		return error;
	graph.page.width = options->width_px ? options->width_px : DEFAULT_WIDTH;
	if (graph.page.width < FP_SVG_MIN_WIDTH)
		graph.page.width = FP_SVG_MIN_WIDTH;
	if (tree->nodes[FP_TREE_ROOT].total > 0)
		graph_layout(&graph);
	else
		graph.page.rows = 2; // room for the sentence that says so
	error = fp_svg_page_measure(&graph.page);
	if (!error)
		error = fp_svg_page_head(&graph.page, ret_bytes);
	if (!error)
		error = graph_frames(&graph, ret_bytes);
	return error ? error : fp_svg_page_foot(&graph.page, ret_bytes);
}
