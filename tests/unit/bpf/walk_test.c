// SPDX-License-Identifier: Apache-2.0
//
// The frame-pointer walk of bpf/walk.h over a made-up stack: where it goes and how it ends.
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static int read_user(void *destination, uint32_t size, uint64_t address);
#define FP_READ_USER(reader, destination, size, address) read_user(destination, size, address)
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

static void check(const struct expectation *c, uint32_t version, uint32_t by_table, bool lost)
{
	fp_u64 frames[FP_WALK_SLOTS] = { 0 };
	struct fp_walk walk = { .ip = 0x400000 };
	uint32_t steps = 0;

	print_message("%s\n", c->sentence);
	memset(stack, 0, sizeof(stack));
	memcpy(stack, c->words, sizeof(c->words));
	walk.registers[FP_RBP] = c->frame;
	walk.registers[FP_RSP] = STACK_BASE;
	fp_walk_begin(&walk, frames, 0, &(struct fp_hash){ 1, 2 });
	walk.version = version;
	walk.by_table = by_table;
	walk.known &= lost ? ~(1 << FP_RBP) : 0xffff;
	while (steps < c->limit && !fp_walk_by_pointer(&walk, frames, steps, NULL))
		steps++;
	assert_int_equal(steps, c->steps);
	assert_int_equal(walk.end, c->end);
	assert_true(walk.last_frame == c->last_frame);
	assert_true(frames[0] == 0x400000);
	for (uint32_t step = 0; step < steps; step++)
		assert_true(frames[1 + step] == 0x401000 + 0x1000ULL * step);
}

static void walks_end_as_stated(void **state)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		check(&cases[i], 0, 0, false);
}

static const struct {
	struct expectation walk;
	uint32_t by_table; // frames found before
	bool lost;	   // the frame pointer is not known
} among_tables[] = {
	{ .walk = { .sentence = "a frame pointer that is none says that a table is missing",
		    .words = { 0x20, 0x401000 },
		    .frame = AT(0),
		    .limit = 126,
		    .steps = 1,
		    .end = FP_WALK_END_NO_TABLE,
		    .last_frame = AT(0) } },
	{ .walk = { .sentence = "so does a return address that is none",
		    .words = { AT(2), 0xffffffff81000000ULL },
		    .frame = AT(0),
		    .limit = 126,
		    .end = FP_WALK_END_NO_TABLE } },
	{ .walk = { .sentence = "a zero that a table's step left in the register is no root",
		    .limit = 126,
		    .end = FP_WALK_END_NO_TABLE },
	  .by_table = 1 },
	{ .walk = { .sentence = "a zero that a frame pointer led to is one also above such a step",
		    .words = { 0, 0x401000 },
		    .frame = AT(0),
		    .limit = 126,
		    .steps = 1,
		    .end = FP_WALK_END_ROOT,
		    .last_frame = AT(0) },
	  .by_table = 1 },
	{ .walk = { .sentence = "a frame pointer that is not known is not followed",
		    .words = { 0, 0x401000 },
		    .frame = AT(0),
		    .limit = 126,
		    .end = FP_WALK_END_NO_TABLE },
	  .lost = true },
};

static void walks_among_tables_end_as_stated(void **state)
{
	for (size_t i = 0; i < sizeof(among_tables) / sizeof(among_tables[0]); i++)
		check(&among_tables[i].walk, 1, among_tables[i].by_table, among_tables[i].lost);
}

static void slots_stay_inside_the_scratch(void **state)
{
	static const uint32_t indexes[] = { 0, 1023, 1024, 4095, 0x80000000u, UINT32_MAX };

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
		cmocka_unit_test(walks_among_tables_end_as_stated),
		cmocka_unit_test(slots_stay_inside_the_scratch),
		cmocka_unit_test(the_root_gap_takes_the_nearer_top),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
