// SPDX-License-Identifier: Apache-2.0
#include "fold.h"

#include "array.h"
#include "framename.h"
#include "mark.h"
#include "wall.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LEAF_SLOTS 2 // a frame has one name as a leaf and one as a caller

struct folder {
	struct fp_frame_namer namer;
	const struct fp_fold_options *options;
	struct fp_tree *tree;
	struct fp_tree_frame *stack; // root first
	size_t stack_count, stack_capacity;
	struct fp_tree_frame *known; // by frame × LEAF_SLOTS; NULL for single stacks
};

static void folder_free(struct folder *folder)
{
	fp_frame_namer_free(&folder->namer);
	free(folder->stack);
	free(folder->known);
}
#define AUTOFOLDER FP_CLEANUP(folder_free)

static int folder_name(struct folder *folder, uint32_t frame, bool is_leaf,
		       struct fp_tree_frame *ret_frame)
{
	const struct fp_frame *from = &folder->namer.profile->frames[frame];
	struct fp_tree_frame *known = NULL;
	int error;

	if (folder->known) {
		known = &folder->known[(size_t)frame * LEAF_SLOTS + is_leaf];
		if (known->name) {
			*ret_frame = *known;
			return 0;
		}
	}
	error = fp_frame_name(&folder->namer, from, is_leaf, ret_frame);
	if (!error && known)
		*known = *ret_frame;
	return error;
}

static int folder_push(struct folder *folder, const struct fp_tree_frame *frame)
{
	if (FP_ARRAY_ROOM(folder, stack, 1))
		return -ENOMEM;
	folder->stack[folder->stack_count++] = *frame;
	return 0;
}

static int folder_label(struct folder *folder, const char *label)
{
	struct fp_tree_frame frame = { .kind = FP_NODE_LABEL };

	if (!label && !folder->options->root_label)
		return 0;
	frame.name = label ? label : "(none)";
	frame.name_size = strlen(frame.name);
	return folder_push(folder, &frame);
}

// What is left of a stack says why when that is nothing.
static int folder_explain(struct folder *folder, uint32_t count)
{
	struct fp_tree_frame frame;

	fp_frame_error(count == 0 ? "[no stack]" : "[no user stack]", &frame);
	return folder_push(folder, &frame);
}

static int folder_frames(struct folder *folder, const uint32_t *frames, uint32_t count,
			 const struct fp_frame_parts *parts)
{
	const struct fp_profile *profile = folder->namer.profile;
	int error = 0;

	for (uint32_t i = count; !error && i-- > 0;) {
		struct fp_tree_frame frame;

		if (!fp_frame_is_shown(parts, i))
			continue;
		error = folder_name(folder, frames[i], fp_frame_is_leaf(profile, frames, i, parts),
				    &frame);
		if (!error)
			error = folder_push(folder, &frame);
	}
	return error;
}

static int folder_stack(struct folder *folder, const uint32_t *frames, uint32_t count,
			const char *label)
{
	struct fp_frame_parts parts;
	int error;

	fp_frame_parts(folder->namer.profile, frames, count, folder->options->kernel_frames,
		       &parts);
	folder->stack_count = 0;
	error = folder_label(folder, label);
	if (!error && parts.start == count && parts.mark == UINT32_MAX)
		error = folder_explain(folder, count);
	return error ? error : folder_frames(folder, frames, count, &parts);
}

static int folder_init(struct folder *folder, const struct fp_profile *profile,
		       struct fp_symbolizer *symbolizer)
{
	if (!folder->options->raw && !symbolizer)
		return -EINVAL;
	return fp_frame_namer_init(&folder->namer, profile, folder->options, symbolizer);
}

int fp_fold_stack(const struct fp_profile *profile, const uint32_t *frames, uint32_t count,
		  const char *label, const struct fp_fold_options *options,
		  struct fp_symbolizer *symbolizer, uint64_t value, struct fp_tree *tree)
{
	AUTOFOLDER struct folder folder = { .options = options };
	int error = folder_init(&folder, profile, symbolizer);

	if (!error)
		error = folder_stack(&folder, frames, count, label);
	return error ? error : fp_tree_add(tree, folder.stack, folder.stack_count, value);
}

// How a thread was off the CPU, on top of where.
static int folder_mark(struct folder *folder, const struct fp_sample *sample)
{
	const char *state =
	    fp_label_value(folder->namer.profile, sample->labels, FP_MARK_STATE_LABEL);
	struct fp_tree_frame frame;

	if (!fp_mark_frame(sample->type, state, &frame))
		return 0;
	return folder_push(folder, &frame);
}

static int folder_sample(struct folder *folder, const struct fp_sample *sample)
{
	const struct fp_profile *profile = folder->namer.profile;
	const struct fp_stack *stack = &profile->stacks[sample->stack];
	const char *label = NULL;
	int error;

	if (folder->options->root_label)
		label = fp_label_value(profile, sample->labels, folder->options->root_label);
	error = folder_stack(folder, profile->stack_frames + stack->first, stack->count, label);
	if (!error && folder->options->wall)
		error = folder_mark(folder, sample);
	if (error)
		return error;
	return fp_tree_add(folder->tree, folder->stack, folder->stack_count,
			   folder->options->wall ? fp_wall_sample_ns(profile, sample)
						 : sample->value);
}

int fp_fold_profile(const struct fp_profile *profile, const struct fp_fold_options *options,
		    struct fp_symbolizer *symbolizer, struct fp_tree *tree)
{
	AUTOFOLDER struct folder folder = { .options = options, .tree = tree };
	int error = folder_init(&folder, profile, symbolizer);

	if (error)
		return error;
	folder.known =
	    calloc((size_t)profile->frames_count * LEAF_SLOTS + 1, sizeof(*folder.known));
	if (!folder.known)
		return -ENOMEM;
	for (uint32_t i = 0; !error && i < profile->samples_count; i++) {
		if (fp_fold_wants(options, &profile->samples[i]))
			error = folder_sample(&folder, &profile->samples[i]);
	}
	return error;
}
