// SPDX-License-Identifier: Apache-2.0
#include "agentmetrics.h"

#include <string.h>

// Arguments are string literals that the preprocessor joins; parentheses would part them.
// NOLINTBEGIN(bugprone-macro-parentheses)
#define COUNTER(id, name_, help_)                                                                  \
	[FP_M_##id] = { .name = "fleetprof_agent_" name_, .type = FP_METRIC_COUNTER, .help = help_ }
#define GAUGE(id, name_, help_)                                                                    \
	[FP_M_##id] = { .name = "fleetprof_agent_" name_, .type = FP_METRIC_GAUGE, .help = help_ }
#define LABELLED(id, name_, labels_, help_)                                                        \
	[FP_M_##id] = { .name = "fleetprof_agent_" name_,                                          \
			.type = FP_METRIC_COUNTER,                                                 \
			.labels = labels_,                                                         \
			.help = help_ }
#define SECONDS(id, kind, name_, labels_, help_)                                                   \
	[FP_M_##id] = { .name = "fleetprof_agent_" name_,                                          \
			.type = FP_METRIC_##kind,                                                  \
			.unit = FP_METRIC_NANOSECONDS,                                             \
			.labels = labels_,                                                         \
			.help = help_ }

// NOLINTEND(bugprone-macro-parentheses)
#define RUNS_ROW(program_label, program, id, class, label)                                         \
	[FP_M_RUNS_FIRST + (program)*FP_OUTCOME_COUNT + FP_OUTCOME_##id] = {                       \
		.name = "fleetprof_agent_program_runs_total",                                      \
		.type = FP_METRIC_COUNTER,                                                         \
		.labels =                                                                          \
		    "program=\"" program_label "\",outcome=\"" label "\",class=\"" class "\"",     \
		.help = "Runs of the BPF programs by what they came to.",                          \
	},
#define CLASS_KEPT			"kept"
#define CLASS_FILTERED			"filtered"
#define CLASS_DROPPED			"dropped"
#define CPU_ROW(id, class, label, text) RUNS_ROW("cpu", FP_PROGRAM_CPU, id, CLASS_##class, label)
#define SWITCH_OUT_ROW(id, class, label, text)                                                     \
	RUNS_ROW("switch_out", FP_PROGRAM_SWITCH_OUT, id, CLASS_##class, label)
#define SWITCH_IN_ROW(id, class, label, text)                                                      \
	RUNS_ROW("switch_in", FP_PROGRAM_SWITCH_IN, id, CLASS_##class, label)

#define RUN_QUEUE_ROW(id, class, label, text)                                                      \
	RUNS_ROW("run_queue", FP_PROGRAM_RUN_QUEUE, id, CLASS_##class, label)
#define BLOCKED_ROW(id, class, label, text)                                                        \
	RUNS_ROW("blocked", FP_PROGRAM_BLOCKED, id, CLASS_##class, label)
#define WAKE_ROW(id, class, label, text) RUNS_ROW("wake", FP_PROGRAM_WAKE, id, CLASS_##class, label)
#define WAKER_ROW(id, class, label, text)                                                          \
	RUNS_ROW("waker", FP_PROGRAM_WAKER, id, CLASS_##class, label)
#define RELABEL_HELP   "Samples and intervals that a relabel rule dropped."
#define INTERVALS_HELP "Intervals off the CPU that ended or were cut, kept or not."
#define WALKS_HELP     "Stacks walked for off-CPU profiles."

#define BPF_TIME_ROW(program, label)                                                               \
	[FP_M_BPF_RUN_NS_FIRST + (program)] = {                                                    \
		.name = "fleetprof_agent_bpf_run_seconds_total",                                   \
		.type = FP_METRIC_COUNTER,                                                         \
		.unit = FP_METRIC_NANOSECONDS,                                                     \
		.labels = "program=\"" label "\"",                                                 \
		.help = "CPU time of the BPF programs, where the kernel's statistics are on.",     \
	}

#define EVICTED_ROW(id, label, text)                                                               \
	[FP_M_EVICTED_FIRST + FP_EVICTED_##id] = {                                                 \
		.name = "fleetprof_agent_process_evictions_total",                                 \
		.type = FP_METRIC_COUNTER,                                                         \
		.labels = "what=\"" label "\"",                                                    \
		.help = "What the process table let go of to stay within its bounds.",             \
	},

#define UNWIND_FAILED_ROW(id, label, text, fix)                                                    \
	[FP_M_UNWIND_FAILED_FIRST + FP_STOP_##id] = {                                              \
		.name = "fleetprof_agent_unwind_tables_failed_total",                              \
		.type = FP_METRIC_COUNTER,                                                         \
		.labels = "reason=\"" label "\"",                                                  \
		.help = "Unwind tables that could not be had, by reason.",                         \
	},

#define DROPPED_BATCHES_ROW(id, label, text)                                                       \
	[FP_M_SPOOL_DROPPED_BATCHES_FIRST + FP_SPOOL_DROP_##id] = {                                \
		.name = "fleetprof_agent_spool_dropped_batches_total",                             \
		.type = FP_METRIC_COUNTER,                                                         \
		.labels = "reason=\"" label "\"",                                                  \
		.help = "Batches dropped after they had been taken.",                              \
	},
#define DROPPED_SAMPLES_ROW(id, label, text)                                                       \
	[FP_M_SPOOL_DROPPED_SAMPLES_FIRST + FP_SPOOL_DROP_##id] = {                                \
		.name = "fleetprof_agent_spool_dropped_samples_total",                             \
		.type = FP_METRIC_COUNTER,                                                         \
		.labels = "reason=\"" label "\"",                                                  \
		.help = "Samples and intervals in dropped batches.",                               \
	},

#define WANTED_HELP                                                                                \
	"Builds that the collector asked the symbol tables of, by what came of it: noted, or "     \
	"known before; full: too many wait; malformed: an answer's whole list, ignored."
#define ANSWER_HELP                                                                                \
	"Symbol tables that were asked for, by what the sampler did: spooled them; stripped: "     \
	"spooled an empty one; gone: nothing that runs has the build mapped; untrusted: "          \
	"others than root may write the file; failed: the file could not be read; refused: "       \
	"symbols.upload is off."

const struct fp_metric fp_agent_metrics[FP_M_COUNT] = {
	[FP_M_BUILD_INFO] = { .name = "fleetprof_agent_build_info",
			      .type = FP_METRIC_GAUGE,
			      .unit = FP_METRIC_TEXT_INFO,
			      .labels = "version=\"" FP_VERSION "\"",
			      .help = "Version of the agent; always 1." },
	SECONDS(LOOP_TICK, GAUGE, "loop_tick_boottime_seconds", NULL,
		"Time since boot of the sampler loop's last turn."),
	GAUGE(ATTACHED, "attached", "1 while the BPF programs run."),
	GAUGE(SPOOL_WRITABLE, "spool_writable", "1 when the last batch could be spooled."),
	LABELLED(SAMPLES_TAKEN_CPU, "samples_taken_total", "source=\"cpu\"",
		 "Samples and intervals drained from the kernel's maps."),
	LABELLED(SAMPLES_TAKEN_OFF_CPU, "samples_taken_total", "source=\"off_cpu\"",
		 "Samples and intervals drained from the kernel's maps."),
	LABELLED(SAMPLES_TAKEN_RUN_QUEUE, "samples_taken_total", "source=\"run_queue\"",
		 "Samples and intervals drained from the kernel's maps."),
	LABELLED(SAMPLES_TAKEN_WAKER, "samples_taken_total", "source=\"waker\"",
		 "Samples and intervals drained from the kernel's maps."),
	SECONDS(OFF_CPU_NS, COUNTER, "off_cpu_seconds_total", NULL,
		"Time blocked that the kept intervals stand for: an estimate."),
	SECONDS(RUN_QUEUE_NS, COUNTER, "run_queue_seconds_total", NULL,
		"Time ready but not running that the kept intervals stand for: an estimate."),
	LABELLED(INTERVALS, "intervals_total", "state=\"blocked\"", INTERVALS_HELP),
	SECONDS(INTERVALS_NS, COUNTER, "interval_seconds_total", "state=\"blocked\"",
		"Time of all intervals off the CPU, kept or not, as measured."),
	LABELLED(READY_INTERVALS, "intervals_total", "state=\"ready\"", INTERVALS_HELP),
	SECONDS(READY_INTERVALS_NS, COUNTER, "interval_seconds_total", "state=\"ready\"",
		"Time of all intervals off the CPU, kept or not, as measured."),
	LABELLED(OFF_CPU_WALKS, "off_cpu_walks_total", "of=\"sleeper\"", WALKS_HELP),
	LABELLED(WAKER_WALKS, "off_cpu_walks_total", "of=\"waker\"", WALKS_HELP),
	SECONDS(QUANTUM, GAUGE, "off_cpu_quantum_seconds", NULL,
		"Quantum of threshold sampling: shorter intervals are kept in proportion."),
	GAUGE(WEIGHT, "off_cpu_weight",
	      "Departures that one kept on the way out stands for; 1 with the other hooks."),
	COUNTER(
	    CUTS_MISSED, "off_cpu_cuts_missed_total",
	    "Windows at whose end blocked intervals could not be cut: they count when they end."),
	LABELLED(STACKS_LOST_CPU, "stacks_lost_total", "source=\"cpu\"",
		 "Samples and intervals whose frames never reached user space."),
	LABELLED(STACKS_LOST_OFF_CPU, "stacks_lost_total", "source=\"off_cpu\"",
		 "Samples and intervals whose frames never reached user space."),
	LABELLED(STACKS_LOST_RUN_QUEUE, "stacks_lost_total", "source=\"run_queue\"",
		 "Samples and intervals whose frames never reached user space."),
	LABELLED(STACKS_LOST_WAKER, "stacks_lost_total", "source=\"waker\"",
		 "Samples and intervals whose frames never reached user space."),
	FP_OUTCOMES(CPU_ROW) FP_OUTCOMES(SWITCH_OUT_ROW) FP_OUTCOMES(SWITCH_IN_ROW) FP_OUTCOMES(
	    RUN_QUEUE_ROW) FP_OUTCOMES(BLOCKED_ROW) FP_OUTCOMES(WAKE_ROW) FP_OUTCOMES(WAKER_ROW)
	    COUNTER(
		RETURNS_UNSEEN, "off_cpu_returns_unseen_total",
		"Blocked intervals whose end no hook saw, found and lost at the next departure."),
	COUNTER(BALANCE_ERRORS, "balance_errors_total",
		"Epochs in which drained sums and independent totals disagreed: 0, or a defect."),
	BPF_TIME_ROW(FP_PROGRAM_CPU, "cpu"),
	BPF_TIME_ROW(FP_PROGRAM_SWITCH_OUT, "switch_out"),
	BPF_TIME_ROW(FP_PROGRAM_SWITCH_IN, "switch_in"),
	BPF_TIME_ROW(FP_PROGRAM_RUN_QUEUE, "run_queue"),
	BPF_TIME_ROW(FP_PROGRAM_BLOCKED, "blocked"),
	BPF_TIME_ROW(FP_PROGRAM_WAKE, "wake"),
	BPF_TIME_ROW(FP_PROGRAM_WAKER, "waker"),
	GAUGE(MAP_BYTES, "bpf_map_bytes", "Kernel memory held by the BPF maps."),
	GAUGE(MAP_ENTRIES_PEAK, "bpf_map_entries_peak", "Most stacks held in one epoch so far."),
	GAUGE(MAP_CAPACITY, "bpf_map_max_entries", "Stacks that one epoch can hold."),
	GAUGE(CPUS, "cpus", "CPUs that are sampled."),
	GAUGE(HZ, "sampling_hertz", "Sampling rate that the kernel gave."),
	COUNTER(EPOCHS, "epochs_total", "Epoch switches."),
	COUNTER(SIDEBAND_EVENTS, "process_events_total",
		"Exec, mapping, name, fork and exit events read."),
	COUNTER(SIDEBAND_LOST, "process_events_lost_total", "Process events lost by the kernel."),
	GAUGE(PROCESSES, "processes", "Process instances known."),
	GAUGE(PROCESS_BYTES, "process_table_bytes",
	      "Memory of the process table and the labels of processes."),
	COUNTER(PROCESS_READS, "process_reads_total", "Processes read from /proc."),
	COUNTER(PROCESS_READS_FAILED, "process_reads_failed_total",
		"Processes that were gone, or another, before they could be read."),
	COUNTER(ADDRESS_LOOKUPS, "process_address_lookups_total",
		"Addresses looked up one by one in processes too large to be held."),
	GAUGE(SIDEBAND_RING_BYTES, "process_event_ring_bytes",
	      "Kernel memory of the rings of process events."),
	COUNTER(IDENTITIES_ASKED, "identities_asked_total",
		"Mapped files without a build-ID from the kernel whose identity was asked for."),
	LABELLED(IDENTITIES_KNOWN, "identities_answered_total", "result=\"known\"",
		 "Mapped files whose identity was asked for, by what came of it."),
	LABELLED(IDENTITIES_NONE, "identities_answered_total", "result=\"none\"",
		 "Mapped files whose identity was asked for, by what came of it."),
	COUNTER(FILES_DENIED, "files_denied_total",
		"Files not opened since they lie on a file system of symbols.deny_file_systems, or "
		"on one where a file has just hung."),
	COUNTER(FILES_TIMED_OUT, "files_timed_out_total",
		"Files given up since opening or reading them took longer than "
		"symbols.request_deadline."),
	COUNTER(NAMES_QUEUE_FULL, "symbol_questions_dropped_total",
		"Questions to the symbols role for which there was no room."),
	LABELLED(SYMBOLS_ROLE_STARTS, "symbol_child_starts_total", "child=\"symbols\"",
		 "Starts of the symbols role and of the opener; more than one each is a death."),
	LABELLED(OPENER_STARTS, "symbol_child_starts_total", "child=\"opener\"",
		 "Starts of the symbols role and of the opener; more than one each is a death."),
	GAUGE(PERF_MAPS_OPEN, "perf_maps_open", "Perf maps that the symbols role holds."),
	GAUGE(PERF_MAP_BYTES, "perf_map_bytes", "Size of the perf maps that it holds."),
	COUNTER(PERF_MAPS_REFUSED, "perf_maps_refused_total",
		"Perf maps refused for their owner, type or size."),
	COUNTER(PERF_MAPS_LOST, "perf_maps_lost_total",
		"Perf maps of ended processes whose names were gone before they were wanted, most "
		"often since another program had written the file anew."),
	COUNTER(JIT_ASKED, "jit_names_asked_total",
		"Addresses in JITed code whose function was asked for."),
	COUNTER(JIT_NAMED, "jit_names_found_total", "Of these, those that a perf map names."),
	COUNTER(SYMBOL_TABLES_MADE, "symbol_tables_made_total",
		"Symbol tables made since the collector asked for them."),
	COUNTER(SYMBOL_TABLE_BYTES, "symbol_table_bytes_total", "Size of these."),
	GAUGE(UNWIND_BYTES, "unwind_bytes",
	      "Memory of unwind tables and what belongs to them, in the kernel's maps and beside."),
	GAUGE(UNWIND_BYTES_MAX, "unwind_max_bytes", "Bound of that memory: unwind.memory."),
	GAUGE(UNWIND_TABLES, "unwind_tables", "Builds whose unwind table is loaded."),
	GAUGE(UNWIND_ROWS, "unwind_rows", "Rows of loaded unwind tables."),
	GAUGE(UNWIND_RULES, "unwind_rules", "Different rules in them."),
	GAUGE(UNWIND_PAGES, "unwind_pages", "Pages of 64 KiB of code that they cover."),
	GAUGE(UNWIND_BUILDS, "unwind_builds", "Builds known to be mapped by processes in stacks."),
	GAUGE(UNWIND_WAITING, "unwind_builds_waiting",
	      "Builds met in stacks whose unwind table is to be asked for."),
	GAUGE(UNWIND_PROCESSES, "unwind_processes", "Processes whose code mappings are followed."),
	GAUGE(UNWIND_RANGES, "unwind_range_entries",
	      "Entries with their code ranges in the kernel's map."),
	COUNTER(UNWIND_ASKED, "unwind_tables_asked_total",
		"Requests to the symbols role for an unwind table."),
	SECONDS(UNWIND_ASKED_NS, COUNTER, "unwind_table_wait_seconds_total", NULL,
		"Time from asking for an unwind table to the answer."),
	COUNTER(UNWIND_LOADED, "unwind_tables_loaded_total", "Unwind tables loaded."),
	COUNTER(UNWIND_EVICTED, "unwind_tables_evicted_total",
		"Unwind tables that had to make room."),
	COUNTER(UNWIND_NO_ROOM, "unwind_tables_without_room_total",
		"Times that an unwind table found no room within unwind.memory."),
	COUNTER(UNWIND_VERSIONS, "unwind_range_versions_total",
		"Times that the code ranges of a process were written."),
	COUNTER(UNWIND_PROCESSES_EVICTED, "unwind_processes_evicted_total",
		"Processes whose ranges made room for those of others."),
	COUNTER(UNWIND_RANGES_FAILED, "unwind_ranges_failed_total",
		"Times that the kernel's map had no room for the ranges of a process."),
	COUNTER(UNWIND_RECORDS, "unwind_stacks_total", "Different user stacks that arrived."),
	COUNTER(UNWIND_RECORDS_BY_TABLE, "unwind_stacks_by_table_total",
		"Of these, those with frames found by unwind table."),
	COUNTER(UNWIND_RECORDS_CUT, "unwind_stacks_cut_total",
		"Of these, those cut since other code was mapped than their walk went by."),
	COUNTER(UNWIND_FRAMES_CUT, "unwind_frames_cut_total", "Frames cut off them."),
	FP_STOPS(UNWIND_FAILED_ROW) FP_PROCESS_EVICTIONS(EVICTED_ROW)
	    LABELLED(CGROUPS_FOUND, "control_groups_total", "result=\"found\"",
		     "Control groups whose path was looked up by id."),
	LABELLED(CGROUPS_GONE, "control_groups_total", "result=\"gone\"",
		 "Control groups whose path was looked up by id."),
	LABELLED(PLACES_READ, "processes_placed_total", "by=\"proc\"",
		 "Processes whose container or unit the id of their control group did not tell."),
	LABELLED(PLACES_INHERITED, "processes_placed_total", "by=\"parent\"",
		 "Processes whose container or unit the id of their control group did not tell."),
	LABELLED(PLACES_UNKNOWN, "processes_placed_total", "by=\"nothing\"",
		 "Processes whose container or unit the id of their control group did not tell."),
	COUNTER(RELABEL_OVERRUNS, "relabel_overruns_total",
		"Sets of labels that a relabel rule could not be applied to."),
	LABELLED(RELABEL_DROPPED_CPU, "samples_relabel_dropped_total", "source=\"cpu\"",
		 "Samples and intervals that a relabel rule dropped."),
	LABELLED(RELABEL_DROPPED_RUN_QUEUE, "samples_relabel_dropped_total", "source=\"run_queue\"",
		 RELABEL_HELP),
	LABELLED(RELABEL_DROPPED_WAKER, "samples_relabel_dropped_total", "source=\"waker\"",
		 RELABEL_HELP),
	LABELLED(RELABEL_DROPPED_OFF_CPU, "samples_relabel_dropped_total", "source=\"off_cpu\"",
		 "Samples and intervals that a relabel rule dropped."),
	COUNTER(WINDOWS, "windows_total", "Windows closed."),
	COUNTER(WINDOWS_EARLY, "windows_closed_early_total",
		"Windows closed early since they held more than limits.window_memory."),
	COUNTER(BATCHES_SPOOLED, "batches_spooled_total", "Windows that reached the spool."),
	COUNTER(SAMPLES_SPOOLED, "samples_spooled_total",
		"Samples and intervals that reached the spool."),
	COUNTER(SNAPSHOTS, "snapshots_total", "Snapshots taken through the control socket."),
	GAUGE(CONFIG_RELOAD_OK, "config_last_reload_successful",
	      "1 unless the last reload was refused."),
	SECONDS(CONFIG_RELOAD_TIME, GAUGE, "config_last_reload_timestamp_seconds", NULL,
		"Time of the last successful reload, or of the start."),
	COUNTER(SHIP_STARTS, "ship_starts_total", "Starts of the ship role."),
	GAUGE(SPOOL_BYTES, "spool_bytes", "Bytes in the spool."),
	GAUGE(SPOOL_BATCHES, "spool_batches", "Batches in the spool."),
	SECONDS(SPOOL_OLDEST, GAUGE, "spool_oldest_timestamp_seconds", NULL,
		"Start of the oldest window in the spool; 0 when it is empty."),
	FP_SPOOL_DROPS(DROPPED_BATCHES_ROW) FP_SPOOL_DROPS(DROPPED_SAMPLES_ROW)
	    LABELLED(SHIP_OK, "ship_batches_total", "result=\"stored\"",
		     "Batches that the collector acknowledged."),
	LABELLED(SHIP_DUPLICATE, "ship_batches_total", "result=\"duplicate\"",
		 "Batches that the collector acknowledged."),
	COUNTER(SHIP_SAMPLES, "ship_samples_total",
		"Samples and intervals in acknowledged batches."),
	COUNTER(SHIP_RETRIES, "ship_retries_total", "Attempts that will be repeated."),
	LABELLED(SHIP_HTTP_4XX, "ship_failed_requests_total", "cause=\"http_4xx\"",
		 "Requests to the collector that did not succeed."),
	LABELLED(SHIP_HTTP_5XX, "ship_failed_requests_total", "cause=\"http_5xx\"",
		 "Requests to the collector that did not succeed."),
	LABELLED(SHIP_HTTP_OTHER, "ship_failed_requests_total", "cause=\"http_other\"",
		 "Requests to the collector that did not succeed."),
	LABELLED(SHIP_NETWORK_ERRORS, "ship_failed_requests_total", "cause=\"network\"",
		 "Requests to the collector that did not succeed."),
	COUNTER(SHIP_BYTES, "ship_bytes_total", "Bytes of acknowledged batches and symbol tables."),
	COUNTER(SHIP_SYMBOL_TABLES, "ship_symbol_tables_total",
		"Symbol tables that the collector took."),
	LABELLED(SHIP_WANTED_NOTED, "ship_wanted_symbols_total", "result=\"noted\"", WANTED_HELP),
	LABELLED(SHIP_WANTED_KNOWN, "ship_wanted_symbols_total", "result=\"known\"", WANTED_HELP),
	LABELLED(SHIP_WANTED_FULL, "ship_wanted_symbols_total", "result=\"full\"", WANTED_HELP),
	LABELLED(SHIP_WANTED_MALFORMED, "ship_wanted_symbols_total", "result=\"malformed\"",
		 WANTED_HELP),
	LABELLED(WANTED_SPOOLED, "wanted_symbols_total", "result=\"spooled\"", ANSWER_HELP),
	LABELLED(WANTED_STRIPPED, "wanted_symbols_total", "result=\"stripped\"", ANSWER_HELP),
	LABELLED(WANTED_GONE, "wanted_symbols_total", "result=\"gone\"", ANSWER_HELP),
	LABELLED(WANTED_UNTRUSTED, "wanted_symbols_total", "result=\"untrusted\"", ANSWER_HELP),
	LABELLED(WANTED_FAILED, "wanted_symbols_total", "result=\"failed\"", ANSWER_HELP),
	LABELLED(WANTED_REFUSED, "wanted_symbols_total", "result=\"refused\"", ANSWER_HELP),
	SECONDS(SHIP_LAST_SUCCESS, GAUGE, "ship_last_success_timestamp_seconds", NULL,
		"Time of the last acknowledged batch; 0 before the first."),
	SECONDS(SHIP_BACKOFF, GAUGE, "ship_backoff_seconds", NULL,
		"How long the ship role is waiting before its next attempt; 0: it is not."),
};

void fp_agent_metrics_spool(struct fp_metrics *metrics, struct fp_spool *spool,
			    struct fp_spool_stats *reported)
{
	struct fp_spool_stats now;

	fp_spool_stats(spool, &now);
	fp_metric_set(metrics, FP_M_SPOOL_BYTES, now.bytes);
	fp_metric_set(metrics, FP_M_SPOOL_BATCHES, now.batches);
	fp_metric_set(metrics, FP_M_SPOOL_OLDEST, now.oldest_realtime_ns);
	for (size_t i = 0; i < FP_SPOOL_DROP_COUNT; i++) {
		fp_metric_add(metrics, FP_M_SPOOL_DROPPED_BATCHES_FIRST + i,
			      now.dropped_batches[i] - reported->dropped_batches[i]);
		fp_metric_add(metrics, FP_M_SPOOL_DROPPED_SAMPLES_FIRST + i,
			      now.dropped_samples[i] - reported->dropped_samples[i]);
	}
	*reported = now;
}

void fp_agent_metrics_init(void)
{
	// Every row is a constant; nothing is left to fill in.
}
