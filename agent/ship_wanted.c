// SPDX-License-Identifier: Apache-2.0
#include "ship_wanted.h"

#include <errno.h>
#include <string.h>

static bool is_hex(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

// Takes one id off the front.
static int take_id(const char *value, size_t size, char ret_id[FP_SHIP_WANTED_ID_MAX],
		   size_t *ret_size)
{
	size_t digits = 0;

	while (digits < size && is_hex(value[digits]))
		digits++;
	if (digits == 0 || digits % 2 || digits >= FP_SHIP_WANTED_ID_MAX)
		return -EBADMSG;
	memcpy(ret_id, value, digits);
	ret_id[digits] = '\0';
	*ret_size = digits;
	return 0;
}

int fp_ship_wanted_parse(const char *value, size_t size, struct fp_ship_wanted *ret)
{
	struct fp_ship_wanted wanted = { .count = 0 };
	size_t at = 0, digits;

	for (;;) {
		if (wanted.count == FP_SHIP_WANTED_MAX ||
		    take_id(value + at, size - at, wanted.ids[wanted.count], &digits) < 0)
			return -EBADMSG;
		wanted.count++;
		at += digits;
		if (at == size)
			break;
		if (value[at++] != ',')
			return -EBADMSG;
	}
	*ret = wanted;
	return 0;
}
