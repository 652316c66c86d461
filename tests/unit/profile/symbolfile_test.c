// SPDX-License-Identifier: Apache-2.0
//
// Arguments: the fixture library, its debug file, its stripped form (see CMakeLists.txt).
#include "../scratch.h"
#include "symbolizers.h"

#include "common/file.h"
#include "profile/elfsymbols.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *whole_path, *debug_path, *stripped_path;

static struct fp_build build_of_file(const char *path)
{
	FP_AUTOCLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
	FP_AUTOELF struct fp_elf *elf = NULL;
	struct fp_build build = { .kind = FP_BUILD_GNU };

	assert_true(fd >= 0);
	assert_int_equal(fp_elf_open(fd, &elf), 0);
	build.id_len = (uint8_t)fp_elf_build_id(elf, build.id);
	assert_int_equal(build.id_len, 20);
	return build;
}

// Reads an integer of the 64-bit file at offset.
static uint64_t file_number(int fd, uint64_t offset, size_t size)
{
	uint64_t value = 0;

	assert_int_equal(pread(fd, &value, size, (off_t)offset), (ssize_t)size);
	return value;
}

// Address of a symbol, by a scan of .symtab that shares nothing with the code under test.
static uint64_t symbol_address(const char *path, const char *wanted)
{
	FP_AUTOCLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
	Elf64_Ehdr header;

	assert_int_equal(pread(fd, &header, sizeof(header), 0), sizeof(header));
	for (unsigned int s = 0; s < header.e_shnum; s++) {
		Elf64_Shdr table, strings;
		uint64_t place = header.e_shoff + (uint64_t)s * sizeof(table);

		assert_int_equal(pread(fd, &table, sizeof(table), (off_t)place), sizeof(table));
		if (table.sh_type != SHT_SYMTAB)
			continue;
		place = header.e_shoff + (uint64_t)table.sh_link * sizeof(strings);
		assert_int_equal(pread(fd, &strings, sizeof(strings), (off_t)place),
				 sizeof(strings));
		for (uint64_t i = 0; i < table.sh_size / sizeof(Elf64_Sym); i++) {
			Elf64_Sym symbol;
			char name[64] = { 0 };

			place = table.sh_offset + i * sizeof(symbol);
			assert_int_equal(pread(fd, &symbol, sizeof(symbol), (off_t)place),
					 sizeof(symbol));
			assert_true(pread(fd, name, sizeof(name) - 1,
					  (off_t)(strings.sh_offset + symbol.st_name)) > 0);
			if (strcmp(name, wanted) == 0)
				return symbol.st_value;
		}
	}
	fail_msg("no symbol '%s' in %s", wanted, path);
	return 0;
}

// Where the address lies in the whole file.
static uint64_t offset_of_address(uint64_t address)
{
	FP_AUTOCLOSE int fd = open(whole_path, O_RDONLY | O_CLOEXEC);
	uint64_t headers = file_number(fd, offsetof(Elf64_Ehdr, e_phoff), 8);
	uint64_t count = file_number(fd, offsetof(Elf64_Ehdr, e_phnum), 2);

	for (uint64_t i = 0; i < count; i++) {
		Elf64_Phdr header;

		assert_int_equal(
		    pread(fd, &header, sizeof(header), (off_t)(headers + i * sizeof(header))),
		    sizeof(header));
		if (header.p_type == PT_LOAD && address - header.p_vaddr < header.p_filesz)
			return address - header.p_vaddr + header.p_offset;
	}
	fail_msg("address %#lx is not in the file", (unsigned long)address);
	return 0;
}

static uint64_t offset_of(const char *symbol)
{
	return offset_of_address(symbol_address(whole_path, symbol));
}

struct lookup_case {
	const char *symbol;
	int64_t delta;
	bool is_leaf;
	const char *name;
};

static const struct lookup_case fixture_cases[] = {
	{ "fixture_first", 0, true, "fixture_first" },
	{ "fixture_first", 1, false, "fixture_first" }, // returns to byte 1: the call is byte 0
	{ "__fixture_alias", 2, true, "fixture_first" },
	{ "fixture_static", 0, true, "fixture_static" },
	{ "fixture_calls_out", 3, true, "fixture_calls_out" },
#if defined(__x86_64__)
	{ "fixture_asm", 0, true, "fixture_asm" },
	{ "fixture_asm", 2, true, "fixture_asm" },
	{ "fixture_asm", 3, true, "fixture_sized" },
	{ "fixture_asm", 3, false, "fixture_asm" }, // its last instruction was the call
	{ "fixture_sized", 1, true, "fixture_sized" },
	{ "fixture_inner_label", 0, true, "fixture_sized" },
	{ "fixture_sized", 2, true, "fixture_sized" },
	{ "fixture_sized", 3, true, NULL }, // padding
	{ "fixture_sized", 60, true, NULL },
	{ "fixture_last", -1, true, NULL },
	{ "fixture_last", 0, true, "fixture_last" },
	{ "fixture_last", 1, false, "fixture_last" },
#endif
};

static void check_fixture(struct fp_symbolizer *symbolizer, const char *path, bool statics)
{
	struct fp_build build = build_of_file(whole_path);

	for (size_t i = 0; i < FP_ARRAY_SIZE(fixture_cases); i++) {
		const struct lookup_case *c = &fixture_cases[i];
		uint64_t offset = offset_of(c->symbol) + (uint64_t)c->delta;
		const char *name = fp_symbolizer_lookup(symbolizer, &build, path, FP_FRAME_FILE,
							offset, c->is_leaf);

		if (!statics && (strstr(c->symbol, "static") || strstr(c->symbol, "inner")))
			continue;
		assert_name(name, c->name);
	}
	assert_int_equal(fp_symbolizer_status(symbolizer, &build, path, FP_FRAME_FILE),
			 FP_SYMBOLS_FOUND);
}

static void test_whole_file(void **state)
{
	struct fp_symbolizer_options options = { .debug_dirs = no_dirs, .use_local_files = true };
	FP_AUTOSYMBOLIZER struct fp_symbolizer *symbolizer = symbolizer_of(&options);

	check_fixture(symbolizer, whole_path, true);
}

static void test_stripped_file(void **state)
{
	struct fp_symbolizer_options options = { .debug_dirs = no_dirs, .use_local_files = true };
	FP_AUTOSYMBOLIZER struct fp_symbolizer *symbolizer = symbolizer_of(&options);
	struct fp_build build = build_of_file(stripped_path);

	check_fixture(symbolizer, stripped_path, false);
	assert_name(fp_symbolizer_lookup(symbolizer, &build, stripped_path, FP_FRAME_FILE,
					 offset_of("fixture_static"), true),
		    NULL);
}

// A tree of debug files with the fixture's in its place.
static const char *debug_tree(void)
{
	static char root[128];
	struct fp_build build = build_of_file(whole_path);
	char path[512];
	size_t used;

	if (root[0])
		return root;
	snprintf(root, sizeof(root), "%s/debug", scratch_directory());
	used = (size_t)snprintf(path, sizeof(path), "%s/.build-id/%02x", root, build.id[0]);
	close(fp_dir_open(path, 0755));
	path[used++] = '/';
	for (size_t i = 1; i < build.id_len; i++)
		used += (size_t)snprintf(path + used, sizeof(path) - used, "%02x", build.id[i]);
	snprintf(path + used, sizeof(path) - used, ".debug");
	assert_int_equal(symlink(debug_path, path), 0);
	return root;
}

static void test_debug_file(void **state)
{
	char real[256];
	const char *const dirs[] = { "/nonexistent", real, NULL };
	struct fp_symbolizer_options options = { .debug_dirs = dirs };
	FP_AUTOSYMBOLIZER struct fp_symbolizer *symbolizer = NULL;

	snprintf(real, sizeof(real), "%s", debug_tree());
	symbolizer = symbolizer_of(&options);
	// Only the debug file is there: its segments have lost their offsets.
	check_fixture(symbolizer, "/nonexistent/lib.so", true);
}

static void test_debug_file_and_stripped_file(void **state)
{
	char real[256];
	const char *const dirs[] = { real, NULL };
	struct fp_symbolizer_options options = { .debug_dirs = dirs, .use_local_files = true };
	FP_AUTOSYMBOLIZER struct fp_symbolizer *symbolizer = NULL;

	snprintf(real, sizeof(real), "%s", debug_tree());
	symbolizer = symbolizer_of(&options);
	check_fixture(symbolizer, stripped_path, true);
}

static void test_root_prefix(void **state)
{
	char prefix[512], *slash;
	struct fp_symbolizer_options options = { .debug_dirs = no_dirs,
						 .use_local_files = true,
						 .root_prefix = prefix };
	FP_AUTOSYMBOLIZER struct fp_symbolizer *symbolizer = NULL;

	snprintf(prefix, sizeof(prefix), "%s", whole_path);
	slash = strrchr(prefix, '/');
	assert_non_null(slash);
	*slash = '\0';
	symbolizer = symbolizer_of(&options);
	check_fixture(symbolizer, strrchr(whole_path, '/'), true);
}

// As in a container: /lib is a link to /usr/lib, and both mean the container's own.
static void test_links_in_a_root(void **state)
{
	char prefix[256], usr[300], link[300];
	struct fp_symbolizer_options options = { .debug_dirs = no_dirs,
						 .use_local_files = true,
						 .root_prefix = prefix };
	FP_AUTOSYMBOLIZER struct fp_symbolizer *symbolizer = NULL;
	FP_AUTOBUF struct fp_buf bytes = { 0 };
	FP_AUTOCLOSE int directory = -1;
	struct fp_build build = build_of_file(whole_path);

	snprintf(prefix, sizeof(prefix), "%s/root", scratch_directory());
	snprintf(usr, sizeof(usr), "%s/usr", prefix);
	assert_int_equal(mkdir(prefix, 0755), 0);
	directory = fp_dir_open(usr, 0755);
	assert_true(directory >= 0);
	assert_int_equal(fp_file_read(whole_path, 1 << 24, &bytes), 0);
	assert_int_equal(
	    fp_file_write_durable(directory, "fixture.so", bytes.data, bytes.len, 0644), 0);
	snprintf(link, sizeof(link), "%s/lib", prefix);
	assert_int_equal(symlink("/usr", link), 0);
	snprintf(link, sizeof(link), "%s/outside", prefix);
	assert_int_equal(symlink(whole_path, link), 0);
	symbolizer = symbolizer_of(&options);
	check_fixture(symbolizer, "/lib/fixture.so", true);
	fp_symbolizer_freep(&symbolizer);
	symbolizer = symbolizer_of(&options);
	assert_int_equal(fp_symbolizer_status(symbolizer, &build, "/outside", FP_FRAME_FILE),
			 FP_SYMBOLS_NO_FILE);
}

static void test_plt(void **state)
{
#if defined(__x86_64__)
	struct fp_symbolizer_options options = { .debug_dirs = no_dirs, .use_local_files = true };
	FP_AUTOSYMBOLIZER struct fp_symbolizer *symbolizer = symbolizer_of(&options);
	struct fp_build build = build_of_file(whole_path);
	bool found = false;

	// The slot lies somewhere before the code; its exact place is the linker's business.
	for (uint64_t offset = 0; offset < offset_of("fixture_first"); offset += 8) {
		const char *name = fp_symbolizer_lookup(symbolizer, &build, whole_path,
							FP_FRAME_FILE, offset, true);

		found =
		    found ||
		    (name && (strcmp(name, "atoi@plt") == 0 || strcmp(name, "strtol@plt") == 0));
	}
	assert_true(found);
#endif
}

static void test_statuses(void **state)
{
	struct fp_build known = build_of_file(whole_path), other = known, none = { 0 };
	struct fp_symbolizer_options options = { .debug_dirs = no_dirs, .use_local_files = true };
	char text_path[256], fifo_path[256];
	FP_AUTOCLOSE int directory = fp_dir_open(scratch_directory(), 0755);
	const struct {
		const struct fp_build *build;
		const char *path;
		enum fp_symbol_status status;
	} cases[] = {
		{ &known, whole_path, FP_SYMBOLS_FOUND },
		{ &other, whole_path, FP_SYMBOLS_ID_MISMATCH },
		{ &known, "/nonexistent", FP_SYMBOLS_NO_FILE },
		{ &known, "relative", FP_SYMBOLS_NO_FILE },
		{ &known, "", FP_SYMBOLS_NO_FILE },
		{ &none, whole_path, FP_SYMBOLS_NO_FILE }, // not trusted without an id
		{ &known, text_path, FP_SYMBOLS_BAD_FILE },
		{ &known, fifo_path, FP_SYMBOLS_BAD_FILE },
		{ &known, "/dev/null", FP_SYMBOLS_BAD_FILE },
	};

	other.id[3] ^= 1;
	snprintf(text_path, sizeof(text_path), "%s/text", scratch_directory());
	snprintf(fifo_path, sizeof(fifo_path), "%s/fifo", scratch_directory());
	assert_int_equal(fp_file_write_durable(directory, "text", "no ELF", 6, 0644), 0);
	assert_int_equal(mkfifo(fifo_path, 0644), 0);
	for (size_t i = 0; i < FP_ARRAY_SIZE(cases); i++) {
		FP_AUTOSYMBOLIZER struct fp_symbolizer *symbolizer = symbolizer_of(&options);

		assert_int_equal(
		    fp_symbolizer_status(symbolizer, cases[i].build, cases[i].path, FP_FRAME_FILE),
		    cases[i].status);
		assert_true(strlen(fp_symbol_status_text(cases[i].status)) > 0);
	}
}

static void test_without_id_on_this_host(void **state)
{
	struct fp_symbolizer_options options = { .debug_dirs = no_dirs,
						 .use_local_files = true,
						 .allow_paths_without_id = true };
	FP_AUTOSYMBOLIZER struct fp_symbolizer *symbolizer = symbolizer_of(&options);
	struct fp_build none = { 0 };

	assert_name(fp_symbolizer_lookup(symbolizer, &none, whole_path, FP_FRAME_FILE,
					 offset_of("fixture_static"), true),
		    "fixture_static");
	// Builds without an id are told apart by path.
	assert_name(fp_symbolizer_lookup(symbolizer, &none, "/nonexistent", FP_FRAME_FILE,
					 offset_of("fixture_static"), true),
		    NULL);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		FP_CASE("a whole file names its functions and no gap", test_whole_file),
		FP_CASE("a stripped file names what it exports", test_stripped_file),
		FP_CASE("a debug file alone is enough", test_debug_file),
		FP_CASE("a debug file and a stripped file go together",
			test_debug_file_and_stripped_file),
		FP_CASE("paths are looked up below a prefix", test_root_prefix),
		FP_CASE("links are followed within a root and not out of it", test_links_in_a_root),
		FP_CASE("PLT slots are named after what they call", test_plt),
		FP_CASE("every failure has its status", test_statuses),
		FP_CASE("a build without an id goes by its path when allowed",
			test_without_id_on_this_host),
	};

	if (argc < 4)
		return 2;
	whole_path = argv[1];
	debug_path = argv[2];
	stripped_path = argv[3];
	return cmocka_run_group_tests(tests, NULL, NULL);
}
