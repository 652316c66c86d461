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

struct image_table {
	const struct fp_kernel_map *map;
	struct fp_buf *text;
};

static int on_image_symbol(const struct fp_kallsym *symbol, void *context)
{
	struct image_table *table = context;

	if (symbol->module || !fp_kallsym_is_text(symbol) || is_padding(symbol) ||
	    symbol->address < table->map->text_start || symbol->address >= table->map->text_end)
		return 0;
	return fp_buf_printf(table->text, "%" PRIx64 " %s\n",
			     symbol->address - table->map->text_start, symbol->name);
}

int fp_kernel_map_table(const struct fp_kernel_map *map, struct fp_buf *ret_text)
{
	FP_AUTOBUF struct fp_buf text = { 0 };
	struct image_table table = { map, &text };
	int r;

	if (!fp_kernel_map_usable(map))
		return -EPERM;
	r = fp_kallsyms_read(map->root, on_image_symbol, &table);
	if (r < 0)
		return r;
	fp_buf_free(ret_text);
	*ret_text = text;
	text = (struct fp_buf){ 0 };
	return 0;
}

struct module_tables {
	const struct fp_kernel_map *map;
	struct fp_buf *texts; // one per module of the map
	size_t last;	      // kallsyms lists module by module
};

static size_t module_index(struct module_tables *tables, const char *name)
{
	const struct fp_kernel_map *map = tables->map;

	if (tables->last < map->modules_count && strcmp(map->modules[tables->last].name, name) == 0)
		return tables->last;
	for (tables->last = 0; tables->last < map->modules_count; tables->last++)
		if (strcmp(map->modules[tables->last].name, name) == 0)
			break;
	return tables->last;
}

static int on_module_symbol(const struct fp_kallsym *symbol, void *context)
{
	struct module_tables *tables = context;
	const struct fp_kernel_module *module;
	size_t i;

	if (!symbol->module || !fp_kallsym_is_text(symbol) || is_padding(symbol))
		return 0;
	i = module_index(tables, symbol->module);
	if (i == tables->map->modules_count)
		return 0;
	module = &tables->map->modules[i];
	if (symbol->address < module->start || symbol->address >= module->end)
		return 0;
	return fp_buf_printf(&tables->texts[i], "%" PRIx64 " %s\n", symbol->address - module->start,
			     symbol->name);
}

static int hand_out(const struct module_tables *tables, fp_module_table_fn fn, void *context)
{
	for (size_t i = 0; i < tables->map->modules_count; i++) {
		const struct fp_kernel_module *module = &tables->map->modules[i];
		int r;

		// Without a build-ID nobody could tell whose table it is.
		if (module->build_id_len == 0 || tables->texts[i].len == 0)
			continue;
		r = fn(module->name, module->build_id, module->build_id_len,
		       (const char *)tables->texts[i].data, tables->texts[i].len, context);
		if (r < 0)
			return r;
	}
	return 0;
}

int fp_kernel_map_module_tables(const struct fp_kernel_map *map, fp_module_table_fn fn,
				void *context)
{
	struct module_tables tables = { .map = map };
	int r;

	if (!fp_kernel_map_usable(map))
		return -EPERM;
	tables.texts = calloc(map->modules_count + 1, sizeof(*tables.texts));
	if (!tables.texts)
		return -ENOMEM;
	r = fp_kallsyms_read(map->root, on_module_symbol, &tables);
	if (r >= 0)
		r = hand_out(&tables, fn, context);
	for (size_t i = 0; i < map->modules_count; i++)
		fp_buf_free(&tables.texts[i]);
	free(tables.texts);
	return r;
}
