// SPDX-License-Identifier: Apache-2.0
#include "preflight_kernel.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

// Reads up to three numbers joined by dots. Returns how many, and where they ended.
static unsigned int read_parts(const char *text, uint32_t parts[3], const char **ret_end)
{
	unsigned int count = 0;

	while (count < 3 && isdigit((unsigned char)*text)) {
		char *end;

		parts[count++] = (uint32_t)strtoul(text, &end, 10);
		text = end;
		if (*text != '.' || !isdigit((unsigned char)text[1]))
			break;
		if (count < 3)
			text++;
	}
	*ret_end = text;
	return count;
}

// First run of at least two numbers after `word`, or anywhere with an empty word.
static bool find_version(const char *text, const char *word, struct fp_kernel_version *ret)
{
	struct fp_kernel_version found = { 0 };
	const char *start = strstr(text, word), *end;

	if (!start)
		return false;
	start += strlen(word);
	if (read_parts(start, found.parts, &end) < 2)
		return false;
	*ret = found;
	return true;
}

int fp_kernel_version_parse(const char *release, const char *version, const char *signature,
			    struct fp_kernel_version *ret)
{
	const char *last = signature ? strrchr(signature, ' ') : NULL;

	if (last && find_version(last + 1, "", ret)) // Ubuntu 6.8.0-31.31-generic 6.8.1
		return 0;
	if (version && find_version(version, "Debian ", ret)) // … Debian 6.1.140-1 (2025-05-22)
		return 0;
	return find_version(release, "", ret) ? 0 : -EINVAL;
}

struct bound {
	uint32_t parts[3];
	unsigned int count;
};

static int compare(const struct fp_kernel_version *version, const struct bound *bound)
{
	for (unsigned int i = 0; i < bound->count; i++) {
		if (version->parts[i] != bound->parts[i])
			return version->parts[i] < bound->parts[i] ? -1 : 1;
	}
	return 0;
}

// One entry; *text moves behind it and its comma. False: not an entry.
static bool read_entry(const char **text, struct bound *first, struct bound *last)
{
	const char *at = *text + strspn(*text, " ");

	first->count = read_parts(at, first->parts, &at);
	*last = *first;
	at += strspn(at, " ");
	if (*at == '-') {
		at++;
		at += strspn(at, " ");
		last->count = read_parts(at, last->parts, &at);
		at += strspn(at, " ");
	}
	if (!first->count || !last->count || (*at != ',' && *at != '\0'))
		return false;
	*text = *at ? at + 1 : at;
	return true;
}

int fp_kernel_list_check(const char *list)
{
	struct bound first, last;

	while (*list)
		if (!read_entry(&list, &first, &last))
			return -EINVAL;
	return 0;
}

bool fp_kernel_list_has(const char *list, const struct fp_kernel_version *version)
{
	struct bound first, last;

	while (*list && read_entry(&list, &first, &last)) {
		if (compare(version, &first) >= 0 && compare(version, &last) <= 0)
			return true;
	}
	return false;
}
