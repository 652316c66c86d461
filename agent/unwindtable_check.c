// SPDX-License-Identifier: Apache-2.0
//
// What the agent looks at in a table before it believes any of it.
#include "unwindtable.h"

#include <errno.h>

#define REGISTER_LAST 15

static bool is_saved(unsigned int where, fp_i16 at)
{
	return at == 0 || where == FP_UNWIND_AT_CFA || where == FP_UNWIND_AT_RBP;
}

// Kinds that find no frame of their own have nothing but zeros in what is not theirs.
static bool is_bare(const struct fp_unwind_rule *rule)
{
	return rule->reg == 0 && rule->saved == 0 && rule->return_reg == 0 && rule->offset == 0 &&
	       rule->rbp_at == 0 && rule->rbx_at == 0;
}

static bool is_frame(const struct fp_unwind_rule *rule)
{
	unsigned int rbp = rule->saved & 3, rbx = rule->saved >> 2;

	return rbx <= FP_UNWIND_LOST && is_saved(rbp, rule->rbp_at) &&
	       is_saved(rbx, rule->rbx_at) &&
	       (rule->return_reg <= REGISTER_LAST || rule->return_reg == FP_UNWIND_RETURN_AT_CFA);
}

static bool is_rule(const struct fp_unwind_rule *rule)
{
	switch (rule->cfa) {
	case FP_UNWIND_GAP:
	case FP_UNWIND_END:
		return is_bare(rule) && rule->add == 0;
	case FP_UNWIND_CANNOT:
		return is_bare(rule) && rule->add >= 0 && rule->add < FP_UNWIND_CANNOT_COUNT;
	case FP_UNWIND_REGISTER:
		return is_frame(rule) && rule->reg <= REGISTER_LAST && rule->add == 0;
	case FP_UNWIND_RSP:
	case FP_UNWIND_RBP:
	case FP_UNWIND_SIGNAL:
		return is_frame(rule) && rule->reg == 0 && rule->add == 0;
	case FP_UNWIND_PLT:
		return is_frame(rule) && rule->reg == 0 && rule->add >= 0 && rule->add <= 15;
	case FP_UNWIND_INDEXED:
		return is_frame(rule) && rule->reg <= REGISTER_LAST;
	case FP_UNWIND_RSP_DEREF:
	case FP_UNWIND_RBP_DEREF:
		return is_frame(rule) && rule->reg == 0;
	default:
		return false;
	}
}

static bool are_rules(const struct fp_unwind_view *view)
{
	if (view->rules[0].cfa != FP_UNWIND_GAP)
		return false;
	for (fp_u32 i = 0; i < view->head->rules; i++)
		if (!is_rule(&view->rules[i]))
			return false;
	return true;
}

static bool are_rows(const struct fp_unwind_view *view)
{
	fp_u32 rows = view->head->rows;

	for (fp_u32 i = 0; i < rows; i++)
		if (view->rule_of[i] >= view->head->rules ||
		    (i > 0 && view->offsets[i] <= view->offsets[i - 1]))
			return false;
	return view->rule_of[rows - 1] == 0;
}

static uint64_t rules_at(const struct fp_unwind_table *head)
{
	uint64_t end = sizeof(*head) + (uint64_t)head->rows * (sizeof(fp_u32) + sizeof(fp_u16));

	return (end + 7) & ~7ULL;
}

int fp_unwind_table_check(const void *bytes, size_t size, struct fp_unwind_view *ret_view)
{
	const struct fp_unwind_table *head = bytes;
	struct fp_unwind_view view = { .head = head };

	if (size < sizeof(*head) || size > FP_UNWIND_TABLE_MAX || (uintptr_t)bytes % 8 != 0)
		return -EBADMSG;
	if (head->magic != FP_UNWIND_MAGIC || head->rows == 0 || head->rules == 0 ||
	    head->rules > UINT16_MAX + 1 || head->padding != 0 ||
	    size != rules_at(head) + (uint64_t)head->rules * sizeof(struct fp_unwind_rule))
		return -EBADMSG;
	view.offsets = (const fp_u32 *)(head + 1);
	view.rule_of = (const fp_u16 *)(view.offsets + head->rows);
	view.rules = (const struct fp_unwind_rule *)((const uint8_t *)bytes + rules_at(head));
	if (!are_rules(&view) || !are_rows(&view))
		return -EBADMSG;
	*ret_view = view;
	return 0;
}

const struct fp_unwind_rule *fp_unwind_view_find(const struct fp_unwind_view *view, uint32_t offset)
{
	uint32_t low = 0, high = view->head->rows;

	while (low < high) { // the rows before low begin at or before the offset
		uint32_t middle = low + (high - low) / 2;

		if (view->offsets[middle] <= offset)
			low = middle + 1;
		else
			high = middle;
	}
	return &view->rules[low > 0 ? view->rule_of[low - 1] : 0];
}
