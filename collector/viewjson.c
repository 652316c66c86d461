// SPDX-License-Identifier: Apache-2.0
// The page's JSON: what was selected, how far it can be trusted, the tree in columns and the
// table of functions. The table and all totals are computed on the full tree; the tree that is
// sent is cut to its largest nodes, and every cut shows as a node of the kind `pruned`.
#include "view.h"

#include "common/clock.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#define DEFAULT_FUNCTIONS 1000

// A number per type: of those in the aspect, or of all for none.
static void append_types(struct fp_buf *json, const char *name, const uint64_t *numbers,
			 const struct fp_aspect *aspect)
{
	bool any = false;

	fp_buf_printf(json, "\"%s\":{", name);
	for (int type = 1; type < FP_PROFILE_TYPES; type++) {
		if (aspect && !fp_aspect_has(aspect, (uint32_t)type))
			continue;
		fp_buf_printf(json, "%s\"%s\":%" PRIu64, any ? "," : "", fp_profile_type_name(type),
			      numbers[type]);
		any = true;
	}
	fp_buf_str(json, "},");
}

void fp_view_json_stats(const struct fp_view *view, struct fp_buf *json)
{
	const struct fp_merge_facts *facts = &view->answer.facts;
	const struct {
		const char *name;
		uint64_t value;
	} members[] = {
		{ "batches", facts->batches },
		{ "batches_read", facts->batches_read },
		{ "rows_read", facts->rows_read },
		{ "rows", facts->rows },
		{ "samples", facts->samples },
		{ "nanoseconds", facts->nanoseconds },
		{ "hosts", facts->hosts },
		{ "first_start_ns", facts->first_start_ns },
		{ "last_end_ns", facts->last_end_ns },
		{ "window_ns", facts->window_ns },
		{ "gone_batches", facts->gone },
		{ "damaged_batches", facts->damaged },
		{ "elapsed_ns", view->elapsed_ns },
	};

	fp_buf_str(json, "\"stats\":{");
	for (size_t i = 0; i < FP_ARRAY_SIZE(members); i++)
		fp_buf_printf(json, "\"%s\":%" PRIu64 ",", members[i].name, members[i].value);
	append_types(json, "type_ns", facts->type_ns, view->aspect);
	append_types(json, "recorded", facts->recorded, view->aspect);
	fp_buf_printf(json, "\"mixed_periods\":%s}", facts->mixed_periods ? "true" : "false");
}

struct cut {
	const struct fp_tree *tree;
	uint64_t threshold; // nodes with a smaller total are cut
	uint32_t *place;    // by node: its index in the output, or UINT32_MAX
	uint32_t kept;
	uint64_t *cut_value; // by kept node: sum of the totals of its children that are cut
	uint32_t *cut_nodes; // by kept node: nodes below it that are cut
};

static void cut_free(struct cut *cut)
{
	free(cut->place);
	free(cut->cut_value);
	free(cut->cut_nodes);
}

static int compare_down(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x > y ? -1 : x < y;
}

// The smallest total of a tree's max_nodes largest nodes, such that ties do not exceed it.
static int find_threshold(const struct fp_tree *tree, uint32_t max_nodes, uint64_t *ret_threshold)
{
	FP_AUTOFREE uint64_t *totals = NULL;

	if (tree->count <= max_nodes) {
		*ret_threshold = 0;
		return 0;
	}
	totals = calloc(tree->count, sizeof(*totals));
	if (!totals)
		return -ENOMEM;
	for (uint32_t i = 0; i < tree->count; i++)
		totals[i] = tree->nodes[i].total;
	qsort(totals, tree->count, sizeof(*totals), compare_down);
	*ret_threshold = totals[max_nodes] + 1;
	return 0;
}

// A child's total never exceeds its parent's, so a kept node's parent is kept, and a parent's
// index is smaller than its children's.
static int make_cut(const struct fp_tree *tree, uint32_t max_nodes, struct cut *cut)
{
	int r;

	cut->tree = tree;
	cut->place = calloc(tree->count, sizeof(*cut->place));
	cut->cut_value = calloc(tree->count, sizeof(*cut->cut_value));
	cut->cut_nodes = calloc(tree->count, sizeof(*cut->cut_nodes));
	if (!cut->place || !cut->cut_value || !cut->cut_nodes)
		return -ENOMEM;
	r = find_threshold(tree, max_nodes, &cut->threshold);
	if (r < 0)
		return r;
	for (uint32_t i = 0; i < tree->count; i++)
		cut->place[i] = i == FP_TREE_ROOT || tree->nodes[i].total >= cut->threshold
				    ? cut->kept++
				    : UINT32_MAX;
	for (uint32_t i = tree->count; i-- > 1;) {
		uint32_t parent = tree->nodes[i].parent;

		if (cut->place[i] != UINT32_MAX)
			continue;
		cut->cut_nodes[parent] += cut->cut_nodes[i] + 1;
		if (cut->place[parent] != UINT32_MAX)
			cut->cut_value[parent] += tree->nodes[i].total;
	}
	return 0;
}

// What the page calls the kinds of nodes, by enum fp_node_kind; the last stands for a cut.
#define PRUNED FP_NODE_KINDS
static const char *const kind_names[] = {
	[FP_NODE_ROOT] = "root",     [FP_NODE_LABEL] = "label",	    [FP_NODE_USER] = "user",
	[FP_NODE_KERNEL] = "kernel", [FP_NODE_JIT] = "jit",	    [FP_NODE_INLINE] = "inline",
	[FP_NODE_ERROR] = "error",   [FP_NODE_UNKNOWN] = "unknown", [FP_NODE_WAIT] = "wait",
	[FP_NODE_READY] = "ready",   [FP_NODE_WAKE] = "wake",	    [PRUNED] = "pruned",
};

enum column { PARENT, NAME, MODULE, KIND, SELF, TOTAL, CUT_NODES, COLUMNS };
static const char *const column_names[COLUMNS] = { "parent", "name",  "module", "kind",
						   "self",   "total", "cut" };

static uint64_t kept_cell(const struct cut *cut, enum column column, uint32_t index)
{
	const struct fp_node *node = &cut->tree->nodes[index];

	switch (column) {
	case PARENT:
		return cut->place[node->parent];
	case NAME:
		return node->name;
	case MODULE:
		return node->module;
	case KIND:
		return node->kind;
	case SELF:
		return node->self;
	case TOTAL:
		return node->total;
	default:
		return 0;
	}
}

// The node that stands for what was cut below a kept node.
static uint64_t cut_cell(const struct cut *cut, enum column column, uint32_t parent)
{
	switch (column) {
	case PARENT:
		return cut->place[parent];
	case KIND:
		return PRUNED;
	case SELF:
	case TOTAL:
		return cut->cut_value[parent];
	case CUT_NODES:
		return cut->cut_nodes[parent];
	default:
		return 0;
	}
}

static void append_column(const struct cut *cut, enum column column, struct fp_buf *json)
{
	fp_buf_printf(json, "%s\"%s\":[", column ? "," : "", column_names[column]);
	for (uint32_t i = 0; i < cut->tree->count; i++) {
		if (cut->place[i] == UINT32_MAX)
			continue;
		if (column == PARENT && i == FP_TREE_ROOT)
			fp_buf_str(json, "-1");
		else
			fp_buf_printf(json, "%s%" PRIu64, i ? "," : "", kept_cell(cut, column, i));
	}
	for (uint32_t i = 0; i < cut->tree->count; i++)
		if (cut->place[i] != UINT32_MAX && cut->cut_nodes[i])
			fp_buf_printf(json, ",%" PRIu64, cut_cell(cut, column, i));
	fp_buf_byte(json, ']');
}

static void append_names(const struct fp_tree *tree, struct fp_buf *json)
{
	fp_buf_str(json, "\"kinds\":[");
	for (size_t kind = 0; kind < FP_ARRAY_SIZE(kind_names); kind++)
		fp_buf_printf(json, "%s\"%s\"", kind ? "," : "", kind_names[kind]);
	fp_buf_str(json, "],\"names\":[");
	for (uint32_t i = 0; i < tree->names.count; i++) {
		if (i)
			fp_buf_byte(json, ',');
		fp_json_string(json, fp_intern_get(&tree->names, i), tree->names.sizes[i]);
	}
	fp_buf_byte(json, ']');
}

int fp_view_json_tree(const struct fp_view *view, struct fp_buf *json)
{
	FP_CLEANUP(cut_free) struct cut cut = { 0 };
	uint64_t value = 0;
	int r = make_cut(view->tree, view->max_nodes, &cut);

	if (r < 0)
		return r;
	fp_buf_str(json, "\"tree\":{");
	append_names(view->tree, json);
	fp_buf_str(json, ",\"nodes\":{");
	for (int column = 0; column < COLUMNS; column++)
		append_column(&cut, column, json);
	for (uint32_t i = 0; i < view->tree->count; i++)
		value += cut.cut_value[i];
	return fp_buf_printf(json, "},\"all_nodes\":%u,\"cut_nodes\":%u,\"cut_value\":%" PRIu64 "}",
			     view->tree->count, view->tree->count - cut.kept, value);
}

int fp_view_json_functions(const struct fp_view *view, struct fp_buf *json)
{
	FP_AUTOFREE struct fp_function *functions = NULL;
	size_t count, rows = view->rows ? view->rows : DEFAULT_FUNCTIONS;
	int r = fp_tree_functions(view->tree, &functions, &count);

	if (r < 0)
		return r;
	fp_buf_str(json, "\"functions\":{\"rows\":[");
	for (size_t i = 0; i < count && i < rows; i++)
		fp_buf_printf(json, "%s[%u,%u,%u,%" PRIu64 ",%" PRIu64 "]", i ? "," : "",
			      functions[i].name, functions[i].module, functions[i].kind,
			      functions[i].self, functions[i].total);
	return fp_buf_printf(json, "],\"count\":%zu}", count);
}

static void append_symbols(const struct fp_view *view, struct fp_buf *json)
{
	uint32_t found = 0, missing = 0;

	for (uint32_t i = 0; i < view->answer.profile->builds_count; i++) {
		if (!view->kinds[i])
			continue;
		if (view->statuses[i] == FP_SYMBOLS_FOUND)
			found++;
		else
			missing++;
	}
	fp_buf_printf(json, "\"symbols\":{\"found\":%u,\"missing\":%u}", found, missing);
}

static void append_selection(const struct fp_view *view, struct fp_buf *json)
{
	FP_AUTOBUF struct fp_buf selector = { 0 };

	fp_selector_print(&view->selector, &selector);
	fp_json_member(json, "type", view->aspect->name);
	fp_buf_byte(json, ',');
	fp_json_member(json, "selector", selector.data ? (char *)selector.data : "");
	fp_buf_byte(json, ',');
	fp_json_member(json, "root", view->root ? view->root : "none");
	fp_buf_byte(json, ',');
	append_types(json, "holding", view->answer.holding, NULL);
	fp_buf_printf(json, "\"from_ns\":%" PRIu64 ",\"to_ns\":%" PRIu64, view->range.from_ns,
		      view->range.to_ns);
	fp_buf_printf(json, ",\"unit\":\"%s\",\"period_ns\":%" PRIu64,
		      fp_view_unit(view) == FP_UNIT_SAMPLES ? "samples" : "nanoseconds",
		      fp_view_unit(view) == FP_UNIT_SAMPLES ? view->answer.profile->period_ns : 0);
}

int fp_view_json(const struct fp_view *view, struct fp_buf *json)
{
	int r;

	fp_buf_byte(json, '{');
	append_selection(view, json);
	fp_buf_byte(json, ',');
	fp_view_json_stats(view, json);
	fp_buf_byte(json, ',');
	append_symbols(view, json);
	fp_buf_byte(json, ',');
	r = fp_view_json_quality(view, json);
	fp_buf_byte(json, ',');
	if (r == 0)
		r = fp_view_json_tree(view, json);
	fp_buf_byte(json, ',');
	if (r == 0)
		r = fp_view_json_functions(view, json);
	fp_buf_str(json, "}\n");
	return r;
}
