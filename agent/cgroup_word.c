// SPDX-License-Identifier: Apache-2.0
#include "cgroup_word.h"

#include "common/cleanup.h"

#include <string.h>

bool fp_cgroup_word_is(struct fp_cgroup_word word, const char *text)
{
	return strlen(text) == word.size && memcmp(word.text, text, word.size) == 0;
}

bool fp_cgroup_word_begins(struct fp_cgroup_word word, const char *text)
{
	size_t size = strlen(text);

	return word.size >= size && memcmp(word.text, text, size) == 0;
}

bool fp_cgroup_word_cut_end(struct fp_cgroup_word *word, const char *text)
{
	size_t size = strlen(text);

	if (word->size <= size || memcmp(word->text + word->size - size, text, size) != 0)
		return false;
	word->size -= size;
	return true;
}

// Where strchr() looks a byte up below, it would find a NUL as well; a path holds none.
static bool is_hex(char byte)
{
	return (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'f');
}

static bool is_digit(char byte)
{
	return byte >= '0' && byte <= '9';
}

static bool is_alphanumeric(char byte)
{
	return is_digit(byte) || (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
}

bool fp_cgroup_word_hex(struct fp_cgroup_word word, size_t digits)
{
	if (word.size != digits)
		return false;
	for (size_t i = 0; i < word.size; i++)
		if (!is_hex(word.text[i]))
			return false;
	return true;
}

bool fp_cgroup_word_id(struct fp_cgroup_word word, struct fp_cgroup_word *ret_prefix,
		       struct fp_cgroup_word *ret_id)
{
	struct fp_cgroup_word id, prefix = { word.text, 0 };

	if (word.size < 64)
		return false;
	id = (struct fp_cgroup_word){ word.text + word.size - 64, 64 };
	if (!fp_cgroup_word_hex(id, 64))
		return false;
	if (word.size > 64) {
		if (!strchr("-_:", id.text[-1]))
			return false;
		prefix.size = word.size - 65;
	}
	*ret_prefix = prefix;
	*ret_id = id;
	return true;
}

bool fp_cgroup_word_ecs(struct fp_cgroup_word word)
{
	if (word.size < 34 || word.size > 43 || word.text[32] != '-' ||
	    !fp_cgroup_word_hex((struct fp_cgroup_word){ word.text, 32 }, 32))
		return false;
	for (size_t i = 33; i < word.size; i++)
		if (!is_digit(word.text[i]))
			return false;
	return true;
}

// 8-4-4-4-12 with any of `separators` between; ret may be NULL.
static bool uuid(struct fp_cgroup_word word, const char *separators, char *ret)
{
	if (word.size != 36)
		return false;
	for (size_t i = 0; i < 36; i++) {
		bool dash = i == 8 || i == 13 || i == 18 || i == 23;

		if (dash ? !strchr(separators, word.text[i]) : !is_hex(word.text[i]))
			return false;
	}
	for (size_t i = 0; ret && i < 36; i++)
		ret[i] = word.text[i];
	if (ret) {
		ret[8] = ret[13] = ret[18] = ret[23] = '-';
		ret[36] = '\0';
	}
	return true;
}

bool fp_cgroup_word_uuid(struct fp_cgroup_word word)
{
	return uuid(word, "-", NULL);
}

bool fp_cgroup_word_pod(struct fp_cgroup_word word, char ret_uid[37])
{
	static const size_t sizes[] = { 36, 32 };

	for (size_t i = 0; i < FP_ARRAY_SIZE(sizes); i++) {
		struct fp_cgroup_word uid, before = word;

		if (word.size < sizes[i] + 3)
			continue;
		uid = (struct fp_cgroup_word){ word.text + word.size - sizes[i], sizes[i] };
		before.size -= sizes[i];
		if (!fp_cgroup_word_is(before, "pod") && !fp_cgroup_word_cut_end(&before, "-pod"))
			continue;
		if (uuid(uid, "-_", ret_uid))
			return true;
		if (fp_cgroup_word_hex(uid, 32)) {
			memcpy(ret_uid, uid.text, 32);
			ret_uid[32] = '\0';
			return true;
		}
	}
	return false;
}

// systemd.unit(5): what a unit's name may hold.
static bool is_unit_name(struct fp_cgroup_word word)
{
	for (size_t i = 0; i < word.size; i++)
		if (!is_alphanumeric(word.text[i]) && !strchr(":-_.\\@", word.text[i]))
			return false;
	return word.size > 0 && word.size < FP_UNIT_NAME_MAX && word.text[0] != '.';
}

bool fp_cgroup_word_unit(struct fp_cgroup_word word)
{
	static const char *const types[] = { ".service", ".scope", ".socket", ".mount", ".swap" };
	struct fp_cgroup_word base = word;

	for (size_t i = 0; i < FP_ARRAY_SIZE(types); i++)
		if (fp_cgroup_word_cut_end(&base, types[i]))
			return is_unit_name(word);
	return false;
}

bool fp_cgroup_word_slice(struct fp_cgroup_word word)
{
	struct fp_cgroup_word base = word;

	return fp_cgroup_word_cut_end(&base, ".slice") && is_unit_name(word);
}

bool fp_cgroup_word_name(struct fp_cgroup_word word)
{
	for (size_t i = 0; i < word.size; i++)
		if (!is_alphanumeric(word.text[i]) && !strchr("-_.:@", word.text[i]))
			return false;
	return word.size > 0 && word.size < FP_CONTAINER_ID_MAX;
}

static int hex_value(char byte)
{
	return is_digit(byte) ? byte - '0' : byte - 'a' + 10;
}

bool fp_cgroup_word_unescape(struct fp_cgroup_word word, char ret[FP_CONTAINER_ID_MAX])
{
	char name[FP_CONTAINER_ID_MAX];
	size_t length = 0;

	for (size_t i = 0; i < word.size; i++) {
		char byte = word.text[i];

		if (byte == '\\' && i + 3 < word.size && word.text[i + 1] == 'x' &&
		    is_hex(word.text[i + 2]) && is_hex(word.text[i + 3])) {
			byte =
			    (char)(hex_value(word.text[i + 2]) << 4 | hex_value(word.text[i + 3]));
			i += 3;
		}
		if (length == sizeof(name) - 1 || !byte)
			return false;
		name[length++] = byte;
	}
	name[length] = '\0';
	if (!fp_cgroup_word_name((struct fp_cgroup_word){ name, length }))
		return false;
	memcpy(ret, name, length + 1);
	return true;
}
