// SPDX-License-Identifier: Apache-2.0
#include "spool_place.h"

#include "common/clock.h"
#include "tests/unit/proto/examples.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

const struct fp_spool_limits roomy = {
	.max_bytes = 1ULL << 40,
	.max_age_ns = UINT64_MAX,
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

int make_place(void **state)
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

int remove_place(void **state)
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

struct fp_spool *open_spool(const struct place *place, const struct fp_spool_limits *limits)
{
	struct fp_spool *spool = NULL;

	assert_int_equal(fp_spool_open(place->path, limits, &spool), 0);
	return spool;
}

uint64_t place_put(struct fp_spool *spool, uint64_t samples)
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

struct fp_spool_stats stats_of(struct fp_spool *spool)
{
	struct fp_spool_stats stats;

	fp_spool_stats(spool, &stats);
	return stats;
}

void assert_dropped(struct fp_spool *spool, enum fp_spool_drop reason, uint64_t batches,
		    uint64_t samples)
{
	struct fp_spool_stats stats = stats_of(spool);

	assert_int_equal(stats.dropped_batches[reason], batches);
	assert_int_equal(stats.dropped_samples[reason], samples);
}
