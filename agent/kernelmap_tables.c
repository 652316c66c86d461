// SPDX-License-Identifier: Apache-2.0
#include "kernelmap_private.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

// The padding before a function has a symbol too, one for each: nothing runs there.
static bool is_padding(const struct fp_kallsym *symbol)
{
	return strncmp(symbol->name, "__pfx_", 6) == 0;
}

struct tables {
	const struct fp_kernel_map *map;
	struct fp_buf image;
	struct fp_buf *modules; // one per module of the map
	size_t last;		// kallsyms lists module by module
};

static size_t module_index(struct tables *tables, const char *name)
{
	const struct fp_kernel_map *map = tables->map;

	if (tables->last < map->modules_count && strcmp(map->modules[tables->last].name, name) == 0)
		return tables->last;
	for (tables->last = 0; tables->last < map->modules_count; tables->last++)
		if (strcmp(map->modules[tables->last].name, name) == 0)
			break;
	return tables->last;
}

static int add(struct fp_buf *text, const struct fp_kallsym *symbol, uint64_t start, uint64_t end)
{
	if (symbol->address < start || symbol->address >= end)
		return 0;
	return fp_buf_printf(text, "%" PRIx64 " %s\n", symbol->address - start, symbol->name);
}

static int on_symbol(const struct fp_kallsym *symbol, void *context)
{
	struct tables *tables = context;
	const struct fp_kernel_map *map = tables->map;
	size_t i;

	if (!fp_kallsym_is_text(symbol) || is_padding(symbol))
		return 0;
	if (!symbol->module)
		return add(&tables->image, symbol, map->text_start, map->text_end);
	i = module_index(tables, symbol->module);
	if (i == map->modules_count)
		return 0;
	return add(&tables->modules[i], symbol, map->modules[i].start, map->modules[i].end);
}

// Without a build-ID nobody could tell whose table it is.
static int hand_out(const struct tables *tables, fp_kernel_table_fn fn, void *context)
{
	const struct fp_kernel_map *map = tables->map;
	size_t id_len;
	const uint8_t *id = fp_kernel_map_build_id(map, &id_len);
	int r = id && id_len ? fn(NULL, id, id_len, (const char *)tables->image.data,
				  tables->image.len, context)
			     : -ENOENT;

	for (size_t i = 0; i < map->modules_count && r >= 0; i++) {
		const struct fp_kernel_module *module = &map->modules[i];
		const struct fp_buf *text = &tables->modules[i];

		if (module->build_id_len && text->len)
			r = fn(module->name, module->build_id, module->build_id_len,
			       (const char *)text->data, text->len, context);
	}
	return r;
}

int fp_kernel_map_tables(const struct fp_kernel_map *map, fp_kernel_table_fn fn, void *context)
{
	struct tables tables = { .map = map };
	int r;

	if (!fp_kernel_map_usable(map))
		return -EPERM;
	tables.modules = calloc(map->modules_count + 1, sizeof(*tables.modules));
	if (!tables.modules)
		return -ENOMEM;
	r = fp_kallsyms_read(map->root, on_symbol, &tables);
	if (r >= 0)
		r = hand_out(&tables, fn, context);
	for (size_t i = 0; i < map->modules_count; i++)
		fp_buf_free(&tables.modules[i]);
	free(tables.modules);
	fp_buf_free(&tables.image);
	return r;
}
