// SPDX-License-Identifier: Apache-2.0
//
// kernelmap_private: the inside of the kernel map, shared by kernelmap.c (state and lookup),
// kernelmap_load.c (reading the kernel's files) and kernelmap_tables.c (symbol tables for
// shipping), and by tests, which read from a directory of their own instead of "/".
#pragma once

#include "kernelmap.h"

#define FP_KERNEL_REFRESH_NS 10000000000ULL // at most one reading of kallsyms per 10 s

struct fp_kallsym {
	uint64_t address;
	char type;
	const char *name;
	const char *module; // without brackets; NULL: the kernel image
};
typedef int (*fp_kallsym_fn)(const struct fp_kallsym *symbol, void *context);
// Hands out the lines of <root>/proc/kallsyms in their order. A positive result ends it.
int fp_kallsyms_read(const char *root, fp_kallsym_fn fn, void *context);
static inline bool fp_kallsym_is_text(const struct fp_kallsym *symbol)
{
	return symbol->type == 't' || symbol->type == 'T' || symbol->type == 'w' ||
	       symbol->type == 'W';
}

enum fp_kernel_part { FP_KERNEL_MACHINERY, FP_KERNEL_SCHEDULER, FP_KERNEL_INTERRUPT };
struct fp_kernel_range { // a function of the image that matters to _skip or _interrupt
	uint64_t start, end;
	enum fp_kernel_part part;
};
struct fp_kernel_module {
	uint64_t start, end;
	char *name;
	uint8_t build_id[FP_BUILD_ID_MAX];
	size_t build_id_len;
};
struct fp_kernel_named { // BPF program, trampoline
	uint64_t start, end;
	char *name;
};

struct fp_kernel_map {
	char *root;
	uint64_t text_start, text_end; // _stext, _etext; 0 when hidden
	uint8_t build_id[FP_BUILD_ID_MAX];
	size_t build_id_len;
	struct fp_kernel_range *ranges; // sorted
	size_t ranges_count, ranges_capacity;
	struct fp_kernel_module *modules; // sorted
	size_t modules_count, modules_capacity;
	struct fp_kernel_named *named; // sorted
	size_t named_count, named_capacity;
	uint64_t refreshed_ns;
};

int fp_kernel_map_new_from(const char *root, struct fp_kernel_map **ret);
// Fills the whole map / replaces modules and named symbols.
int fp_kernel_map_load(struct fp_kernel_map *map);
int fp_kernel_map_refresh(struct fp_kernel_map *map);
void fp_kernel_map_clear_modules(struct fp_kernel_map *map);
void fp_kernel_map_clear_named(struct fp_kernel_map *map);
