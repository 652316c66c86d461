// SPDX-License-Identifier: Apache-2.0
//
// preflight: does this kernel, with these privileges, let us sample, and what will be
// missing? Facts are gathered once by asking the kernel (not by its version), then judged by
// a table of checks. The daemon refuses to start on the first FAIL; `agentctl doctor`
// prints every row with its fix.
// The judgement is a function of the facts alone, so that tests can try kernels that are
// not at hand. Threads: no state.
#pragma once

#include "common/buf.h"
#include "preflight_kernel.h"
#include "sampler.h"

enum fp_lockdown {
	FP_LOCKDOWN_UNKNOWN, // the kernel does not say (no securityfs)
	FP_LOCKDOWN_NONE,
	FP_LOCKDOWN_INTEGRITY,
	FP_LOCKDOWN_CONFIDENTIALITY,
};

enum fp_cgroup_mode { FP_CGROUP_NONE, FP_CGROUP_V1, FP_CGROUP_HYBRID, FP_CGROUP_V2 };

// Results of probes are 0 or -errno. Numbers of sysctls are -1000 when unreadable.
struct fp_preflight_facts {
	char release[65];
	struct fp_kernel_version kernel;
	uint64_t capabilities; // effective, as bits
	uint32_t uid;
	bool user_namespace; // not the initial one
	bool pid_namespace;  // not the initial one
	int btf;	     // /sys/kernel/btf/vmlinux can be read
	enum fp_lockdown lockdown;
	int bpf_program;      // a program of two instructions loads
	int ring_buffer;      // a ring buffer map can be made
	int bpf_loop;	      // programs may call bpf_loop; -EOPNOTSUPP: they may not
	int perf_event;	      // a CPU-wide cpu-clock event opens with all we have
	int perf_event_plain; // … and without CAP_SYS_ADMIN
	int perf_event_paranoid;
	int perf_event_max_sample_rate;
	int perf_event_max_stack;
	int kptr_restrict;
	bool kernel_symbols;  // /proc/kallsyms shows addresses
	bool hook_switch;     // tp_btf/sched_switch
	int hook_irq_work;    // an interrupt of our own: fp_sampler_try_irq_work
	bool hook_sched_exit; // tp_btf/sched_exit_tp
	int hook_fexit; // a program at the end of schedule attaches; asked only where it matters
	enum fp_cgroup_mode cgroup;
};
#define FP_PREFLIGHT_UNREADABLE (-1000)

enum fp_preflight_status { FP_PREFLIGHT_PASS, FP_PREFLIGHT_WARN, FP_PREFLIGHT_FAIL };
const char *fp_preflight_status_name(enum fp_preflight_status status); // "PASS", …

struct fp_preflight_row {
	const char *name; // stable, for --json: "btf"
	enum fp_preflight_status status;
	bool of_caller; // the answer is about whoever asked, not about the host
	char finding[240];
	char fix[240]; // "" when there is nothing to do
};

struct fp_preflight_options { // the settings that matter
	uint32_t cpu_hz;      // 0: no CPU profile
	bool off_cpu;
	enum fp_offcpu_hook hook; // off_cpu.hook
	bool allow_unsafe_kernel;
	const char *kernel_deny, *kernel_warn, *kernel_no_user_read;
};

#define FP_PREFLIGHT_ROWS_MAX 16

// Asks the kernel. Always fills everything; whether fexit programs are taken is asked for the hook
// FP_HOOK_FEXIT and for FP_HOOK_AUTO on kernels that have no better one.
void fp_preflight_gather(enum fp_offcpu_hook hook, struct fp_preflight_facts *ret);
// Judges. Returns the number of rows, in the order in which causes lie below each other: the
// first FAIL is the one to mend first.
size_t fp_preflight_judge(const struct fp_preflight_facts *facts,
			  const struct fp_preflight_options *options,
			  struct fp_preflight_row ret_rows[FP_PREFLIGHT_ROWS_MAX]);
// True where only CAP_SYS_ADMIN opens perf events (Debian, Ubuntu at level 3 and above).
bool fp_preflight_needs_admin(const struct fp_preflight_facts *facts);
