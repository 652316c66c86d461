// SPDX-License-Identifier: Apache-2.0
#include "framename.h"

#include "mark.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#define BPF_PROGRAM_PREFIX "bpf_prog_"

int fp_frame_namer_init(struct fp_frame_namer *namer, const struct fp_profile *profile,
			const struct fp_fold_options *options, struct fp_symbolizer *symbolizer)
{
	*namer = (struct fp_frame_namer){ .profile = profile,
					  .symbolizer = options->raw ? NULL : symbolizer,
					  .raw = options->raw };
	return fp_intern_init(&namer->made);
}

void fp_frame_namer_free(struct fp_frame_namer *namer)
{
	fp_intern_free(&namer->made);
}

const char *fp_path_basename(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

const char *fp_label_value(const struct fp_profile *profile, uint32_t labels, const char *name)
{
	const struct fp_labels *set = &profile->labels[labels];

	for (uint32_t i = 0; i < set->count; i++) {
		const struct fp_label *label = &profile->label_pool[set->first + i];

		if (strcmp(fp_profile_str(profile, label->name), name) == 0)
			return fp_profile_str(profile, label->value);
	}
	return NULL;
}

void fp_frame_error(const char *text, struct fp_tree_frame *ret_frame)
{
	*ret_frame = (struct fp_tree_frame){ .name = text,
					     .name_size = strlen(text),
					     .kind = FP_NODE_ERROR };
}

static bool is_kernel(const struct fp_profile *profile, const uint32_t *frames, uint32_t i)
{
	return fp_frame_is_kernel(&profile->frames[frames[i]]);
}

bool fp_frame_is_leaf(const struct fp_profile *profile, const uint32_t *frames, uint32_t i,
		      const struct fp_frame_parts *parts)
{
	bool in_waker = parts->mark != UINT32_MAX && i < parts->mark;
	uint32_t callee = in_waker ? i + 1 : i - 1; // what was called from it, if anything was

	if ((i == 0 && !in_waker) || callee == parts->mark)
		return true;
	return is_kernel(profile, frames, callee) && !is_kernel(profile, frames, i);
}

static uint32_t find_mark(const struct fp_profile *profile, const uint32_t *frames, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		const struct fp_frame *frame = &profile->frames[frames[i]];

		if (frame->kind == FP_FRAME_ERROR &&
		    fp_mark_kind(fp_profile_str(profile, frame->name),
				 profile->strings.sizes[frame->name]) == FP_NODE_WAKE)
			return i;
	}
	return UINT32_MAX;
}

// A BPF program among kernel frames is a NAMED frame, so the outermost true kernel frame decides
// where a side ends.
void fp_frame_parts(const struct fp_profile *profile, const uint32_t *frames, uint32_t count,
		    bool kernel_frames, struct fp_frame_parts *ret_parts)
{
	struct fp_frame_parts parts = { .mark = find_mark(profile, frames, count) };
	bool is_pair = parts.mark != UINT32_MAX;

	if (is_pair) {
		parts.start = parts.mark + 1;
		parts.waker_end = parts.mark;
	}
	for (uint32_t i = parts.start; !kernel_frames && i < count; i++)
		if (is_kernel(profile, frames, i))
			parts.start = i + 1;
	for (uint32_t i = parts.waker_end; !kernel_frames && i-- > 0;)
		if (is_kernel(profile, frames, i))
			parts.waker_end = i;
	*ret_parts = parts;
}

static int namer_keep(struct fp_frame_namer *namer, const struct fp_buf *text,
		      struct fp_tree_frame *frame)
{
	uint32_t id;
	int error = text->error;

	if (!error)
		error = fp_intern_add(&namer->made, (const char *)text->data, text->len, &id);
	if (error)
		return error;
	frame->name = fp_intern_get(&namer->made, id);
	frame->name_size = text->len;
	return 0;
}

static int name_error(struct fp_frame_namer *namer, const struct fp_frame *frame,
		      struct fp_tree_frame *ret_frame)
{
	FP_AUTOBUF struct fp_buf text = { 0 };
	const char *cause = fp_profile_str(namer->profile, frame->name);

	fp_buf_printf(&text, cause[0] == '[' ? "%s" : "[%s]", cause);
	if (text.error)
		return text.error;
	ret_frame->kind = fp_mark_kind((const char *)text.data, text.len);
	return namer_keep(namer, &text, ret_frame);
}

static void name_named(struct fp_frame_namer *namer, const struct fp_frame *frame,
		       struct fp_tree_frame *ret_frame)
{
	const struct fp_profile *profile = namer->profile;

	ret_frame->name = fp_profile_str(profile, frame->name);
	ret_frame->name_size = profile->strings.sizes[frame->name];
	ret_frame->kind = FP_NODE_JIT;
	if (strncmp(ret_frame->name, BPF_PROGRAM_PREFIX, strlen(BPF_PROGRAM_PREFIX)) == 0) {
		ret_frame->kind = FP_NODE_KERNEL;
		ret_frame->module = "[bpf]";
	}
}

static int name_offset(struct fp_frame_namer *namer, const struct fp_build *build, uint64_t offset,
		       struct fp_tree_frame *ret_frame)
{
	FP_AUTOBUF struct fp_buf text = { 0 };
	const char *name = fp_path_basename(ret_frame->module);

	if (build->id_len > 0 && (namer->raw || !name[0])) {
		for (size_t i = 0; i < build->id_len; i++)
			fp_buf_printf(&text, "%02x", build->id[i]);
	} else {
		fp_buf_str(&text, name[0] ? name : "[unknown file]");
	}
	fp_buf_printf(&text, "+0x%" PRIx64, offset);
	return namer_keep(namer, &text, ret_frame);
}

static int name_code(struct fp_frame_namer *namer, const struct fp_frame *frame, bool is_leaf,
		     struct fp_tree_frame *ret_frame)
{
	static const struct fp_build no_build = { 0 };
	bool has_build = frame->build < namer->profile->builds_count;
	const struct fp_build *build =
	    has_build ? &namer->profile->builds[frame->build] : &no_build;
	const char *name = NULL;

	ret_frame->module = fp_profile_str(namer->profile, build->path);
	if (namer->symbolizer && has_build)
		name = fp_symbolizer_lookup(namer->symbolizer, build, ret_frame->module,
					    frame->kind, frame->offset, is_leaf);
	ret_frame->kind = fp_frame_is_kernel(frame) ? FP_NODE_KERNEL
			  : name		    ? FP_NODE_USER
						    : FP_NODE_UNKNOWN;
	if (!name)
		return name_offset(namer, build, frame->offset, ret_frame);
	ret_frame->name = name;
	ret_frame->name_size = strlen(name);
	return 0;
}

int fp_frame_name(struct fp_frame_namer *namer, const struct fp_frame *frame, bool is_leaf,
		  struct fp_tree_frame *ret_frame)
{
	*ret_frame = (struct fp_tree_frame){ 0 };
	switch ((enum fp_frame_kind)frame->kind) {
	case FP_FRAME_NAMED:
		name_named(namer, frame, ret_frame);
		return 0;
	case FP_FRAME_ERROR:
		return name_error(namer, frame, ret_frame);
	case FP_FRAME_ANON:
		fp_frame_error("[anonymous executable memory]", ret_frame);
		ret_frame->kind = FP_NODE_UNKNOWN;
		return 0;
	case FP_FRAME_FILE:
	case FP_FRAME_KERNEL:
	case FP_FRAME_MODULE:
	case FP_FRAME_VDSO:
		return name_code(namer, frame, is_leaf, ret_frame);
	}
	fp_frame_error("[frame of an unknown kind]", ret_frame);
	return 0;
}
