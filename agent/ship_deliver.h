// SPDX-License-Identifier: Apache-2.0
//
// ship_deliver: one pass of delivery: everything that is due goes out, the answers are acted
// on and counted. The role's loop (ship.c) says when. Batches and symbol tables wait
// separately: a collector that knows no symbol tables still gets every batch.
// Threads: one owner.
#pragma once

#include "agentmetrics.h"
#include "ship.h"
#include "ship_policy.h"
#include "ship_symbols.h"

struct fp_ship_line { // batches, or symbol tables
	struct fp_ship_backoff backoff;
	uint64_t due_ns; // boottime of the next attempt after a failure; 0: now
};

struct fp_ship {
	const struct fp_ship_config *config;
	struct fp_metrics *metrics;
	struct fp_spool *spool;
	struct fp_ship_client *client;
	struct fp_ship_symbols symbols;
	struct fp_ship_line batches, tables;
	struct fp_spool_stats reported;
	bool (*should_stop)(void *context);
	void *stop_context;
};

// The spool must exist. Errors: -errno.
int fp_ship_open(const struct fp_ship_config *config, struct fp_metrics *metrics,
		 struct fp_ship *ship);
void fp_ship_close(struct fp_ship *ship);
// Sends what is due until nothing is left, something fails, or should_stop says so.
void fp_ship_pass(struct fp_ship *ship);
// Boottime of the next attempt when something is waiting, else 0.
uint64_t fp_ship_due_ns(const struct fp_ship *ship);
