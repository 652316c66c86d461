// SPDX-License-Identifier: Apache-2.0
//
// How walks of bpf/unwind.h end.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "unwindsteps.h"

struct ending {
	const char *sentence;
	struct fp_unwind_rule leaf, caller;
	uint64_t words[4];
	uint64_t rbp;
	uint32_t limit, steps;
	enum fp_walk_end end;
	enum fp_unwind_cannot cannot;
};

#define TO_CALLER (CODE + 256 + 1)

static const struct ending endings[] = {
	{ .sentence = "an entry that cannot be followed says why",
	  .leaf = { .cfa = FP_UNWIND_CANNOT, .add = FP_UNWIND_CANNOT_ROWS_FULL },
	  .end = FP_WALK_END_CANNOT,
	  .cannot = FP_UNWIND_CANNOT_ROWS_FULL },
	{ .sentence = "a reason that is none becomes one",
	  .leaf = { .cfa = FP_UNWIND_CANNOT, .add = -1 },
	  .end = FP_WALK_END_CANNOT,
	  .cannot = FP_UNWIND_CANNOT_MALFORMED },
	{ .sentence = "so does a kind of rule that is none",
	  .leaf = { .cfa = FP_UNWIND_CFA_COUNT },
	  .end = FP_WALK_END_CANNOT,
	  .cannot = FP_UNWIND_CANNOT_MALFORMED },
	{ .sentence = "a register with a number that is none is not known",
	  .leaf = { .cfa = FP_UNWIND_REGISTER, .reg = 16, .return_reg = 255 },
	  .end = FP_WALK_END_CANNOT,
	  .cannot = FP_UNWIND_CANNOT_REGISTER },
	{ .sentence = "a return address in a register with a number that is none is not known",
	  .leaf = { .cfa = FP_UNWIND_RSP, .offset = 8, .return_reg = 254 },
	  .end = FP_WALK_END_CANNOT,
	  .cannot = FP_UNWIND_CANNOT_REGISTER },
	{ .sentence = "a frame pointer that is lost is not known",
	  .leaf = { .cfa = FP_UNWIND_RSP, .offset = 8, .return_reg = 255, .saved = FP_UNWIND_LOST },
	  .caller = { .cfa = FP_UNWIND_RBP, .offset = 16, .return_reg = 255 },
	  .words = { TO_CALLER },
	  .rbp = AT(2),
	  .steps = 1,
	  .end = FP_WALK_END_CANNOT,
	  .cannot = FP_UNWIND_CANNOT_REGISTER },
	{ .sentence = "nor is it where code without an entry needs it",
	  .leaf = { .cfa = FP_UNWIND_RSP, .offset = 8, .return_reg = 255, .saved = FP_UNWIND_LOST },
	  .words = { TO_CALLER },
	  .rbp = AT(2),
	  .steps = 1,
	  .end = FP_WALK_END_NO_TABLE },
	{ .sentence = "a return address of 0 is the root",
	  .leaf = { .cfa = FP_UNWIND_RSP, .offset = 8, .return_reg = 255 },
	  .end = FP_WALK_END_ROOT },
	{ .sentence = "a return address into the kernel is none",
	  .leaf = { .cfa = FP_UNWIND_RSP, .offset = 8, .return_reg = 255 },
	  .words = { 0xffffffff81000000ULL },
	  .end = FP_WALK_END_ASTRAY },
	{ .sentence = "a frame address that is not aligned is none",
	  .leaf = { .cfa = FP_UNWIND_RSP, .offset = 12, .return_reg = 255 },
	  .end = FP_WALK_END_ASTRAY },
	{ .sentence = "a frame address that is no user's is none",
	  .leaf = { .cfa = FP_UNWIND_RBP, .offset = 16, .return_reg = 255 },
	  .rbp = 0xffffffff81000000ULL,
	  .end = FP_WALK_END_ASTRAY },
	{ .sentence = "a caller's frame lies above that of the callee",
	  .leaf = { .cfa = FP_UNWIND_RSP, .offset = 24, .return_reg = 255 },
	  .caller = { .cfa = FP_UNWIND_RBP, .offset = 16, .return_reg = 255 },
	  .words = { 0, 0, TO_CALLER },
	  .rbp = AT(1),
	  .steps = 1,
	  .end = FP_WALK_END_ASTRAY },
	{ .sentence = "a return address that cannot be read is a fault",
	  .leaf = { .cfa = FP_UNWIND_RSP, .offset = STACK_WORDS * 8 + 8, .return_reg = 255 },
	  .end = FP_WALK_END_FAULT },
	{ .sentence = "so is a pair",
	  .leaf = { .cfa = FP_UNWIND_RSP,
		    .offset = STACK_WORDS * 8 + 8,
		    .return_reg = 255,
		    .saved = FP_UNWIND_AT_CFA,
		    .rbp_at = -16 },
	  .end = FP_WALK_END_FAULT },
	{ .sentence = "so is a frame address",
	  .leaf = { .cfa = FP_UNWIND_RSP_DEREF, .offset = -8, .return_reg = 255 },
	  .end = FP_WALK_END_FAULT },
	{ .sentence = "so is a saved register when it is needed",
	  .leaf = { .cfa = FP_UNWIND_RSP,
		    .offset = 8,
		    .return_reg = 255,
		    .saved = FP_UNWIND_AT_CFA,
		    .rbp_at = -3200 },
	  .caller = { .cfa = FP_UNWIND_RBP, .offset = 16, .return_reg = 255 },
	  .words = { TO_CALLER },
	  .steps = 1,
	  .end = FP_WALK_END_FAULT },
	{ .sentence = "so is a signal's frame",
	  .leaf = { .cfa = FP_UNWIND_SIGNAL, .offset = STACK_WORDS * 8 - 100 },
	  .end = FP_WALK_END_FAULT },
	{ .sentence = "a signal's frame of nothing is none",
	  .leaf = { .cfa = FP_UNWIND_SIGNAL },
	  .end = FP_WALK_END_ASTRAY },
	{ .sentence = "the depth limit says so",
	  .leaf = { .cfa = FP_UNWIND_RSP, .offset = 8, .return_reg = 255 },
	  .caller = { .cfa = FP_UNWIND_RSP, .offset = 8, .return_reg = 255 },
	  .words = { TO_CALLER, TO_CALLER, TO_CALLER, TO_CALLER },
	  .limit = 2,
	  .steps = 2,
	  .end = FP_WALK_END_DEPTH },
};

static void walks_end_as_stated(void **state)
{
	for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++) {
		const struct ending *c = &endings[i];
		uint64_t leaf;

		print_message("%s\n", c->sentence);
		begin(state);
		leaf = function(c->leaf);
		function(c->caller);
		map_table();
		memcpy(model.memory, c->words, sizeof(c->words));
		walk_from(leaf + 1);
		walk.registers[FP_RBP] = c->rbp;
		assert_int_equal(model_take_steps(&walk, frames, c->limit ? c->limit : 126),
				 c->steps);
		assert_int_equal(walk.end, c->end);
		assert_int_equal(walk.cannot, c->cannot);
		end(state);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(walks_end_as_stated),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
