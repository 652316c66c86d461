// SPDX-License-Identifier: Apache-2.0
// The spool: what is put comes out once and in order, whatever a crash, a full disk or
// another version has left in the directory.
#include "common/file.h"
#include "spool_place.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <zstd.h>

#include <cmocka.h>

static void batches_come_out_oldest_first_and_whole(void **state)
{
	AUTOSPOOL writer = open_spool(*state, &roomy);
	AUTOSPOOL reader = NULL;
	uint64_t sequences[3];

	assert_int_equal(fp_spool_attach(((struct place *)*state)->path, &roomy, &reader), 0);
	for (int i = 0; i < 3; i++)
		sequences[i] = place_put(writer, 10 + i);
	assert_int_equal(stats_of(reader).batches, 3);
	assert_int_equal(stats_of(reader).samples, 33);
	{
		AUTOITEM newest = { 0 };

		assert_int_equal(fp_spool_peek(reader, true, &newest), 0);
		assert_int_equal(newest.sequence, sequences[2]);
	}
	for (int i = 0; i < 3; i++) {
		FP_AUTOPROFILE struct fp_profile *profile = NULL;
		uint8_t id[FP_BATCH_ID_LEN];
		const char *reason;
		AUTOITEM item = { 0 };

		assert_int_equal(fp_spool_peek(reader, false, &item), 0);
		assert_int_equal(item.sequence, sequences[i]);
		assert_int_equal(item.samples, 10 + i);
		assert_int_equal(fp_batch_decode(item.bytes.data, item.bytes.len,
						 &fp_batch_default_limits, &profile, &reason),
				 0);
		assert_int_equal(profile->sequence, sequences[i]);
		fp_batch_id(profile, id);
		assert_memory_equal(id, item.batch_id, sizeof(id));
		assert_int_equal(item.start_realtime_ns, profile->start_realtime_ns);
		assert_int_equal(fp_spool_acknowledge(reader, item.name), 0);
		assert_int_equal(fp_spool_acknowledge(reader, item.name), -ENOENT);
	}
	AUTOITEM none = { 0 };
	assert_int_equal(fp_spool_peek(reader, false, &none), -ENOENT);
	assert_int_equal(stats_of(writer).batches, 0);
	assert_int_equal(stats_of(writer).oldest_realtime_ns, 0);
}

static void a_sequence_never_comes_again(void **state)
{
	static const struct {
		const char *claim;
		bool ship, lose_mark;
	} cases[] = {
		{ "after a restart with the files still there", false, false },
		{ "after everything was shipped", true, false },
		{ "after the mark was lost", false, true },
		{ "after the whole directory was emptied", true, true },
	};
	const struct place *place = *state;
	uint64_t last = 0;

	for (size_t i = 0; i < FP_ARRAY_SIZE(cases); i++) {
		AUTOSPOOL spool = open_spool(place, &roomy);

		for (int n = 0; n < 3; n++) {
			AUTOITEM item = { 0 };
			uint64_t sequence = place_put(spool, 20);

			if (sequence <= last)
				fail_msg("repeated: %s", cases[i].claim);
			last = sequence;
			if (cases[i].ship && fp_spool_peek(spool, true, &item) == 0)
				fp_spool_acknowledge(spool, item.name);
		}
		if (cases[i].lose_mark)
			unlinkat(place->fd, FP_SPOOL_SEQUENCE_FILE, 0);
	}
}

// With a clock set back, only the mark knows what was handed out.
static void the_mark_outlives_a_clock_that_was_set_back(void **state)
{
	const struct place *place = *state;
	static const char mark[] = "18000000000000000000\n";

	assert_int_equal(
	    fp_file_write_durable(place->fd, FP_SPOOL_SEQUENCE_FILE, mark, sizeof(mark) - 1, 0600),
	    0);
	AUTOSPOOL spool = open_spool(place, &roomy);
	assert_true(fp_spool_next_sequence(spool) >= 18000000000000000000ULL);
	place_put(spool, 20);
	fp_spool_freep(&spool);
	unlinkat(place->fd, FP_SPOOL_SEQUENCE_FILE, 0);
	spool = open_spool(place, &roomy); // and the files, where the mark was lost
	assert_true(fp_spool_next_sequence(spool) > 18000000000000000001ULL);
}

static void edit(const struct place *place, uint64_t sequence, off_t at, const void *bytes,
		 size_t size)
{
	char name[FP_SPOOL_NAME_MAX];

	fp_spool_name(sequence, name);
	FP_AUTOCLOSE int fd = openat(place->fd, name, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	if (at < 0)
		at = lseek(fd, 0, SEEK_END) + at + 1;
	if (size)
		assert_int_equal(pwrite(fd, bytes, size, at), size);
	else
		assert_int_equal(ftruncate(fd, at), 0);
}

static void a_damaged_file_is_quarantined_and_counted(void **state)
{
	static const struct {
		const char *claim;
		off_t at; // negative: from the end, -1 behind the last byte
		const char *bytes;
		size_t size;	  // 0: cut here
		uint64_t samples; // known while the header is whole
	} cases[] = {
		{ "another magic", 0, "XPS1", 4, 0 },
		{ "another samples count, so a wrong header checksum", 32, "\xff", 1, 0 },
		{ "a wrong payload byte", 70, "\xff\xfe\xfd", 3, 20 },
		{ "a wrong last byte", -2, "\x5a\x5a", 1, 20 },
		{ "trailing bytes", -1, "x", 1, 20 },
		{ "cut behind the header", 64, NULL, 0, 20 },
		{ "cut inside the header", 63, NULL, 0, 0 },
		{ "cut to nothing", 0, NULL, 0, 0 },
	};
	const struct place *place = *state;

	for (size_t i = 0; i < FP_ARRAY_SIZE(cases); i++) {
		AUTOSPOOL spool = open_spool(place, &roomy);
		uint64_t bad = place_put(spool, 20), good = place_put(spool, 20);
		char name[FP_SPOOL_NAME_MAX], path[80];
		struct stat info;
		AUTOITEM item = { 0 };

		fp_spool_name(bad, name);
		edit(place, bad, cases[i].at, cases[i].bytes, cases[i].size);
		fp_spool_index_free(&spool->index); // what a new process would not know
		assert_int_equal(fp_spool_peek(spool, false, &item), 0);
		if (item.sequence != good)
			fail_msg("was shipped: %s", cases[i].claim);
		assert_dropped(spool, FP_SPOOL_DROP_CORRUPT, 1, cases[i].samples);
		snprintf(path, sizeof(path), "%s/%s", FP_SPOOL_QUARANTINE, name);
		assert_int_equal(fstatat(place->fd, path, &info, 0), 0);
		assert_int_equal(fp_spool_acknowledge(spool, item.name), 0);
	}
}

static int count_name(const char *name, void *context)
{
	++*(size_t *)context;
	return 0;
}

static void quarantine_does_not_grow_without_end(void **state)
{
	const struct place *place = *state;
	AUTOSPOOL spool = open_spool(place, &roomy);
	AUTOITEM item = { 0 };
	size_t count = 0;

	for (int i = 0; i < 20; i++)
		edit(place, place_put(spool, 20), 0, "bad!", 4);
	fp_spool_index_free(&spool->index);
	assert_int_equal(fp_spool_peek(spool, false, &item), -ENOENT);
	assert_dropped(spool, FP_SPOOL_DROP_CORRUPT, 20, 0);
	fp_spool_each_name(spool->quarantine_fd, count_name, &count);
	assert_int_equal(count, 8);
}

static void leftovers_of_a_crash_are_removed_and_strangers_left_alone(void **state)
{
	const struct place *place = *state;
	static const char *const names[] = { ".00000000000000000007.batch.0123456789abcdef.tmp",
					     "README", "7.batch",
					     "00000000000000000007.batch.old" };
	AUTOITEM item = { 0 };

	for (size_t i = 0; i < FP_ARRAY_SIZE(names); i++)
		close(openat(place->fd, names[i], O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	assert_int_equal(mkdirat(place->fd, "00000000000000000009.batch", 0700), 0);
	AUTOSPOOL spool = open_spool(place, &roomy);
	assert_int_equal(faccessat(place->fd, names[0], F_OK, 0), -1);
	for (size_t i = 1; i < FP_ARRAY_SIZE(names); i++)
		assert_int_equal(faccessat(place->fd, names[i], F_OK, 0), 0);
	assert_int_equal(fp_spool_peek(spool, false, &item), -ENOENT); // the directory is no batch
	unlinkat(spool->quarantine_fd, "00000000000000000009.batch", AT_REMOVEDIR);
}

static void a_reader_leaves_the_writers_temporary_files_alone(void **state)
{
	const struct place *place = *state;
	static const char temporary[] = ".00000000000000000007.batch.0123456789abcdef.tmp";
	AUTOSPOOL writer = open_spool(place, &roomy);
	AUTOSPOOL reader = NULL;

	close(openat(place->fd, temporary, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	assert_int_equal(fp_spool_attach(place->path, &roomy, &reader), 0);
	assert_int_equal(faccessat(place->fd, temporary, F_OK, 0), 0);
}

static void a_file_of_a_later_version_is_not_touched(void **state)
{
	const struct place *place = *state;
	AUTOSPOOL spool = open_spool(place, &roomy);
	uint64_t later = place_put(spool, 20), ours = place_put(spool, 20);
	AUTOITEM item = { 0 };

	edit(place, later, 0, "FPS2", 4);
	fp_spool_index_free(&spool->index);
	assert_int_equal(fp_spool_peek(spool, false, &item), 0);
	assert_int_equal(item.sequence, ours);
	assert_int_equal(fp_spool_acknowledge(spool, item.name), 0);
	fp_spool_item_clear(&item);
	assert_int_equal(fp_spool_peek(spool, false, &item), -ENOENT);
	assert_int_equal(stats_of(spool).batches, 1);
	assert_dropped(spool, FP_SPOOL_DROP_CORRUPT, 0, 0);
}

static void a_shared_spool_is_open_to_the_group_alone(void **state)
{
	const struct place *place = *state;
	const gid_t group = 65534;
	struct stat info;
	char name[FP_SPOOL_NAME_MAX];
	static const char *const directories[] = { ".", "quarantine", "symbols", "symbols/wanted" };

	if (geteuid() != 0) {
		print_message("skipped: only root may give a directory to another group\n");
		skip();
	}
	AUTOSPOOL spool = open_spool(place, &roomy);
	fp_spool_name(place_put(spool, 20), name);
	assert_int_equal(fp_spool_share(place->path, group), 0);
	for (size_t i = 0; i < FP_ARRAY_SIZE(directories); i++) {
		assert_int_equal(fstatat(place->fd, directories[i], &info, 0), 0);
		assert_int_equal(info.st_mode & 07777, 02770);
		assert_int_equal(info.st_gid, group);
	}
	for (int i = 0; i < 2; i++) { // one from before, one from after
		assert_int_equal(fstatat(place->fd, name, &info, 0), 0);
		assert_int_equal(info.st_mode & 07777, 0640);
		assert_int_equal(info.st_gid, group);
		fp_spool_name(place_put(spool, 20), name);
	}
}

static void a_symbol_table_waits_with_its_name(void **state)
{
	static const char text[] = "0 _stext\n10 do_work\n";
	const uint8_t id[4] = { 0xde, 0xad, 0xbe, 0xef };
	AUTOSPOOL spool = open_spool(*state, &roomy);
	FP_CLEANUP(fp_spool_symbols_clear) struct fp_spool_symbols table = { 0 };
	FP_AUTOFREE char **ids = NULL;
	char out[64];

	assert_int_equal(fp_spool_put_symbols(spool, id, 4, "[kernel]", text, sizeof(text) - 1), 0);
	assert_int_equal(fp_spool_put_symbols(spool, id, 4, "again", "x", 1), 0); // written once
	close(openat(spool->symbols_fd, "deadbee.sym.zst", O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	close(openat(spool->symbols_fd, "..sym.zst", O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	assert_int_equal(fp_spool_list_symbols(spool, &ids), 0);
	assert_string_equal(ids[0], "deadbeef");
	assert_null(ids[1]);
	assert_int_equal(fp_spool_read_symbols(spool, "deadbeef", &table), 0);
	assert_string_equal((char *)table.path.data, "[kernel]");
	assert_int_equal(ZSTD_decompress(out, sizeof(out), table.bytes.data, table.bytes.len),
			 sizeof(text) - 1);
	assert_memory_equal(out, text, sizeof(text) - 1);
	free(ids[0]);
	fp_spool_symbols_clear(&table);
	assert_int_equal(fp_spool_read_symbols(spool, "beef", &table), -ENOENT);
	assert_int_equal(fp_spool_read_symbols(spool, "../../etc/passwd", &table), -EINVAL);
	assert_int_equal(fp_spool_put_symbols(spool, id, 0, "", text, 1), -EINVAL);
}

static void missing_parents_let_another_user_pass(void **state)
{
	const struct place *place = *state;
	FP_CLEANUP(fp_spool_freep) struct fp_spool *spool = NULL;
	mode_t mask = umask(022);
	char path[128];
	struct stat info;

	snprintf(path, sizeof(path), "%s/%s/spool", place->path, FP_SPOOL_SYMBOLS);
	assert_int_equal(fp_spool_open(path, &roomy, &spool), 0);
	umask(mask);
	assert_int_equal(fstatat(place->fd, FP_SPOOL_SYMBOLS, &info, 0), 0);
	assert_int_equal(info.st_mode & 07777, 0755);
	assert_int_equal(fstat(spool->fd, &info), 0);
	assert_int_equal(info.st_mode & 07777, 0700);
	unlinkat(spool->fd, FP_SPOOL_QUARANTINE, AT_REMOVEDIR);
	unlinkat(spool->fd, FP_SPOOL_SYMBOLS, AT_REMOVEDIR);
	rmdir(path);
}

static void names_parse_strictly(void **state)
{
	static const char *const wrong[] = { "",
					     "1.batch",
					     "00000000000000000001.batc",
					     "00000000000000000001.batch2",
					     "+0000000000000000001.batch",
					     "99999999999999999999.batch",
					     "0000000000000000000x.batch" };
	char name[FP_SPOOL_NAME_MAX];
	uint64_t sequence = 0;

	for (size_t i = 0; i < FP_ARRAY_SIZE(wrong); i++)
		assert_false(fp_spool_name_parse(wrong[i], &sequence));
	fp_spool_name(UINT64_MAX, name);
	assert_true(fp_spool_name_parse(name, &sequence));
	assert_true(sequence == UINT64_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_A_PLACE(batches_come_out_oldest_first_and_whole),
		IN_A_PLACE(a_sequence_never_comes_again),
		IN_A_PLACE(the_mark_outlives_a_clock_that_was_set_back),
		IN_A_PLACE(a_damaged_file_is_quarantined_and_counted),
		IN_A_PLACE(quarantine_does_not_grow_without_end),
		IN_A_PLACE(leftovers_of_a_crash_are_removed_and_strangers_left_alone),
		IN_A_PLACE(a_reader_leaves_the_writers_temporary_files_alone),
		IN_A_PLACE(a_file_of_a_later_version_is_not_touched),
		IN_A_PLACE(a_shared_spool_is_open_to_the_group_alone),
		IN_A_PLACE(a_symbol_table_waits_with_its_name),
		IN_A_PLACE(missing_parents_let_another_user_pass),
		IN_A_PLACE(names_parse_strictly),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
