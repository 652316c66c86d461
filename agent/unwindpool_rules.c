// SPDX-License-Identifier: Apache-2.0
//
// Rules: most tables say the same few things, so a rule stands once for all of them, counted by
// the tables that hold it.
#include "unwindpool_private.h"

#include <errno.h>

void fp_unwind_pool_rules_init(struct fp_unwind_pool *pool)
{
	pool->rule_index = FP_HASHMAP_INIT(struct fp_unwind_rule, uint16_t);
	pool->memory.rules[FP_UNWIND_GAP] = (struct fp_unwind_rule){ .cfa = FP_UNWIND_GAP };
	pool->memory.rules[FP_UNWIND_RULE_RULES_FULL] =
	    (struct fp_unwind_rule){ .cfa = FP_UNWIND_CANNOT, .add = FP_UNWIND_CANNOT_RULES_FULL };
	pool->memory.rules[FP_UNWIND_RULE_ROWS_FULL] =
	    (struct fp_unwind_rule){ .cfa = FP_UNWIND_CANNOT, .add = FP_UNWIND_CANNOT_ROWS_FULL };
	pool->rules_begun = FP_UNWIND_RULES_FIXED;
}

static uint16_t new_number(struct fp_unwind_pool *pool)
{
	if (pool->rules_free_count)
		return pool->rules_free[--pool->rules_free_count];
	return pool->rules_begun < FP_UNWIND_RULES ? (uint16_t)pool->rules_begun++
						   : FP_UNWIND_RULE_RULES_FULL;
}

int fp_unwind_pool_rules_take(struct fp_unwind_pool *pool, const struct fp_unwind_rule *rule,
			      uint16_t *ret_number)
{
	uint16_t *number = fp_hashmap_get(&pool->rule_index, rule);

	if (!number) {
		uint16_t fresh = new_number(pool);

		if (fresh == FP_UNWIND_RULE_RULES_FULL) {
			*ret_number = fresh;
			return 0;
		}
		number = fp_hashmap_put(&pool->rule_index, rule, NULL);
		if (!number) {
			pool->rules_free[pool->rules_free_count++] = fresh;
			return -ENOMEM;
		}
		*number = fresh;
		pool->memory.rules[fresh] = *rule;
	}
	pool->rule_refs[*number]++;
	*ret_number = *number;
	return 0;
}

void fp_unwind_pool_rules_give(struct fp_unwind_pool *pool, uint16_t number, bool wait)
{
	if (--pool->rule_refs[number])
		return;
	fp_hashmap_remove(&pool->rule_index, &pool->memory.rules[number]);
	if (wait)
		pool->rules_waiting[pool->rules_waiting_count++] = number;
	else
		pool->rules_free[pool->rules_free_count++] = number;
}

void fp_unwind_pool_rules_grace(struct fp_unwind_pool *pool)
{
	while (pool->rules_waiting_count)
		pool->rules_free[pool->rules_free_count++] =
		    pool->rules_waiting[--pool->rules_waiting_count];
}
