// SPDX-License-Identifier: Apache-2.0
//
// ship: the ship role. A child of the agent with its own uid, no capabilities and the
// network: it reads the spool, POSTs batches to the collector, acknowledges by unlink,
// uploads kernel symbol tables the collector lacks, and serves /metrics, /healthz and
// /readyz on loopback from the shared metrics page. It outlives collector outages and ends
// when the agent ends.
// HTTP results and retry rules: docs/delivery.md.
#pragma once

#include "common/log.h"
#include "common/metrics.h"
#include "spool.h"

struct fp_ship_config {
	const char *collector_url; // "http://127.0.0.1:7171"; "" = do not ship
	const char *spool_directory;
	struct fp_spool_limits limits;
	const char *user;	     // run as this user; "" = stay (not root: always stay)
	const char *listen;	     // "127.0.0.1:7172"; "" = no HTTP endpoint
	const char *token_file;	     // bearer token, or ""
	const char *ca_file;	     // or ""
	uint64_t retry_max_ns;	     // cap of the back-off, 300 s
	uint64_t loop_stale_ns;	     // /healthz fails when the sampler's loop is older than this
	enum fp_log_level log_level; // of a role that is executed
};

// Body of the role: runs until SIGTERM or the parent's death. metrics: the agent's table,
// mapped from the shared memory. Returns the exit code.
int fp_ship_main(const struct fp_ship_config *config, struct fp_metrics *metrics);
// Starts the role: forks, drops to config->user, clears capabilities, sets no_new_privs and
// PR_SET_PDEATHSIG, and executes this binary anew with FP_SHIP_ROLE_ARGUMENT: a mere fork
// would keep the sampler's memory, BPF rings and all, in the process that talks to the
// network. metrics_fd: of fp_metrics_share. Returns the pid or -errno.
int fp_ship_start(const struct fp_ship_config *config, int metrics_fd);
// main() of the executed role: settings and metrics come by descriptor.
#define FP_SHIP_ROLE_ARGUMENT "--ship-role"
int fp_ship_role_main(void);
// The same role without the exec, for programs that are not the agent (tests).
int fp_ship_fork(const struct fp_ship_config *config, struct fp_metrics *metrics);
