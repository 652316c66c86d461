// SPDX-License-Identifier: Apache-2.0
//
// The frame-pointer walk of bpf/walk.h over a made-up stack: where it goes and how it ends.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static int read_user(void *destination, uint32_t size, uint64_t address);
#define FP_READ_USER(destination, size, address) read_user(destination, size, address)
#include "bpf/walk.h"

#define STACK_BASE  0x7f0000001000ULL
#define STACK_WORDS 64

static uint64_t stack[STACK_WORDS];

static int read_user(void *destination, uint32_t size, uint64_t address)
{
	if (address < STACK_BASE || address + size > STACK_BASE + sizeof(stack))
		return -14;
	memcpy(destination, (const uint8_t *)stack + (address - STACK_BASE), size);
	return 0;
}

struct expectation {
	const char *sentence;
	uint64_t words[8]; // the stack from STACK_BASE up
	uint64_t frame;	   // rbp
	uint32_t limit;	   // steps
	uint32_t steps;	   // frames taken
	enum fp_walk_end end;
	uint64_t last_frame; // of the last step; 0: none
};

#define AT(word) (STACK_BASE + (word)*8)

static const struct expectation cases[] = {
	{ "a chain that ends in a zero frame pointer reaches the root",
	  { AT(2), 0x401000, AT(4), 0x402000, 0, 0x403000 },
	  AT(0),
	  126,
	  3,
	  FP_WALK_END_ROOT,
	  AT(4) },
	{ "a zero return address is the root too",
	  { AT(2), 0x401000, AT(4), 0 },
	  AT(0),
	  126,
	  1,
	  FP_WALK_END_ROOT,
	  AT(0) },
	{ "a frame pointer of zero at the start takes no step",
	  { 0 },
	  0,
	  126,
	  0,
	  FP_WALK_END_ROOT,
	  0 },
	{ "a misaligned frame pointer is not one",
	  { AT(2) + 3, 0x401000 },
	  AT(0),
	  126,
	  1,
	  FP_WALK_END_BROKEN,
	  AT(0) },
	{ "a frame pointer that points down the stack is not one",
	  { AT(0), 0x401000 },
	  AT(0),
	  126,
	  1,
	  FP_WALK_END_BROKEN,
	  AT(0) },
	{ "a frame that points at itself does not loop",
	  { AT(2), 0x401000, AT(2), 0x402000 },
	  AT(0),
	  126,
	  2,
	  FP_WALK_END_BROKEN,
	  AT(2) },
	{ "a frame pointer below the stack pointer is not one",
	  { 0 },
	  STACK_BASE - 8,
	  126,
	  0,
	  FP_WALK_END_BROKEN,
	  0 },
	{ "a small number in the frame pointer is not one",
	  { 0x20, 0x401000 },
	  AT(0),
	  126,
	  1,
	  FP_WALK_END_BROKEN,
	  AT(0) },
	{ "a kernel address in the frame pointer is not one",
	  { 0xffff888000000000ULL, 0x401000 },
	  AT(0),
	  126,
	  1,
	  FP_WALK_END_BROKEN,
	  AT(0) },
	{ "a kernel address as return address stops the walk",
	  { AT(2), 0xffffffff81000000ULL },
	  AT(0),
	  126,
	  0,
	  FP_WALK_END_BROKEN,
	  0 },
	{ "memory that cannot be read is a fault",
	  { STACK_BASE + 0x100000, 0x401000 },
	  AT(0),
	  126,
	  1,
	  FP_WALK_END_FAULT,
	  AT(0) },
	{ "the depth limit says so",
	  { AT(2), 0x401000, AT(4), 0x402000, 0, 0x403000 },
	  AT(0),
	  2,
	  2,
	  FP_WALK_END_DEPTH,
	  AT(2) },
};

static void walks_end_as_stated(void **state)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct expectation *c = &cases[i];
		fp_u64 frames[FP_WALK_SLOTS] = { 0 };
		struct fp_walk walk = { .frame = c->frame,
					.last_frame = STACK_BASE - 1,
					.frames = frames,
					.first = 1,
					.end = FP_WALK_END_DEPTH };
		uint32_t steps = 0;

		print_message("%s\n", c->sentence);
		memset(stack, 0, sizeof(stack));
		memcpy(stack, c->words, sizeof(c->words));
		while (steps < c->limit && !fp_walk_step(&walk, steps))
			steps++;
		assert_int_equal(steps, c->steps);
		assert_int_equal(walk.end, c->end);
		assert_true(walk.last_frame == (c->last_frame ? c->last_frame : STACK_BASE - 1));
		for (uint32_t step = 0; step < steps; step++)
			assert_true(frames[1 + step] == 0x401000 + 0x1000ULL * step);
	}
}

static void slots_stay_inside_the_scratch(void **state)
{
	static const uint32_t indexes[] = { 0, 255, 256, 511, 0x80000000u, UINT32_MAX };

	for (size_t i = 0; i < sizeof(indexes) / sizeof(indexes[0]); i++)
		assert_true(fp_walk_slot(indexes[i]) < FP_WALK_SLOTS);
}

static void the_root_gap_takes_the_nearer_top(void **state)
{
	assert_true(fp_walk_root_gap(0, 0x2000, 0x3000) == ~0ULL);
	assert_true(fp_walk_root_gap(0x1000, 0x2000, 0) == 0x1000);
	assert_true(fp_walk_root_gap(0x1000, 0x9000, 0x1800) == 0x800);
	assert_true(fp_walk_root_gap(0x5000, 0x2000, 0x3000) == ~0ULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(walks_end_as_stated),
		cmocka_unit_test(slots_stay_inside_the_scratch),
		cmocka_unit_test(the_root_gap_takes_the_nearer_top),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
