// SPDX-License-Identifier: Apache-2.0
//
// agentmetrics: the agent's one metrics table (names in docs/metrics.md, generated). The
// sampler writes most slots, the ship role its own (FP_M_SHIP_*, FP_M_SPOOL_*).
#pragma once

#include "bpf/abi.h"
#include "common/metrics.h"
#include "process.h"
#include "spool.h"

enum fp_agent_metric {
	FP_M_BUILD_INFO,
	FP_M_LOOP_TICK, // boottime ns of the sampler loop's last turn; /healthz reads it
	FP_M_ATTACHED,	// 1 once the programs run; /readyz reads it
	FP_M_SPOOL_WRITABLE,
	FP_M_SAMPLES_TAKEN_CPU,
	FP_M_SAMPLES_TAKEN_OFF_CPU,
	FP_M_SAMPLES_TAKEN_RUN_QUEUE,
	FP_M_SAMPLES_TAKEN_WAKER,
	FP_M_OFF_CPU_NS,
	FP_M_RUN_QUEUE_NS,
	FP_M_INTERVALS, // FP_M_INTERVALS to FP_M_CUTS_MISSED: of the scheduler's programs
	FP_M_INTERVALS_NS,
	FP_M_READY_INTERVALS,
	FP_M_READY_INTERVALS_NS,
	FP_M_OFF_CPU_WALKS,
	FP_M_WAKER_WALKS,
	FP_M_QUANTUM,
	FP_M_WEIGHT,
	FP_M_CUTS_MISSED,
	FP_M_STACKS_LOST_CPU,
	FP_M_STACKS_LOST_OFF_CPU,
	FP_M_STACKS_LOST_RUN_QUEUE,
	FP_M_STACKS_LOST_WAKER,
	FP_M_RUNS_FIRST, // program × outcome, FP_PROGRAM_COUNT * FP_OUTCOME_COUNT rows
	FP_M_RUNS_LAST = FP_M_RUNS_FIRST + FP_PROGRAM_COUNT * FP_OUTCOME_COUNT - 1,
	FP_M_RETURNS_UNSEEN,
	FP_M_BALANCE_ERRORS,
	FP_M_BPF_RUN_NS_FIRST, // per program
	FP_M_BPF_RUN_NS_LAST = FP_M_BPF_RUN_NS_FIRST + FP_PROGRAM_COUNT - 1,
	FP_M_MAP_BYTES,
	FP_M_MAP_ENTRIES_PEAK,
	FP_M_MAP_CAPACITY,
	FP_M_CPUS,
	FP_M_HZ,
	FP_M_EPOCHS,
	FP_M_SIDEBAND_EVENTS,
	FP_M_SIDEBAND_LOST,
	FP_M_PROCESSES,
	FP_M_PROCESS_BYTES,
	FP_M_PROCESS_READS,
	FP_M_PROCESS_READS_FAILED,
	FP_M_ADDRESS_LOOKUPS,
	FP_M_SIDEBAND_RING_BYTES,
	FP_M_EVICTED_FIRST, // by enum fp_process_eviction
	FP_M_EVICTED_LAST = FP_M_EVICTED_FIRST + FP_EVICTED_COUNT - 1,
	FP_M_IDENTITIES_ASKED, // FP_M_IDENTITIES_ASKED to FP_M_SYMBOL_TABLE_BYTES: fp_names_stats
	FP_M_IDENTITIES_KNOWN,
	FP_M_IDENTITIES_NONE,
	FP_M_FILES_DENIED,
	FP_M_FILES_TIMED_OUT,
	FP_M_NAMES_QUEUE_FULL,
	FP_M_SYMBOLS_ROLE_STARTS,
	FP_M_OPENER_STARTS,
	FP_M_PERF_MAPS_OPEN,
	FP_M_PERF_MAP_BYTES,
	FP_M_PERF_MAPS_REFUSED,
	FP_M_JIT_ASKED,
	FP_M_JIT_NAMED,
	FP_M_SYMBOL_TABLES_MADE,
	FP_M_SYMBOL_TABLE_BYTES,
	FP_M_CGROUPS_FOUND, // FP_M_CGROUPS_FOUND to FP_M_RELABEL_OVERRUNS: fp_labeler_stats
	FP_M_CGROUPS_GONE,
	FP_M_PLACES_READ,
	FP_M_PLACES_INHERITED,
	FP_M_PLACES_UNKNOWN,
	FP_M_RELABEL_OVERRUNS,
	FP_M_RELABEL_DROPPED_CPU,
	FP_M_RELABEL_DROPPED_OFF_CPU,
	FP_M_RELABEL_DROPPED_RUN_QUEUE,
	FP_M_RELABEL_DROPPED_WAKER,
	FP_M_WINDOWS,
	FP_M_WINDOWS_EARLY,
	FP_M_BATCHES_SPOOLED,
	FP_M_SAMPLES_SPOOLED,
	FP_M_SNAPSHOTS,
	FP_M_CONFIG_RELOAD_OK,
	FP_M_CONFIG_RELOAD_TIME,
	FP_M_SHIP_STARTS, // starts of the ship role
	FP_M_SPOOL_BYTES,
	FP_M_SPOOL_BATCHES,
	FP_M_SPOOL_OLDEST,
	FP_M_SPOOL_DROPPED_BATCHES_FIRST,
	FP_M_SPOOL_DROPPED_BATCHES_LAST =
	    FP_M_SPOOL_DROPPED_BATCHES_FIRST + FP_SPOOL_DROP_COUNT - 1,
	FP_M_SPOOL_DROPPED_SAMPLES_FIRST,
	FP_M_SPOOL_DROPPED_SAMPLES_LAST =
	    FP_M_SPOOL_DROPPED_SAMPLES_FIRST + FP_SPOOL_DROP_COUNT - 1,
	FP_M_SHIP_OK,	     // batches acknowledged
	FP_M_SHIP_DUPLICATE, // acknowledged as already stored
	FP_M_SHIP_SAMPLES,   // samples in acknowledged batches
	FP_M_SHIP_RETRIES,
	FP_M_SHIP_HTTP_4XX,
	FP_M_SHIP_HTTP_5XX,
	FP_M_SHIP_HTTP_OTHER, // answers that are neither 2xx, 4xx nor 5xx
	FP_M_SHIP_NETWORK_ERRORS,
	FP_M_SHIP_BYTES,
	FP_M_SHIP_SYMBOL_TABLES,
	FP_M_SHIP_WANTED_NOTED, // symbol tables that the collector asked for
	FP_M_SHIP_WANTED_KNOWN,
	FP_M_SHIP_WANTED_FULL,
	FP_M_SHIP_WANTED_MALFORMED,
	FP_M_WANTED_SPOOLED, // by the sampler
	FP_M_WANTED_STRIPPED,
	FP_M_WANTED_GONE,
	FP_M_WANTED_UNTRUSTED,
	FP_M_WANTED_FAILED,
	FP_M_WANTED_REFUSED,
	FP_M_SHIP_LAST_SUCCESS, // realtime ns
	FP_M_SHIP_BACKOFF,	// ns until the next attempt
	FP_M_COUNT
};

extern const struct fp_metric fp_agent_metrics[FP_M_COUNT];
void fp_agent_metrics_init(void); // call before the table is used
// Adds what the handle dropped since the last call to the drop counters, which sampler and
// ship role share (each counts its own drops), and sets the gauges of the spool. reported:
// the caller's, zero at first, one for each handle.
void fp_agent_metrics_spool(struct fp_metrics *metrics, struct fp_spool *spool,
			    struct fp_spool_stats *reported);
