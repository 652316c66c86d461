// SPDX-License-Identifier: Apache-2.0
//
// ship_bench: a spool, a metrics page, a ship role's state and a collector for one test.
#pragma once

#include "agent/ship_deliver.h"
#include "common/clock.h"
#include "ship_server.h"

#define CAP_NS (300 * FP_NS_PER_S)

struct bench {
	struct ship_server *server;
	char directory[64];
	struct fp_spool *spool; // the sampler's end
	struct fp_metrics metrics;
	int metrics_fd;
	struct fp_ship_config config;
	struct fp_ship ship;
	uint64_t put_batches, put_samples;
};

int bench_up(void **state); // cmocka's setup and teardown
int bench_down(void **state);
#define ON_BENCH(test) cmocka_unit_test_setup_teardown(test, bench_up, bench_down)

void bench_open_ship(struct bench *bench);
// Spools one batch of that many samples and adds it to the sums.
void bench_put(struct bench *bench, uint64_t samples);
uint64_t bench_metric(const struct bench *bench, size_t row);
// What was put is stored once, dropped for a reason, or queued: never two, never none.
void assert_balanced(struct bench *bench);
