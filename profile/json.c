// SPDX-License-Identifier: Apache-2.0
//
// The tree in columns: nodes in drawing order, each with the index of its parent, so that a
// reader needs no recursion however deep the stacks are. Names are listed once.
#include "renderers.h"
#include "treewalk.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

struct columns {
	const struct fp_tree *tree;
	struct fp_tree_walk walk;
	uint32_t *place; // by node: its index in drawing order
};

static void columns_free(struct columns *columns)
{
	fp_tree_walk_free(&columns->walk);
	free(columns->place);
}
#define AUTOCOLUMNS FP_CLEANUP(columns_free)

static uint64_t column_parent(const struct columns *columns, uint32_t node)
{
	return columns->place[columns->tree->nodes[node].parent];
}
static uint64_t column_name(const struct columns *columns, uint32_t node)
{
	return columns->tree->nodes[node].name;
}
static uint64_t column_module(const struct columns *columns, uint32_t node)
{
	return columns->tree->nodes[node].module;
}
static uint64_t column_kind(const struct columns *columns, uint32_t node)
{
	return columns->tree->nodes[node].kind;
}
static uint64_t column_self(const struct columns *columns, uint32_t node)
{
	return columns->tree->nodes[node].self;
}
static uint64_t column_total(const struct columns *columns, uint32_t node)
{
	return columns->tree->nodes[node].total;
}

static const struct {
	const char *name;
	uint64_t (*value)(const struct columns *columns, uint32_t node);
} node_columns[] = {
	{ "parent", column_parent }, { "name", column_name }, { "module", column_module },
	{ "kind", column_kind },     { "self", column_self }, { "total", column_total },
};

static void json_string(const char *key, const char *value, struct fp_buf *ret_bytes)
{
	fp_buf_printf(ret_bytes, "\"%s\":", key);
	if (!value) {
		fp_buf_str(ret_bytes, "null,\n");
		return;
	}
	fp_buf_byte(ret_bytes, '"');
	fp_buf_json(ret_bytes, value, strlen(value));
	fp_buf_str(ret_bytes, "\",\n");
}

static void json_head(const struct fp_tree *tree, const struct fp_render_options *options,
		      struct fp_buf *ret_bytes)
{
	fp_buf_str(ret_bytes, "{\n");
	json_string("title", options->title, ret_bytes);
	json_string("subtitle", options->subtitle, ret_bytes);
	json_string("quality", options->quality, ret_bytes);
	json_string("unit", options->unit == FP_UNIT_NANOSECONDS ? "nanoseconds" : "samples",
		    ret_bytes);
	fp_buf_printf(ret_bytes, "\"period_ns\":%" PRIu64 ",\n", options->period_ns);
	fp_buf_printf(ret_bytes, "\"duration_ns\":%" PRIu64 ",\n", options->duration_ns);
	fp_buf_printf(ret_bytes, "\"time_realtime_ns\":%" PRIu64 ",\n", options->time_realtime_ns);
	fp_buf_printf(ret_bytes, "\"total\":%" PRIu64 ",\n", tree->nodes[FP_TREE_ROOT].total);
}

static void json_names(const struct fp_tree *tree, struct fp_buf *ret_bytes)
{
	fp_buf_str(ret_bytes, "\"kinds\":[");
	for (int kind = FP_NODE_ROOT; kind < FP_NODE_KINDS; kind++)
		fp_buf_printf(ret_bytes, "%s\"%s\"", kind ? "," : "", fp_node_kind_name(kind));
	fp_buf_str(ret_bytes, "],\n\"names\":[");
	for (uint32_t i = 0; i < tree->names.count; i++) {
		fp_buf_str(ret_bytes, i ? ",\n\"" : "\"");
		fp_buf_json(ret_bytes, fp_intern_get(&tree->names, i), tree->names.sizes[i]);
		fp_buf_byte(ret_bytes, '"');
	}
	fp_buf_str(ret_bytes, "],\n");
}

static void json_nodes(const struct columns *columns, struct fp_buf *ret_bytes)
{
	fp_buf_str(ret_bytes, "\"nodes\":{");
	for (size_t c = 0; c < FP_ARRAY_SIZE(node_columns); c++) {
		fp_buf_printf(ret_bytes, "%s\"%s\":[", c ? "],\n" : "", node_columns[c].name);
		for (uint32_t i = 0; i < columns->tree->count; i++) {
			uint32_t node = columns->walk.nodes[i];

			if (i > 0)
				fp_buf_byte(ret_bytes, ',');
			if (node == FP_TREE_ROOT && node_columns[c].value == column_parent)
				fp_buf_str(ret_bytes, "-1");
			else
				fp_buf_printf(ret_bytes, "%" PRIu64,
					      node_columns[c].value(columns, node));
		}
	}
	fp_buf_str(ret_bytes, "]}\n}\n");
}

int fp_render_json(const struct fp_tree *tree, const struct fp_render_options *options,
		   struct fp_buf *ret_bytes)
{
	AUTOCOLUMNS struct columns columns = { .tree = tree };
	int error = fp_tree_walk_new(tree, &columns.walk);

	if (error)
		return error;
	columns.place = calloc(tree->count, sizeof(*columns.place));
	if (!columns.place)
		return -ENOMEM;
	for (uint32_t i = 0; i < tree->count; i++)
		columns.place[columns.walk.nodes[i]] = i;
	json_head(tree, options, ret_bytes);
	json_names(tree, ret_bytes);
	json_nodes(&columns, ret_bytes);
	return ret_bytes->error;
}
