// SPDX-License-Identifier: Apache-2.0
//
// witness: fleetprof-agent with a witness at the resolver's door. The linker puts
// fp_resolver_resolve and fp_window_count of this file before the agent's own (--wrap), which
// run unchanged; what went in (addresses as the kernel gave them, process, moment) and what
// came out (build, offset) is written to the file $FP_WITNESS, so that a test compares frame
// by frame with a reference of its own. Lines:
//   C <key> <count>                        so many samples under the key
//   R <key> <cpu|off_cpu> <tgid> <tid> <time_ns> <comm in hex> <kernel frames> <state>
//     <walk's end> <what the resolver made of it> <frames found by table>
//     [<address>…] | [<frame>…]            user addresses, and all user frames made of them
// A frame is <kind>:<build-ID or ->:<offset>:<path or name in hex>.
#include "agent/window.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// What --wrap makes of the two names: calls go to "__wrap_…", the originals are "__real_…".
int real_resolve(struct fp_resolver *resolver, const struct fp_stack_record *record,
		 struct fp_profile *profile,
		 struct fp_resolved *ret) __asm__("__real_fp_resolver_resolve");
int seen_resolve(struct fp_resolver *resolver, const struct fp_stack_record *record,
		 struct fp_profile *profile,
		 struct fp_resolved *ret) __asm__("__wrap_fp_resolver_resolve");
int real_count(struct fp_window *window, struct fp_resolver *resolver, enum fp_source source,
	       const struct fp_count *count,
	       const struct fp_stack_record *record) __asm__("__real_fp_window_count");
int seen_count(struct fp_window *window, struct fp_resolver *resolver, enum fp_source source,
	       const struct fp_count *count,
	       const struct fp_stack_record *record) __asm__("__wrap_fp_window_count");

// Opened by the sampler alone, the only one of the agent's processes that resolves.
static FILE *witness(void)
{
	static FILE *file;
	const char *path = getenv("FP_WITNESS");

	if (file == NULL && path != NULL) {
		file = fopen(path, "we");
		if (file == NULL) {
			perror(path);
			exit(1);
		}
		setvbuf(file, NULL, _IOFBF, 1 << 20);
	}
	return file;
}

static void print_hex(FILE *file, const void *bytes, size_t size)
{
	for (size_t i = 0; i < size; i++)
		fprintf(file, "%02x", ((const uint8_t *)bytes)[i]);
	if (size == 0)
		fputc('-', file);
}

static void print_text(FILE *file, const char *text)
{
	print_hex(file, text, strlen(text));
}

static void print_frame(FILE *file, const struct fp_profile *profile, const struct fp_frame *frame)
{
	fprintf(file, " %u:", frame->kind);
	if (frame->build == FP_NO_BUILD) {
		fprintf(file, "-:0:");
		print_text(file, fp_profile_str(profile, frame->name));
		return;
	}
	print_hex(file, profile->builds[frame->build].id, profile->builds[frame->build].id_len);
	fprintf(file, ":%" PRIx64 ":", frame->offset);
	print_text(file, fp_profile_str(profile, profile->builds[frame->build].path));
}

// The user side: the frames behind the kernel's. An off-CPU stack loses some of those that the
// scheduler put on it, so there the kernel's kinds tell.
static void print_frames(FILE *file, const struct fp_stack_record *record,
			 const struct fp_profile *profile, uint32_t index)
{
	const struct fp_stack *stack = &profile->stacks[index];
	uint32_t skipped = record->source == FP_SOURCE_CPU ? record->kernel_len : 0;

	for (uint32_t i = skipped; i < stack->count; i++) {
		const struct fp_frame *frame =
		    &profile->frames[profile->stack_frames[stack->first + i]];

		if (frame->kind != FP_FRAME_KERNEL && frame->kind != FP_FRAME_MODULE)
			print_frame(file, profile, frame);
	}
}

static const char *end_name(uint32_t end)
{
	static const char *const names[FP_WALK_END_COUNT] = {
#define END_NAME(id, label, text) [FP_WALK_END_##id] = label,
		FP_WALK_ENDS(END_NAME)
	};

	return end < FP_WALK_END_COUNT ? names[end] : "unknown";
}

static void print_record(FILE *file, const struct fp_stack_record *record,
			 const struct fp_resolved *resolved)
{
	const uint64_t *addresses = (const uint64_t *)record->frames;

	fprintf(file, "R %016" PRIx64 "%016" PRIx64 " %s %u %u %" PRIu64 " ",
		(uint64_t)record->key.hi, (uint64_t)record->key.lo,
		record->source == FP_SOURCE_CPU ? "cpu" : "off_cpu", record->tgid, record->tid,
		(uint64_t)record->time_ns);
	print_hex(file, record->comm, strnlen(record->comm, sizeof(record->comm)));
	fprintf(file, " %u %u %s %s %u", record->kernel_len, record->state,
		end_name(record->walk_end), end_name(resolved->walk_end), record->by_table);
	for (uint32_t i = 0; i < record->user_len; i++)
		fprintf(file, " %" PRIx64, addresses[record->kernel_len + i]);
	fputs(" |", file);
}

int seen_resolve(struct fp_resolver *resolver, const struct fp_stack_record *record,
		 struct fp_profile *profile, struct fp_resolved *ret)
{
	int r = real_resolve(resolver, record, profile, ret);
	FILE *file = witness();

	if (r == 0 && file != NULL && !ret->unwanted) {
		print_record(file, record, ret);
		print_frames(file, record, profile, ret->stack);
		fputc('\n', file);
	}
	return r;
}

// Behind the record, which the first count of a window has resolved.
int seen_count(struct fp_window *window, struct fp_resolver *resolver, enum fp_source source,
	       const struct fp_count *count, const struct fp_stack_record *record)
{
	int r = real_count(window, resolver, source, count, record);
	FILE *file = witness();

	if (file != NULL && record != NULL)
		fprintf(file, "C %016" PRIx64 "%016" PRIx64 " %" PRIu64 "\n",
			(uint64_t)record->key.hi, (uint64_t)record->key.lo, (uint64_t)count->count);
	return r;
}
