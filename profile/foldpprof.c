// SPDX-License-Identifier: Apache-2.0
#include "foldexport.h"

#include "array.h"
#include "mark.h"
#include "summary.h"
#include "wall.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LEAF_SLOTS 2

static void export_free(struct fp_export *export)
{
	fp_frame_namer_free(&export->namer);
	fp_pprof_free(export->pprof);
	free(export->places);
	free(export->locations);
	free(export->stack);
	free(export->labels);
}
#define AUTOEXPORT FP_CLEANUP(export_free)

static int export_text(struct fp_export *export, const char *text, uint32_t *ret_id)
{
	return fp_pprof_string(export->pprof, text, strlen(text), ret_id);
}

static int export_function(struct fp_export *export, const struct fp_tree_frame *frame,
			   uint64_t *ret_id)
{
	uint32_t name, module;
	int error = fp_pprof_string(export->pprof, frame->name, frame->name_size, &name);

	if (!error)
		error = export_text(export, frame->module ? frame->module : "", &module);
	return error ? error : fp_pprof_function(export->pprof, name, module, ret_id);
}

static bool is_code(const struct fp_frame *frame)
{
	return frame->kind == FP_FRAME_FILE || frame->kind == FP_FRAME_VDSO ||
	       fp_frame_is_kernel(frame);
}

// A caller's address is that of its call instruction, as pprof has it: one byte back.
static int export_location(struct fp_export *export, uint32_t index, bool is_leaf, uint64_t *ret_id)
{
	const struct fp_frame *frame = &export->namer.profile->frames[index];
	uint64_t *known = &export->locations[(size_t)index * LEAF_SLOTS + is_leaf];
	uint64_t function = 0, address = 0, mapping = 0;
	struct fp_tree_frame named;
	int error = 0;

	if (*known) {
		*ret_id = *known;
		return 0;
	}
	if (is_code(frame) && frame->build < export->namer.profile->builds_count) {
		const struct fp_build_place *place = &export->places[frame->build];

		mapping = frame->offset < FP_EXPORT_OFFSET_MAX ? place->mapping : 0;
		address = frame->offset - (!is_leaf && frame->offset > 0);
		address += mapping ? place->base : 0;
	}
	if (export->named || !is_code(frame)) {
		error = fp_frame_name(&export->namer, frame, is_leaf, &named);
		if (!error)
			error = export_function(export, &named, &function);
	}
	if (!error)
		error = fp_pprof_location(export->pprof, mapping, address, function, known);
	*ret_id = *known;
	return error;
}

// A frame that is no code.
static int export_word(struct fp_export *export, const struct fp_tree_frame *frame)
{
	uint64_t function, location;
	int error = export_function(export, frame, &function);

	if (!error)
		error = fp_pprof_location(export->pprof, 0, 0, function, &location);
	if (!error && FP_ARRAY_ROOM(export, stack, 1))
		error = -ENOMEM;
	if (!error)
		export->stack[export->stack_count++] = location;
	return error;
}

static int export_explanation(struct fp_export *export, uint32_t count)
{
	struct fp_tree_frame frame;

	fp_frame_error(count == 0 ? "[no stack]" : "[no user stack]", &frame);
	return export_word(export, &frame);
}

// In wall time the leaf of a stack off the CPU says how it was off.
static int export_mark(struct fp_export *export, const struct fp_sample *sample)
{
	const char *state =
	    fp_label_value(export->namer.profile, sample->labels, FP_MARK_STATE_LABEL);
	struct fp_tree_frame frame;

	if (!export->options->wall || !fp_mark_frame(sample->type, state, &frame))
		return 0;
	return export_word(export, &frame);
}

static int export_stack(struct fp_export *export, const uint32_t *frames, uint32_t count)
{
	const struct fp_profile *profile = export->namer.profile;
	struct fp_frame_parts parts;
	int error = 0;

	fp_frame_parts(profile, frames, count, export->options->kernel_frames, &parts);
	if (parts.start == count && parts.mark == UINT32_MAX)
		return export_explanation(export, count);
	if (FP_ARRAY_ROOM(export, stack, count))
		return -ENOMEM;
	for (uint32_t i = 0; !error && i < count; i++)
		if (fp_frame_is_shown(&parts, i))
			error = export_location(export, frames[i],
						fp_frame_is_leaf(profile, frames, i, &parts),
						&export->stack[export->stack_count++]);
	return error;
}

static int export_labels(struct fp_export *export, uint32_t labels)
{
	const struct fp_profile *profile = export->namer.profile;
	const struct fp_labels *set = &profile->labels[labels];

	export->labels_count = 0;
	if (FP_ARRAY_ROOM(export, labels, set->count))
		return -ENOMEM;
	for (uint32_t i = 0; i < set->count; i++) {
		const struct fp_label *from = &profile->label_pool[set->first + i];
		struct fp_pprof_label *label = &export->labels[export->labels_count++];
		int error = export_text(export, fp_profile_str(profile, from->name), &label->key);

		if (!error)
			error = export_text(export, fp_profile_str(profile, from->value),
					    &label->value);
		if (error)
			return error;
	}
	return 0;
}

static int64_t clamp_value(uint64_t value)
{
	return value > INT64_MAX ? INT64_MAX : (int64_t)value;
}

static int export_sample(struct fp_export *export, const struct fp_sample *from)
{
	const struct fp_profile *profile = export->namer.profile;
	const struct fp_stack *stack = &profile->stacks[from->stack];
	int64_t ns = clamp_value(fp_wall_sample_ns(profile, from));
	int64_t values[FP_PPROF_TYPES_MAX] = { clamp_value(from->count), ns };
	struct fp_pprof_sample sample = { .values = export->options->wall ? &ns : values };
	int error;

	export->stack_count = 0;
	error = export_mark(export, from);
	if (!error)
		error = export_stack(export, profile->stack_frames + stack->first, stack->count);
	if (!error)
		error = export_labels(export, from->labels);
	if (error)
		return error;
	sample.locations = export->stack;
	sample.locations_count = export->stack_count;
	sample.labels = export->labels;
	sample.labels_count = export->labels_count;
	return fp_pprof_sample(export->pprof, &sample);
}

static void head_fill(const struct fp_profile *profile, const struct fp_fold_options *options,
		      struct fp_pprof_head *ret_head)
{
	struct fp_pprof_head head = {
		.types_count = 2,
		.period = 1,
		.time_ns = (int64_t)profile->start_realtime_ns,
	};

	if (profile->end_boottime_ns > profile->start_boottime_ns)
		head.duration_ns = (int64_t)(profile->end_boottime_ns - profile->start_boottime_ns);

	if (options->wall) { // counts of samples and of waits add up to nothing
		head.types_count = 1;
		head.types[0] = (struct fp_pprof_type){ fp_aspect_wall->name, "nanoseconds" };
	} else if (options->type == FP_PROFILE_CPU) {
		head.types[0] = (struct fp_pprof_type){ "samples", "count" };
		head.types[1] = (struct fp_pprof_type){ "cpu", "nanoseconds" };
		head.period = (int64_t)profile->period_ns;
	} else {
		head.types[0] = (struct fp_pprof_type){ "waits", "count" };
		head.types[1] =
		    (struct fp_pprof_type){ fp_profile_type_name(options->type), "nanoseconds" };
	}
	head.period_type = head.types[head.types_count - 1];
	*ret_head = head;
}

static int export_begin(struct fp_export *export, const struct fp_pprof_head *head)
{
	const struct fp_profile *profile = export->namer.profile;
	int error = fp_pprof_new(head, &export->pprof);

	if (error)
		return error;
	export->places = calloc((size_t)profile->builds_count + 1, sizeof(*export->places));
	export->locations =
	    calloc((size_t)profile->frames_count * LEAF_SLOTS + 1, sizeof(*export->locations));
	return export->places && export->locations ? fp_export_mappings(export) : -ENOMEM;
}

int fp_fold_pprof(const struct fp_profile *profile, const struct fp_fold_options *options,
		  struct fp_symbolizer *symbolizer, struct fp_buf *ret_bytes)
{
	AUTOEXPORT struct fp_export export = { .options = options,
					       .named = symbolizer && !options->raw };
	FP_AUTOBUF struct fp_buf quality = { 0 };
	struct fp_pprof_head head;
	int error;

	head_fill(profile, options, &head);
	error = options->wall ? fp_wall_line(profile, &quality)
			      : fp_summary_line(profile, options->type, &quality);
	if (!error && quality.len > 0)
		head.comment = (const char *)quality.data;
	if (!error)
		error = fp_frame_namer_init(&export.namer, profile, options, symbolizer);
	if (!error)
		error = export_begin(&export, &head);
	for (uint32_t i = 0; !error && i < profile->samples_count; i++) {
		if (fp_fold_wants(options, &profile->samples[i]))
			error = export_sample(&export, &profile->samples[i]);
	}
	return error ? error : fp_pprof_encode(export.pprof, ret_bytes);
}
