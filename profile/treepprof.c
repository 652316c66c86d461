// SPDX-License-Identifier: Apache-2.0
//
// A tree as pprof. A tree knows names and modules but no addresses, so every function is one
// location at address 0 of its module's mapping.
#include "renderers.h"

#include "array.h"
#include "pprof.h"

#include <errno.h>
#include <string.h>

struct tree_export {
	const struct fp_tree *tree;
	struct fp_pprof *pprof;
	struct fp_hashmap mappings; // module name id → mapping id
	uint64_t *location;	    // by node
	uint64_t *path;
	size_t path_count, path_capacity;
	uint64_t period_ns;
};

static void export_free(struct tree_export *export)
{
	fp_pprof_free(export->pprof);
	fp_hashmap_free(&export->mappings);
	free(export->location);
	free(export->path);
}
#define AUTOEXPORT FP_CLEANUP(export_free)

static int export_string(struct tree_export *export, uint32_t name, uint32_t *ret_id)
{
	const struct fp_intern *names = &export->tree->names;

	return fp_pprof_string(export->pprof, fp_intern_get(names, name), names->sizes[name],
			       ret_id);
}

static int export_mapping(struct tree_export *export, uint32_t module, uint32_t filename,
			  uint64_t *ret_id)
{
	struct fp_pprof_mapping mapping = { .filename = filename, .has_functions = true };
	bool inserted;
	uint64_t *id;
	int error;

	if (!filename) {
		*ret_id = 0;
		return 0;
	}
	id = fp_hashmap_put(&export->mappings, &module, &inserted);
	if (!id)
		return -ENOMEM;
	if (inserted) {
		error = fp_pprof_mapping(export->pprof, &mapping, id);
		if (error)
			return error;
	}
	*ret_id = *id;
	return 0;
}

static int export_node(struct tree_export *export, uint32_t index)
{
	const struct fp_node *node = &export->tree->nodes[index];
	uint32_t name, module;
	uint64_t mapping, function;
	int error = export_string(export, node->name, &name);

	if (!error)
		error = export_string(export, node->module, &module);
	if (!error)
		error = export_mapping(export, node->module, module, &mapping);
	if (!error)
		error = fp_pprof_function(export->pprof, name, module, &function);
	if (!error)
		error = fp_pprof_location(export->pprof, mapping, 0, function,
					  &export->location[index]);
	return error;
}

static int64_t clamp_value(__uint128_t value)
{
	return value > INT64_MAX ? INT64_MAX : (int64_t)value;
}

static int export_sample(struct tree_export *export, uint32_t leaf)
{
	uint64_t self = export->tree->nodes[leaf].self;
	int64_t values[FP_PPROF_TYPES_MAX] = { clamp_value(self),
					       clamp_value((__uint128_t)self * export->period_ns) };
	struct fp_pprof_sample sample = { .values = values };

	export->path_count = 0;
	for (uint32_t n = leaf; n != FP_TREE_ROOT; n = export->tree->nodes[n].parent) {
		if (FP_ARRAY_ROOM(export, path, 1))
			return -ENOMEM;
		export->path[export->path_count++] = export->location[n];
	}
	sample.locations = export->path;
	sample.locations_count = export->path_count;
	return fp_pprof_sample(export->pprof, &sample);
}

static void head_fill(const struct fp_render_options *options, struct fp_pprof_head *ret_head)
{
	struct fp_pprof_head head = { .time_ns = (int64_t)options->time_realtime_ns,
				      .duration_ns = (int64_t)options->duration_ns,
				      .comment = options->quality };
	struct fp_pprof_type cpu = { "cpu", "nanoseconds" };

	if (options->unit == FP_UNIT_NANOSECONDS) {
		head.types[head.types_count++] =
		    (struct fp_pprof_type){ options->type_name ? options->type_name : "off_cpu",
					    "nanoseconds" };
		head.period_type = head.types[0];
		head.period = 1;
	} else {
		head.types[head.types_count++] = (struct fp_pprof_type){ "samples", "count" };
		if (options->period_ns)
			head.types[head.types_count++] = cpu;
		head.period_type = head.types[head.types_count - 1];
		head.period = options->period_ns ? (int64_t)options->period_ns : 1;
	}
	*ret_head = head;
}

int fp_render_pprof(const struct fp_tree *tree, const struct fp_render_options *options,
		    struct fp_buf *ret_bytes)
{
	AUTOEXPORT struct tree_export export = { .tree = tree,
						 .mappings = FP_HASHMAP_INIT(uint32_t, uint64_t),
						 .period_ns = options->period_ns };
	struct fp_pprof_head head;
	int error;

	if (!tree->finished)
		return -EINVAL;
	head_fill(options, &head);
	error = fp_pprof_new(&head, &export.pprof);
	if (error)
		return error;
	export.location = calloc(tree->count, sizeof(*export.location));
	if (!export.location)
		return -ENOMEM;
	for (uint32_t i = 1; !error && i < tree->count; i++)
		error = export_node(&export, i);
	for (uint32_t i = 0; !error && i < tree->count; i++) {
		if (tree->nodes[i].self)
			error = export_sample(&export, i);
	}
	return error ? error : fp_pprof_encode(export.pprof, ret_bytes);
}
