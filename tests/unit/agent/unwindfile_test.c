// SPDX-License-Identifier: Apache-2.0
// Files and their tables: where the sections are found, and what is no file to make one of.
#include "agent/unwindtable.h"
#include "common/cleanup.h"
#include "common/file.h"
#include "profile/elfident.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#define CASES FP_PROGRAMS_DIR "/unwindcases_"

static int open_file(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		fail_msg("no '%s'", path);
	return fd;
}

static int memory_file(const void *bytes, size_t size)
{
	int fd = memfd_create("file", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(fp_write_all(fd, bytes, size), 0);
	return fd;
}

static void make(int fd, struct fp_buf *table, struct fp_unwind_view *view)
{
	assert_int_equal(fp_unwind_table_make(fd, NULL, table), 0);
	assert_int_equal(fp_unwind_table_check(table->data, table->len, view), 0);
}

static void the_section_may_be_compressed_and_be_either(void **state)
{
	static const char *const paths[] = { CASES "debug.so", CASES "zlib.so", CASES "gnu.so" };
	FP_AUTOCLOSE int eh = open_file(CASES "eh.so");
	FP_AUTOBUF struct fp_buf wanted = { 0 };
	struct fp_unwind_view view;

	make(eh, &wanted, &view);
	assert_true(view.head->rows > 70);
	for (size_t i = 0; i < FP_ARRAY_SIZE(paths); i++) {
		FP_AUTOCLOSE int fd = open_file(paths[i]);
		FP_AUTOBUF struct fp_buf table = { 0 };

		print_message("  %s\n", paths[i]);
		make(fd, &table, &view);
		assert_int_equal(table.len, wanted.len);
		assert_memory_equal(table.data, wanted.data, wanted.len);
	}
}

// This very program, changed.
static void read_self(struct fp_buf *ret)
{
	assert_int_equal(fp_file_read("/proc/self/exe", 64 << 20, ret), 0);
}

static Elf64_Ehdr *header_of(struct fp_buf *file)
{
	return (Elf64_Ehdr *)file->data;
}

static Elf64_Phdr *segment_of(struct fp_buf *file, uint32_t type)
{
	Elf64_Phdr *segments = (Elf64_Phdr *)(file->data + header_of(file)->e_phoff);

	for (size_t i = 0; i < header_of(file)->e_phnum; i++)
		if (segments[i].p_type == type)
			return &segments[i];
	fail_msg("no segment of type %u", type);
	return NULL;
}

static int make_of(const struct fp_buf *file, struct fp_buf *table)
{
	FP_AUTOCLOSE int fd = memory_file(file->data, file->len);

	return fp_unwind_table_make(fd, NULL, table);
}

static void without_section_headers_the_segment_tells(void **state)
{
	FP_AUTOBUF struct fp_buf file = { 0 }, whole = { 0 }, table = { 0 };
	struct fp_unwind_view view;

	read_self(&file);
	assert_int_equal(make_of(&file, &whole), 0);
	header_of(&file)->e_shoff = 0;
	header_of(&file)->e_shnum = header_of(&file)->e_shstrndx = 0;
	assert_int_equal(make_of(&file, &table), 0);
	assert_int_equal(fp_unwind_table_check(table.data, table.len, &view), 0);
	assert_int_equal(table.len, whole.len);
	assert_memory_equal(table.data, whole.data, whole.len);
}

static void spoil_machine(struct fp_buf *file)
{
	header_of(file)->e_machine = EM_AARCH64;
}

static void spoil_type(struct fp_buf *file)
{
	header_of(file)->e_type = ET_REL;
}

static void spoil_segments(struct fp_buf *file)
{
	Elf64_Phdr *segments = (Elf64_Phdr *)(file->data + header_of(file)->e_phoff);

	for (size_t i = 0; i < header_of(file)->e_phnum; i++)
		segments[i].p_flags &= ~(uint32_t)PF_X;
}

static void spoil_offsets(struct fp_buf *file)
{
	Elf64_Phdr *segments = (Elf64_Phdr *)(file->data + header_of(file)->e_phoff);

	for (size_t i = 0; i < header_of(file)->e_phnum; i++)
		if (segments[i].p_flags & PF_X)
			segments[i].p_offset += 1ULL << 32;
}

static void spoil_headers(struct fp_buf *file)
{
	header_of(file)->e_shnum = 0;
	header_of(file)->e_shoff = 0;
	segment_of(file, PT_GNU_EH_FRAME)->p_type = PT_NULL;
}

static void spoil_pointer(struct fp_buf *file)
{
	const Elf64_Phdr *segment = segment_of(file, PT_GNU_EH_FRAME);

	header_of(file)->e_shnum = 0;
	header_of(file)->e_shoff = 0;
	file->data[segment->p_offset + 7] = 0x7f; // leads far away
}

static void spoil_end(struct fp_buf *file)
{
	file->len = sizeof(Elf64_Ehdr) / 2;
}

static void spoil_magic(struct fp_buf *file)
{
	file->data[0] = '#';
}

static const struct {
	const char *sentence;
	void (*spoil)(struct fp_buf *file);
	int error;
} spoils[] = {
	{ "another machine's", spoil_machine, -ENOTSUP },
	{ "one that is not linked", spoil_type, -EBADMSG },
	{ "one without code", spoil_segments, -ENODATA },
	{ "one whose code lies beyond 4 GiB", spoil_offsets, -EFBIG },
	{ "one without call frame information", spoil_headers, -ENODATA },
	{ "one whose header points out of it", spoil_pointer, -EBADMSG },
	{ "one that is cut off", spoil_end, -EBADMSG },
	{ "a script", spoil_magic, -EBADMSG },
};

static void what_is_no_good_is_refused_by_its_reason(void **state)
{
	for (size_t i = 0; i < FP_ARRAY_SIZE(spoils); i++) {
		FP_AUTOBUF struct fp_buf file = { 0 }, table = { 0 };

		print_message("  %s\n", spoils[i].sentence);
		read_self(&file);
		spoils[i].spoil(&file);
		assert_int_equal(make_of(&file, &table), spoils[i].error);
		assert_int_equal(table.len, 0);
	}
}

static void a_table_is_made_of_the_build_that_is_asked_for(void **state)
{
	FP_AUTOCLOSE int fd = open_file(CASES "eh.so");
	FP_AUTOCLOSE int other = open_file(CASES "debug.so");
	FP_AUTOBUF struct fp_buf table = { 0 };
	struct fp_build build;

	assert_int_equal(fp_elf_identify(fd, &build), 0);
	assert_int_equal(fp_unwind_table_make(other, &build, &table), -ENOENT);
	assert_int_equal(table.len, 0);
	assert_int_equal(fp_unwind_table_make(fd, &build, &table), 0);
	assert_true(table.len > 0);
}

static void what_is_written_is_the_table(void **state)
{
	FP_AUTOCLOSE int fd = open_file(CASES "eh.so");
	FP_AUTOCLOSE int out = memory_file("", 0);
	FP_AUTOBUF struct fp_buf table = { 0 };
	FP_AUTOFREE uint8_t *written = NULL;
	uint64_t size = 0;

	assert_int_equal(fp_unwind_table_make(fd, NULL, &table), 0);
	assert_int_equal(fp_unwind_table_write(fd, NULL, out, &size), 0);
	assert_int_equal(size, table.len);
	written = malloc(size + 1);
	assert_non_null(written);
	assert_int_equal(pread(out, written, size + 1, 0), (ssize_t)size);
	assert_memory_equal(written, table.data, size);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_section_may_be_compressed_and_be_either),
		cmocka_unit_test(without_section_headers_the_segment_tells),
		cmocka_unit_test(what_is_no_good_is_refused_by_its_reason),
		cmocka_unit_test(a_table_is_made_of_the_build_that_is_asked_for),
		cmocka_unit_test(what_is_written_is_the_table),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
