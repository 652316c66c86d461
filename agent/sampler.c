// SPDX-License-Identifier: Apache-2.0
#include "sampler_state.h"

#include "common/clock.h"
#include "fleetprof_bpf.skel.h"
#include "refusal.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

const char *fp_offcpu_hook_name(enum fp_offcpu_hook hook)
{
	static const char *const names[] = { "auto", "irq_work", "sched_exit_tp", "fexit",
					     "way_out" };

	return names[hook];
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

static int start(struct fp_sampler *sampler)
{
	int error = 0;

	if (sampler->config.cpu_hz)
		error = fp_perf_events_open(bpf_program__fd(sampler->skeleton->progs.cpu_tick),
					    sampler->config.cpu_hz, &sampler->perf_events,
					    &sampler->hz);
	if (error)
		return error;
	sampler->attached = true;
	if (sampler->config.off_cpu)
		fp_sampler_mark(sampler);
	error = fp_sampler_sync_cpus(sampler);
	return error < 0 ? error : 0;
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

// A hook that was asked for may be what the kernel refuses, whatever else it says.
static void blame_hook(const struct fp_sampler_config *config, int error,
		       struct fp_refusal *refusal)
{
	if (!config->off_cpu || config->hook == FP_HOOK_AUTO || config->hook == FP_HOOK_WAY_OUT)
		return; // every kernel that takes any takes these
	snprintf(refusal->cause, sizeof(refusal->cause),
		 "the kernel refused the BPF programs of off_cpu.hook = %s (%s)",
		 fp_offcpu_hook_name(config->hook), strerror(-error));
	snprintf(refusal->fix, sizeof(refusal->fix),
		 "set off_cpu.hook = auto, which takes the first hook that the kernel has");
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
		sampler->epoch_start_ns = fp_monotonic_ns();
		error = fp_sampler_load(sampler);
	}
	if (error) {
		fp_refusal_explain(error, "loading and attaching the BPF programs", refusal);
		blame_hook(config, error, refusal);
		return error;
	}
	error = open_rings(sampler);
	if (!error)
		error = start(sampler);
	if (error) {
		fp_refusal_explain(error, "starting to sample", refusal);
		return error;
	}
	*ret = fp_take_ptr(sampler);
	return 0;
}

uint64_t fp_sampler_begun(const struct fp_sampler *sampler)
{
	return sampler->begun_ns;
}

void fp_sampler_stop_off_cpu(struct fp_sampler *sampler)
{
	fleetprof_bpf__detach(sampler->skeleton);
}

void fp_sampler_stop(struct fp_sampler *sampler)
{
	fp_perf_events_free(sampler->perf_events);
	sampler->perf_events = NULL;
	fp_sampler_stop_off_cpu(sampler);
	sampler->attached = false;
}

void fp_sampler_free(struct fp_sampler *sampler)
{
	if (!sampler)
		return;
	fp_perf_events_free(sampler->perf_events);
	ring_buffer__free(sampler->rings);
	fp_kicks_free(&sampler->kicks);
	bpf_link__destroy(sampler->visit_link);
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

struct fp_unwind_maps fp_sampler_unwind_maps(const struct fp_sampler *sampler)
{
	const struct fleetprof_bpf *skeleton = sampler->skeleton;

	if (!fp_sampler_by_table(sampler))
		return (struct fp_unwind_maps){ -1, -1, -1, -1, -1, -1 };
	return (struct fp_unwind_maps){
		.pages = bpf_map__fd(skeleton->maps.unwind_pages),
		.rows = bpf_map__fd(skeleton->maps.unwind_rows),
		.rules = bpf_map__fd(skeleton->maps.unwind_rules),
		.ranges = bpf_map__fd(skeleton->maps.unwind_ranges),
		.files = bpf_map__fd(skeleton->maps.unwind_files),
		.met = bpf_map__fd(skeleton->maps.unwind_met),
	};
}

int fp_unwind_chunk_new(void)
{
	LIBBPF_OPTS(bpf_map_create_opts, options, .map_flags = BPF_F_MMAPABLE);

	return bpf_map_create(BPF_MAP_TYPE_ARRAY, "unwind_chunk", sizeof(uint32_t),
			      sizeof(struct fp_unwind_chunk), 1, &options);
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
	for (uint32_t cpu = 0; cpu < sampler->kicks.count; cpu++)
		bytes += map_memlock(sampler->kicks.fds[cpu]);
	return bytes;
}

int fp_sampler_run_time(const struct fp_sampler *sampler, enum fp_program program, uint64_t *ret_ns,
			uint64_t *ret_runs)
{
	const struct bpf_program *own = fp_sampler_program(sampler, program);
	int fd = own ? bpf_program__fd(own) : -ENOENT;
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
