// SPDX-License-Identifier: Apache-2.0
#include "labels_pods_entry.h"

#include "cgroup_word.h"

#include <string.h>

static bool is_end(char byte)
{
	return (byte >= 'a' && byte <= 'z') || (byte >= '0' && byte <= '9');
}

bool fp_pod_word(const char *word, size_t most)
{
	size_t size = strlen(word);

	if (size == 0 || size > most || !is_end(word[0]) || !is_end(word[size - 1]))
		return false;
	for (size_t i = 0; i < size; i++)
		if (!is_end(word[i]) && word[i] != '-' && word[i] != '.')
			return false;
	return true;
}

// Up to the separator into ret, which has room bytes; NULL when there is none.
static const char *split(const char *text, char separator, char *ret, size_t room)
{
	const char *end = strchr(text, separator);

	if (!end || (size_t)(end - text) >= room)
		return NULL;
	memcpy(ret, text, (size_t)(end - text));
	ret[end - text] = '\0';
	return end + 1;
}

bool fp_pod_link_parse(const char *name, struct fp_pod_entry *ret)
{
	struct fp_pod_entry entry = { 0 };
	struct fp_cgroup_word rest, prefix, id;
	const char *at = split(name, '_', entry.pod, sizeof(entry.pod));

	if (at)
		at = split(at, '_', entry.namespace, sizeof(entry.namespace));
	if (!at)
		return false;
	rest = (struct fp_cgroup_word){ at, strlen(at) };
	if (!fp_cgroup_word_cut_end(&rest, ".log") || !fp_cgroup_word_id(rest, &prefix, &id) ||
	    id.text == rest.text || id.text[-1] != '-' || prefix.size >= sizeof(entry.container))
		return false;
	memcpy(entry.container, prefix.text, prefix.size);
	memcpy(entry.id, id.text, id.size);
	if (!fp_pod_word(entry.pod, 253) || !fp_pod_word(entry.namespace, 63) ||
	    !fp_pod_word(entry.container, 63))
		return false;
	*ret = entry;
	return true;
}

bool fp_pod_directory_parse(const char *name, struct fp_pod_entry *ret)
{
	struct fp_pod_entry entry = { 0 };
	struct fp_cgroup_word uid;
	const char *at = split(name, '_', entry.namespace, sizeof(entry.namespace));

	if (at)
		at = split(at, '_', entry.pod, sizeof(entry.pod));
	if (!at)
		return false;
	uid = (struct fp_cgroup_word){ at, strlen(at) };
	if (!fp_cgroup_word_uuid(uid) && !fp_cgroup_word_hex(uid, 32))
		return false;
	memcpy(entry.id, uid.text, uid.size);
	if (!fp_pod_word(entry.pod, 253) || !fp_pod_word(entry.namespace, 63))
		return false;
	*ret = entry;
	return true;
}
