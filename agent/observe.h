// SPDX-License-Identifier: Apache-2.0
//
// observe: the agent's HTTP endpoint inside the ship role, answered from the shared metrics
// page alone: /metrics (Prometheus text), /healthz (the sampler's loop turns; never the
// network), /readyz (programs attached, spool writable; the body lists what is degraded).
// Input: requests from loopback or the pod network, GET and HEAD only, 8 KiB, 5 s, 16
// connections. Threads: one of libmicrohttpd's, which only reads the page.
#pragma once

#include "common/metrics.h"

#include <stdint.h>

struct fp_observe;
struct fp_observe_config {
	const char *listen; // "127.0.0.1:7172" or "[::1]:7172"; port 0: any free one
	struct fp_metrics *metrics;
	uint64_t loop_stale_ns;
	int sampler_pid; // whose process_* metrics are shown; 0: none
};
// Errors: -EINVAL for the address, -errno of binding.
int fp_observe_start(const struct fp_observe_config *config, struct fp_observe **ret);
void fp_observe_free(struct fp_observe *observe);
static inline void fp_observe_freep(struct fp_observe **observe)
{
	fp_observe_free(*observe);
	*observe = NULL;
}
uint16_t fp_observe_port(const struct fp_observe *observe);

// The pages behind the routes. They return the HTTP status.
unsigned int fp_observe_metrics(const struct fp_observe_config *config, struct fp_buf *text);
unsigned int fp_observe_healthz(const struct fp_observe_config *config, struct fp_buf *text);
unsigned int fp_observe_readyz(const struct fp_observe_config *config, struct fp_buf *text);
