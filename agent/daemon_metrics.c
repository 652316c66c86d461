// SPDX-License-Identifier: Apache-2.0
//
// The sampler's slots of the metrics page, brought up to date every turn of the loop.
#include "daemon_state.h"

#include "common/clock.h"

static void set(struct fp_daemon *daemon, size_t row, uint64_t value)
{
	fp_metric_set(&daemon->metrics, row, value);
}

static void set_programs(struct fp_daemon *daemon, const struct fp_session_stats *stats)
{
	for (size_t program = 0; program < FP_PROGRAM_COUNT; program++) {
		for (size_t outcome = 0; outcome < FP_OUTCOME_COUNT; outcome++)
			set(daemon, FP_M_RUNS_FIRST + program * FP_OUTCOME_COUNT + outcome,
			    stats->totals[program].outcomes[outcome]);
		set(daemon, FP_M_BPF_RUN_NS_FIRST + program, stats->bpf_run_ns[program]);
	}
}

static void set_session(struct fp_daemon *daemon, const struct fp_session_stats *stats)
{
	set(daemon, FP_M_SAMPLES_TAKEN_CPU, stats->samples[FP_SOURCE_CPU]);
	set(daemon, FP_M_SAMPLES_TAKEN_OFF_CPU, stats->samples[FP_SOURCE_OFFCPU]);
	set(daemon, FP_M_OFF_CPU_NS, stats->value[FP_SOURCE_OFFCPU]);
	set(daemon, FP_M_SAMPLES_TAKEN_RUN_QUEUE, stats->samples[FP_SOURCE_RUNQUEUE]);
	set(daemon, FP_M_SAMPLES_TAKEN_WAKER, stats->samples[FP_SOURCE_WAKER]);
	set(daemon, FP_M_RUN_QUEUE_NS, stats->value[FP_SOURCE_RUNQUEUE]);
	set(daemon, FP_M_STACKS_LOST_RUN_QUEUE, stats->stacks_lost[FP_SOURCE_RUNQUEUE]);
	set(daemon, FP_M_STACKS_LOST_WAKER, stats->stacks_lost[FP_SOURCE_WAKER]);
	set(daemon, FP_M_STACKS_LOST_CPU, stats->stacks_lost[FP_SOURCE_CPU]);
	set(daemon, FP_M_STACKS_LOST_OFF_CPU, stats->stacks_lost[FP_SOURCE_OFFCPU]);
	set(daemon, FP_M_RETURNS_UNSEEN,
	    stats->totals[FP_PROGRAM_SWITCH_OUT].unclosed +
		stats->totals[FP_PROGRAM_SWITCH_IN].unclosed);
	set(daemon, FP_M_BALANCE_ERRORS, stats->balance_errors);
	set(daemon, FP_M_MAP_BYTES, stats->map_bytes);
	set(daemon, FP_M_MAP_ENTRIES_PEAK, stats->entries_peak);
	set(daemon, FP_M_MAP_CAPACITY, stats->capacity);
	set(daemon, FP_M_CPUS, stats->cpus);
	set(daemon, FP_M_HZ, stats->hz);
	set(daemon, FP_M_EPOCHS, stats->epochs);
	set(daemon, FP_M_SIDEBAND_EVENTS, stats->sideband_events);
	set(daemon, FP_M_SIDEBAND_LOST, stats->sideband_lost);
	set(daemon, FP_M_PROCESSES, stats->processes);
	set(daemon, FP_M_PROCESS_BYTES, stats->process_bytes);
	set(daemon, FP_M_PROCESS_READS, stats->process_reads);
	set(daemon, FP_M_PROCESS_READS_FAILED, stats->process_reads_failed);
	set(daemon, FP_M_ADDRESS_LOOKUPS, stats->address_lookups);
	set(daemon, FP_M_SIDEBAND_RING_BYTES, stats->sideband_ring_bytes);
	for (size_t what = 0; what < FP_EVICTED_COUNT; what++)
		set(daemon, FP_M_EVICTED_FIRST + what, stats->evicted[what]);
	set(daemon, FP_M_CGROUPS_FOUND, stats->labels.cgroups_found);
	set(daemon, FP_M_CGROUPS_GONE, stats->labels.cgroups_gone);
	set(daemon, FP_M_PLACES_READ, stats->labels.processes_read);
	set(daemon, FP_M_PLACES_INHERITED, stats->labels.inherited);
	set(daemon, FP_M_PLACES_UNKNOWN, stats->labels.unknown);
	set(daemon, FP_M_RELABEL_OVERRUNS, stats->labels.relabel_overruns);
	set(daemon, FP_M_RELABEL_DROPPED_CPU, stats->relabel_dropped[FP_SOURCE_CPU]);
	set(daemon, FP_M_RELABEL_DROPPED_OFF_CPU, stats->relabel_dropped[FP_SOURCE_OFFCPU]);
	set(daemon, FP_M_RELABEL_DROPPED_RUN_QUEUE, stats->relabel_dropped[FP_SOURCE_RUNQUEUE]);
	set(daemon, FP_M_RELABEL_DROPPED_WAKER, stats->relabel_dropped[FP_SOURCE_WAKER]);
}

static void set_intervals(struct fp_daemon *daemon, const struct fp_session_stats *stats)
{
	uint64_t counts[FP_DURATIONS_ROWS] = { 0 }, sums[FP_DURATIONS_ROWS] = { 0 };

	for (int row = 0; row < FP_DURATIONS_ROWS; row++) {
		for (int i = 0; i < FP_DURATION_BUCKETS; i++) {
			counts[row] += stats->durations[row].count[i];
			sums[row] += stats->durations[row].sum_ns[i];
		}
	}
	set(daemon, FP_M_INTERVALS,
	    counts[FP_DURATIONS_BLOCKED] + counts[FP_DURATIONS_CUT_BLOCKED]);
	set(daemon, FP_M_INTERVALS_NS, sums[FP_DURATIONS_BLOCKED] + sums[FP_DURATIONS_CUT_BLOCKED]);
	set(daemon, FP_M_READY_INTERVALS,
	    counts[FP_DURATIONS_READY] + counts[FP_DURATIONS_CUT_READY]);
	set(daemon, FP_M_READY_INTERVALS_NS,
	    sums[FP_DURATIONS_READY] + sums[FP_DURATIONS_CUT_READY]);
	set(daemon, FP_M_OFF_CPU_WALKS,
	    stats->totals[FP_PROGRAM_SWITCH_OUT].walks + stats->totals[FP_PROGRAM_SWITCH_IN].walks +
		stats->totals[FP_PROGRAM_BLOCKED].walks);
	set(daemon, FP_M_WAKER_WALKS, stats->totals[FP_PROGRAM_WAKE].walks);
	set(daemon, FP_M_QUANTUM, stats->quantum_ns);
	set(daemon, FP_M_WEIGHT, stats->weight);
	set(daemon, FP_M_CUTS_MISSED, stats->cut_missed);
}

static void set_names(struct fp_daemon *daemon)
{
	struct fp_names_stats stats;

	if (!daemon->names)
		return;
	fp_names_stats(daemon->names, &stats);
	set(daemon, FP_M_IDENTITIES_ASKED, stats.identities_asked);
	set(daemon, FP_M_IDENTITIES_KNOWN, stats.identities_known);
	set(daemon, FP_M_IDENTITIES_NONE, stats.identities_none);
	set(daemon, FP_M_FILES_DENIED, stats.denied);
	set(daemon, FP_M_FILES_TIMED_OUT, stats.timeouts);
	set(daemon, FP_M_NAMES_QUEUE_FULL, stats.queue_full);
	set(daemon, FP_M_SYMBOLS_ROLE_STARTS, stats.role_starts);
	set(daemon, FP_M_OPENER_STARTS, stats.opener_starts);
	set(daemon, FP_M_PERF_MAPS_OPEN, stats.maps_open);
	set(daemon, FP_M_PERF_MAP_BYTES, stats.map_bytes);
	set(daemon, FP_M_PERF_MAPS_REFUSED, stats.maps_refused);
	set(daemon, FP_M_PERF_MAPS_LOST, stats.maps_lost);
	set(daemon, FP_M_JIT_ASKED, stats.jit_asked);
	set(daemon, FP_M_JIT_NAMED, stats.jit_named);
	set(daemon, FP_M_SYMBOL_TABLES_MADE, stats.tables_made);
	set(daemon, FP_M_SYMBOL_TABLE_BYTES, stats.table_bytes);
}

void fp_daemon_metrics_update(struct fp_daemon *daemon)
{
	struct fp_session_stats stats = { 0 };

	set(daemon, FP_M_LOOP_TICK, fp_boottime_ns());
	if (daemon->control)
		set(daemon, FP_M_SNAPSHOTS, fp_control_snapshots(daemon->control));
	set_names(daemon);
	fp_daemon_unwind_metrics(daemon);
	if (!daemon->session) // the last window of a session that is gone
		return;
	fp_daemon_session_stats(daemon, &stats);
	set_programs(daemon, &stats);
	set_session(daemon, &stats);
	set_intervals(daemon, &stats);
}
