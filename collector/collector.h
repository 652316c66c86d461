// SPDX-License-Identifier: Apache-2.0
//
// collector: everything the running collector holds, shared by the handlers of its routes.
// Built once by program.c before the first request and torn down after the last.
// Threads: handlers run on one thread per connection; the parts lock themselves.
#pragma once

#include "collectormetrics.h"
#include "config.h"
#include "store.h"
#include "symbolservice.h"

#include <semaphore.h>

struct fp_collector {
	struct fp_collector_config config;
	struct fp_metrics metrics;
	struct fp_store *store;
	struct fp_symbol_service *symbols;
	char *token;		 // "" when none is asked for
	sem_t query_turns;	 // config.query_concurrency
	sem_t decode_turns;	 // batches decoded at once
	uint64_t inflight_bytes; // request bodies in memory, atomic
	int last_append_error;	 // 0 or -errno of the last append, atomic; for /readyz
	uint64_t started_ns;	 // CLOCK_REALTIME
};

#define fp_collector_count(collector, id, n) fp_metric_add(&(collector)->metrics, FP_METRIC_##id, n)
