// SPDX-License-Identifier: Apache-2.0
#include "labels_static.h"

#include <string.h>

static size_t trimmed(const char **text, size_t size)
{
	while (size > 0 && (**text == ' ' || **text == '\t')) {
		(*text)++;
		size--;
	}
	while (size > 0 && ((*text)[size - 1] == ' ' || (*text)[size - 1] == '\t'))
		size--;
	return size;
}

static int read_pair(struct fp_label_set *set, const char *pair, size_t size)
{
	const char *equals = memchr(pair, '=', size), *value;
	size_t name_size, value_size;

	if (!equals)
		return 0;
	value = equals + 1;
	value_size = trimmed(&value, size - (size_t)(value - pair));
	name_size = trimmed(&pair, (size_t)(equals - pair));
	if (name_size == 0 || name_size > FP_LABEL_VALUE_MAX)
		return 0;
	return fp_label_set_put(set, pair, name_size, value, value_size);
}

int fp_label_set_read(struct fp_label_set *set, const char *text)
{
	while (text && *text && set->count < FP_STATIC_LABELS_MAX) {
		size_t size = strcspn(text, ",");
		int r = read_pair(set, text, size);

		if (r < 0)
			return r;
		text += size + (text[size] == ',');
	}
	return 0;
}
