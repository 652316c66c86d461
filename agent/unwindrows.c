// SPDX-License-Identifier: Apache-2.0
#include "unwindrows.h"

#include "unwindtable.h"

#include <errno.h>

void fp_unwind_rows_free(struct fp_unwind_rows *rows)
{
	fp_free_ptr(&rows->offsets);
	fp_free_ptr(&rows->rule_of);
	*rows = (struct fp_unwind_rows){ 0 };
}

static int make_room(struct fp_unwind_rows *rows)
{
	size_t capacity = rows->capacity ? 2 * rows->capacity : 1024;
	void *grown;

	if (rows->count < rows->capacity)
		return 0;
	if (rows->count >= FP_UNWIND_TABLE_ROWS_MAX)
		return -EFBIG;
	grown = reallocarray(rows->offsets, capacity, sizeof(*rows->offsets));
	if (!grown)
		return -ENOMEM;
	rows->offsets = grown;
	grown = reallocarray(rows->rule_of, capacity, sizeof(*rows->rule_of));
	if (!grown)
		return -ENOMEM;
	rows->rule_of = grown;
	rows->capacity = capacity;
	return 0;
}

int fp_unwind_rows_add(struct fp_unwind_rows *rows, uint32_t offset, uint16_t rule)
{
	int r;

	if (rows->count > 0 && rows->offsets[rows->count - 1] == offset)
		rows->count--;
	if (rule == (rows->count > 0 ? rows->rule_of[rows->count - 1] : 0))
		return 0;
	r = make_room(rows);
	if (r < 0)
		return r;
	rows->offsets[rows->count] = offset;
	rows->rule_of[rows->count++] = rule;
	return 0;
}

uint32_t fp_unwind_rows_gap(const struct fp_unwind_rows *rows, uint32_t offset)
{
	size_t low = 0, high = rows->count;

	while (low < high) { // the rows before low begin at or before the offset
		size_t middle = low + (high - low) / 2;

		if (rows->offsets[middle] <= offset)
			low = middle + 1;
		else
			high = middle;
	}
	if (low > 0 && rows->rule_of[low - 1] != 0)
		return 0;
	return low < rows->count ? rows->offsets[low] - offset : UINT32_MAX - offset;
}

static uint32_t offset_at(const struct fp_unwind_rows *rows, size_t i)
{
	return i < rows->count ? rows->offsets[i] : UINT32_MAX;
}

static uint16_t rule_before(const struct fp_unwind_rows *rows, size_t i)
{
	return i > 0 ? rows->rule_of[i - 1] : 0;
}

static int merge(const struct fp_unwind_rows *above, const struct fp_unwind_rows *below,
		 struct fp_unwind_rows *ret)
{
	size_t i = 0, j = 0;
	int r = 0;

	while (r == 0 && (i < above->count || j < below->count)) {
		uint32_t a = offset_at(above, i), b = offset_at(below, j);
		uint16_t rule;

		i += a <= b && i < above->count;
		j += b <= a && j < below->count;
		rule = rule_before(above, i);
		r = fp_unwind_rows_add(ret, a < b ? a : b, rule ? rule : rule_before(below, j));
	}
	return r;
}

int fp_unwind_rows_lay(struct fp_unwind_rows *above, struct fp_unwind_rows *below,
		       struct fp_unwind_rows *ret)
{
	FP_AUTOUNWINDROWS struct fp_unwind_rows merged = { 0 };
	int r = 0;

	if (below->count == 0 || above->count == 0) {
		struct fp_unwind_rows *only = below->count == 0 ? above : below;

		merged = *only;
		*only = (struct fp_unwind_rows){ 0 };
	} else {
		r = merge(above, below, &merged);
	}
	fp_unwind_rows_free(above);
	fp_unwind_rows_free(below);
	if (r < 0)
		return r;
	*ret = merged;
	merged = (struct fp_unwind_rows){ 0 };
	return 0;
}
