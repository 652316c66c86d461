// SPDX-License-Identifier: Apache-2.0
//
// sampler_state: the inside of a sampler, shared by sampler.c (open, close, answers),
// sampler_load.c (sizes, choices, hooks), sampler_drain.c (epochs) and sampler_visit.c (tasks that
// are away). These alone include the BPF skeleton. Threads: one owner.
#pragma once

#include "epochmaps.h"
#include "kicks.h"
#include "perfevents.h"
#include "sampler.h"

#include <bpf/libbpf.h>

struct fleetprof_bpf;

struct fp_sampler {
	struct fleetprof_bpf *skeleton;
	struct fp_perf_events *perf_events;
	struct ring_buffer *rings;
	struct fp_kicks kicks;	     // none with the other hooks
	struct bpf_link *visit_link; // outlives the others: a stopped sampler still cuts
	struct fp_batch_space space;
	struct fp_sampler_config config;
	enum fp_offcpu_hook hook;
	uint32_t hz, cpus, capacity, epochs, cgroup_subsystem;
	uint64_t epoch_start_ns, cut_ns; // CLOCK_MONOTONIC; the last visit that cut or marked
	uint64_t begun_ns;		 // CLOCK_MONOTONIC; nothing was sampled before
	uint64_t cut_missed;
	uint32_t visits_without; // visits still to come that read no user stacks
	bool attached, visits_hang;
	fp_record_fn record_fn; // during fp_sampler_read_stacks
	void *record_context;
};

// Opens, sizes, loads and attaches the programs with the first hook that the kernel takes.
int fp_sampler_load(struct fp_sampler *sampler);
// The programs that belong to one of the abi's; NULL: counted by another one's runs.
struct bpf_program *fp_sampler_program(const struct fp_sampler *sampler, enum fp_program program);
// Whether walks go by unwind tables.
bool fp_sampler_by_table(const struct fp_sampler *sampler);
// What the first epoch's intervals are kept by.
void fp_sampler_control_start(struct fp_sampler *sampler);
// Those that are blocked already are away from now on. Without the visit they count from their
// next departure.
void fp_sampler_mark(struct fp_sampler *sampler);

static inline uint32_t fp_sampler_walk_budget(const struct fp_sampler *sampler)
{
	return sampler->config.walk_budget ? sampler->config.walk_budget : FP_WALK_BUDGET;
}
