// SPDX-License-Identifier: Apache-2.0
#include "sampler.h"

#include "cgroup.h"
#include "common/clock.h"
#include "epochmaps.h"
#include "fleetprof_bpf.skel.h"
#include "perfevents.h"
#include "refusal.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/resource.h>
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

struct fp_sampler {
	struct fleetprof_bpf *skeleton;
	struct fp_perf_events *perf_events;
	struct ring_buffer *rings;
	struct fp_batch_space space;
	struct fp_sampler_config config;
	enum fp_offcpu_hook hook;
	uint32_t hz, cpus, capacity, epochs, cgroup_subsystem;
	uint64_t epoch_start_ns;
	bool attached;
	fp_record_fn record_fn; // during fp_sampler_read_stacks
	void *record_context;
};

const char *fp_offcpu_hook_name(enum fp_offcpu_hook hook)
{
	static const char *const names[] = { "auto", "sched_exit_tp", "way_out" };

	return names[hook];
}

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

// Arguments of the BTF tracepoint, 0 when the kernel does not have it.
static uint32_t tracepoint_arguments(const struct btf *btf, const char *name)
{
	int id = btf__find_by_name_kind(btf, name, BTF_KIND_TYPEDEF);
	const struct btf_type *type;

	if (id < 0)
		return 0;
	type = btf__type_by_id(btf, btf__type_by_id(btf, (uint32_t)id)->type); // pointer
	type = btf__type_by_id(btf, type->type);			       // prototype
	return btf_vlen(type) - 1; // the first is the probe's private pointer
}

static void choose_programs(struct fp_sampler *sampler, const struct btf *btf)
{
	struct fleetprof_bpf *skeleton = sampler->skeleton;
	const struct fp_sampler_config *config = &sampler->config;
	bool has_exit_hook = tracepoint_arguments(btf, "btf_trace_sched_exit_tp") > 0;

	sampler->hook = config->hook;
	if (sampler->hook == FP_HOOK_AUTO)
		sampler->hook = has_exit_hook ? FP_HOOK_SCHED_EXIT : FP_HOOK_WAY_OUT;
	skeleton->rodata->fp_tgid = config->tgid;
	skeleton->rodata->fp_use_helper_walk = config->use_helper_walk;
	if (config->max_user_frames)
		skeleton->rodata->fp_max_user_frames = config->max_user_frames;
	skeleton->rodata->fp_kernel_threads = config->kernel_threads_off_cpu;
	skeleton->rodata->fp_way_out = sampler->hook == FP_HOOK_WAY_OUT;
	skeleton->rodata->fp_has_prev_state =
	    tracepoint_arguments(btf, "btf_trace_sched_switch") >= 4;
	bpf_program__set_autoload(skeleton->progs.cpu_tick, config->cpu_hz > 0);
	bpf_program__set_autoload(skeleton->progs.offcpu_switch, config->off_cpu);
	bpf_program__set_autoload(skeleton->progs.offcpu_return,
				  config->off_cpu && sampler->hook == FP_HOOK_SCHED_EXIT);
	bpf_map__set_autocreate(skeleton->maps.departures, config->off_cpu);
}

// Records name the task's cgroup in the hierarchy that tells most; where the kernel's types do
// not have the controller, in the default one.
static void choose_cgroups(struct fp_sampler *sampler, const struct btf *btf)
{
	struct fp_cgroup_choice choice;
	const struct btf_type *type;
	char name[64];
	int id;

	fp_cgroup_choose(&choice);
	id = btf__find_by_name_kind(btf, "cgroup_subsys_id", BTF_KIND_ENUM);
	if (choice.subsystem == FP_CGROUP_V2 || id < 0)
		return;
	snprintf(name, sizeof(name), "%s_cgrp_id", fp_cgroup_controller(choice.subsystem));
	type = btf__type_by_id(btf, (uint32_t)id);
	for (int i = 0; i < btf_vlen(type); i++) {
		const struct btf_enum *row = &btf_enum(type)[i];

		if (strcmp(btf__name_by_offset(btf, row->name_off), name) != 0)
			continue;
		sampler->skeleton->rodata->fp_cgroup_subsystem = 1 + (uint32_t)row->val;
		sampler->cgroup_subsystem = choice.subsystem;
	}
}

static int hand_out_record(void *context, void *data, size_t size)
{
	struct fp_sampler *sampler = context;
	const struct fp_stack_record *record = data;

	if (size < sizeof(*record) ||
	    size !=
		sizeof(*record) + ((size_t)record->kernel_len + record->user_len) * sizeof(fp_u64))
		return -EBADMSG; // our own program wrote it: a bug, not bad input
	return sampler->record_fn(record, sampler->record_context);
}

static int open_rings(struct fp_sampler *sampler)
{
	int error;

	sampler->rings = ring_buffer__new(bpf_map__fd(sampler->skeleton->maps.cpu_stacks),
					  hand_out_record, sampler, NULL);
	if (!sampler->rings)
		return -errno;
	error = ring_buffer__add(sampler->rings, bpf_map__fd(sampler->skeleton->maps.offcpu_stacks),
				 hand_out_record, sampler);
	return error;
}

static int attach_program(struct bpf_program *program, struct bpf_link **ret_link)
{
	*ret_link = bpf_program__attach(program);
	return *ret_link ? 0 : -errno;
}

static int attach(struct fp_sampler *sampler)
{
	struct fleetprof_bpf *skeleton = sampler->skeleton;
	int error = 0;

	sampler->epoch_start_ns = fp_monotonic_ns();
	if (sampler->config.off_cpu && sampler->hook == FP_HOOK_SCHED_EXIT)
		error =
		    attach_program(skeleton->progs.offcpu_return, &skeleton->links.offcpu_return);
	if (!error && sampler->config.off_cpu)
		error =
		    attach_program(skeleton->progs.offcpu_switch, &skeleton->links.offcpu_switch);
	if (!error && sampler->config.cpu_hz)
		error = fp_perf_events_open(bpf_program__fd(skeleton->progs.cpu_tick),
					    sampler->config.cpu_hz, &sampler->perf_events,
					    &sampler->hz);
	if (error)
		return error;
	sampler->attached = true;
	error = fp_sampler_sync_cpus(sampler);
	return error < 0 ? error : 0;
}

static int load(struct fp_sampler *sampler)
{
	struct btf *btf = btf__load_vmlinux_btf();

	if (!btf)
		return -errno;
	sampler->skeleton = fleetprof_bpf__open();
	if (!sampler->skeleton) {
		btf__free(btf);
		return -errno;
	}
	size_maps(sampler);
	choose_programs(sampler, btf);
	choose_cgroups(sampler, btf);
	btf__free(btf);
	return fleetprof_bpf__load(sampler->skeleton);
}

// A perf event and a side-band ring per CPU: on a large host more descriptors than the usual
// soft limit of 1024 allows. Where the hard limit does not either, opening says so.
static void raise_descriptor_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}

int fp_sampler_open(const struct fp_sampler_config *config, struct fp_sampler **ret,
		    struct fp_refusal *refusal)
{
	struct fp_sampler *sampler FP_CLEANUP(fp_sampler_freep) = calloc(1, sizeof(*sampler));
	int error = sampler ? 0 : -ENOMEM;

	fp_refusal_listen();
	raise_descriptor_limit();
	if (!error) {
		sampler->config = *config;
		error = load(sampler);
	}
	if (error) {
		fp_refusal_explain(error, "loading the BPF programs", refusal);
		return error;
	}
	error = open_rings(sampler);
	if (!error)
		error = attach(sampler);
	if (error) {
		fp_refusal_explain(error, "attaching the BPF programs", refusal);
		return error;
	}
	*ret = fp_take_ptr(sampler);
	return 0;
}

void fp_sampler_stop(struct fp_sampler *sampler)
{
	fp_perf_events_free(sampler->perf_events);
	sampler->perf_events = NULL;
	fleetprof_bpf__detach(sampler->skeleton);
	sampler->attached = false;
}

void fp_sampler_free(struct fp_sampler *sampler)
{
	if (!sampler)
		return;
	fp_perf_events_free(sampler->perf_events);
	ring_buffer__free(sampler->rings);
	fleetprof_bpf__destroy(sampler->skeleton);
	fp_batch_space_free(&sampler->space);
	free(sampler);
}

int fp_sampler_fd(const struct fp_sampler *sampler)
{
	return ring_buffer__epoll_fd(sampler->rings);
}

int fp_sampler_read_stacks(struct fp_sampler *sampler, fp_record_fn fn, void *context)
{
	int result;

	sampler->record_fn = fn;
	sampler->record_context = context;
	result = ring_buffer__consume(sampler->rings);
	return result < 0 ? result : 0;
}

struct counting { // sums over what the caller is handed
	struct fp_epoch *epoch;
	fp_count_fn fn;
	void *context;
};

static int count_entry(enum fp_source source, const struct fp_key *key,
		       const struct fp_count *count, void *context)
{
	struct counting *counting = context;

	counting->epoch->drained_count[source] += count->count;
	counting->epoch->drained_value[source] += count->value;
	counting->epoch->entries[source]++;
	return counting->fn(source, key, count, counting->context);
}

static int drain_source(struct fp_sampler *sampler, enum fp_source source, uint32_t set,
			struct counting *counting)
{
	struct fleetprof_bpf *skeleton = sampler->skeleton;
	struct bpf_map *maps[FP_SOURCE_COUNT][FP_EPOCHS] = {
		{ skeleton->maps.cpu_counts_0, skeleton->maps.cpu_counts_1 },
		{ skeleton->maps.offcpu_counts_0, skeleton->maps.offcpu_counts_1 }
	};

	return fp_count_map_drain(bpf_map__fd(maps[source][set]), source, &sampler->space,
				  count_entry, counting);
}

static int take_totals(struct fp_sampler *sampler, uint32_t set, struct fp_epoch *epoch)
{
	int cpu_fd = bpf_map__fd(sampler->skeleton->maps.cpu_totals);
	int offcpu_fd = bpf_map__fd(sampler->skeleton->maps.offcpu_totals);
	int error = fp_totals_take(cpu_fd, set, &epoch->totals[FP_PROGRAM_CPU]);

	if (!error)
		error = fp_totals_take(offcpu_fd, set * 2, &epoch->totals[FP_PROGRAM_SWITCH_OUT]);
	if (!error)
		error =
		    fp_totals_take(offcpu_fd, set * 2 + 1, &epoch->totals[FP_PROGRAM_SWITCH_IN]);
	return error;
}

int fp_sampler_drain(struct fp_sampler *sampler, fp_record_fn record_fn, fp_count_fn count_fn,
		     void *context, struct fp_epoch *ret_epoch)
{
	fp_u32 *live = &sampler->skeleton->bss->fp_epoch;
	uint32_t set = *live & 1;
	struct fp_epoch epoch = { .start_monotonic_ns = sampler->epoch_start_ns,
				  .index = sampler->epochs };
	struct counting counting = { &epoch, count_fn, context };
	int error;

	__atomic_store_n(live, set ^ 1, __ATOMIC_SEQ_CST);
	epoch.end_monotonic_ns = fp_monotonic_ns();
	error = fp_epoch_settle();
	if (!error)
		error = fp_sampler_read_stacks(sampler, record_fn, context);
	if (!error)
		error = take_totals(sampler, set, &epoch);
	for (int source = 0; source < FP_SOURCE_COUNT && !error; source++)
		error = drain_source(sampler, source, set, &counting);
	if (error)
		return error;
	sampler->epoch_start_ns = epoch.end_monotonic_ns;
	sampler->epochs++;
	*ret_epoch = epoch;
	return 0;
}

int fp_sampler_sync_cpus(struct fp_sampler *sampler)
{
	int result = (int)sysconf(_SC_NPROCESSORS_ONLN);

	if (sampler->perf_events)
		result = fp_perf_events_sync(sampler->perf_events);
	if (result >= 0)
		sampler->cpus = (uint32_t)result;
	return result;
}

uint32_t fp_sampler_hz(const struct fp_sampler *sampler)
{
	return sampler->hz;
}

const char *fp_sampler_hook(const struct fp_sampler *sampler, enum fp_source source)
{
	if (source == FP_SOURCE_CPU)
		return sampler->config.use_helper_walk ? "cpu-clock, kernel's stack walk"
						       : "cpu-clock";
	return fp_offcpu_hook_name(sampler->hook);
}

uint32_t fp_sampler_capacity(const struct fp_sampler *sampler)
{
	return sampler->capacity;
}

uint32_t fp_sampler_cgroup_subsystem(const struct fp_sampler *sampler)
{
	return sampler->cgroup_subsystem;
}

static uint64_t map_memlock(int fd)
{
	char path[64], line[128];
	FILE *info FP_AUTOFCLOSE = NULL;
	unsigned long long bytes = 0;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	info = fopen(path, "re");
	while (info && fgets(line, sizeof(line), info))
		sscanf(line, "memlock: %llu", &bytes);
	return bytes;
}

uint64_t fp_sampler_map_bytes(const struct fp_sampler *sampler)
{
	struct bpf_map *map;
	uint64_t bytes = 0;

	bpf_object__for_each_map(map, sampler->skeleton->obj)
	{
		if (bpf_map__fd(map) >= 0)
			bytes += map_memlock(bpf_map__fd(map));
	}
	return bytes;
}

int fp_sampler_run_time(const struct fp_sampler *sampler, enum fp_program program, uint64_t *ret_ns,
			uint64_t *ret_runs)
{
	const struct fleetprof_bpf *skeleton = sampler->skeleton;
	const struct bpf_program *programs[] = { skeleton->progs.cpu_tick,
						 skeleton->progs.offcpu_switch,
						 skeleton->progs.offcpu_return };
	int fd = bpf_program__fd(programs[program]);
	struct bpf_prog_info info = {};
	uint32_t size = sizeof(info);

	if (fd < 0)
		return -ENOENT;
	if (bpf_obj_get_info_by_fd(fd, &info, &size))
		return -errno;
	*ret_ns = info.run_time_ns;
	*ret_runs = info.run_cnt;
	return 0;
}
