// SPDX-License-Identifier: Apache-2.0
//
// unwindsteps: one made-up program for tests of bpf/unwind.h: functions, each with a rule of its
// own, and a stack, word by word.
#pragma once

#include "unwindmodel.h"

#define STACK	    0x7ffc00001000ULL
#define AT(word)    (STACK + (word)*8)
#define STACK_WORDS 128
#define CODE	    0x401000ULL // where the table's code is mapped
#define CODE_SIZE   0x2000u
#define TAG	    5
#define JIT	    0x7f0000000000ULL // code without a table

static fp_u64 frames[FP_WALK_SLOTS];
static struct fp_walk walk;

// Every function is 256 bytes of code: function n has row n × 256 and the rule that it is given.
static inline uint64_t function(struct fp_unwind_rule rule)
{
	uint16_t number = model_rule(rule);
	uint64_t address = CODE + 256ULL * model.space.row_count;

	space_row(&model.space, 256 * model.space.row_count, number);
	return address;
}

static inline struct fp_unwind_rule rule_of(uint8_t cfa, int32_t offset, int32_t add)
{
	return (struct fp_unwind_rule){
		.cfa = cfa, .return_reg = FP_UNWIND_RETURN_AT_CFA, .offset = offset, .add = add
	};
}

static inline struct fp_unwind_rule rbp_saved(struct fp_unwind_rule rule, uint8_t saved, int16_t at)
{
	rule.saved = (uint8_t)((rule.saved & ~3) | saved);
	rule.rbp_at = at;
	return rule;
}

static inline struct fp_unwind_rule rbx_saved(struct fp_unwind_rule rule, uint8_t saved, int16_t at)
{
	rule.saved = (uint8_t)((rule.saved & 3) | saved << 2);
	rule.rbx_at = at;
	return rule;
}

#define RSP(offset)	rule_of(FP_UNWIND_RSP, offset, 0)
#define RBP(offset)	rule_of(FP_UNWIND_RBP, offset, 0)
#define OUTERMOST	((struct fp_unwind_rule){ .cfa = FP_UNWIND_END })
#define FRAMED		rbp_saved(RBP(16), FP_UNWIND_AT_CFA, -16)
#define PUSHED_RBP(cfa) rbp_saved(RSP(cfa), FP_UNWIND_AT_CFA, -16)

static inline int begin(void **state)
{
	model_begin(STACK, STACK_WORDS * sizeof(uint64_t));
	return 0;
}

static inline int end(void **state)
{
	model_free();
	return 0;
}

static inline void put(uint32_t word, uint64_t value)
{
	memcpy(model.memory + word * sizeof(value), &value, sizeof(value));
}

// All functions so far become one table, and it is mapped.
static inline void map_table(void)
{
	struct fp_unwind_range range = { .start = CODE, .size = CODE_SIZE, .tag = TAG };

	model_page(0, TAG);
	model_ranges(&range, 1);
}

static inline void walk_from(uint64_t ip)
{
	walk = model_walk(ip, STACK);
}

static inline uint32_t steps(void)
{
	return model_take_steps(&walk, frames, 126);
}
