// SPDX-License-Identifier: Apache-2.0
//
// Unwind tables of the running agent: one store for the host's session, the ones that follow it
// after reloads, and snapshots.
#include "daemon_state.h"

#include "common/log.h"
#include "preflight_kernel.h"

#include <errno.h>
#include <string.h>

static bool walks_by_helper(const struct fp_daemon *daemon)
{
	const struct fp_agent_config *config = &daemon->config;

	return config->limits_walk == FP_WALK_HELPER ||
	       (config->limits_walk == FP_WALK_AUTO &&
		fp_kernel_list_has(config->agent_kernel_no_user_read, &daemon->facts.kernel));
}

const char *fp_daemon_unwind_off(const struct fp_daemon *daemon)
{
	if (!daemon->config.unwind_tables)
		return "unwind.tables is off";
	if (walks_by_helper(daemon))
		return "the kernel's helper walks the stacks here (limits.walk)";
	if (!daemon->names)
		return "the symbols role, which makes the tables, does not run";
	return daemon->unwind ? NULL : "the kernel refused their maps";
}

struct fp_unwind *fp_daemon_unwind(struct fp_daemon *daemon)
{
	uint64_t memory = daemon->config.unwind_memory;
	int r;

	if (!daemon->config.unwind_tables || walks_by_helper(daemon) || !daemon->names)
		return NULL;
	if (daemon->unwind) {
		fp_unwind_set_memory(daemon->unwind, memory);
		return daemon->unwind;
	}
	r = fp_unwind_open(daemon->names, memory, &daemon->unwind);
	if (r < 0)
		fp_error("the maps for unwind tables could not be made, continuing with frame "
			 "pointers alone: %s",
			 strerror(-r));
	return daemon->unwind;
}

void fp_daemon_unwind_reload(struct fp_daemon *daemon)
{
	if (daemon->unwind && !daemon->config.unwind_tables)
		fp_unwind_empty(daemon->unwind);
}

static const struct number { // of struct fp_unwind_stats, as `status` and the metrics show it
	const char *name;
	enum fp_agent_metric metric;
	size_t offset, size;
} numbers[] = {
#define NUMBER(member, metric)                                                                     \
	{                                                                                          \
#member, FP_M_UNWIND_##metric, offsetof(struct fp_unwind_stats, member),           \
		    sizeof(((struct fp_unwind_stats *)0)->member)                                  \
	}
	NUMBER(bytes, BYTES),
	NUMBER(bytes_max, BYTES_MAX),
	NUMBER(tables, TABLES),
	NUMBER(rows, ROWS),
	NUMBER(rules, RULES),
	NUMBER(pages, PAGES),
	NUMBER(builds, BUILDS),
	NUMBER(waiting, WAITING),
	NUMBER(processes, PROCESSES),
	NUMBER(ranges, RANGES),
	NUMBER(asked, ASKED),
	NUMBER(asked_ns, ASKED_NS),
	NUMBER(loaded, LOADED),
	NUMBER(evicted, EVICTED),
	NUMBER(no_room, NO_ROOM),
	NUMBER(versions, VERSIONS),
	NUMBER(processes_evicted, PROCESSES_EVICTED),
	NUMBER(ranges_failed, RANGES_FAILED),
	NUMBER(records, RECORDS),
	NUMBER(records_by_table, RECORDS_BY_TABLE),
	NUMBER(records_cut, RECORDS_CUT),
	NUMBER(frames_cut, FRAMES_CUT),
};

static uint64_t value_of(const struct fp_unwind_stats *stats, const struct number *number)
{
	const char *at = (const char *)stats + number->offset;
	uint32_t small;
	uint64_t large;

	if (number->size == sizeof(small)) {
		memcpy(&small, at, sizeof(small));
		return small;
	}
	memcpy(&large, at, sizeof(large));
	return large;
}

static void add_failures(const struct fp_unwind_stats *stats, struct fp_buf *json)
{
	bool any = false;

	fp_buf_str(json, ",\"failed\":{");
	for (int stop = 0; stop < FP_STOP_COUNT; stop++) {
		if (!stats->failed[stop])
			continue;
		fp_buf_printf(json, "%s\"%s\":%llu", any ? "," : "",
			      fp_stop_label((enum fp_stop)stop),
			      (unsigned long long)stats->failed[stop]);
		any = true;
	}
	fp_buf_str(json, "}");
}

void fp_daemon_unwind_status(const struct fp_daemon *daemon, struct fp_buf *json)
{
	const char *off = fp_daemon_unwind_off(daemon);
	struct fp_unwind_stats stats;

	fp_buf_printf(json, ",\"unwind\":{\"enabled\":%s", off ? "false" : "true");
	if (off) {
		fp_buf_printf(json, ",\"why\":\"%s\"}", off);
		return;
	}
	fp_unwind_stats(daemon->unwind, &stats);
	for (size_t i = 0; i < FP_ARRAY_SIZE(numbers); i++)
		fp_buf_printf(json, ",\"%s\":%llu", numbers[i].name,
			      (unsigned long long)value_of(&stats, &numbers[i]));
	add_failures(&stats, json);
	fp_buf_str(json, "}");
}

void fp_daemon_unwind_metrics(struct fp_daemon *daemon)
{
	struct fp_unwind_stats stats;

	if (!daemon->unwind)
		return;
	fp_unwind_stats(daemon->unwind, &stats);
	for (size_t i = 0; i < FP_ARRAY_SIZE(numbers); i++)
		fp_metric_set(&daemon->metrics, numbers[i].metric, value_of(&stats, &numbers[i]));
	for (size_t stop = 0; stop < FP_STOP_COUNT; stop++)
		fp_metric_set(&daemon->metrics, FP_M_UNWIND_FAILED_FIRST + stop,
			      stats.failed[stop]);
}
