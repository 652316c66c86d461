// SPDX-License-Identifier: Apache-2.0
//
// Rows and rules → the bytes of a table.
#include "unwindtable_private.h"

#include <errno.h>

struct use {
	uint32_t rows;
	uint16_t number; // before
};

static int compare_uses(const void *a, const void *b)
{
	const struct use *x = a, *y = b;

	if (x->rows != y->rows)
		return x->rows > y->rows ? -1 : 1;
	return x->number < y->number ? -1 : x->number > y->number;
}

// The gap keeps its number. *ret_count: rules that have rows, and the gap.
static struct use *count_uses(const struct fp_unwind_made *made, uint32_t *ret_count)
{
	struct use *uses = calloc(made->rules.count, sizeof(*uses));
	uint32_t count = 1;

	if (!uses)
		return NULL;
	for (uint32_t i = 0; i < made->rules.count; i++)
		uses[i].number = (uint16_t)i;
	for (size_t i = 0; i < made->rows.count; i++)
		uses[made->rows.rule_of[i]].rows++;
	qsort(uses + 1, made->rules.count - 1, sizeof(*uses), compare_uses);
	while (count < made->rules.count && uses[count].rows > 0)
		count++;
	*ret_count = count;
	return uses;
}

static struct fp_unwind_table head_of(const struct fp_unwind_made *made, const struct use *uses,
				      uint32_t rules)
{
	struct fp_unwind_table head = { .magic = FP_UNWIND_MAGIC,
					.rows = (fp_u32)made->rows.count,
					.rules = rules,
					.entries = made->entries,
					.rejected = made->rejected };

	for (uint32_t i = 0; i < rules; i++) {
		const struct fp_unwind_rule *rule = &made->rules.rules[uses[i].number];

		if (rule->cfa == FP_UNWIND_CANNOT)
			head.cannot[rule->add] += uses[i].rows;
	}
	return head;
}

static int put_rows(const struct fp_unwind_made *made, const uint16_t *renumbered,
		    struct fp_buf *ret)
{
	const struct fp_unwind_rows *rows = &made->rows;

	fp_buf_append(ret, rows->offsets, rows->count * sizeof(*rows->offsets));
	for (size_t i = 0; i < rows->count; i++) {
		uint16_t number = renumbered[rows->rule_of[i]];

		fp_buf_append(ret, &number, sizeof(number));
	}
	while (ret->len % 8 != 0 && !ret->error)
		fp_buf_byte(ret, 0);
	return ret->error;
}

int fp_unwind_table_put(const struct fp_unwind_made *made, struct fp_buf *ret)
{
	uint32_t count;
	FP_AUTOFREE struct use *uses = count_uses(made, &count);
	FP_AUTOFREE uint16_t *renumbered = calloc(made->rules.count, sizeof(*renumbered));
	struct fp_unwind_table head;

	if (!uses || !renumbered)
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++)
		renumbered[uses[i].number] = (uint16_t)i;
	head = head_of(made, uses, count);
	if (fp_buf_reserve(ret, sizeof(head) + made->rows.count * 6 + 8 +
				    count * sizeof(struct fp_unwind_rule)) < 0)
		return -ENOMEM;
	fp_buf_append(ret, &head, sizeof(head));
	put_rows(made, renumbered, ret);
	for (uint32_t i = 0; i < count; i++)
		fp_buf_append(ret, &made->rules.rules[uses[i].number],
			      sizeof(struct fp_unwind_rule));
	return ret->error;
}
