// SPDX-License-Identifier: Apache-2.0
//
// The ELF files of one build: its debug file for names, its binary for names when there is
// no debug file, for PLT slots, and for where the code lies in the file.
#include "symbolsource.h"

#include "elfident.h"
#include "elfsymbols.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

struct elf_file {
	struct fp_elf *elf;
	int fd;
};

static void elf_file_close(struct elf_file *file)
{
	fp_elf_freep(&file->elf);
	fp_close_fd(&file->fd);
}
#define AUTOELFFILE FP_CLEANUP(elf_file_close)

static bool has_id(const struct fp_build *build)
{
	return build->kind != FP_BUILD_NONE && build->id_len > 0;
}

static bool elf_is_build(const struct fp_elf *elf, const struct fp_build *build)
{
	uint8_t id[FP_ELF_ID_MAX];
	size_t length = fp_elf_build_id(elf, id);

	return length == build->id_len && memcmp(id, build->id, length) == 0;
}

// A place in the file system, not opened yet. Links within the root are followed as the programs
// below it see them (/lib is one on most systems), and none leads out of it.
// root NULL: the path is the user's own and holds as it stands.
static int place_in_root(const char *root, const char *path)
{
	struct open_how how = {
		.flags = O_PATH | O_CLOEXEC,
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
	};
	FP_AUTOBUF struct fp_buf whole = { 0 };
	FP_AUTOCLOSE int directory = -1;
	int fd;

	if (!root) {
		fd = open(path, O_PATH | O_CLOEXEC);
		return fd < 0 ? -errno : fd;
	}
	directory = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (directory < 0)
		return -errno;
	fd = (int)syscall(SYS_openat2, directory, path, &how, sizeof(how));
	if (fd >= 0 || errno != ENOSYS)
		return fd < 0 ? -errno : fd;
	if (fp_buf_printf(&whole, "%s/%s", root, path))
		return -ENOMEM;
	fd = open((const char *)whole.data, O_PATH | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

// Opened only when it is known to be a regular file: opening a device or a FIFO may already do
// something. The second opening is of the same file, whatever has come to stand at the path.
static int elf_file_open(const char *root, const char *path, struct elf_file *file)
{
	FP_AUTOCLOSE int place = place_in_root(root, path);
	char again[64];
	struct stat info;

	if (place < 0)
		return place == -EACCES ? -EPERM : place;
	if (fstat(place, &info) < 0)
		return -errno;
	if (!S_ISREG(info.st_mode))
		return -ENOEXEC;
	snprintf(again, sizeof(again), "/proc/self/fd/%d", place);
	file->fd = open(again, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (file->fd < 0)
		return errno == EACCES ? -EPERM : -errno;
	return fp_elf_open(file->fd, &file->elf);
}

static int open_debug_file(const struct fp_symbolizer_options *options,
			   const struct fp_build *build, struct elf_file *file)
{
	static const char *const standard[] = { "/usr/lib/debug", NULL };
	const char *const *directories = options->debug_dirs ? options->debug_dirs : standard;

	if (build->kind != FP_BUILD_GNU || build->id_len < 2)
		return -ENOENT;
	for (; *directories; directories++) {
		FP_AUTOBUF struct fp_buf path = { 0 };

		fp_buf_printf(&path, "%s/.build-id/%02x/", *directories, build->id[0]);
		for (size_t i = 1; i < build->id_len; i++)
			fp_buf_printf(&path, "%02x", build->id[i]);
		if (fp_buf_str(&path, ".debug"))
			return -ENOMEM;
		if (elf_file_open(NULL, (const char *)path.data, file) == 0 &&
		    elf_is_build(file->elf, build))
			return 0;
		elf_file_close(file);
	}
	return -ENOENT;
}

static int open_binary(const struct fp_symbolizer_options *options,
		       const struct fp_symbol_request *request, struct elf_file *file)
{
	const char *root =
	    options->root_prefix && options->root_prefix[0] ? options->root_prefix : "/";
	bool same = true;
	int error;

	if (!options->use_local_files || request->path[0] != '/')
		return -ENOENT;
	if (!has_id(request->build) && !options->allow_paths_without_id)
		return -ENOENT;
	error = elf_file_open(root, request->path, file);
	if (!error && has_id(request->build))
		error = fp_elf_is_build(file->fd, request->build, &same);
	if (!error && !same)
		error = -ESTALE;
	if (error)
		elf_file_close(file);
	return error;
}

static int table_segments(const struct fp_elf *elf, struct fp_symbol_table *table)
{
	int error = fp_elf_segments(elf, &table->segments, &table->segments_count);

	// Without them every offset would pass for an address.
	return !error && table->segments_count == 0 ? -EBADMSG : error;
}

int fp_symbol_elf_table(const struct fp_elf *symbols, const struct fp_elf *code,
			struct fp_symbol_table **ret_table)
{
	FP_AUTOSYMBOLTABLE struct fp_symbol_table *table = NULL;
	FP_AUTOSYMBOLS struct fp_symbol_builder builder = { 0 };
	int error = symbols ? fp_elf_symbols(symbols, &builder) : 0;

	if (!error && code && code != symbols && builder.rows_count == 0)
		error = fp_elf_symbols(code, &builder);
	if (!error && code)
		error = fp_elf_plt(code, &builder);
	if (!error)
		error = fp_symbol_builder_finish(&builder, &table);
	if (!error)
		error = table_segments(code ? code : symbols, table);
	if (error)
		return error;
	*ret_table = fp_take_ptr(table);
	return 0;
}

int fp_symbol_load_debug(const struct fp_symbolizer_options *options,
			 const struct fp_symbol_request *request,
			 struct fp_symbol_table **ret_table)
{
	AUTOELFFILE struct elf_file debug = { .fd = -1 };
	AUTOELFFILE struct elf_file binary = { .fd = -1 };
	int error = open_debug_file(options, request->build, &debug);

	if (error)
		return error;
	error = open_binary(options, request, &binary);
	return fp_symbol_elf_table(debug.elf, error ? NULL : binary.elf, ret_table);
}

int fp_symbol_load_elf(const struct fp_symbolizer_options *options,
		       const struct fp_symbol_request *request, struct fp_symbol_table **ret_table)
{
	AUTOELFFILE struct elf_file binary = { .fd = -1 };
	int error = open_binary(options, request, &binary);

	return error ? error : fp_symbol_elf_table(binary.elf, binary.elf, ret_table);
}

#define VDSO_MAX ((size_t)64 << 10)

// The vDSO's size is not told; its section headers stand at its end. Reading stays inside
// what the headers of the kernel's own image claim.
static size_t vdso_size(const ElfW(Ehdr) * header)
{
	size_t end = header->e_shoff + (size_t)header->e_shnum * header->e_shentsize;

	return end <= VDSO_MAX ? end : 0;
}

int fp_symbol_load_vdso(const struct fp_symbolizer_options *options,
			const struct fp_symbol_request *request, struct fp_symbol_table **ret_table)
{
	// The address is an integer by the interface of getauxval.
	const ElfW(Ehdr) *header =
	    (const void *)getauxval(AT_SYSINFO_EHDR); // NOLINT(performance-no-int-to-ptr)
	FP_AUTOFREE void *image = NULL;
	FP_AUTOELF struct fp_elf *elf = NULL;
	size_t size;
	int error;

	if (!header || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0)
		return -ENOENT;
	size = vdso_size(header);
	image = size ? malloc(size) : NULL;
	if (!image)
		return size ? -ENOMEM : -ENOENT;
	memcpy(image, header, size);
	error = fp_elf_open_image(image, size, &elf);
	if (error)
		return error;
	if (request->build->id_len > 0 ? !elf_is_build(elf, request->build)
				       : !options->use_local_files)
		return -ENOENT;
	return fp_symbol_elf_table(elf, elf, ret_table);
}
