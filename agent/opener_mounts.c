// SPDX-License-Identifier: Apache-2.0
#include "opener_mounts.h"

#include <stdlib.h>
#include <string.h>

// The next word of a line, or false at the line's end.
static bool next_word(const char **at, const char *end, const char **ret, size_t *ret_size)
{
	const char *word = *at, *space;

	while (word < end && *word == ' ')
		word++;
	if (word == end)
		return false;
	space = memchr(word, ' ', (size_t)(end - word));
	*at = space ? space : end;
	*ret = word;
	*ret_size = (size_t)(*at - word);
	return true;
}

// A number and what has to follow it. The text ends with a NUL, so that strtoull() stops at the
// line's end at the latest.
static bool next_number(const char **at, char after, uint64_t *ret)
{
	char *end;

	if (**at < '0' || **at > '9')
		return false;
	*ret = strtoull(*at, &end, 10);
	if (*end != after)
		return false;
	*at = end + 1;
	return true;
}

static bool next_numbers(const char **at, struct fp_mount *ret)
{
	uint64_t parent, major, minor;

	if (!next_number(at, ' ', &ret->id) || !next_number(at, ' ', &parent) ||
	    !next_number(at, ':', &major) || !next_number(at, ' ', &minor) || major > UINT32_MAX ||
	    minor > UINT32_MAX)
		return false;
	ret->device = major << 32 | minor;
	return true;
}

// "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw": the fifth word is the mount
// point; any number of optional words stand before the dash.
static bool parse_line(const char *line, const char *end, struct fp_mount *ret)
{
	const char *word;
	size_t size;
	struct fp_mount mount = { 0 };

	if (!next_numbers(&line, &mount) || !next_word(&line, end, &word, &size) ||
	    !next_word(&line, end, &mount.point, &mount.point_size))
		return false;
	do {
		if (!next_word(&line, end, &word, &size))
			return false;
	} while (size != 1 || *word != '-');
	if (!next_word(&line, end, &mount.type, &mount.type_size))
		return false;
	*ret = mount;
	return true;
}

bool fp_mount_next(const char **text, struct fp_mount *ret)
{
	while (**text) {
		const char *line = *text, *end = strchrnul(line, '\n');

		*text = *end ? end + 1 : end;
		if (parse_line(line, end, ret))
			return true;
	}
	return false;
}

bool fp_mount_of_device(const char *text, uint64_t device, struct fp_mount *ret)
{
	struct fp_mount mount;

	while (fp_mount_next(&text, &mount)) {
		if (mount.device == device) {
			*ret = mount;
			return true;
		}
	}
	return false;
}

bool fp_mount_of_id(const char *text, uint64_t id, struct fp_mount *ret)
{
	struct fp_mount mount;

	while (fp_mount_next(&text, &mount)) {
		if (mount.id == id) {
			*ret = mount;
			return true;
		}
	}
	return false;
}

static bool is_octal(const char *at)
{
	for (int i = 0; i < 3; i++)
		if (at[i] < '0' || at[i] > '7')
			return false;
	return true;
}

// The kernel writes space, tab, newline and backslash as \040 and so on.
static bool is_above(const struct fp_mount *mount, const char *path)
{
	const char *at = mount->point, *end = at + mount->point_size;

	if (mount->point_size == 1 && *at == '/')
		return true;
	while (at < end) {
		char c = *at++;

		if (c == '\\' && end - at >= 3 && is_octal(at)) {
			c = (char)((at[0] - '0') << 6 | (at[1] - '0') << 3 | (at[2] - '0'));
			at += 3;
		}
		if (*path++ != c)
			return false;
	}
	return *path == '/' || *path == '\0';
}

bool fp_mount_of_path(const char *text, const char *path, struct fp_mount *ret)
{
	struct fp_mount mount;
	bool found = false;

	while (fp_mount_next(&text, &mount)) {
		if (!is_above(&mount, path) || (found && mount.point_size < ret->point_size))
			continue;
		*ret = mount;
		found = true;
	}
	return found;
}

bool fp_mount_is_denied(const struct fp_mount *mount, const char *list)
{
	const char *dot = memchr(mount->type, '.', mount->type_size);
	size_t family_size = dot ? (size_t)(dot - mount->type) : mount->type_size;

	while (*list) {
		size_t size;

		list += strspn(list, ", \t\n");
		size = strcspn(list, ", \t\n");
		if (size && (size == mount->type_size || size == family_size) &&
		    strncmp(list, mount->type, size) == 0)
			return true;
		list += size;
	}
	return false;
}

bool fp_mount_path_is_denied(const char *text, const char *path, const char *list)
{
	struct fp_mount mount;

	while (fp_mount_next(&text, &mount))
		if (is_above(&mount, path) && fp_mount_is_denied(&mount, list))
			return true;
	return false;
}
