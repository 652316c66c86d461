// SPDX-License-Identifier: Apache-2.0
//
// session: one sampling session from attach to profiles: sampler + side-band + process
// table + resolver behind one handle. The daemon runs one for the host; a snapshot opens a
// second one for its process and rate; standalone agentctl opens its own.
// Threads: one owner; nothing here blocks longer than an epoch switch (one RCU grace period), but for
// opening one of a single process, which waits up to two seconds for its unwind tables.
#pragma once

#include "labels.h"
#include "process.h"
#include "proto/profile.h"
#include "sampler.h"

struct fp_names;
struct fp_unwind;

struct fp_session_config {
	struct fp_sampler_config sampler;
	struct fp_names *names; // outlives the session; NULL: no JIT names, kernel's build-IDs only
	struct fp_unwind *unwind; // outlives the session; NULL: walks by frame pointer alone
	const struct fp_labeler_options
	    *labels; // outlives fp_session_open; NULL: the defaults, static_labels
	uint64_t process_memory_bytes; // 0: 16 MiB
	const char *static_labels;     // `name=value, …` or NULL; must outlive the session
	uint64_t drain_interval_ns;    // 0: 5 s
	// What a drain may wait for answers about files and perf maps; 0: 250 ms. One that does
	// nothing else can afford more than one that has a loop to serve.
	uint64_t settle_budget_ns;
};

struct fp_session;

int fp_session_open(const struct fp_session_config *config, struct fp_session **ret,
		    struct fp_refusal *refusal);
void fp_session_free(struct fp_session *session);
static inline void fp_session_freep(struct fp_session **session)
{
	fp_session_free(*session);
	*session = NULL;
}

// Readable when rings want emptying: call fp_session_poll then, and at least once a second.
int fp_session_fd(const struct fp_session *session);
int fp_session_poll(struct fp_session *session);
// Memory that the open window holds, in bytes: what a caller bounds by closing it early.
uint64_t fp_session_window_bytes(const struct fp_session *session);
// Switches the epoch and adds what it held to the open window. Call every drain_interval_ns.
int fp_session_drain(struct fp_session *session);
// Drains, completes the quality records, and hands out the window as a profile; a new window
// is open afterwards. Host, boot and sequence fields are the caller's to fill in.
int fp_session_close_window(struct fp_session *session, struct fp_profile **ret_profile);
// Detaches the programs first, then as fp_session_close_window for the last window.
int fp_session_finish(struct fp_session *session, struct fp_profile **ret_profile);

struct fp_session_stats { // running sums since the session opened, for metrics and status
	struct fp_totals totals[FP_PROGRAM_COUNT];
	uint64_t samples[FP_SOURCE_COUNT]; // drained
	uint64_t value[FP_SOURCE_COUNT];
	uint64_t stacks_lost[FP_SOURCE_COUNT];
	uint64_t epochs;
	uint64_t sideband_events, sideband_lost;
	uint64_t relabel_dropped[FP_SOURCE_COUNT]; // samples that a relabel rule does not want
	uint64_t processes, process_bytes;	   // of the process table and the labels
	uint64_t evicted[FP_EVICTED_COUNT];
	uint64_t process_reads, process_reads_failed, address_lookups;
	struct fp_labeler_stats labels;
	uint64_t sideband_ring_bytes;
	uint64_t map_bytes;
	uint32_t entries_peak, capacity;
	uint32_t cpus, hz;
	const char *hook[FP_SOURCE_COUNT];
	struct fp_durations durations[FP_DURATIONS_ROWS];
	uint64_t quantum_ns, weight; // of the epoch that has begun
	uint64_t cut_missed;	     // windows whose blocked intervals could not be cut
	uint64_t balance_errors; // epochs in which drained sums and totals disagreed; 0 or a bug
	uint64_t bpf_run_ns[FP_PROGRAM_COUNT], bpf_runs[FP_PROGRAM_COUNT]; // 0 unless enabled
};
void fp_session_stats(const struct fp_session *session, struct fp_session_stats *ret);
const struct fp_epoch *fp_session_last_epoch(const struct fp_session *session);
// The kernel symbol tables for shipping; see agent/kernelmap.h.
struct fp_kernel_map;
struct fp_kernel_map *fp_session_kernel_map(const struct fp_session *session);
