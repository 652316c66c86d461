// SPDX-License-Identifier: Apache-2.0
#include "btffacts.h"

#include <bpf/btf.h>
#include <stdio.h>
#include <string.h>

uint32_t fp_btf_tracepoint_arguments(const struct btf *btf, const char *name)
{
	char typedef_name[96];
	const struct btf_type *type;
	int id;

	snprintf(typedef_name, sizeof(typedef_name), "btf_trace_%s", name);
	id = btf__find_by_name_kind(btf, typedef_name, BTF_KIND_TYPEDEF);
	if (id < 0)
		return 0;
	type = btf__type_by_id(btf, btf__type_by_id(btf, (uint32_t)id)->type); // pointer
	type = btf__type_by_id(btf, type->type);			       // prototype
	return btf_vlen(type) - 1; // the first is the probe's private pointer
}

bool fp_btf_enumerator(const struct btf *btf, const char *enumeration, const char *name,
		       uint32_t *ret)
{
	int id = btf__find_by_name_kind(btf, enumeration, BTF_KIND_ENUM);
	const struct btf_type *type;

	if (id < 0)
		return false;
	type = btf__type_by_id(btf, (uint32_t)id);
	for (int i = 0; i < btf_vlen(type); i++) {
		const struct btf_enum *row = &btf_enum(type)[i];

		if (strcmp(btf__name_by_offset(btf, row->name_off), name) != 0)
			continue;
		*ret = (uint32_t)row->val;
		return true;
	}
	return false;
}
