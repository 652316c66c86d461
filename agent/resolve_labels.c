// SPDX-License-Identifier: Apache-2.0
#include "resolve_labels.h"

#include <errno.h>
#include <string.h>

struct label_list {
	struct fp_profile *profile;
	struct fp_label labels[FP_STATIC_LABELS_MAX + 3];
	uint32_t count;
};

static int list_add(struct label_list *list, const char *name, const char *value, size_t size)
{
	struct fp_label label;
	int r = fp_profile_cstring(list->profile, name, &label.name);

	if (r == 0)
		r = fp_profile_string(list->profile, value, size, &label.value);
	if (r == 0)
		list->labels[list->count++] = label;
	return r;
}

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

static int add_static(struct label_list *list, const char *name, size_t size)
{
	const char *value = memchr(name, '=', size);
	size_t name_size, value_size;
	struct fp_label label;
	int r;

	if (!value)
		return 0; // the configuration has been checked; nothing to say here
	value_size = size - (size_t)(++value - name);
	value_size = trimmed(&value, value_size);
	name_size = (size_t)((const char *)memchr(name, '=', size) - name);
	name_size = trimmed(&name, name_size);
	if (name_size == 0)
		return 0;
	r = fp_profile_string(list->profile, name, name_size, &label.name);
	if (r == 0)
		r = fp_profile_string(list->profile, value, value_size, &label.value);
	if (r == 0)
		list->labels[list->count++] = label;
	return r;
}

static int add_all_static(struct label_list *list, const char *text)
{
	while (text && *text && list->count < FP_STATIC_LABELS_MAX) {
		size_t size = strcspn(text, ",");
		int r = add_static(list, text, size);

		if (r < 0)
			return r;
		text += size + (text[size] == ',');
	}
	return 0;
}

int fp_resolve_labels(const struct fp_resolver *resolver, const struct fp_stack_record *record,
		      const char *executable, struct fp_profile *profile, uint32_t *ret_labels)
{
	struct label_list list = { .profile = profile };
	static const char *const states[] = { "unknown", "interruptible", "uninterruptible",
					      "stopped" };
	const char *state = states[record->state & 3];
	int r = add_all_static(&list, resolver->static_labels); // first: the last one holds

	if (r == 0)
		r = list_add(&list, "executable", executable, strlen(executable));
	if (r == 0)
		r = list_add(&list, "thread", record->comm,
			     strnlen(record->comm, sizeof(record->comm)));
	if (r == 0 && record->source == FP_SOURCE_OFFCPU)
		r = list_add(&list, "state", state, strlen(state));
	return r < 0 ? r : fp_profile_labels(profile, list.labels, list.count, ret_labels);
}
