// SPDX-License-Identifier: Apache-2.0
#include "kernelmap_private.h"

#include "common/clock.h"
#include "common/file.h"
#include "kernelmap_note.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>

// A named symbol without a successor ends here at the latest.
#define NAMED_BYTES_MAX (256u * 1024)

// What stands between a tracepoint in the scheduler and bpf_get_stack.
static const char *const machinery_prefixes[] = {
	"__traceiter_",	    "__bpf_trace_",	  "bpf_trace_run",   "bpf_get_stack",
	"__bpf_get_stack",  "get_perf_callchain", "perf_callchain",  "__bpf_prog_enter",
	"__bpf_prog_exit",  "bpf_prog_",	  "bpf_trampoline_", "bpf_dispatcher_",
	"perf_trace_sched",
};

// Where a stack that blocked or was preempted begins for its reader.
static const char *const scheduler_names[] = {
	"__schedule",
	"schedule",
	"schedule_idle",
	"schedule_preempt_disabled",
	"preempt_schedule",
	"preempt_schedule_common",
	"preempt_schedule_notrace",
	"preempt_schedule_irq",
	"__cond_resched",
};

static int parse_line(char *line, fp_kallsym_fn fn, void *context)
{
	struct fp_kallsym symbol;
	char *at, *end;

	symbol.address = strtoull(line, &at, 16);
	if (at == line || at[0] != ' ' || at[1] == '\0' || at[2] != ' ')
		return 0;
	symbol.type = at[1];
	symbol.name = at + 3;
	end = at + 3 + strcspn(at + 3, "\t\n");
	symbol.module = NULL;
	if (*end == '\t' && end[1] == '[') {
		symbol.module = end + 2;
		end[2 + strcspn(end + 2, "]\n")] = '\0';
	}
	*end = '\0';
	return fn(&symbol, context);
}

int fp_kallsyms_read(const char *root, fp_kallsym_fn fn, void *context)
{
	FP_AUTOFCLOSE FILE *file = NULL;
	FP_AUTOFREE char *line = NULL;
	size_t capacity = 0;
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/proc/kallsyms", root);
	file = fopen(path, "re");
	if (!file)
		return -errno;
	while (getline(&line, &capacity, file) > 0) {
		int r = parse_line(line, fn, context);

		if (r != 0)
			return r;
	}
	return ferror(file) ? -EIO : 0;
}

static void *array_next(void **array, size_t *count, size_t *capacity, size_t size)
{
	if (*count == *capacity) {
		size_t grown_capacity = *capacity ? 2 * *capacity : 64;
		void *grown = reallocarray(*array, grown_capacity, size);

		if (!grown)
			return NULL;
		*array = grown;
		*capacity = grown_capacity;
	}
	return memset((char *)*array + size * (*count)++, 0, size);
}
#define ARRAY_NEXT(map, field)                                                                     \
	array_next((void **)&(map)->field, &(map)->field##_count, &(map)->field##_capacity,        \
		   sizeof(*(map)->field))

static bool is_scheduler(const char *name)
{
	size_t len = strcspn(name, "."); // compilers append .isra.0 and the like

	for (size_t i = 0; i < FP_ARRAY_SIZE(scheduler_names); i++)
		if (strlen(scheduler_names[i]) == len && memcmp(scheduler_names[i], name, len) == 0)
			return true;
	return false;
}

static bool is_machinery(const char *name)
{
	for (size_t i = 0; i < FP_ARRAY_SIZE(machinery_prefixes); i++)
		if (strncmp(name, machinery_prefixes[i], strlen(machinery_prefixes[i])) == 0)
			return true;
	return false;
}

// Entries of interrupts, as opposed to exceptions, which are of the program they interrupt.
static bool is_interrupt(const char *name)
{
	return strcmp(name, "asm_common_interrupt") == 0 ||
	       strcmp(name, "asm_spurious_interrupt") == 0 ||
	       strncmp(name, "asm_sysvec_", strlen("asm_sysvec_")) == 0;
}

static int add_image_symbol(struct fp_kernel_map *map, const struct fp_kallsym *symbol)
{
	struct fp_kernel_range *last =
	    map->ranges_count ? &map->ranges[map->ranges_count - 1] : NULL;
	bool scheduler = is_scheduler(symbol->name), interrupt = is_interrupt(symbol->name);

	if (strcmp(symbol->name, "_stext") == 0)
		map->text_start = symbol->address;
	else if (strcmp(symbol->name, "_etext") == 0)
		map->text_end = symbol->address;
	if (last && last->end == 0 && symbol->address > last->start)
		last->end = symbol->address;
	if (!scheduler && !interrupt && !is_machinery(symbol->name))
		return 0;
	if (last && last->start == symbol->address)
		return 0; // another name of the same function
	last = ARRAY_NEXT(map, ranges);
	if (!last)
		return -ENOMEM;
	last->start = symbol->address;
	last->part = scheduler	 ? FP_KERNEL_SCHEDULER
		     : interrupt ? FP_KERNEL_INTERRUPT
				 : FP_KERNEL_MACHINERY;
	return 0;
}

// BPF programs and trampolines show as [bpf], those of ftrace and kprobes as [__builtin__…].
static bool is_named(const struct fp_kallsym *symbol)
{
	return symbol->module && (strcmp(symbol->module, "bpf") == 0 ||
				  strncmp(symbol->module, "__builtin__", 11) == 0);
}

static int add_named(struct fp_kernel_map *map, const struct fp_kallsym *symbol)
{
	FP_AUTOFREE char *name = strdup(symbol->name);
	struct fp_kernel_named *named = name ? ARRAY_NEXT(map, named) : NULL;

	if (!named)
		return -ENOMEM;
	named->start = symbol->address;
	named->name = fp_take_ptr(name);
	return 0;
}

static int on_symbol(const struct fp_kallsym *symbol, void *context)
{
	struct fp_kernel_map *map = context;

	if (symbol->address == 0 || !fp_kallsym_is_text(symbol))
		return 0;
	if (is_named(symbol))
		return add_named(map, symbol);
	return symbol->module ? 0 : add_image_symbol(map, symbol);
}

static int on_symbol_refresh(const struct fp_kallsym *symbol, void *context)
{
	if (symbol->address == 0 || !is_named(symbol) || !fp_kallsym_is_text(symbol))
		return 0;
	return add_named(context, symbol);
}

static int compare_named(const void *a, const void *b)
{
	const struct fp_kernel_named *left = a, *right = b;

	return left->start < right->start ? -1 : left->start > right->start;
}

static void named_close(struct fp_kernel_map *map)
{
	if (map->named_count)
		qsort(map->named, map->named_count, sizeof(*map->named), compare_named);
	for (size_t i = 0; i < map->named_count; i++) {
		struct fp_kernel_named *named = &map->named[i];

		named->end = named->start + NAMED_BYTES_MAX;
		if (i + 1 < map->named_count && map->named[i + 1].start < named->end)
			named->end = map->named[i + 1].start;
	}
}

static int read_notes(const char *path, uint8_t id[FP_BUILD_ID_MAX], size_t *ret_len)
{
	FP_AUTOBUF struct fp_buf notes = { 0 };
	int r = fp_file_read(path, 64 * 1024, &notes);

	if (r < 0)
		return r;
	return fp_note_build_id(notes.data, notes.len, id, FP_BUILD_ID_MAX, ret_len);
}

// `name size references users state address [taint]`
static int add_module(struct fp_kernel_map *map, const char *line)
{
	char name[64], path[PATH_MAX];
	uint64_t size, address;
	FP_AUTOFREE char *copy = NULL;
	struct fp_kernel_module *module;

	if (sscanf(line, "%63s %" SCNu64 " %*s %*s %*s %" SCNx64, name, &size, &address) != 3 ||
	    address == 0 || strchr(name, '/'))
		return 0;
	copy = strdup(name);
	module = copy ? ARRAY_NEXT(map, modules) : NULL;
	if (!module)
		return -ENOMEM;
	module->name = fp_take_ptr(copy);
	module->start = address;
	module->end = address + size;
	snprintf(path, sizeof(path), "%s/sys/module/%s/notes/.note.gnu.build-id", map->root, name);
	read_notes(path, module->build_id, &module->build_id_len); // it may have none
	return 0;
}

static int compare_modules(const void *a, const void *b)
{
	const struct fp_kernel_module *left = a, *right = b;

	return left->start < right->start ? -1 : left->start > right->start;
}

static int modules_load(struct fp_kernel_map *map)
{
	FP_AUTOBUF struct fp_buf text = { 0 };
	char path[PATH_MAX], *line, *rest;
	int r;

	fp_kernel_map_clear_modules(map);
	snprintf(path, sizeof(path), "%s/proc/modules", map->root);
	r = fp_file_read(path, 4 * 1024 * 1024, &text);
	if (r < 0)
		return r == -ENOENT ? 0 : r; // a kernel without modules has no such file
	for (rest = (char *)text.data; (line = strsep(&rest, "\n"));) {
		r = add_module(map, line);
		if (r < 0)
			return r;
	}
	if (map->modules_count)
		qsort(map->modules, map->modules_count, sizeof(*map->modules), compare_modules);
	// Since 6.4 a module's text and data lie apart and the size is the sum of all: a
	// module ends where the next one begins at the latest.
	for (size_t i = 0; i + 1 < map->modules_count; i++)
		if (map->modules[i].end > map->modules[i + 1].start)
			map->modules[i].end = map->modules[i + 1].start;
	return 0;
}

int fp_kernel_map_load(struct fp_kernel_map *map)
{
	char path[PATH_MAX];
	int r = fp_kallsyms_read(map->root, on_symbol, map);

	if (r < 0)
		return r;
	if (map->ranges_count && map->ranges[map->ranges_count - 1].end == 0)
		map->ranges[map->ranges_count - 1].end = map->text_end;
	named_close(map);
	snprintf(path, sizeof(path), "%s/sys/kernel/notes", map->root);
	read_notes(path, map->build_id, &map->build_id_len); // offsets hold without one
	// refreshed_ns stays 0: our own programs are loaded after this, and the first tick that
	// meets one of them in the scheduler must find it without waiting.
	return modules_load(map);
}

int fp_kernel_map_refresh(struct fp_kernel_map *map)
{
	int r;

	map->refreshed_ns = fp_monotonic_ns();
	fp_kernel_map_clear_named(map);
	r = fp_kallsyms_read(map->root, on_symbol_refresh, map);
	named_close(map);
	return r < 0 ? r : modules_load(map);
}
