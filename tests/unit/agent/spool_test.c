// SPDX-License-Identifier: Apache-2.0
// The spool: what is put comes out once and in order, whatever a crash, a full disk or
// another version has left in the directory.
#include "agent/spool_state.h"
#include "common/clock.h"
#include "common/file.h"
#include "proto/slice.h"
#include "tests/unit/proto/examples.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <zstd.h>

#include <cmocka.h>

static const struct fp_spool_limits roomy = {
	.max_bytes = 1ULL << 40,
	.max_age_ns = UINT64_MAX,
};

struct place {
	char path[64];
	int fd;
};

static int remove_name(const char *name, void *context)
{
	unlinkat(*(int *)context, name, 0);
	return 0;
}

static void remove_below(int fd, const char *name)
{
	FP_AUTOCLOSE int below = openat(fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (below < 0)
		return;
	fp_spool_each_name(below, remove_name, &below);
	unlinkat(fd, name, AT_REMOVEDIR);
}

static int make_place(void **state)
{
	struct place *place = calloc(1, sizeof(*place));

	if (!place)
		return -1;
	strcpy(place->path, "/tmp/fleetprof-spool-XXXXXX");
	if (!mkdtemp(place->path))
		return -1;
	place->fd = open(place->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	*state = place;
	return place->fd < 0 ? -1 : 0;
}

static int remove_place(void **state)
{
	struct place *place = *state;

	remove_below(place->fd, FP_SPOOL_QUARANTINE);
	remove_below(place->fd, FP_SPOOL_SYMBOLS);
	fp_spool_each_name(place->fd, remove_name, &place->fd);
	close(place->fd);
	rmdir(place->path);
	free(place);
	return 0;
}

static struct fp_spool *open_spool(const struct place *place, const struct fp_spool_limits *limits)
{
	struct fp_spool *spool = NULL;

	assert_int_equal(fp_spool_open(place->path, limits, &spool), 0);
	return spool;
}

#define AUTOSPOOL FP_CLEANUP(fp_spool_freep) struct fp_spool *
#define AUTOITEM  FP_CLEANUP(fp_spool_item_clear) struct fp_spool_item

// Puts a small profile of now with the next sequence and yields that.
static uint64_t put(struct fp_spool *spool, uint64_t samples)
{
	FP_AUTOPROFILE struct fp_profile *profile = example_documented();

	profile->sequence = fp_spool_next_sequence(spool);
	profile->start_boottime_ns = fp_boottime_ns();
	profile->end_boottime_ns = profile->start_boottime_ns + 1;
	profile->start_realtime_ns = fp_realtime_ns();
	profile->samples[0].count = samples - 1;
	assert_int_equal(fp_spool_put(spool, profile), 0);
	return profile->sequence;
}

static struct fp_spool_stats stats_of(struct fp_spool *spool)
{
	struct fp_spool_stats stats;

	fp_spool_stats(spool, &stats);
	return stats;
}

static void assert_dropped(struct fp_spool *spool, enum fp_spool_drop reason, uint64_t batches,
			   uint64_t samples)
{
	struct fp_spool_stats stats = stats_of(spool);

	assert_int_equal(stats.dropped_batches[reason], batches);
	assert_int_equal(stats.dropped_samples[reason], samples);
}

static void batches_come_out_oldest_first_and_whole(void **state)
{
	AUTOSPOOL writer = open_spool(*state, &roomy);
	AUTOSPOOL reader = NULL;
	uint64_t sequences[3];

	assert_int_equal(fp_spool_attach(((struct place *)*state)->path, &roomy, &reader), 0);
	for (int i = 0; i < 3; i++)
		sequences[i] = put(writer, 10 + i);
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
			uint64_t sequence = put(spool, 20);

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
	put(spool, 20);
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
		uint64_t bad = put(spool, 20), good = put(spool, 20);
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
		edit(place, put(spool, 20), 0, "bad!", 4);
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
	uint64_t later = put(spool, 20), ours = put(spool, 20);
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

static uint64_t one_batch_bytes(struct fp_spool *spool)
{
	AUTOITEM item = { 0 };
	uint64_t bytes;

	put(spool, 20);
	bytes = stats_of(spool).bytes;
	assert_int_equal(fp_spool_peek(spool, false, &item), 0);
	assert_int_equal(fp_spool_acknowledge(spool, item.name), 0);
	return bytes;
}

static void the_oldest_makes_room_when_bytes_run_out(void **state)
{
	AUTOSPOOL spool = open_spool(*state, &roomy);
	AUTOITEM item = { 0 };
	uint64_t third = 0;

	// Sizes vary by a few bytes with the numbers inside.
	spool->limits.max_bytes = one_batch_bytes(spool) * 3 + 60;
	for (int i = 0; i < 5; i++) {
		uint64_t sequence = put(spool, 20 + (uint64_t)i);

		third = i == 2 ? sequence : third;
	}
	assert_dropped(spool, FP_SPOOL_DROP_SPOOL_BYTES, 2, 20 + 21);
	assert_true(stats_of(spool).bytes <= spool->limits.max_bytes);
	assert_int_equal(fp_spool_peek(spool, false, &item), 0);
	assert_int_equal(item.sequence, third);
}

static void a_batch_larger_than_the_spool_is_dropped_itself(void **state)
{
	AUTOSPOOL spool = open_spool(*state, &roomy);
	FP_AUTOPROFILE struct fp_profile *profile = example_documented();

	put(spool, 33);
	spool->limits.max_bytes = 100;
	profile->sequence = fp_spool_next_sequence(spool);
	assert_int_equal(fp_spool_put(spool, profile), -ENOSPC);
	assert_dropped(spool, FP_SPOOL_DROP_SPOOL_BYTES, 1, 20);
	assert_int_equal(stats_of(spool).samples, 33);
}

// Puts with the times given and says how many batches are left after one more put of now.
static uint64_t left_after(struct fp_spool *spool, uint64_t boottime_ns, uint64_t realtime_ns,
			   uint8_t boot)
{
	FP_AUTOPROFILE struct fp_profile *profile = example_documented();
	AUTOITEM item = { 0 };
	uint64_t left;

	profile->sequence = fp_spool_next_sequence(spool);
	profile->start_boottime_ns = boottime_ns;
	profile->end_boottime_ns = UINT64_MAX;
	profile->start_realtime_ns = realtime_ns;
	profile->boot_id[0] = boot ? boot : profile->boot_id[0];
	spool->limits.max_age_ns = UINT64_MAX;
	assert_int_equal(fp_spool_put(spool, profile), 0);
	spool->limits.max_age_ns = 3600 * FP_NS_PER_S;
	put(spool, 20);
	left = stats_of(spool).batches;
	while (fp_spool_peek(spool, false, &item) == 0) {
		fp_spool_acknowledge(spool, item.name);
		fp_spool_item_clear(&item);
	}
	return left;
}

static void age_is_measured_by_the_clock_that_can_be_trusted(void **state)
{
	AUTOSPOOL spool = open_spool(*state, &roomy);
	uint64_t boottime = fp_boottime_ns(), realtime = fp_realtime_ns();
	uint64_t day = 86400 * FP_NS_PER_S;

	// Of this boot: realtime may say what it likes.
	assert_int_equal(left_after(spool, boottime, 0, 0), 2);
	assert_int_equal(left_after(spool, boottime, realtime + day, 0), 2);
	if (boottime > 3700 * FP_NS_PER_S) {
		assert_int_equal(left_after(spool, boottime - 3601 * FP_NS_PER_S, realtime, 0), 1);
		assert_dropped(spool, FP_SPOOL_DROP_SPOOL_AGE, 1, 20);
	}
	// Of an earlier boot: boottime means nothing, and a clock set back makes nothing old.
	spool->dropped_batches[FP_SPOOL_DROP_SPOOL_AGE] = 0;
	assert_int_equal(left_after(spool, 0, realtime, 1), 2);
	assert_int_equal(left_after(spool, 0, realtime + day, 1), 2);
	assert_int_equal(left_after(spool, boottime, realtime - day, 1), 1);
	assert_int_equal(stats_of(spool).dropped_batches[FP_SPOOL_DROP_SPOOL_AGE], 1);
}

// A file system of its own, as small as asked for. Skips without the right to mount.
static void mount_small(const struct place *place, const char *options)
{
	if (mount("none", place->path, "tmpfs", 0, options) < 0) {
		print_message("skipped: no right to mount a tmpfs (%s)\n", strerror(errno));
		skip();
	}
}

static void below_the_free_floor_the_newest_replaces_the_oldest(void **state)
{
	const struct place *place = *state;
	struct fp_spool_limits limits = roomy;

	mount_small(place, "size=64k");
	AUTOSPOOL spool = open_spool(place, &limits);
	uint64_t last = 0;

	spool->limits.min_free_bytes = UINT64_MAX; // capped at half of the file system
	for (int i = 0; i < 40; i++)
		last = put(spool, 20);
	struct fp_spool_stats stats = stats_of(spool);
	AUTOITEM newest = { 0 };
	int peeked = fp_spool_peek(spool, true, &newest);

	fp_spool_freep(&spool);
	umount2(place->path, MNT_DETACH);
	assert_int_equal(peeked, 0);
	assert_int_equal(newest.sequence, last);
	assert_in_range(stats.batches, 4, 8); // 4 KiB pages in half of 64 KiB
	assert_int_equal(stats.batches + stats.dropped_batches[FP_SPOOL_DROP_DISK_FULL], 40);
	assert_int_equal(stats.samples + stats.dropped_samples[FP_SPOOL_DROP_DISK_FULL], 800);
}

static void a_full_disk_drops_exactly_what_does_not_fit(void **state)
{
	const struct place *place = *state;

	mount_small(place, "size=64k");
	AUTOSPOOL spool = open_spool(place, &roomy);
	for (int i = 0; i < 40; i++)
		put(spool, 20); // the oldest makes room, so this never fails
	struct fp_spool_stats stats = stats_of(spool);

	fp_spool_freep(&spool);
	umount2(place->path, MNT_DETACH);
	assert_true(stats.dropped_batches[FP_SPOOL_DROP_DISK_FULL] > 0);
	assert_int_equal(stats.batches + stats.dropped_batches[FP_SPOOL_DROP_DISK_FULL], 40);
	assert_int_equal(stats.samples + stats.dropped_samples[FP_SPOOL_DROP_DISK_FULL], 800);
}

static void a_disk_filled_by_others_costs_only_the_new_batch(void **state)
{
	const struct place *place = *state;
	FP_AUTOPROFILE struct fp_profile *profile = example_documented();
	uint8_t page[4096] = { 0 };
	char path[96];

	mount_small(place, "size=64k");
	AUTOSPOOL spool = open_spool(place, &roomy);
	put(spool, 33);
	AUTOITEM item = { 0 };
	assert_int_equal(fp_spool_peek(spool, false, &item), 0);
	assert_int_equal(fp_spool_acknowledge(spool, item.name), 0);
	snprintf(path, sizeof(path), "%s/filler", place->path);
	FP_AUTOCLOSE int filler = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	while (write(filler, page, sizeof(page)) > 0)
		;
	profile->sequence = fp_spool_next_sequence(spool);
	int full = fp_spool_put(spool, profile);
	struct fp_spool_stats stats = stats_of(spool);
	assert_int_equal(ftruncate(filler, 0), 0);
	int again = fp_spool_put(spool, profile);

	fp_spool_freep(&spool);
	fp_close_fd(&filler);
	umount2(place->path, MNT_DETACH);
	assert_int_equal(full, -ENOSPC);
	assert_int_equal(stats.dropped_batches[FP_SPOOL_DROP_DISK_FULL], 1);
	assert_int_equal(stats.dropped_samples[FP_SPOOL_DROP_DISK_FULL], 20);
	assert_int_equal(again, 0);
}

static void a_learned_limit_splits_what_comes_after(void **state)
{
	const struct place *place = *state;
	AUTOSPOOL spool = open_spool(place, &roomy);
	AUTOSPOOL reader = NULL;
	FP_AUTOPROFILE struct fp_profile *profile = example_random(2500, 4);
	uint64_t count = fp_profile_count(profile), samples = 0;
	uint64_t quality = 0, rows = 0;
	uint8_t last_id[FP_BATCH_ID_LEN] = { 0 };

	profile->sequence = fp_spool_next_sequence(spool);
	assert_int_equal(fp_spool_put(spool, profile), 0);
	assert_int_equal(stats_of(spool).batches, 1);
	AUTOITEM whole = { 0 };
	assert_int_equal(fp_spool_attach(place->path, &roomy, &reader), 0);
	assert_int_equal(fp_spool_peek(reader, false, &whole), 0);
	assert_true(whole.bytes.len > 200 << 10);
	assert_int_equal(fp_spool_drop(reader, whole.name, FP_SPOOL_DROP_TOO_LARGE), 0);
	assert_int_equal(fp_spool_learn_limit(reader, whole.bytes.len), 0);
	profile->sequence = fp_spool_next_sequence(spool);
	assert_int_equal(fp_spool_put(spool, profile), 0);
	for (;;) {
		FP_AUTOPROFILE struct fp_profile *part = NULL;
		const char *reason;
		AUTOITEM item = { 0 };

		if (fp_spool_peek(reader, false, &item) == -ENOENT)
			break;
		assert_true(item.bytes.len <= whole.bytes.len / 2);
		assert_memory_not_equal(item.batch_id, last_id, sizeof(last_id));
		memcpy(last_id, item.batch_id, sizeof(last_id));
		assert_int_equal(fp_batch_decode(item.bytes.data, item.bytes.len,
						 &fp_batch_default_limits, &part, &reason),
				 0);
		assert_int_equal(item.samples, fp_profile_count(part));
		samples += item.samples;
		rows += part->samples_count;
		quality += part->quality[FP_PROFILE_CPU].present;
		assert_int_equal(fp_spool_acknowledge(reader, item.name), 0);
	}
	assert_int_equal(samples, count);
	assert_int_equal(rows, profile->samples_count);
	assert_int_equal(quality, 1); // the window's record stands once
	fp_spool_freep(&spool);
	spool = open_spool(place, &roomy); // a new start tries the usual size again
	profile->sequence = fp_spool_next_sequence(spool);
	assert_int_equal(fp_spool_put(spool, profile), 0);
	assert_int_equal(stats_of(spool).batches, 1);
}

static void a_profile_that_cannot_be_encoded_is_counted(void **state)
{
	AUTOSPOOL spool = open_spool(*state, &roomy);
	FP_AUTOPROFILE struct fp_profile *profile = example_documented();
	uint32_t frames[1025] = { 0 }, stack;

	assert_int_equal(fp_profile_stack(profile, frames, 1025, &stack), 0);
	assert_int_equal(
	    fp_profile_sample(profile, &(struct fp_sample){ FP_PROFILE_CPU, 0, stack, 7, 7 }), 0);
	profile->sequence = fp_spool_next_sequence(spool);
	assert_int_equal(fp_spool_put(spool, profile), -E2BIG);
	assert_dropped(spool, FP_SPOOL_DROP_TOO_LARGE, 1, 7);
	assert_int_equal(stats_of(spool).samples, 20); // the others of its window are kept
}

static void a_shared_spool_is_open_to_the_group_alone(void **state)
{
	const struct place *place = *state;
	const gid_t group = 65534;
	struct stat info;
	char name[FP_SPOOL_NAME_MAX];
	static const char *const directories[] = { ".", "quarantine", "symbols" };

	if (geteuid() != 0)
		skip();
	AUTOSPOOL spool = open_spool(place, &roomy);
	fp_spool_name(put(spool, 20), name);
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
		fp_spool_name(put(spool, 20), name);
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

#define IN_A_PLACE(test) cmocka_unit_test_setup_teardown(test, make_place, remove_place)

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
		IN_A_PLACE(the_oldest_makes_room_when_bytes_run_out),
		IN_A_PLACE(a_batch_larger_than_the_spool_is_dropped_itself),
		IN_A_PLACE(age_is_measured_by_the_clock_that_can_be_trusted),
		IN_A_PLACE(below_the_free_floor_the_newest_replaces_the_oldest),
		IN_A_PLACE(a_full_disk_drops_exactly_what_does_not_fit),
		IN_A_PLACE(a_disk_filled_by_others_costs_only_the_new_batch),
		IN_A_PLACE(a_learned_limit_splits_what_comes_after),
		IN_A_PLACE(a_profile_that_cannot_be_encoded_is_counted),
		IN_A_PLACE(a_shared_spool_is_open_to_the_group_alone),
		IN_A_PLACE(a_symbol_table_waits_with_its_name),
		cmocka_unit_test(names_parse_strictly),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
