// SPDX-License-Identifier: Apache-2.0
//
// Which programs, maps and hooks a sampler has on this kernel.
#include "sampler_state.h"

#include "btffacts.h"
#include "cgroup.h"
#include "common/clock.h"
#include "fleetprof_bpf.skel.h"

#include <bpf/btf.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

// Sizes per online CPU where the configuration gives none. At 99 Hz and 5 s a CPU meets at
// most 495 stacks; switches can bring many more, all of them short-lived processes' at worst.
#define ENTRIES_PER_CPU 2048u
#define ENTRIES_MIN	16384u
// 65536 entries of 104 bytes in four maps are 27 MiB, two rings of 8 MiB another 16: with
// those the promise of 64 MiB holds on hosts of any size.
#define ENTRIES_MAX  65536u
#define RING_PER_CPU 131072u
#define RING_MIN     524288u
#define RING_MAX     (8u << 20)

static uint32_t power_of_two(uint64_t wanted, uint32_t least, uint32_t most)
{
	uint32_t size = least;

	while (size < wanted && size < most)
		size *= 2;
	return size;
}

static void size_maps(struct fp_sampler *sampler)
{
	struct fleetprof_bpf *skeleton = sampler->skeleton;
	struct bpf_map *counts[] = { skeleton->maps.cpu_counts_0, skeleton->maps.cpu_counts_1,
				     skeleton->maps.offcpu_counts_0,
				     skeleton->maps.offcpu_counts_1 };
	const struct fp_sampler_config *config = &sampler->config;
	uint32_t cpus = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN);
	uint32_t entries = config->count_entries, ring = config->ring_bytes;
	bool used[] = { config->cpu_hz > 0, config->off_cpu };

	if (!entries)
		entries = power_of_two((uint64_t)cpus * ENTRIES_PER_CPU, ENTRIES_MIN, ENTRIES_MAX);
	if (!ring)
		ring = power_of_two((uint64_t)cpus * RING_PER_CPU, RING_MIN, RING_MAX);
	// What is switched off gets the least the kernel allows.
	for (size_t i = 0; i < FP_ARRAY_SIZE(counts); i++)
		bpf_map__set_max_entries(counts[i], used[i / FP_EPOCHS] ? entries : 1);
	bpf_map__set_max_entries(skeleton->maps.cpu_stacks, used[0] ? ring : 4096);
	bpf_map__set_max_entries(skeleton->maps.offcpu_stacks, used[1] ? ring : 4096);
	skeleton->rodata->fp_ring_wakeup_bytes = ring / 2;
	sampler->capacity = entries;
}

// The hooks that the kernel may have, in order of preference.
static bool hook_possible(const struct fp_sampler *sampler, const struct btf *btf,
			  enum fp_offcpu_hook hook)
{
	if (sampler->config.hook != FP_HOOK_AUTO)
		return hook == sampler->config.hook;
	if (!sampler->config.off_cpu)
		return hook == FP_HOOK_WAY_OUT; // nothing to choose
	if (hook == FP_HOOK_IRQ_WORK)
		return fp_sampler_try_irq_work() == 0;
	return hook != FP_HOOK_SCHED_EXIT || fp_btf_tracepoint_arguments(btf, "sched_exit_tp") > 0;
}

bool fp_sampler_by_table(const struct fp_sampler *sampler)
{
	return sampler->config.unwind_tables && !sampler->config.use_helper_walk;
}

// Without tables nothing is ever looked up in their maps, but the programs name them.
static int choose_unwinding(struct fp_sampler *sampler)
{
	struct fleetprof_bpf *skeleton = sampler->skeleton;
	struct bpf_map *maps[] = { skeleton->maps.unwind_pages, skeleton->maps.unwind_rows,
				   skeleton->maps.unwind_rules, skeleton->maps.unwind_ranges,
				   skeleton->maps.unwind_files, skeleton->maps.unwind_met };
	const struct fp_unwind_maps none = { -1, -1, -1, -1, -1, -1 };
	const struct fp_unwind_maps *given =
	    sampler->config.unwind_maps ? sampler->config.unwind_maps : &none;
	const int fds[] = { given->pages,  given->rows,	 given->rules,
			    given->ranges, given->files, given->met };
	bool by_table = fp_sampler_by_table(sampler);
	int error = 0;

	skeleton->rodata->fp_unwind_tables = by_table;
	for (size_t i = 0; i < FP_ARRAY_SIZE(maps) && !error; i++) {
		if (!by_table)
			error = bpf_map__set_max_entries(maps[i], 1);
		else if (fds[i] >= 0)
			error = bpf_map__reuse_fd(maps[i], fds[i]);
	}
	return error;
}

static void choose_programs(struct fp_sampler *sampler, const struct btf *btf)
{
	struct fleetprof_bpf *skeleton = sampler->skeleton;
	const struct fp_sampler_config *config = &sampler->config;
	bool off_cpu = config->off_cpu;

	skeleton->rodata->fp_tgid = config->tgid;
	skeleton->rodata->fp_use_helper_walk = config->use_helper_walk;
	if (config->max_user_frames)
		skeleton->rodata->fp_max_user_frames = config->max_user_frames;
	skeleton->rodata->fp_kernel_threads = config->kernel_threads_off_cpu;
	skeleton->rodata->fp_way_out = sampler->hook == FP_HOOK_WAY_OUT;
	skeleton->rodata->fp_run_queue = config->run_queue;
	skeleton->rodata->fp_wakers = config->waker;
	skeleton->rodata->fp_has_prev_state = fp_btf_tracepoint_arguments(btf, "sched_switch") >= 4;
	bpf_program__set_autoload(skeleton->progs.cpu_tick, config->cpu_hz > 0);
	bpf_program__set_autoload(skeleton->progs.offcpu_switch, off_cpu);
	bpf_program__set_autoload(skeleton->progs.offcpu_visit, off_cpu);
	skeleton->rodata->fp_kick = sampler->hook == FP_HOOK_IRQ_WORK;
	bpf_program__set_autoload(skeleton->progs.offcpu_return_irq,
				  off_cpu && sampler->hook == FP_HOOK_IRQ_WORK);
	bpf_program__set_autoload(skeleton->progs.offcpu_return,
				  off_cpu && sampler->hook == FP_HOOK_SCHED_EXIT);
	bpf_program__set_autoload(skeleton->progs.offcpu_return_fexit,
				  off_cpu && sampler->hook == FP_HOOK_FEXIT);
	bpf_program__set_autoload(skeleton->progs.offcpu_waking,
				  off_cpu && (config->run_queue || config->waker));
	bpf_map__set_autocreate(skeleton->maps.departures, off_cpu);
	bpf_map__set_autocreate(skeleton->maps.offcpu_kicks, sampler->hook == FP_HOOK_IRQ_WORK);
	if (sampler->hook == FP_HOOK_IRQ_WORK)
		bpf_map__set_max_entries(skeleton->maps.offcpu_kicks, fp_kicks_needed());
}

// Records name the task's cgroup in the hierarchy that tells most; where the kernel's types do
// not have the controller, in the default one.
static void choose_cgroups(struct fp_sampler *sampler, const struct btf *btf)
{
	struct fp_cgroup_choice choice;
	char name[64];
	uint32_t value;

	fp_cgroup_choose(&choice);
	if (choice.subsystem == FP_CGROUP_V2)
		return;
	snprintf(name, sizeof(name), "%s_cgrp_id", fp_cgroup_controller(choice.subsystem));
	if (!fp_btf_enumerator(btf, "cgroup_subsys_id", name, &value))
		return;
	sampler->skeleton->rodata->fp_cgroup_subsystem = 1 + value;
	sampler->cgroup_subsystem = choice.subsystem;
}

static int attach_program(struct bpf_program *program, struct bpf_link **ret_link)
{
	if (bpf_program__fd(program) < 0)
		return 0; // not chosen
	*ret_link = bpf_program__attach(program);
	return *ret_link ? 0 : -errno;
}

// Those that close intervals before the one that opens them.
static int attach_scheduler(struct fp_sampler *sampler)
{
	struct fleetprof_bpf *skeleton = sampler->skeleton;
	int error = attach_program(skeleton->progs.offcpu_return, &skeleton->links.offcpu_return);

	if (!error)
		error = attach_program(skeleton->progs.offcpu_return_irq,
				       &skeleton->links.offcpu_return_irq);
	if (!error)
		error = attach_program(skeleton->progs.offcpu_return_fexit,
				       &skeleton->links.offcpu_return_fexit);
	if (!error)
		error =
		    attach_program(skeleton->progs.offcpu_waking, &skeleton->links.offcpu_waking);
	if (!error)
		error =
		    attach_program(skeleton->progs.offcpu_switch, &skeleton->links.offcpu_switch);
	return error;
}

static int open_skeleton(struct fp_sampler *sampler, const struct btf *btf,
			 enum fp_offcpu_hook hook)
{
	sampler->hook = hook;
	sampler->skeleton = fleetprof_bpf__open();
	if (!sampler->skeleton)
		return -errno;
	size_maps(sampler);
	choose_programs(sampler, btf);
	choose_cgroups(sampler, btf);
	return choose_unwinding(sampler);
}

// Without the visit of blocked tasks where the kernel does not take it (before 5.18).
static int load_with(struct fp_sampler *sampler, const struct btf *btf, enum fp_offcpu_hook hook)
{
	int error = open_skeleton(sampler, btf, hook);

	if (!error)
		error = fleetprof_bpf__load(sampler->skeleton);
	if (error && sampler->skeleton && sampler->config.off_cpu) {
		fleetprof_bpf__destroy(sampler->skeleton);
		sampler->skeleton = NULL;
		error = open_skeleton(sampler, btf, hook);
		if (!error) {
			bpf_program__set_autoload(sampler->skeleton->progs.offcpu_visit, false);
			error = fleetprof_bpf__load(sampler->skeleton);
		}
	}
	if (error)
		return error;
	fp_sampler_control_start(sampler);
	if (sampler->hook == FP_HOOK_IRQ_WORK)
		error = fp_kicks_open(bpf_map__fd(sampler->skeleton->maps.offcpu_kicks),
				      fp_kicks_needed(), &sampler->kicks);
	sampler->begun_ns = fp_monotonic_ns();
	if (!error)
		error = attach_scheduler(sampler);
	if (!error && bpf_program__fd(sampler->skeleton->progs.offcpu_visit) >= 0)
		sampler->visit_link = bpf_program__attach(sampler->skeleton->progs.offcpu_visit);
	return error;
}

int fp_sampler_load(struct fp_sampler *sampler)
{
	struct btf *btf = btf__load_vmlinux_btf();
	int error = -ENOTSUP;

	if (!btf)
		return -errno;
	for (int hook = FP_HOOK_AUTO + 1; hook < FP_HOOK_COUNT && error; hook++) {
		if (!hook_possible(sampler, btf, (enum fp_offcpu_hook)hook))
			continue;
		fleetprof_bpf__destroy(sampler->skeleton);
		sampler->skeleton = NULL;
		fp_kicks_free(&sampler->kicks);
		error = load_with(sampler, btf, (enum fp_offcpu_hook)hook);
	}
	btf__free(btf);
	return error;
}

struct bpf_program *fp_sampler_program(const struct fp_sampler *sampler, enum fp_program program)
{
	const struct fleetprof_bpf *skeleton = sampler->skeleton;

	switch (program) {
	case FP_PROGRAM_CPU:
		return skeleton->progs.cpu_tick;
	case FP_PROGRAM_SWITCH_OUT:
		return skeleton->progs.offcpu_switch;
	case FP_PROGRAM_SWITCH_IN:
		return sampler->hook == FP_HOOK_FEXIT	   ? skeleton->progs.offcpu_return_fexit
		       : sampler->hook == FP_HOOK_IRQ_WORK ? skeleton->progs.offcpu_return_irq
							   : skeleton->progs.offcpu_return;
	case FP_PROGRAM_BLOCKED:
		return skeleton->progs.offcpu_visit;
	case FP_PROGRAM_WAKE:
		return skeleton->progs.offcpu_waking;
	default:
		return NULL;
	}
}
