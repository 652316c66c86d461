// SPDX-License-Identifier: Apache-2.0
// Wishes and the tables that answer them, in a spool whose other end may be hostile.
#include "spool_place.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static const struct fp_buf text = { .data = (uint8_t *)(uintptr_t) "10 a\n", .len = 5 };
static const struct fp_build build = { .kind = FP_BUILD_GO, .id_len = 2, .id = { 0xab, 0x01 } };

static const char *next(struct fp_spool *spool)
{
	static char id[FP_SPOOL_ID_MAX];

	return fp_spool_next_wanted(spool, id) ? "(none)" : id;
}

static void a_wish_of_one_end_is_found_by_the_other(void **state)
{
	const struct place *place = *state;
	AUTOSPOOL writer = open_spool(place, &roomy);
	AUTOSPOOL reader = NULL;

	assert_int_equal(fp_spool_attach(place->path, &roomy, &reader), 0);
	fp_spool_wanted_changed(writer);
	assert_false(fp_spool_wanted_changed(writer));
	assert_string_equal(next(writer), "(none)");
	usleep(20000); // a file system's clock may stand still for a tick
	assert_int_equal(fp_spool_want_symbols(reader, "ab01"), 0);
	assert_int_equal(fp_spool_want_symbols(reader, "ab01"), -EEXIST);
	assert_true(fp_spool_wanted_changed(writer));
	assert_string_equal(next(writer), "ab01");
	assert_int_equal(fp_spool_drop_wanted(writer, "ab01"), 0);
	assert_int_equal(fp_spool_drop_wanted(writer, "ab01"), -ENOENT);
	assert_string_equal(next(writer), "(none)");
}

static void only_an_id_is_a_wish(void **state)
{
	static const char *const wrong[] = { "",
					     "a",
					     "AB",
					     "../ab",
					     "ab/cd",
					     ".tmp",
					     "ab01 ",
					     "ab01.tmp",
					     "xy",
					     "00112233445566778899aabbccddeeff00112233445566778899"
					     "aabbccddeeff00" };
	AUTOSPOOL spool = open_spool(*state, &roomy);

	for (size_t i = 0; i < FP_ARRAY_SIZE(wrong); i++) {
		assert_int_equal(fp_spool_want_symbols(spool, wrong[i]), -EINVAL);
		assert_int_equal(fp_spool_drop_wanted(spool, wrong[i]), -EINVAL);
	}
	assert_string_equal(next(spool), "(none)");
}

// The ship role may put there what it likes.
static void what_is_no_wish_is_removed_and_keeps_nothing_from_being_found(void **state)
{
	AUTOSPOOL spool = open_spool(*state, &roomy);
	char name[64];

	for (int i = 0; i < 3000; i++) {
		snprintf(name, sizeof(name), "nonsense-%d", i);
		close(openat(spool->wanted_fd, name, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	}
	assert_int_equal(symlinkat("/etc/passwd", spool->wanted_fd, "link"), 0);
	assert_int_equal(mkdirat(spool->wanted_fd, "directory", 0700), 0);
	assert_int_equal(fp_spool_want_symbols(spool, "ab01"), -ENOSPC);
	for (int i = 0; i < 4 && strcmp(next(spool), "(none)") == 0; i++)
		;
	assert_int_equal(fp_spool_want_symbols(spool, "ab01"), 0);
	assert_string_equal(next(spool), "ab01");
	assert_int_equal(faccessat(spool->wanted_fd, "link", F_OK, AT_SYMLINK_NOFOLLOW), -1);
	assert_int_equal(access("/etc/passwd", F_OK), 0);
}

static void a_wish_is_not_written_through_a_link(void **state)
{
	const struct place *place = *state;
	AUTOSPOOL spool = open_spool(place, &roomy);
	char target[128];

	snprintf(target, sizeof(target), "%s/elsewhere", place->path);
	assert_int_equal(symlinkat(target, spool->wanted_fd, "ab01"), 0);
	assert_int_equal(fp_spool_want_symbols(spool, "ab01"), -EEXIST);
	assert_int_equal(access(target, F_OK), -1);
}

static void a_table_on_its_way_is_not_wished_for(void **state)
{
	static const uint8_t kernel[] = { 0xcd, 0x02 };
	AUTOSPOOL spool = open_spool(*state, &roomy);

	assert_int_equal(fp_spool_put_wanted(spool, &build, "/usr/bin/x", &text), 0);
	assert_int_equal(fp_spool_want_symbols(spool, "ab01"), -EEXIST);
	assert_int_equal(fp_spool_put_symbols(spool, kernel, 2, "[kernel]", "10 a\n", 5), 0);
	assert_int_equal(fp_spool_want_symbols(spool, "cd02"), -EEXIST);
	assert_true(fp_spool_sent_symbols(spool, "ab01"));
	assert_false(fp_spool_sent_symbols(spool, "ab01"));
	assert_false(fp_spool_sent_symbols(spool, "cd02")); // is kept
	assert_true(fp_spool_has_symbols(spool, "cd02"));
	assert_false(fp_spool_has_symbols(spool, "ab01"));
}

static void tables_that_wait_are_bounded(void **state)
{
	AUTOSPOOL spool = open_spool(*state, &roomy);
	struct fp_build other = build;
	unsigned int put = 0;

	while (fp_spool_wanted_room(spool) && put < 1000) {
		other.id[1] = (uint8_t)put++;
		assert_int_equal(fp_spool_put_wanted(spool, &other, "/usr/bin/x", &text), 0);
	}
	assert_int_equal(put, 64);
	assert_true(fp_spool_sent_symbols(spool, "ab05"));
	assert_true(fp_spool_wanted_room(spool));
	// The kernel's tables are none of them.
	for (uint8_t i = 0; i < 100; i++) {
		const uint8_t id[] = { 1, i };

		assert_int_equal(fp_spool_put_symbols(spool, id, 2, "[x]", "10 a\n", 5), 0);
	}
	assert_true(fp_spool_wanted_room(spool));
}

static void large_tables_that_wait_are_bounded_in_bytes(void **state)
{
	AUTOSPOOL spool = open_spool(*state, &roomy);
	FP_AUTOCLOSE int fd = -1;

	fd = openat(spool->symbols_fd, "ab01.once.zst", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	assert_int_equal(ftruncate(fd, (64 << 20) - 1), 0);
	assert_true(fp_spool_wanted_room(spool));
	assert_int_equal(ftruncate(fd, 64 << 20), 0);
	assert_false(fp_spool_wanted_room(spool));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_A_PLACE(a_wish_of_one_end_is_found_by_the_other),
		IN_A_PLACE(only_an_id_is_a_wish),
		IN_A_PLACE(what_is_no_wish_is_removed_and_keeps_nothing_from_being_found),
		IN_A_PLACE(a_wish_is_not_written_through_a_link),
		IN_A_PLACE(a_table_on_its_way_is_not_wished_for),
		IN_A_PLACE(tables_that_wait_are_bounded),
		IN_A_PLACE(large_tables_that_wait_are_bounded_in_bytes),
	};

	return cmocka_run_group_tests_name("spool_wanted", tests, NULL, NULL);
}
