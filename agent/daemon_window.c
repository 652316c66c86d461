// SPDX-License-Identifier: Apache-2.0
//
// Windows: closed in time, stamped with identity and sequence, put into the spool. A spool
// that cannot take a window is counted and said; sampling goes on.
#include "daemon_state.h"

#include "common/clock.h"
#include "common/log.h"
#include "kernelmap.h"
#include "proto/slice.h"

#include <errno.h>
#include <string.h>

uint64_t fp_daemon_first_window_ns(const struct fp_daemon *daemon)
{
	uint64_t length_ns = daemon->config.window_length_ns;
	uint64_t most_ns = length_ns / 100 * daemon->config.window_jitter_percent;
	uint32_t place; // of this host in the fleet; the host id is as good as random

	memcpy(&place, daemon->identity.host_id + 4, sizeof(place));
	return length_ns - most_ns + (uint64_t)((double)place / UINT32_MAX * 2.0 * (double)most_ns);
}

// The reason for most of the walks that stopped in the build, of either profile.
static const char *reason_of(const struct fp_profile *profile, uint32_t build)
{
	const char *reason = fp_quality_worst_stop(profile, FP_PROFILE_CPU, build);

	return reason ? reason : fp_quality_worst_stop(profile, FP_PROFILE_OFF_CPU, build);
}

static void remember_build(struct fp_daemon *daemon, const struct fp_profile *profile,
			   const struct fp_build_quality *build)
{
	struct fp_stopped_build *rows = daemon->stopped_builds;
	size_t place = daemon->stopped_builds_count;
	const char *reason = reason_of(profile, build->build);

	while (place > 0 && rows[place - 1].stopped < build->stopped)
		place--;
	if (place == FP_STOPPED_BUILDS_MAX)
		return;
	if (daemon->stopped_builds_count < FP_STOPPED_BUILDS_MAX)
		daemon->stopped_builds_count++;
	memmove(&rows[place + 1], &rows[place],
		(daemon->stopped_builds_count - place - 1) * sizeof(rows[0]));
	rows[place] =
	    (struct fp_stopped_build){ .stacks = build->stacks, .stopped = build->stopped };
	snprintf(rows[place].path, sizeof(rows[place].path), "%s",
		 fp_profile_str(profile, profile->builds[build->build].path));
	snprintf(rows[place].reason, sizeof(rows[place].reason), "%s", reason ? reason : "");
}

// Stacks on the CPU and off it together.
static void remember_builds(struct fp_daemon *daemon, const struct fp_profile *profile)
{
	static const enum fp_profile_type types[] = { FP_PROFILE_CPU, FP_PROFILE_OFF_CPU };
	FP_AUTOFREE struct fp_build_quality *sums =
	    calloc((size_t)profile->builds_count + 1, sizeof(*sums));

	daemon->stopped_builds_count = 0;
	for (size_t i = 0; sums && i < FP_ARRAY_SIZE(types); i++) {
		const struct fp_quality *quality = &profile->quality[types[i]];

		for (uint32_t j = 0; j < quality->builds_count; j++) {
			const struct fp_build_quality *row = &quality->builds[j];

			sums[row->build].build = row->build;
			sums[row->build].stacks += row->stacks;
			sums[row->build].stopped += row->stopped;
		}
	}
	for (uint32_t i = 0; sums && i < profile->builds_count; i++)
		if (sums[i].stopped)
			remember_build(daemon, profile, &sums[i]);
}

static void remember(struct fp_daemon *daemon, const struct fp_profile *profile)
{
	daemon->windows++;
	daemon->last_window_realtime_ns = profile->end_realtime_ns;
	for (int type = 0; type < FP_PROFILE_TYPES; type++)
		daemon->last_samples[type] = profile->quality[type].counters[FP_QUALITY_SAMPLES];
	remember_builds(daemon, profile);
}

static void note_put(struct fp_daemon *daemon, const struct fp_profile *profile, int r)
{
	fp_metric_set(&daemon->metrics, FP_M_SPOOL_WRITABLE, r == 0);
	if (r < 0) {
		fp_error("a window of %llu samples could not be spooled in '%s' and is counted as "
			 "dropped: %s",
			 (unsigned long long)fp_profile_count(profile),
			 daemon->config.spool_directory, strerror(-r));
	} else {
		fp_metric_add(&daemon->metrics, FP_M_BATCHES_SPOOLED, 1);
		fp_metric_add(&daemon->metrics, FP_M_SAMPLES_SPOOLED, fp_profile_count(profile));
		if (daemon->spool_failing)
			fp_info("the spool takes windows again");
	}
	daemon->spool_failing = r < 0;
}

void fp_daemon_window_deliver(struct fp_daemon *daemon, struct fp_profile *profile)
{
	int r =
	    fp_identity_stamp(&daemon->identity, fp_spool_next_sequence(daemon->spool), profile);

	fp_daemon_symbols_remember(&daemon->symbols, profile);
	if (r == 0)
		r = fp_spool_put(daemon->spool, profile);
	note_put(daemon, profile, r);
	remember(daemon, profile);
	fp_agent_metrics_spool(&daemon->metrics, daemon->spool, &daemon->spool_counted);
	fp_metric_add(&daemon->metrics, FP_M_WINDOWS, 1);
	fp_daemon_metrics_update(daemon);
}

void fp_daemon_window_close(struct fp_daemon *daemon)
{
	struct fp_profile *profile FP_AUTOPROFILE = NULL;
	int r = fp_session_close_window(daemon->session, &profile);

	if (r < 0)
		fp_error("the window could not be completed, going on with the next: %s",
			 strerror(-r));
	else
		fp_daemon_window_deliver(daemon, profile);
}

static int spool_table(const char *module, const uint8_t *id, size_t id_len, const char *text,
		       size_t size, void *context)
{
	struct fp_daemon *daemon = context;
	char path[96] = "[kernel]";
	int r;

	if (module)
		snprintf(path, sizeof(path), "[%.80s]", module);
	r = fp_spool_put_symbols(daemon->spool, id, id_len, path, text, size);
	return module ? 0 : r; // one module's table is no reason to leave out the others
}

// The collector names kernel frames from these; each build is written once.
void fp_daemon_spool_kernel_tables(struct fp_daemon *daemon)
{
	const struct fp_kernel_map *map = fp_session_kernel_map(daemon->session);
	int r =
	    map && fp_kernel_map_usable(map) ? fp_kernel_map_tables(map, spool_table, daemon) : 0;

	if (r < 0)
		fp_warn("the kernel's symbol table could not be spooled, continuing without: %s",
			strerror(-r));
}
