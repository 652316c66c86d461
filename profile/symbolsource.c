// SPDX-License-Identifier: Apache-2.0
#include "symbolsource.h"

#include "common/file.h"
#include "elfsymbols.h"
#include "symboltext.h"

#include <errno.h>
#include <string.h>

#define KALLSYMS_MAX ((size_t)64 << 20)
#define SMALL_MAX    ((size_t)4 << 20)

static int load_shipped(const struct fp_symbolizer_options *options, struct fp_symbol_host *host,
			const struct fp_symbol_request *request, struct fp_symbol_table **ret_table)
{
	FP_AUTOSYMBOLS struct fp_symbol_builder builder = { 0 };
	FP_AUTOBUF struct fp_buf text = { 0 };
	uint64_t bad_lines;
	int error;

	if (!options->load_table || request->build->id_len == 0)
		return -ENOENT;
	error = options->load_table(options->load_context, request->build->id,
				    request->build->id_len, &text);
	if (!error)
		error = fp_symbol_text((const char *)text.data, text.len, &builder, &bad_lines);
	return error ? error : fp_symbol_builder_finish(&builder, ret_table);
}

static int read_kallsyms(const struct fp_symbolizer_options *options, struct fp_symbol_host *host)
{
	int error;

	if (host->kallsyms_read)
		return 0;
	error = fp_file_read(options->kallsyms_path, KALLSYMS_MAX, &host->kallsyms);
	host->kallsyms_read = !error;
	return error;
}

// Whether a file of ELF notes in /sys holds the id. No id to compare with: it is this host's.
static bool notes_hold_id(const char *path, const uint8_t *id, size_t id_len)
{
	FP_AUTOBUF struct fp_buf notes = { 0 };

	if (id_len == 0)
		return true;
	return fp_file_read(path, SMALL_MAX, &notes) == 0 && notes.len > 0 &&
	       memmem(notes.data, notes.len, id, id_len) != NULL;
}

static bool is_this_kernel(const struct fp_symbolizer_options *options,
			   const struct fp_build *build)
{
	if (!options->kernel_build_id)
		return notes_hold_id("/sys/kernel/notes", build->id, build->id_len);
	return build->id_len == 0 ||
	       (build->id_len == 20 && memcmp(build->id, options->kernel_build_id, 20) == 0);
}

static int load_kernel(const struct fp_symbolizer_options *options, struct fp_symbol_host *host,
		       const struct fp_symbol_request *request, struct fp_symbol_table **ret_table)
{
	FP_AUTOSYMBOLS struct fp_symbol_builder builder = { 0 };
	int error;

	if (request->kind != FP_FRAME_KERNEL || !options->kallsyms_path ||
	    !is_this_kernel(options, request->build))
		return -ENOENT;
	error = read_kallsyms(options, host);
	if (!error)
		error = fp_kallsyms_kernel((const char *)host->kallsyms.data, host->kallsyms.len,
					   &builder);
	return error ? error : fp_symbol_builder_finish(&builder, ret_table);
}

// "[xfs]" → "xfs"; false for what is no module's name: it becomes part of a path.
static bool module_name(const char *path, struct fp_buf *ret_name)
{
	size_t size = strlen(path);

	if (size < 3 || path[0] != '[' || path[size - 1] != ']' || strchr(path, '/') ||
	    path[1] == '.')
		return false;
	return fp_buf_printf(ret_name, "%.*s", (int)(size - 2), path + 1) == 0;
}

static int load_module(const struct fp_symbolizer_options *options, struct fp_symbol_host *host,
		       const struct fp_symbol_request *request, struct fp_symbol_table **ret_table)
{
	FP_AUTOSYMBOLS struct fp_symbol_builder builder = { 0 };
	FP_AUTOBUF struct fp_buf name = { 0 };
	FP_AUTOBUF struct fp_buf notes = { 0 };
	FP_AUTOBUF struct fp_buf modules = { 0 };
	const char *module;
	uint64_t base;
	int error;

	if (request->kind != FP_FRAME_MODULE || !options->kallsyms_path ||
	    !module_name(request->path, &name))
		return -ENOENT;
	module = (const char *)name.data;
	fp_buf_printf(&notes, "/sys/module/%s/notes/.note.gnu.build-id", module);
	if (notes.error ||
	    !notes_hold_id((const char *)notes.data, request->build->id, request->build->id_len))
		return -ENOENT;
	error = fp_file_read("/proc/modules", SMALL_MAX, &modules);
	if (!error)
		error = fp_modules_base((const char *)modules.data, modules.len, module, &base);
	if (!error)
		error = read_kallsyms(options, host);
	if (!error)
		error = fp_kallsyms_module((const char *)host->kallsyms.data, host->kallsyms.len,
					   module, base, &builder);
	return error ? error : fp_symbol_builder_finish(&builder, ret_table);
}

static int load_vdso(const struct fp_symbolizer_options *options, struct fp_symbol_host *host,
		     const struct fp_symbol_request *request, struct fp_symbol_table **ret_table)
{
	if (request->kind != FP_FRAME_VDSO || !options->use_local_files)
		return -ENOENT;
	return fp_symbol_load_vdso(options, request, ret_table);
}

static bool has_elf_file(const struct fp_symbol_request *request)
{
	return request->kind == FP_FRAME_FILE || request->kind == FP_FRAME_VDSO;
}

static int load_debug(const struct fp_symbolizer_options *options, struct fp_symbol_host *host,
		      const struct fp_symbol_request *request, struct fp_symbol_table **ret_table)
{
	return has_elf_file(request) ? fp_symbol_load_debug(options, request, ret_table) : -ENOENT;
}

static int load_elf(const struct fp_symbolizer_options *options, struct fp_symbol_host *host,
		    const struct fp_symbol_request *request, struct fp_symbol_table **ret_table)
{
	if (!has_elf_file(request))
		return -ENOENT;
	return fp_symbol_load_elf(options, request, ret_table);
}

typedef int (*load_fn)(const struct fp_symbolizer_options *options, struct fp_symbol_host *host,
		       const struct fp_symbol_request *request, struct fp_symbol_table **ret_table);
// -ENOENT, or a table without functions, asks the next; any other error is the answer. A debug file
// comes before a shipped table, which may be that of a stripped file.
static const load_fn sources[] = { load_debug,	load_shipped, load_kernel,
				   load_module, load_vdso,    load_elf };

struct source_answer {
	struct fp_symbol_table *table;
	bool stripped; // a source had the build, but no function of it
};

static enum fp_symbol_status status_of(int error)
{
	switch (error) {
	case -ENOENT:
	case -ENOTDIR:
	case -EPERM:
		return FP_SYMBOLS_NO_FILE;
	case -ESTALE:
		return FP_SYMBOLS_ID_MISMATCH;
	case -EACCES:
		return FP_SYMBOLS_HIDDEN;
	default:
		return FP_SYMBOLS_BAD_FILE;
	}
}

// As the source, but a table without functions is as good as none: noted, and -ENOENT.
static int load(size_t source, const struct fp_symbolizer_options *options,
		struct fp_symbol_host *host, const struct fp_symbol_request *request,
		struct source_answer *answer)
{
	FP_AUTOSYMBOLTABLE struct fp_symbol_table *table = NULL;
	int error = sources[source](options, host, request, &table);

	if (error)
		return error;
	if (table->count == 0) {
		answer->stripped = true;
		return -ENOENT;
	}
	answer->table = fp_take_ptr(table);
	return 0;
}

void fp_symbol_source_load(const struct fp_symbolizer_options *options, struct fp_symbol_host *host,
			   const struct fp_symbol_request *request,
			   struct fp_symbol_table **ret_table, enum fp_symbol_status *ret_status)
{
	struct source_answer answer = { 0 };
	int error = -ENOENT;

	for (size_t i = 0; error == -ENOENT && i < FP_ARRAY_SIZE(sources); i++)
		error = load(i, options, host, request, &answer);
	*ret_table = answer.table;
	*ret_status = FP_SYMBOLS_FOUND;
	if (error)
		*ret_status = answer.stripped ? FP_SYMBOLS_NO_SYMBOLS : status_of(error);
}
