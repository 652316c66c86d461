// SPDX-License-Identifier: Apache-2.0
//
// Argument: the fixture library (see CMakeLists.txt). Its table as text must say of every
// offset what the file itself says.
#include "../scratch.h"
#include "symbolizers.h"

#include "common/file.h"
#include "profile/elfident.h"
#include "profile/symbolwrite.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define TABLE_MAX (1 << 20)

static const char *fixture_path;

static int open_fixture(void)
{
	int fd = open(fixture_path, O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	return fd;
}

static int write_table(int fd, const struct fp_build *build, uint64_t max_bytes,
		       struct fp_buf *text)
{
	FP_AUTOCLOSE int out = memfd_create("table", MFD_CLOEXEC);
	uint64_t bytes = 0;
	char path[64];
	int error;

	assert_true(out >= 0);
	error = fp_symbol_write_elf(fd, build, out, max_bytes, &bytes);
	if (error)
		return error;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", out);
	assert_int_equal(fp_file_read(path, TABLE_MAX, text), 0);
	assert_int_equal(text->len, bytes);
	return 0;
}

static void the_text_names_every_offset_as_the_file_does(void **state)
{
	struct fp_symbolizer_options local = { .debug_dirs = no_dirs, .use_local_files = true };
	struct fp_symbolizer_options none = { .debug_dirs = no_dirs };
	FP_AUTOSYMBOLIZER struct fp_symbolizer *by_file = symbolizer_of(&local);
	FP_AUTOSYMBOLIZER struct fp_symbolizer *by_text = symbolizer_of(&none);
	FP_AUTOBUF struct fp_buf text = { 0 };
	FP_AUTOCLOSE int fd = open_fixture();
	uint64_t bad_lines = 1, named = 0, gaps = 0;
	struct fp_build build;
	struct stat info;

	assert_int_equal(fp_elf_identify(fd, &build), 0);
	assert_int_equal(write_table(fd, &build, TABLE_MAX, &text), 0);
	assert_int_equal(fp_symbolizer_add_table(by_text, build.id, build.id_len,
						 (const char *)text.data, text.len, &bad_lines),
			 0);
	assert_int_equal(bad_lines, 0);
	assert_int_equal(fstat(fd, &info), 0);
	for (uint64_t offset = 0; offset < (uint64_t)info.st_size; offset++) {
		const char *expected = fp_symbolizer_lookup(by_file, &build, fixture_path,
							    FP_FRAME_FILE, offset, true);

		assert_name(
		    fp_symbolizer_lookup(by_text, &build, "elsewhere", FP_FRAME_FILE, offset, true),
		    expected);
		named += expected != NULL;
		gaps += named > 0 && !expected;
	}
	assert_true(named > 20 && gaps > 20);
}

static void a_collector_finds_the_table_of_a_build_of_any_kind(void **state)
{
	static const uint8_t kinds[] = { FP_BUILD_GNU, FP_BUILD_GO, FP_BUILD_HASH };
	static const char text[] = "100 _ZN3app3runEv\n120 -\n200 second\n";

	for (size_t i = 0; i < FP_ARRAY_SIZE(kinds); i++) {
		struct fp_symbolizer_options options = { .debug_dirs = no_dirs };
		FP_AUTOSYMBOLIZER struct fp_symbolizer *symbolizer = symbolizer_of(&options);
		struct fp_build build = { .kind = kinds[i], .id_len = 16, .id = { 1, 2, 3 } };
		static const struct {
			uint64_t offset;
			bool is_leaf;
			const char *name;
		} cases[] = { { 0xff, true, NULL },	      { 0x100, true, "app::run()" },
			      { 0x11f, true, "app::run()" },  { 0x120, true, NULL },
			      { 0x120, false, "app::run()" }, { 0x1ff, true, NULL },
			      { 0x200, true, "second" } };

		assert_int_equal(fp_symbolizer_add_table(symbolizer, build.id, build.id_len, text,
							 strlen(text), NULL),
				 0);
		for (size_t j = 0; j < FP_ARRAY_SIZE(cases); j++)
			assert_name(fp_symbolizer_lookup(symbolizer, &build, "/app/run",
							 FP_FRAME_FILE, cases[j].offset,
							 cases[j].is_leaf),
				    cases[j].name);
	}
}

static void only_the_build_itself_is_written(void **state)
{
	FP_AUTOCLOSE int fd = open_fixture();
	FP_AUTOCLOSE int script = memfd_create("script", MFD_CLOEXEC);
	FP_AUTOBUF struct fp_buf text = { 0 };
	struct fp_build build, other;

	assert_int_equal(fp_write_all(script, "#!/bin/sh\n", 10), 0);
	assert_int_equal(fp_elf_identify(fd, &build), 0);
	assert_int_equal(fp_elf_identify(script, &other), 0);
	assert_int_equal(write_table(fd, &other, TABLE_MAX, &text), -EBADMSG);
	assert_int_equal(write_table(script, &build, TABLE_MAX, &text), -EBADMSG);
	assert_int_equal(write_table(script, &other, TABLE_MAX, &text), -EBADMSG); // no ELF file
	assert_int_equal(write_table(fd, &build, 20, &text), -EFBIG);
}

// The hash of a file identifies it where it lies, as a note's id does.
static void a_build_known_by_its_hash_is_found_at_its_path(void **state)
{
	struct fp_symbolizer_options options = { .debug_dirs = no_dirs, .use_local_files = true };
	FP_AUTOSYMBOLIZER struct fp_symbolizer *symbolizer = symbolizer_of(&options);
	FP_AUTOBUF struct fp_buf bytes = { 0 };
	FP_AUTOCLOSE int directory = fp_dir_open(scratch_directory(), 0755);
	FP_AUTOCLOSE int fd = -1;
	struct fp_build build, gnu;
	char path[256];

	assert_int_equal(fp_file_read(fixture_path, 1 << 24, &bytes), 0);
	fd = open_fixture();
	assert_int_equal(fp_elf_identify(fd, &gnu), 0);
	assert_int_equal(gnu.kind, FP_BUILD_GNU);
	// Another owner: the note is none any more.
	for (uint8_t *at; (at = memmem(bytes.data, bytes.len, "\x03\0\0\0GNU\0", 8));)
		at[4] = 'X';
	assert_int_equal(fp_file_write_durable(directory, "hashed.so", bytes.data, bytes.len, 0644),
			 0);
	snprintf(path, sizeof(path), "%s/hashed.so", scratch_directory());
	fp_close_fd(&fd);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_int_equal(fp_elf_identify(fd, &build), 0);
	assert_int_equal(build.kind, FP_BUILD_HASH);
	assert_int_equal(fp_symbolizer_status(symbolizer, &build, path, FP_FRAME_FILE),
			 FP_SYMBOLS_FOUND);
	build.id[0] ^= 1;
	assert_int_equal(fp_symbolizer_status(symbolizer, &build, path, FP_FRAME_FILE),
			 FP_SYMBOLS_ID_MISMATCH);
	// A Go build ID it has not.
	build.kind = FP_BUILD_GO;
	build.id[0] ^= 1;
	fp_symbolizer_freep(&symbolizer);
	symbolizer = symbolizer_of(&options);
	assert_int_equal(fp_symbolizer_status(symbolizer, &build, path, FP_FRAME_FILE),
			 FP_SYMBOLS_ID_MISMATCH);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_text_names_every_offset_as_the_file_does),
		cmocka_unit_test(a_collector_finds_the_table_of_a_build_of_any_kind),
		cmocka_unit_test(only_the_build_itself_is_written),
		cmocka_unit_test(a_build_known_by_its_hash_is_found_at_its_path),
	};

	if (argc != 2)
		return 2;
	fixture_path = argv[1];
	return cmocka_run_group_tests(tests, NULL, NULL);
}
