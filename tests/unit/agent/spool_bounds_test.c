// SPDX-License-Identifier: Apache-2.0
// The bounds of the spool: what is dropped, in which order, and that every sample is counted.
#include "common/clock.h"
#include "proto/slice.h"
#include "spool_place.h"
#include "tests/unit/proto/examples.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mount.h>

#include <cmocka.h>

static uint64_t one_batch_bytes(struct fp_spool *spool)
{
	AUTOITEM item = { 0 };
	uint64_t bytes;

	place_put(spool, 20);
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
		uint64_t sequence = place_put(spool, 20 + (uint64_t)i);

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

	place_put(spool, 33);
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
	place_put(spool, 20);
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
		last = place_put(spool, 20);
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
		place_put(spool, 20); // the oldest makes room, so this never fails
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
	place_put(spool, 33);
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
	uint32_t depth = fp_batch_default_limits.stack_depth + 1, stack;
	FP_AUTOFREE uint32_t *frames = calloc(depth, sizeof(*frames));

	assert_non_null(frames);
	assert_int_equal(fp_profile_stack(profile, frames, depth, &stack), 0);
	assert_int_equal(
	    fp_profile_sample(profile, &(struct fp_sample){ FP_PROFILE_CPU, 0, stack, 7, 7 }), 0);
	profile->sequence = fp_spool_next_sequence(spool);
	assert_int_equal(fp_spool_put(spool, profile), -E2BIG);
	assert_dropped(spool, FP_SPOOL_DROP_TOO_LARGE, 1, 7);
	assert_int_equal(stats_of(spool).samples, 20); // the others of its window are kept
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_A_PLACE(the_oldest_makes_room_when_bytes_run_out),
		IN_A_PLACE(a_batch_larger_than_the_spool_is_dropped_itself),
		IN_A_PLACE(age_is_measured_by_the_clock_that_can_be_trusted),
		IN_A_PLACE(below_the_free_floor_the_newest_replaces_the_oldest),
		IN_A_PLACE(a_full_disk_drops_exactly_what_does_not_fit),
		IN_A_PLACE(a_disk_filled_by_others_costs_only_the_new_batch),
		IN_A_PLACE(a_learned_limit_splits_what_comes_after),
		IN_A_PLACE(a_profile_that_cannot_be_encoded_is_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
