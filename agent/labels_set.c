// SPDX-License-Identifier: Apache-2.0
#include "labels_set.h"

#include <errno.h>
#include <string.h>

void fp_label_set_free(struct fp_label_set *set)
{
	fp_buf_free(&set->text);
	set->count = 0;
}

void fp_label_set_clear(struct fp_label_set *set)
{
	fp_buf_clear(&set->text);
	set->count = 0;
}

static uint32_t row_of(const struct fp_label_set *set, const char *name, size_t size)
{
	uint32_t i = 0;

	while (i < set->count && (set->rows[i].name_size != size ||
				  memcmp(set->text.data + set->rows[i].name, name, size) != 0))
		i++;
	return i;
}

// A replaced value's text stays behind until the set is cleared.
int fp_label_set_put(struct fp_label_set *set, const char *name, size_t name_size,
		     const char *value, size_t value_size)
{
	uint32_t row = row_of(set, name, name_size);
	struct fp_label_text *label = &set->rows[row];
	struct fp_label_text fresh = { .name_size = (uint32_t)name_size };

	if (value_size == 0) {
		if (row < set->count)
			*label = set->rows[--set->count];
		return 0;
	}
	if (row == FP_LABELS_MAX || name_size > FP_LABEL_VALUE_MAX)
		return -ENOSPC;
	if (value_size > FP_LABEL_VALUE_MAX)
		value_size = FP_LABEL_VALUE_MAX;
	if (row < set->count)
		fresh.name = label->name;
	else
		fresh.name = (uint32_t)set->text.len;
	if (row == set->count)
		fp_buf_append(&set->text, name, name_size);
	fresh.value = (uint32_t)set->text.len;
	fresh.value_size = (uint32_t)value_size;
	if (fp_buf_append(&set->text, value, value_size) < 0)
		return set->text.error;
	set->rows[row] = fresh;
	set->count += row == set->count;
	return 0;
}

const char *fp_label_set_get(const struct fp_label_set *set, const char *name, size_t name_size,
			     size_t *ret_size)
{
	uint32_t row = row_of(set, name, name_size);

	if (row == set->count) {
		*ret_size = 0;
		return "";
	}
	*ret_size = set->rows[row].value_size;
	return (const char *)set->text.data + set->rows[row].value;
}
