// SPDX-License-Identifier: Apache-2.0
//
// sampler: the kernel side as user space sees it. Opens, sizes, loads and attaches the programs; switches epochs;
// drains count maps in batches; hands out stack records.
// Stage: kernel tick / switch → maps → drain. Output: records and counts, trusted.
// Threads: one owner.
#pragma once

#include "bpf/abi.h"
#include "common/buf.h"

// Off-CPU stacks walked per second and host where nothing is said; a snapshot of one process.
#define FP_WALK_BUDGET		250u
#define FP_SNAPSHOT_WALK_BUDGET 2000u

enum fp_offcpu_hook { // how off-CPU intervals are closed; the setting `off_cpu.hook`
	FP_HOOK_AUTO,
	FP_HOOK_IRQ_WORK,   // an interrupt of our own, for kept intervals alone (x86)
	FP_HOOK_SCHED_EXIT, // tp_btf/sched_exit_tp (6.16+): in the returning task's context
	FP_HOOK_FEXIT,	    // fexit/schedule: there too, where the kernel allows trampolines
	FP_HOOK_WAY_OUT,    // stack taken at sched_switch, before the task is away
	FP_HOOK_COUNT
};
const char *fp_offcpu_hook_name(enum fp_offcpu_hook hook); // "irq_work", …
// Whether FP_HOOK_IRQ_WORK works here, by trying it; takes some milliseconds. -EOPNOTSUPP the kernel
// has no such hook, -ETIME its interrupt does not come, else what libbpf says.
int fp_sampler_try_irq_work(void);

// Maps of unwind tables, as bpf/abi.h describes them, for the agent to fill while programs run.
struct fp_unwind_maps {
	int pages;  // array of FP_UNWIND_PAGES words, can be mapped into memory
	int rows;   // array of FP_UNWIND_CHUNKS maps; its slots take what fp_unwind_chunk_new makes
	int rules;  // array of FP_UNWIND_RULES, can be mapped; number 0 is FP_UNWIND_GAP
	int ranges; // hash of FP_UNWIND_RANGES_ENTRIES
	int files;  // hash of FP_UNWIND_FILES
	int met;    // hash of FP_UNWIND_FILES_MET, which the programs fill
};

struct fp_sampler_config {
	uint32_t cpu_hz; // 0: no CPU profile
	bool off_cpu;
	enum fp_offcpu_hook hook;
	// Time ready but not running is profiled too, and waiting to run after a wake-up is then
	// no longer part of the blocked time. Needs off_cpu.
	bool run_queue;
	bool waker;		     // who woke a blocked thread is profiled too; needs off_cpu
	uint32_t walk_budget;	     // off-CPU stacks walked per second, about; 0: 250
	uint64_t quantum_ns;	     // fixed; 0: adapted to walk_budget
	uint32_t tgid;		     // only this process; 0: the whole host
	bool kernel_threads_off_cpu; // count kernel threads' sleeps too
	uint32_t count_entries;	     // stacks per source and epoch; 0: default by CPUs
	uint32_t ring_bytes;	     // per source, a power of two of pages; 0: default by CPUs
	uint32_t max_user_frames;    // 1 to FP_MAX_USER_FRAMES; 0: 127
	bool use_helper_walk;	     // bpf_get_stack instead of our walk: no tables either
	bool unwind_tables;	     // walk by the tables that fp_sampler_unwind_maps are given
	const struct fp_unwind_maps *unwind_maps; // that the programs use; NULL: of their own
};

struct fp_sampler;

// The reason a kernel or its settings refuse us, for one line with cause and fix.
struct fp_refusal {
	int error;	 // negative errno of the step that failed, 0: none
	char cause[200]; // e.g. "kernel lockdown is in confidentiality mode"
	char fix[200];	 // e.g. "boot with lockdown=integrity or without Secure Boot"
};

// Loads and attaches. On failure *refusal is filled in. Returns 0 or -errno.
int fp_sampler_open(const struct fp_sampler_config *config, struct fp_sampler **ret,
		    struct fp_refusal *refusal);
void fp_sampler_free(struct fp_sampler *sampler);
static inline void fp_sampler_freep(struct fp_sampler **sampler)
{
	fp_sampler_free(*sampler);
	*sampler = NULL;
}

// epoll descriptor that is readable when a ring holds much data (drain stack records then).
int fp_sampler_fd(const struct fp_sampler *sampler);

typedef int (*fp_record_fn)(const struct fp_stack_record *record, void *context);
typedef int (*fp_count_fn)(enum fp_source source, const struct fp_key *key,
			   const struct fp_count *count, void *context);

// Hands out the stack records that arrived since the last call.
int fp_sampler_read_stacks(struct fp_sampler *sampler, fp_record_fn fn, void *context);

struct fp_epoch {				   // what one epoch came to
	struct fp_totals totals[FP_PROGRAM_COUNT]; // summed over CPUs
	uint64_t drained_count[FP_SOURCE_COUNT];   // sums over the drained map
	uint64_t drained_value[FP_SOURCE_COUNT];
	uint32_t entries[FP_SOURCE_COUNT];
	struct fp_durations durations[FP_DURATIONS_ROWS]; // of all intervals, kept or not
	uint64_t quantum_min_ns, quantum_max_ns;	  // in effect
	uint64_t waker_quantum_min_ns, waker_quantum_max_ns;
	uint64_t weight_max;
	uint64_t cut_missed; // visits that were to cut intervals and could not
	uint64_t start_monotonic_ns, end_monotonic_ns;
	uint32_t index; // 0, 1, 2, … of this sampler
};

// Switches the epoch, waits until every program run that began in the old one has left,
// hands out its remaining stack records through record_fn and then every map entry through
// count_fn, and empties the set. 0 or -errno.
int fp_sampler_drain(struct fp_sampler *sampler, fp_record_fn record_fn, fp_count_fn count_fn,
		     void *context, struct fp_epoch *ret_epoch);

// Cuts the intervals that go on: up to end_ns (CLOCK_MONOTONIC) they count in this epoch, from
// there on in later ones. Where the kernel does not take the visit, or it is not done within two
// seconds, they count whole when they end, and the epoch's cut_missed says so.
void fp_sampler_cut(struct fp_sampler *sampler, uint64_t end_ns);

// Whether a visit could not be ended: its program may run on for as long as the sampler lives.
bool fp_sampler_visit_hangs(const struct fp_sampler *sampler);

// Entries of the fullest map in this epoch.
uint32_t fp_epoch_entries(const struct fp_epoch *epoch);
// What intervals are kept by now; see struct fp_offcpu_control.
uint64_t fp_sampler_quantum(const struct fp_sampler *sampler, uint64_t *ret_weight);

// Re-arms CPUs that came online since the last call and lets go of those that left.
// Returns the number of CPUs sampled, or -errno.
int fp_sampler_sync_cpus(struct fp_sampler *sampler);
uint32_t fp_sampler_hz(const struct fp_sampler *sampler); // the rate the kernel gave
const char *fp_sampler_hook(const struct fp_sampler *sampler, enum fp_source source);
uint64_t fp_sampler_map_bytes(const struct fp_sampler *sampler); // Σ memlock of our maps
// What cgroup_id of the records is of: FP_CGROUP_V2 or a controller of agent/cgroup.h.
uint32_t fp_sampler_cgroup_subsystem(const struct fp_sampler *sampler);
uint32_t fp_sampler_capacity(const struct fp_sampler *sampler); // entries per map
// The maps of unwind tables that the programs use; the descriptors stay whose they are. All -1 without unwind_tables or with use_helper_walk.
struct fp_unwind_maps fp_sampler_unwind_maps(const struct fp_sampler *sampler);
// A map for one slot of `rows`: an array of one struct fp_unwind_chunk, can be mapped. Who takes it
// out of its slot keeps the descriptor open for a grace period: before 6.7 (6.1.75) the kernel frees
// it at once, whoever still reads it. Returns the descriptor, the caller's, or -errno.
int fp_unwind_chunk_new(void);
// Nanoseconds and runs per program from the kernel's statistics (0 unless they are enabled).
int fp_sampler_run_time(const struct fp_sampler *sampler, enum fp_program program, uint64_t *ret_ns,
			uint64_t *ret_runs);
// CLOCK_MONOTONIC; no interval counts from before that.
uint64_t fp_sampler_begun(const struct fp_sampler *sampler);
// Detaches what sees intervals: none ends after it has returned.
void fp_sampler_stop_off_cpu(struct fp_sampler *sampler);
// Detaches everything; the intervals that go on can still be cut and the maps drained twice (both
// epochs) afterwards.
void fp_sampler_stop(struct fp_sampler *sampler);
