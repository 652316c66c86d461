// SPDX-License-Identifier: Apache-2.0
#include "observe.h"

#include "agentmetrics.h"
#include "common/clock.h"

#include <inttypes.h>
#include <string.h>

// The ship role's own process metrics: the process_* names belong to the sampler, the
// process that the target is about, so these get a prefix.
static void render_own_process(struct fp_buf *text)
{
	static const char prefix[] = "fleetprof_agent_ship_";
	FP_AUTOBUF struct fp_buf own = { 0 };
	char *save = NULL;

	if (fp_metrics_render_process(0, &own))
		return;
	fp_buf_byte(&own, 0);
	if (own.error)
		return;
	for (char *line = strtok_r((char *)own.data, "\n", &save); line;
	     line = strtok_r(NULL, "\n", &save)) {
		char *name = strstr(line, "process_");

		if (!name)
			continue;
		fp_buf_append(text, line, (size_t)(name - line));
		fp_buf_printf(text, "%s%s\n", prefix, name);
	}
}

unsigned int fp_observe_metrics(const struct fp_observe_config *config, struct fp_buf *text)
{
	fp_metrics_render(config->metrics, text);
	if (config->sampler_pid)
		fp_metrics_render_process(config->sampler_pid, text);
	render_own_process(text);
	return text->error ? 500 : 200;
}

unsigned int fp_observe_healthz(const struct fp_observe_config *config, struct fp_buf *text)
{
	uint64_t tick = fp_metric_get(config->metrics, FP_M_LOOP_TICK), now = fp_boottime_ns();

	if (!tick) {
		fp_buf_str(text, "unhealthy: the sampler's loop has not started\n");
		return 503;
	}
	if (now > tick && now - tick > config->loop_stale_ns) {
		fp_buf_printf(text, "unhealthy: the sampler's loop last turned %" PRIu64 " s ago\n",
			      (now - tick) / (uint64_t)FP_NS_PER_S);
		return 503;
	}
	fp_buf_str(text, "ok\n");
	return 200;
}

// What keeps the agent from being ready, and what is merely worth knowing.
static const struct {
	enum fp_agent_metric row;
	bool bad_when_zero; // else: bad when not zero
	bool fatal;
	const char *text;
} conditions[] = {
	{ FP_M_ATTACHED, true, true, "the BPF programs are not attached" },
	{ FP_M_SPOOL_WRITABLE, true, true, "the spool cannot be written" },
	{ FP_M_CONFIG_RELOAD_OK, true, false, "the last reload of the configuration was refused" },
	{ FP_M_BALANCE_ERRORS, false, false, "counts in the kernel and in user space disagreed" },
	{ FP_M_SHIP_BACKOFF, false, false, "batches cannot be delivered; they wait in the spool" },
};

unsigned int fp_observe_readyz(const struct fp_observe_config *config, struct fp_buf *text)
{
	FP_AUTOBUF struct fp_buf lines = { 0 };
	bool ready = true;

	for (size_t i = 0; i < FP_ARRAY_SIZE(conditions); i++) {
		bool is_zero = !fp_metric_get(config->metrics, conditions[i].row);

		if (is_zero != conditions[i].bad_when_zero)
			continue;
		ready &= !conditions[i].fatal;
		fp_buf_printf(&lines, "%s: %s\n", conditions[i].fatal ? "failed" : "degraded",
			      conditions[i].text);
	}
	fp_buf_str(text, ready ? "ready\n" : "not ready\n");
	fp_buf_append(text, lines.data, lines.len);
	return ready ? 200 : 503;
}
