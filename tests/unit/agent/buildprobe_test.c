// SPDX-License-Identifier: Apache-2.0
//
// The build-ID the kernel tells of a file is the one in its note.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/buildprobe.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <unistd.h>

static uint8_t own_id[20];

// This program's own build-ID, from its note segment in memory.
static int find_own_id(struct dl_phdr_info *info, size_t size, void *context)
{
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *header = &info->dlpi_phdr[i];
		const uint8_t *note = (const uint8_t *)info->dlpi_addr + header->p_vaddr;
		const uint8_t *end = note + header->p_memsz;

		while (header->p_type == PT_NOTE && note < end) {
			const ElfW(Nhdr) *n = (const void *)note;

			if (n->n_type == NT_GNU_BUILD_ID && n->n_descsz == 20)
				memcpy(own_id, note + sizeof(*n) + ((n->n_namesz + 3) & ~3u), 20);
			note += sizeof(*n) + ((n->n_namesz + 3) & ~3u) + ((n->n_descsz + 3) & ~3u);
		}
	}
	return 1; // the first object is the program
}

static struct fp_build_probe *probe;

static void the_kernel_tells_our_own_build_id(void **state)
{
	uint8_t id[20] = { 0 }, len = 0;
	int fd = open("/proc/self/exe", O_RDONLY);

	dl_iterate_phdr(find_own_id, NULL);
	for (int i = 0; i < 1000; i++) { // the small ring wraps many times
		assert_int_equal(fp_build_probe_read(probe, fd, id, &len), 0);
		assert_int_equal(len, 20);
		assert_memory_equal(id, own_id, 20);
	}
	close(fd);
}

static void files_without_a_note_have_none(void **state)
{
	char path[] = "/tmp/fp_buildprobe_XXXXXX";
	uint8_t id[20], len = 77;
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, "#!/bin/sh\n", 10), 10);
	assert_int_equal(fp_build_probe_read(probe, fd, id, &len), 0);
	assert_int_equal(len, 0);
	assert_int_equal(ftruncate(fd, 0), 0);
	assert_int_equal(fp_build_probe_read(probe, fd, id, &len), 0);
	assert_int_equal(len, 0);
	unlink(path);
	close(fd);
}

static void what_cannot_be_mapped_is_an_error(void **state)
{
	uint8_t id[20], len;
	int fd = open("/proc/self/status", O_RDONLY);

	assert_true(fp_build_probe_read(probe, fd, id, &len) < 0);
	assert_true(fp_build_probe_read(probe, -1, id, &len) < 0);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_kernel_tells_our_own_build_id),
		cmocka_unit_test(files_without_a_note_have_none),
		cmocka_unit_test(what_cannot_be_mapped_is_an_error),
	};
	int error = fp_build_probe_open(&probe);
	int failed;

	if (error) {
		printf("skipped: no perf event with build-IDs here: %s\n", strerror(-error));
		return 77;
	}
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	fp_build_probe_free(probe);
	return failed;
}
