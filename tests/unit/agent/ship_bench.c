// SPDX-License-Identifier: Apache-2.0
#include "ship_bench.h"

#include "tests/unit/proto/examples.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static const struct fp_spool_limits limits = { .max_bytes = 1ULL << 40, .max_age_ns = UINT64_MAX };

static bool never(void *context)
{
	return false;
}

int bench_up(void **state)
{
	struct bench *bench = calloc(1, sizeof(*bench));

	if (!bench)
		return -1;
	fp_agent_metrics_init();
	bench->server = ship_server_start();
	strcpy(bench->directory, "/tmp/fleetprof-ship-XXXXXX");
	if (!mkdtemp(bench->directory) || fp_spool_open(bench->directory, &limits, &bench->spool) ||
	    fp_metrics_share(fp_agent_metrics, FP_M_COUNT, &bench->metrics, &bench->metrics_fd))
		return -1;
	bench->config = (struct fp_ship_config){ .collector_url = ship_server_url(bench->server),
						 .spool_directory = bench->directory,
						 .limits = limits,
						 .user = "",
						 .listen = "",
						 .token_file = "",
						 .ca_file = "",
						 .retry_max_ns = CAP_NS,
						 .loop_stale_ns = FP_NS_PER_S };
	*state = bench;
	return 0;
}

void bench_open_ship(struct bench *bench)
{
	bench->ship.should_stop = never;
	assert_int_equal(fp_ship_open(&bench->config, &bench->metrics, &bench->ship), 0);
}

int bench_down(void **state)
{
	struct bench *bench = *state;
	char command[96];

	if (bench->ship.spool)
		fp_ship_close(&bench->ship);
	fp_spool_free(bench->spool);
	fp_metrics_unmap(&bench->metrics);
	close(bench->metrics_fd);
	ship_server_stopp(&bench->server);
	snprintf(command, sizeof(command), "rm -rf %s", bench->directory);
	free(bench);
	return system(command);
}

void bench_put(struct bench *bench, uint64_t samples)
{
	FP_AUTOPROFILE struct fp_profile *profile = example_documented();

	profile->sequence = fp_spool_next_sequence(bench->spool);
	profile->start_boottime_ns = fp_boottime_ns();
	profile->end_boottime_ns = UINT64_MAX;
	profile->samples[0].count = samples - 1;
	assert_int_equal(fp_spool_put(bench->spool, profile), 0);
	bench->put_batches++;
	bench->put_samples += samples;
}

uint64_t bench_metric(const struct bench *bench, size_t row)
{
	return fp_metric_get(&bench->metrics, row);
}

void assert_balanced(struct bench *bench)
{
	struct ship_seen seen = ship_server_seen(bench->server);
	struct fp_spool_stats stats;
	uint64_t dropped = 0;

	fp_spool_stats(bench->spool, &stats);
	for (size_t i = 0; i < FP_SPOOL_DROP_COUNT; i++)
		dropped += bench_metric(bench, FP_M_SPOOL_DROPPED_SAMPLES_FIRST + i);
	assert_int_equal(bench_metric(bench, FP_M_SHIP_SAMPLES) + dropped + stats.samples,
			 bench->put_samples);
	assert_int_equal(seen.malformed, 0);
	assert_int_equal(bench_metric(bench, FP_M_SPOOL_BATCHES), stats.batches);
}
