// SPDX-License-Identifier: Apache-2.0
#include "resolve.h"

#include "resolve_vdso.h"

#include <errno.h>
#include <string.h>

// A walk whose last frame pointer lies this near to the top of the thread's stack has come
// to the frames of the C library's start code, which keep no frame pointer themselves
// (__libc_start_call_main, start_thread): nothing of the program is missing.
#define ROOT_GAP_MAX 4096u

struct stack_builder {
	uint32_t interrupt; // kernel frames of an interrupt's handler; 0: none
	struct fp_resolver *resolver;
	const struct fp_stack_record *record;
	struct fp_profile *profile;
	struct fp_resolved *resolved;
	struct fp_process_view view; // valid unless process_unknown
	bool cut;		     // user side ended at an address that no mapping covers
	uint32_t count;
	uint32_t frames[FP_MAX_FRAMES + FP_MAX_USER_FRAMES + 1];
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

	if (stack->interrupt) // what lies behind is not its doing, the scheduler's part neither
		count = stack->interrupt;
	if (stack->record->source != FP_SOURCE_CPU)
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

struct fp_names_file fp_resolver_file(const struct fp_stack_record *record,
				      const struct fp_process_view *view,
				      const struct fp_mapping *mapping)
{
	const struct fp_file *file = &view->files[mapping->file];

	return (struct fp_names_file){ .tgid = record->tgid,
				       .parent_tgid = view->parent_tgid,
				       .start = mapping->start,
				       .end = mapping->end,
				       .device = file->device,
				       .inode = file->inode,
				       .name = file->name };
}

struct fp_names_process fp_resolver_process(const struct fp_stack_record *record,
					    const struct fp_process_view *view)
{
	return (struct fp_names_process){ .tgid = record->tgid,
					  .start_ns = record->start_ns,
					  .exec_ns = view->exec_ns };
}

// From the kernel's record, else from who read the file for us. An answer that is still missing
// is looked for again in the next epoch.
static void identify(struct stack_builder *stack, const struct fp_mapping *mapping,
		     struct fp_build *build)
{
	const struct fp_file *file = &stack->view.files[mapping->file];
	struct fp_names_file question;

	if (file->build_id_len) {
		build->kind = FP_BUILD_GNU;
		build->id_len = file->build_id_len;
		memcpy(build->id, file->build_id, file->build_id_len);
	} else if (stack->resolver->names && file->kind == FP_FILE_REGULAR) {
		question = fp_resolver_file(stack->record, &stack->view, mapping);
		if (fp_names_identity(stack->resolver->names, &question, build) == FP_NAMES_PENDING)
			stack->resolved->provisional = true;
	}
}

static int file_frame(struct stack_builder *stack, const struct fp_mapping *mapping,
		      uint64_t address, struct fp_frame *frame)
{
	const struct fp_file *file = &stack->view.files[mapping->file];
	struct fp_build build = { .kind = FP_BUILD_NONE };
	int r = fp_profile_cstring(stack->profile, file->name, &build.path);

	if (r < 0)
		return r;
	identify(stack, mapping, &build);
	frame->kind = FP_FRAME_FILE;
	frame->offset = address - mapping->start + mapping->page_offset;
	stack->resolved->frames_no_build_id += build.kind == FP_BUILD_NONE;
	return fp_profile_build(stack->profile, &build, &frame->build);
}

// The kernel reads no build-ID of the vDSO, but all 64-bit processes have the one we have.
static int vdso_frame(struct stack_builder *stack, const struct fp_mapping *mapping,
		      uint64_t address, struct fp_frame *frame)
{
	struct fp_build build = { .kind = FP_BUILD_NONE };
	size_t len = 0;
	const uint8_t *id = mapping->end > UINT32_MAX ? fp_vdso_build_id(&len) : NULL;
	int r = fp_profile_cstring(stack->profile, "[vdso]", &build.path);

	if (r < 0)
		return r;
	if (id) {
		build.kind = FP_BUILD_GNU;
		build.id_len = (uint8_t)len;
		memcpy(build.id, id, len);
	}
	frame->kind = FP_FRAME_VDSO;
	frame->offset = address - mapping->start;
	return fp_profile_build(stack->profile, &build, &frame->build);
}

// 1: a function of a perf map. The map may give the address to another one later, and a name may
// come late, so the stack is resolved anew in each epoch.
static int jit_frame(struct stack_builder *stack, uint64_t address, struct fp_frame *frame)
{
	struct fp_names_process process = fp_resolver_process(stack->record, &stack->view);
	const char *name;
	size_t size;
	int r;

	if (!stack->resolver->names)
		return 0;
	stack->resolved->provisional = true;
	name = fp_names_jit(stack->resolver->names, &process, address, &size);
	if (!name)
		return 0;
	r = fp_profile_string(stack->profile, name, size, &frame->name);
	if (r < 0)
		return r;
	frame->kind = FP_FRAME_NAMED;
	stack->resolved->frames_jit++;
	return 1;
}

// `address` is the frame's, `inside` one that is surely in the function: see add_user_frame.
static int describe(struct stack_builder *stack, const struct fp_mapping *mapping, uint64_t address,
		    uint64_t inside, struct fp_frame *frame)
{
	const struct fp_file *file = &stack->view.files[mapping->file];
	int r = fp_file_may_be_jit(file) ? jit_frame(stack, inside, frame) : 0;

	if (r != 0)
		return r < 0 ? r : 0;
	if (file->kind == FP_FILE_REGULAR)
		return file_frame(stack, mapping, address, frame);
	if (file->kind == FP_FILE_VDSO)
		return vdso_frame(stack, mapping, address, frame);
	// [stack], [heap], [uprobes] and nameless: memory that no build describes
	stack->resolved->frames_anon++;
	return 0;
}

static int add_unmapped(struct stack_builder *stack, uint32_t index)
{
	stack->resolved->frames_unmapped++;
	if (stack->view.partial)
		return add_named(stack, FP_FRAME_ERROR, "[mapping of a large process not held]");
	if (index == 0)
		return add_named(stack, FP_FRAME_ERROR, "[unmapped address]");
	stack->cut = true;
	return 0;
}

// A return address may stand behind the last byte of its function, and of its mapping, when the
// call was the last instruction, so callers are looked up one byte earlier.
static int add_user_frame(struct stack_builder *stack, uint32_t index)
{
	const uint64_t *addresses =
	    (const uint64_t *)stack->record->frames + stack->record->kernel_len;
	uint64_t inside = addresses[index] - (index > 0);
	const struct fp_mapping *mapping = fp_process_view_at(&stack->view, inside);
	struct fp_frame frame = { .kind = FP_FRAME_ANON, .build = FP_NO_BUILD };
	int r;

	if (!mapping)
		return add_unmapped(stack, index);
	r = describe(stack, mapping, addresses[index], inside, &frame);
	if (r == 0)
		r = fp_profile_frame(stack->profile, &frame, &stack->frames[stack->count]);
	if (r < 0)
		return r;
	stack->count++;
	stack->resolved->stop_build = frame.build;
	stack->resolved->stop_jit = fp_file_may_be_jit(&stack->view.files[mapping->file]);
	return 0;
}

// What the walk came to, given what the addresses turned out to be.
static enum fp_walk_end walk_end_of(const struct stack_builder *stack)
{
	const struct fp_stack_record *record = stack->record;
	enum fp_walk_end end = (enum fp_walk_end)record->walk_end;

	if (stack->cut)
		return FP_WALK_END_BROKEN; // a wrong frame pointer led astray
	if (end == FP_WALK_END_OUTERMOST)
		return end; // proven, of one frame as well
	// A guess, for when nothing can prove it: short stacks are near their top wherever they end.
	if (!stack->resolver->by_table && record->user_len >= 2 && end != FP_WALK_END_DEPTH &&
	    record->user_root_gap <= ROOT_GAP_MAX)
		return FP_WALK_END_ROOT;
	// One frame that claims to be the outermost: a leaf that never set up a frame, with
	// a zero in the frame pointer register by chance or by convention of its caller.
	if (end == FP_WALK_END_ROOT && record->user_len < 2)
		return FP_WALK_END_BROKEN;
	return end;
}

// Why a walk stopped short where it did; see agent/unwind.h for what the record says.
static enum fp_stop stop_of(const struct stack_builder *stack)
{
	static const enum fp_stop cannots[FP_UNWIND_CANNOT_COUNT] = {
		[FP_UNWIND_CANNOT_EXPRESSION] = FP_STOP_EXPRESSION,
		[FP_UNWIND_CANNOT_REGISTER] = FP_STOP_REGISTER,
		[FP_UNWIND_CANNOT_RETURN_ADDRESS] = FP_STOP_RETURN_ADDRESS,
		[FP_UNWIND_CANNOT_RANGE] = FP_STOP_RANGE,
		[FP_UNWIND_CANNOT_MALFORMED] = FP_STOP_ENTRY,
		[FP_UNWIND_CANNOT_RULES_FULL] = FP_STOP_RULES_FULL,
		[FP_UNWIND_CANNOT_ROWS_FULL] = FP_STOP_ROWS_FULL,
	};

	switch (stack->resolved->walk_end) {
	case FP_WALK_END_CANNOT:
		return cannots[stack->record->cannot];
	case FP_WALK_END_ASTRAY:
		return FP_STOP_ASTRAY;
	case FP_WALK_END_STALE:
		return FP_STOP_STALE;
	case FP_WALK_END_FAULT:
		return FP_STOP_MEMORY;
	case FP_WALK_END_BROKEN:
	case FP_WALK_END_NO_TABLE:
		if (stack->resolved->stop_jit && stack->record->stop == FP_STOP_ASTRAY)
			return FP_STOP_NONE; // JITed code is where an entry leads to at times
		return stack->resolver->by_table ? (enum fp_stop)stack->record->stop : FP_STOP_OFF;
	default:
		return FP_STOP_NONE;
	}
}

static int add_user_side(struct stack_builder *stack)
{
	if (stack->resolved->process_unknown) {
		if (!stack->resolved->has_user)
			return 0;
		stack->resolved->walk_end = FP_WALK_END_UNKNOWN;
		return add_named(stack, FP_FRAME_ERROR, "[mappings not read in time]");
	}
	for (uint32_t i = 0; i < stack->record->user_len && !stack->cut; i++) {
		int r = add_user_frame(stack, i);

		if (r < 0)
			return r;
	}
	stack->resolved->walk_end = walk_end_of(stack);
	stack->resolved->stop = stop_of(stack);
	stack->resolved->frames_by_table = stack->record->by_table < stack->record->user_len
					       ? stack->record->by_table
					       : stack->record->user_len;
	return 0;
}

// Who it is: the process as of the record, and the labels.
static int identify_process(struct stack_builder *stack)
{
	const struct fp_stack_record *record = stack->record;
	struct fp_labeler_process process = {
		.tgid = record->tgid,
		.start_ns = record->start_ns,
		.executable = record->kernel_thread ? "[kernel]" : "[unknown]",
	};
	int r = 0;

	if (!record->kernel_thread) {
		r = fp_process_table_view(stack->resolver->processes, record, &stack->view);
		stack->resolved->process_unknown = r == -ESRCH;
		if (r < 0 && r != -ESRCH)
			return r;
		process.parent_tgid = r == 0 ? stack->view.parent_tgid : 0;
		if (r == 0 && stack->view.executable[0])
			process.executable = stack->view.executable;
	}
	return fp_labeler_describe(stack->resolver->labeler, record, &process, stack->profile,
				   &stack->resolved->labels, &stack->resolved->unwanted);
}

// What an interrupt wakes is none of the doing of what it interrupted: neither frames nor labels
// of that count.
static void find_interrupt(struct stack_builder *stack)
{
	const struct fp_stack_record *record = stack->record;

	if (record->source != FP_SOURCE_WAKER)
		return;
	stack->interrupt = fp_kernel_map_interrupt(
	    stack->resolver->kernel, (const uint64_t *)record->frames, record->kernel_len);
	stack->resolved->interrupt = stack->interrupt > 0;
	if (stack->resolved->interrupt)
		stack->resolved->unwanted = false;
}

static int add_frames(struct stack_builder *stack)
{
	int r = add_kernel_side(stack);

	if (r == 0 && !stack->record->kernel_thread && !stack->resolved->interrupt)
		r = add_user_side(stack);
	if (r == 0 && stack->count == 0)
		r = add_named(stack, FP_FRAME_ERROR, "[no stack]");
	if (r == 0)
		r = fp_profile_stack(stack->profile, stack->frames, stack->count,
				     &stack->resolved->stack);
	stack->resolved->frames = stack->count;
	return r;
}

static bool record_sane(const struct fp_stack_record *record)
{
	return record->kernel_len <= FP_MAX_FRAMES && record->user_len <= FP_MAX_USER_FRAMES &&
	       record->walk_end < FP_WALK_END_COUNT && record->stop < FP_STOP_COUNT &&
	       record->cannot < FP_UNWIND_CANNOT_COUNT;
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
	};
	int r;

	if (!record_sane(record))
		return -EINVAL;
	resolved.has_user = !record->kernel_thread &&
			    (record->user_len > 0 || record->walk_end != FP_WALK_END_NONE);
	r = identify_process(&stack);
	find_interrupt(&stack);
	if (r == 0 && !resolved.unwanted)
		r = add_frames(&stack);
	if (r < 0)
		return r;
	*ret = resolved;
	return 0;
}
