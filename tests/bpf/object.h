// SPDX-License-Identifier: Apache-2.0
//
// object: the linked BPF object as a test opens it, without the skeleton.
#pragma once

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <stdio.h>
#include <unistd.h>

#define SKIP 77

// Skips the test where no BPF program can be loaded at all, and says why.
static inline void need_root_and_btf(void)
{
	if (geteuid() != 0 || access("/sys/kernel/btf/vmlinux", R_OK) != 0) {
		puts("skipped: loading BPF programs needs root and /sys/kernel/btf/vmlinux");
		_exit(SKIP);
	}
}

// Sets one of the object's rodata or bss variables by its offset in the map, found in BTF.
static inline int set_variable(struct bpf_object *object, const char *map_suffix, const char *name,
			       const void *value, size_t size)
{
	const struct btf *btf = bpf_object__btf(object);
	struct bpf_map *map;

	bpf_object__for_each_map(map, object)
	{
		const char *map_name = bpf_map__name(map);
		size_t map_size, length = strlen(map_name), suffix = strlen(map_suffix);
		char *data;

		if (length < suffix || strcmp(map_name + length - suffix, map_suffix) != 0)
			continue;
		data = (char *)bpf_map__initial_value(map, &map_size);
		for (uint32_t id = 1; id < btf__type_cnt(btf); id++) {
			const struct btf_type *section = btf__type_by_id(btf, id);
			const struct btf_var_secinfo *row = btf_var_secinfos(section);

			if (!btf_is_datasec(section) ||
			    strcmp(btf__name_by_offset(btf, section->name_off), map_suffix) != 0)
				continue;
			for (int i = 0; i < btf_vlen(section); i++, row++) {
				const struct btf_type *variable = btf__type_by_id(btf, row->type);

				if (strcmp(btf__name_by_offset(btf, variable->name_off), name) ||
				    row->size != size)
					continue;
				memcpy(data + row->offset, value, size);
				return 0;
			}
		}
	}
	return -1;
}
