// SPDX-License-Identifier: Apache-2.0
#include "resolve.h"

#include "resolve_labels.h"
#include "resolve_vdso.h"

#include <errno.h>
#include <string.h>

// A walk whose last frame pointer lies this near to the top of the thread's stack has come
// to the frames of the C library's start code, which keep no frame pointer themselves
// (__libc_start_call_main, start_thread): nothing of the program is missing.
#define ROOT_GAP_MAX 4096u

struct stack_builder {
	struct fp_resolver *resolver;
	const struct fp_stack_record *record;
	struct fp_profile *profile;
	struct fp_resolved *resolved;
	const char *executable;
	bool cut; // user side ended at an address that no mapping covers
	uint32_t count;
	uint32_t frames[2 * FP_MAX_FRAMES + 1];
};

static int add_named(struct stack_builder *stack, enum fp_frame_kind kind, const char *name)
{
	struct fp_frame frame = { .kind = (uint8_t)kind, .build = FP_NO_BUILD };
	int r = fp_profile_cstring(stack->profile, name, &frame.name);

	if (r == 0)
		r = fp_profile_frame(stack->profile, &frame, &stack->frames[stack->count]);
	if (r == 0)
		stack->count++;
	return r;
}

static int add_kernel_side(struct stack_builder *stack)
{
	const uint64_t *addresses = (const uint64_t *)stack->record->frames;
	uint32_t count = stack->record->kernel_len, first = 0;

	if (stack->record->source == FP_SOURCE_OFFCPU)
		first = fp_kernel_map_skip(stack->resolver->kernel, addresses, count);
	for (uint32_t i = first; i < count; i++) {
		int r = fp_kernel_map_frame(stack->resolver->kernel, addresses[i], stack->profile,
					    &stack->frames[stack->count]);

		if (r < 0)
			return r;
		stack->count++;
	}
	return 0;
}

// A return address may stand behind the last byte of its mapping when the call was the last
// instruction, so callers are looked up one byte earlier.
static const struct fp_mapping *mapping_of(const struct fp_process_view *view, uint64_t address)
{
	uint32_t low = 0, high = view->count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (view->mappings[middle].end > address)
			high = middle;
		else
			low = middle + 1;
	}
	if (low == view->count || view->mappings[low].start > address)
		return NULL;
	return &view->mappings[low];
}

static int file_build(struct stack_builder *stack, const struct fp_file *file, uint32_t *ret_build)
{
	struct fp_build build = { .kind = FP_BUILD_NONE };
	int r = fp_profile_cstring(stack->profile, file->name, &build.path);

	if (r < 0)
		return r;
	if (file->build_id_len) {
		build.kind = FP_BUILD_GNU;
		build.id_len = file->build_id_len;
		memcpy(build.id, file->build_id, file->build_id_len);
	}
	return fp_profile_build(stack->profile, &build, ret_build);
}

// The kernel reads no build-ID of the vDSO, but all 64-bit processes have the one we have.
static int vdso_build(struct stack_builder *stack, const struct fp_mapping *mapping,
		      uint32_t *ret_build)
{
	struct fp_file file = { .name = "[vdso]" };
	size_t len = 0;
	const uint8_t *id = mapping->end > UINT32_MAX ? fp_vdso_build_id(&len) : NULL;

	if (id) {
		file.build_id_len = (uint8_t)len;
		memcpy(file.build_id, id, len);
	}
	return file_build(stack, &file, ret_build);
}

static int describe(struct stack_builder *stack, const struct fp_process_view *view,
		    const struct fp_mapping *mapping, uint64_t address, struct fp_frame *ret_frame)
{
	const struct fp_file *file = &view->files[mapping->file];
	struct fp_frame frame = { .kind = FP_FRAME_ANON, .build = FP_NO_BUILD };
	int r = 0;

	switch (file->kind) {
	case FP_FILE_REGULAR:
		frame.kind = FP_FRAME_FILE;
		frame.offset = address - mapping->start + mapping->page_offset;
		r = file_build(stack, file, &frame.build);
		if (file->build_id_len == 0)
			stack->resolved->frames_no_build_id++;
		break;
	case FP_FILE_VDSO:
		frame.kind = FP_FRAME_VDSO;
		frame.offset = address - mapping->start;
		r = vdso_build(stack, mapping, &frame.build);
		break;
	case FP_FILE_ANON:
	case FP_FILE_OTHER: // [stack], [heap], [uprobes]: memory that no build describes
		stack->resolved->frames_anon++;
		break;
	}
	if (r == 0)
		*ret_frame = frame;
	return r;
}

static int add_user_frame(struct stack_builder *stack, const struct fp_process_view *view,
			  uint32_t index)
{
	const uint64_t *addresses =
	    (const uint64_t *)stack->record->frames + stack->record->kernel_len;
	const struct fp_mapping *mapping = mapping_of(view, addresses[index] - (index > 0));
	struct fp_frame frame;
	int r;

	if (!mapping) {
		stack->resolved->frames_unmapped++;
		if (index == 0)
			return add_named(stack, FP_FRAME_ERROR, "[unmapped address]");
		stack->cut = true;
		return 0;
	}
	r = describe(stack, view, mapping, addresses[index], &frame);
	if (r == 0)
		r = fp_profile_frame(stack->profile, &frame, &stack->frames[stack->count]);
	if (r < 0)
		return r;
	stack->count++;
	stack->resolved->stop_build = frame.build;
	return 0;
}

// What the walk came to, given what the addresses turned out to be.
static enum fp_walk_end walk_end_of(const struct stack_builder *stack)
{
	const struct fp_stack_record *record = stack->record;
	enum fp_walk_end end = (enum fp_walk_end)record->walk_end;

	if (stack->cut)
		return FP_WALK_END_BROKEN; // a wrong frame pointer led astray
	if (record->user_len >= 2 && end != FP_WALK_END_DEPTH &&
	    record->user_root_gap <= ROOT_GAP_MAX)
		return FP_WALK_END_ROOT;
	// One frame that claims to be the outermost: a leaf that never set up a frame, with
	// a zero in the frame pointer register by chance or by convention of its caller.
	if (end == FP_WALK_END_ROOT && record->user_len < 2)
		return FP_WALK_END_BROKEN;
	return end;
}

static int add_user_side(struct stack_builder *stack)
{
	struct fp_process_view view;
	int r = fp_process_table_view(stack->resolver->processes, stack->record, &view);

	if (r == -ESRCH) {
		stack->resolved->process_unknown = true;
		if (!stack->resolved->has_user)
			return 0;
		stack->resolved->walk_end = FP_WALK_END_UNKNOWN;
		return add_named(stack, FP_FRAME_ERROR,
				 "[process exited before its mappings were read]");
	}
	if (r < 0)
		return r;
	if (view.executable[0])
		stack->executable = view.executable;
	for (uint32_t i = 0; i < stack->record->user_len && !stack->cut; i++) {
		r = add_user_frame(stack, &view, i);
		if (r < 0)
			return r;
	}
	stack->resolved->walk_end = walk_end_of(stack);
	return 0;
}

static bool record_sane(const struct fp_stack_record *record)
{
	return record->kernel_len <= FP_MAX_FRAMES && record->user_len <= FP_MAX_FRAMES &&
	       record->walk_end < FP_WALK_END_COUNT;
}

int fp_resolver_resolve(struct fp_resolver *resolver, const struct fp_stack_record *record,
			struct fp_profile *profile, struct fp_resolved *ret)
{
	struct fp_resolved resolved = { .walk_end = FP_WALK_END_NONE, .stop_build = FP_NO_BUILD };
	struct stack_builder stack = {
		.resolver = resolver,
		.record = record,
		.profile = profile,
		.resolved = &resolved,
		.executable = record->kernel_thread ? "[kernel]" : "[unknown]",
	};
	int r;

	if (!record_sane(record))
		return -EINVAL;
	resolved.has_user = !record->kernel_thread &&
			    (record->user_len > 0 || record->walk_end != FP_WALK_END_NONE);
	r = add_kernel_side(&stack);
	if (r == 0 && !record->kernel_thread)
		r = add_user_side(&stack);
	if (r == 0 && stack.count == 0)
		r = add_named(&stack, FP_FRAME_ERROR, "[no stack]");
	if (r == 0)
		r = fp_resolve_labels(resolver, record, stack.executable, profile,
				      &resolved.labels);
	if (r == 0)
		r = fp_profile_stack(profile, stack.frames, stack.count, &resolved.stack);
	if (r < 0)
		return r;
	resolved.frames = stack.count;
	*ret = resolved;
	return 0;
}
