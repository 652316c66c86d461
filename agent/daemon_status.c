// SPDX-License-Identifier: Apache-2.0
//
// The answer to `agentctl status` and the agent's part of `agentctl doctor`.
#include "daemon_state.h"

#include "common/clock.h"
#include "outcomes.h"

#include <string.h>

static void add_text(struct fp_buf *json, const char *name, const char *value)
{
	fp_buf_printf(json, "\"%s\":\"", name);
	fp_buf_json(json, value, strlen(value));
	fp_buf_str(json, "\"");
}

static void add_number(struct fp_buf *json, const char *name, uint64_t value)
{
	fp_buf_printf(json, "\"%s\":%llu", name, (unsigned long long)value);
}

static void add_programs(struct fp_buf *json, const struct fp_session_stats *stats)
{
	static const char *const outcomes[] = {
#define OUTCOME(id, class, label, text) label,
		FP_OUTCOMES(OUTCOME)
	};

	fp_buf_str(json, ",\"programs\":{");
	for (size_t program = 0; program < FP_PROGRAM_COUNT; program++) {
		fp_buf_printf(json, "%s\"%s\":{", program ? "," : "", fp_program_names[program]);
		add_number(json, "runs", stats->totals[program].runs);
		for (size_t i = 0; i < FP_OUTCOME_COUNT; i++) {
			if (!stats->totals[program].outcomes[i])
				continue;
			fp_buf_str(json, ",");
			add_number(json, outcomes[i], stats->totals[program].outcomes[i]);
		}
		fp_buf_str(json, "}");
	}
	fp_buf_str(json, "}");
}

static void add_source(const struct fp_daemon *daemon, struct fp_buf *json, enum fp_source source,
		       const struct fp_session_stats *stats)
{
	static const char *const names[FP_SOURCE_COUNT] = { "cpu", "off_cpu", "run_queue",
							    "waker" };
	const char *hook = stats->hook[source];

	fp_buf_printf(json, ",\"%s\":{", names[source]);
	add_text(json, "hook", hook && hook[0] ? hook : "off");
	fp_buf_str(json, ",");
	if (source == FP_SOURCE_CPU) {
		add_number(json, "hz", stats->hz);
		fp_buf_str(json, ",");
		add_number(json, "hz_requested",
			   daemon->config.cpu_enabled ? daemon->config.cpu_hz : 0);
	} else {
		add_number(json, "nanoseconds", stats->value[source]);
		fp_buf_str(json, ",");
		add_number(json, "quantum_ns", stats->quantum_ns);
		fp_buf_str(json, ",");
		add_number(json, "weight", stats->weight);
		fp_buf_str(json, ",");
		add_number(json, "walk_budget",
			   daemon->config.off_cpu_quantum_ns ? 0
							     : daemon->config.off_cpu_walk_budget);
	}
	fp_buf_str(json, ",");
	add_number(json, "samples", stats->samples[source]);
	fp_buf_str(json, ",");
	add_number(json, "stacks_lost", stats->stacks_lost[source]);
	fp_buf_str(json, "}");
}

static void add_labels(struct fp_buf *json, const struct fp_labeler_stats *stats)
{
	const struct {
		const char *name;
		uint64_t value;
	} numbers[] = {
		{ "cgroups_found", stats->cgroups_found },
		{ "cgroups_gone", stats->cgroups_gone },
		{ "processes_read", stats->processes_read },
		{ "processes_unknown", stats->unknown },
		{ "relabel_overruns", stats->relabel_overruns },
		{ "log_entries_unread", stats->log_entries_unread },
	};

	fp_buf_str(json, ",\"labels\":{");
	for (size_t i = 0; i < FP_ARRAY_SIZE(numbers); i++) {
		fp_buf_str(json, i ? "," : "");
		add_number(json, numbers[i].name, numbers[i].value);
	}
	fp_buf_str(json, "}");
}

static void add_session(const struct fp_daemon *daemon, struct fp_buf *json)
{
	const struct {
		const char *name;
		size_t offset;
	} numbers[] = {
		{ "epochs", offsetof(struct fp_session_stats, epochs) },
		{ "balance_errors", offsetof(struct fp_session_stats, balance_errors) },
		{ "process_events", offsetof(struct fp_session_stats, sideband_events) },
		{ "process_events_lost", offsetof(struct fp_session_stats, sideband_lost) },
		{ "processes", offsetof(struct fp_session_stats, processes) },
		{ "map_bytes", offsetof(struct fp_session_stats, map_bytes) },
	};
	struct fp_session_stats stats = { 0 };

	fp_daemon_session_stats(daemon, &stats);
	fp_buf_str(json, ",");
	add_number(json, "cpus", stats.cpus);
	add_source(daemon, json, FP_SOURCE_CPU, &stats);
	add_source(daemon, json, FP_SOURCE_OFFCPU, &stats);
	if (daemon->config.off_cpu_run_queue)
		add_source(daemon, json, FP_SOURCE_RUNQUEUE, &stats);
	if (daemon->config.off_cpu_wakers)
		add_source(daemon, json, FP_SOURCE_WAKER, &stats);
	for (size_t i = 0; i < FP_ARRAY_SIZE(numbers); i++) {
		uint64_t value;

		memcpy(&value, (const char *)&stats + numbers[i].offset, sizeof(value));
		fp_buf_str(json, ",");
		add_number(json, numbers[i].name, value);
	}
	fp_buf_str(json, ",");
	add_number(json, "map_entries_peak", stats.entries_peak);
	fp_buf_str(json, ",");
	add_number(json, "map_capacity", stats.capacity);
	add_programs(json, &stats);
	add_labels(json, &stats.labels);
}

static void add_metric(const struct fp_daemon *daemon, struct fp_buf *json, const char *name,
		       size_t row)
{
	add_number(json, name, fp_metric_get(&daemon->metrics, row));
}

static void add_delivery(const struct fp_daemon *daemon, struct fp_buf *json)
{
	static const struct {
		const char *name;
		size_t row;
	} rows[] = {
		{ "batches_spooled", FP_M_BATCHES_SPOOLED },
		{ "samples_spooled", FP_M_SAMPLES_SPOOLED },
		{ "batches_queued", FP_M_SPOOL_BATCHES },
		{ "bytes_queued", FP_M_SPOOL_BYTES },
		{ "batches_shipped", FP_M_SHIP_OK },
		{ "batches_already_stored", FP_M_SHIP_DUPLICATE },
		{ "samples_shipped", FP_M_SHIP_SAMPLES },
		{ "retries", FP_M_SHIP_RETRIES },
		{ "network_errors", FP_M_SHIP_NETWORK_ERRORS },
		{ "last_success_ns", FP_M_SHIP_LAST_SUCCESS },
	};
	uint64_t batches = 0, samples = 0;

	for (size_t i = 0; i < FP_SPOOL_DROP_COUNT; i++) {
		batches += fp_metric_get(&daemon->metrics, FP_M_SPOOL_DROPPED_BATCHES_FIRST + i);
		samples += fp_metric_get(&daemon->metrics, FP_M_SPOOL_DROPPED_SAMPLES_FIRST + i);
	}
	fp_buf_str(json, ",\"delivery\":{");
	add_text(json, "collector", daemon->config.collector_url);
	fp_buf_printf(json, ",\"spool_writable\":%s",
		      fp_metric_get(&daemon->metrics, FP_M_SPOOL_WRITABLE) ? "true" : "false");
	for (size_t i = 0; i < FP_ARRAY_SIZE(rows); i++) {
		fp_buf_str(json, ",");
		add_metric(daemon, json, rows[i].name, rows[i].row);
	}
	fp_buf_str(json, ",");
	add_number(json, "batches_dropped", batches);
	fp_buf_str(json, ",");
	add_number(json, "samples_dropped", samples);
	fp_buf_printf(json, ",\"ship_pid\":%d,", daemon->ship_pid);
	add_number(json, "ship_starts", daemon->ship_starts);
	fp_buf_str(json, "}");
}

static void add_names(const struct fp_daemon *daemon, struct fp_buf *json)
{
	static const struct {
		const char *name;
		size_t offset;
	} rows[] = {
		{ "identities_asked", offsetof(struct fp_names_stats, identities_asked) },
		{ "identities_known", offsetof(struct fp_names_stats, identities_known) },
		{ "identities_none", offsetof(struct fp_names_stats, identities_none) },
		{ "files_denied", offsetof(struct fp_names_stats, denied) },
		{ "files_timed_out", offsetof(struct fp_names_stats, timeouts) },
		{ "questions_dropped", offsetof(struct fp_names_stats, queue_full) },
		{ "role_starts", offsetof(struct fp_names_stats, role_starts) },
		{ "opener_starts", offsetof(struct fp_names_stats, opener_starts) },
		{ "perf_maps_open", offsetof(struct fp_names_stats, maps_open) },
		{ "perf_maps_refused", offsetof(struct fp_names_stats, maps_refused) },
		{ "perf_maps_lost", offsetof(struct fp_names_stats, maps_lost) },
		{ "jit_names_asked", offsetof(struct fp_names_stats, jit_asked) },
		{ "jit_names_found", offsetof(struct fp_names_stats, jit_named) },
		{ "symbol_tables_made", offsetof(struct fp_names_stats, tables_made) },
	};
	struct fp_names_stats stats;

	fp_buf_printf(json, ",\"symbols\":{\"enabled\":%s", daemon->names ? "true" : "false");
	if (daemon->names)
		fp_names_stats(daemon->names, &stats);
	for (size_t i = 0; daemon->names && i < FP_ARRAY_SIZE(rows); i++) {
		uint64_t value;

		memcpy(&value, (const char *)&stats + rows[i].offset, sizeof(value));
		fp_buf_str(json, ",");
		add_number(json, rows[i].name, value);
	}
	fp_buf_str(json, "}");
}

static void add_window(const struct fp_daemon *daemon, bool trusted, struct fp_buf *json)
{
	fp_buf_str(json, ",\"windows\":{");
	add_number(json, "closed", daemon->windows);
	fp_buf_str(json, ",");
	add_number(json, "length_ms", daemon->config.window_length_ns / FP_NS_PER_MS);
	fp_buf_str(json, ",");
	add_number(json, "last_end_ns", daemon->last_window_realtime_ns);
	fp_buf_str(json, ",");
	add_number(json, "last_cpu_samples", daemon->last_samples[FP_PROFILE_CPU]);
	fp_buf_str(json, ",");
	add_number(json, "last_off_cpu_intervals", daemon->last_samples[FP_PROFILE_OFF_CPU]);
	fp_buf_str(json, "}");
	if (!trusted)
		return;
	fp_buf_str(json, ",\"stopped_builds\":[");
	for (size_t i = 0; i < daemon->stopped_builds_count; i++) {
		fp_buf_str(json, i ? ",{" : "{");
		add_text(json, "path", daemon->stopped_builds[i].path);
		fp_buf_str(json, ",");
		add_number(json, "stacks", daemon->stopped_builds[i].stacks);
		fp_buf_str(json, ",");
		add_number(json, "stopped", daemon->stopped_builds[i].stopped);
		fp_buf_str(json, ",");
		add_text(json, "reason", daemon->stopped_builds[i].reason);
		fp_buf_str(json, "}");
	}
	fp_buf_str(json, "]");
}

// Starts the next sentence of the list of warnings.
static void next_warning(struct fp_buf *json, bool *first)
{
	fp_buf_str(json, *first ? "\"" : ",\"");
	*first = false;
}

static void warn_of_losses(const struct fp_daemon *daemon, struct fp_buf *json, bool *first)
{
	static const char *const sources[FP_SOURCE_COUNT] = { "CPU samples", "off-CPU intervals",
							      "run-queue intervals", "wake-ups" };
	struct fp_session_stats stats = { 0 };

	if (!daemon->session)
		return;
	fp_session_stats(daemon->session, &stats);
	for (int program = 0; program < FP_PROGRAM_COUNT; program++) {
		const struct fp_totals *totals = &stats.totals[program];
		fp_u64 dropped = fp_totals_class(totals, FP_CLASS_DROPPED);

		if (dropped == 0)
			continue;
		next_warning(json, first);
		fp_buf_printf(json,
			      "%llu runs of program %s were dropped in the kernel, %llu of them "
			      "since the map was full (limits.stacks)\"",
			      (unsigned long long)dropped, fp_program_names[program],
			      (unsigned long long)totals->outcomes[FP_OUTCOME_MAP_FULL]);
	}
	for (int source = 0; source < FP_SOURCE_COUNT; source++) {
		if (stats.stacks_lost[source] == 0)
			continue;
		next_warning(json, first);
		fp_buf_printf(json, "%llu %s are without their stack (limits.ring_size)\"",
			      (unsigned long long)stats.stacks_lost[source], sources[source]);
	}
	if (stats.labels.log_entries_unread == 0)
		return;
	next_warning(json, first);
	fp_buf_printf(
	    json,
	    "%llu entries of labels.log_directory were too many to be read: pods of theirs "
	    "have no name\"",
	    (unsigned long long)stats.labels.log_entries_unread);
}

// What an operator should look at, as sentences.
static void add_warnings(const struct fp_daemon *daemon, struct fp_buf *json)
{
	bool first = true;

	fp_buf_str(json, ",\"warnings\":[");
	for (size_t i = 0; i < daemon->checks_count; i++) {
		if (daemon->checks[i].status == FP_PREFLIGHT_PASS)
			continue;
		fp_buf_str(json, first ? "\"" : ",\"");
		fp_buf_json(json, daemon->checks[i].finding, strlen(daemon->checks[i].finding));
		fp_buf_str(json, "\"");
		first = false;
	}
	if (daemon->reload_failed) {
		fp_buf_str(json, first ? "" : ",");
		fp_buf_str(json, "\"the last reload failed: the settings before it are in force\"");
		first = false;
	}
	if (daemon->spool_failing) {
		fp_buf_str(json, first ? "" : ",");
		fp_buf_str(json, "\"the spool could not take the last window\"");
		first = false;
	}
	warn_of_losses(daemon, json, &first);
	fp_buf_str(json, "]");
}

int fp_daemon_status(bool trusted, struct fp_buf *json, void *context)
{
	const struct fp_daemon *daemon = context;

	fp_buf_str(json, "{\"type\":\"status\",");
	add_text(json, "version", FP_VERSION);
	fp_buf_printf(
	    json, ",\"pid\":%d,\"uptime_ms\":%llu,", getpid(),
	    (unsigned long long)((fp_boottime_ns() - daemon->start_boottime_ns) / FP_NS_PER_MS));
	add_text(json, "hostname", daemon->identity.hostname);
	fp_buf_str(json, ",");
	add_text(json, "kernel", daemon->identity.kernel_release);
	add_session(daemon, json);
	add_window(daemon, trusted, json);
	add_names(daemon, json);
	fp_daemon_unwind_status(daemon, json);
	add_delivery(daemon, json);
	add_warnings(daemon, json);
	fp_buf_str(json, "}");
	return json->error;
}
