// SPDX-License-Identifier: Apache-2.0
//
// Does the interrupt that closes off-CPU intervals come? The types of the kernel say that it may;
// but where a CPU cannot interrupt itself (some hypervisors' guests) the work is done at the next
// tick, without the tracepoint. So it is tried, once, with two programs that do nothing else.
#include "sampler.h"

#include "btffacts.h"
#include "fleetprof_bpf.skel.h"
#include "kicks.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <errno.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>

#define TRIES	 20
#define PAUSE_NS 1000000

// There the interrupt is a thread's work, which comes when the task is long gone on.
static bool is_realtime(void)
{
	struct utsname name;

	return uname(&name) == 0 && strstr(name.version, "PREEMPT_RT") != NULL;
}

static bool has_tracepoint(void)
{
	struct btf *btf = btf__load_vmlinux_btf();
	bool found = btf && fp_btf_tracepoint_arguments(btf, "irq_work_entry") > 0;

	btf__free(btf);
	return found;
}

// Only what the trial needs is made and loaded.
static void choose(struct fleetprof_bpf *skeleton)
{
	struct bpf_program *program;
	struct bpf_map *map;

	bpf_object__for_each_program(program, skeleton->obj)
	{
		bool wanted = program == skeleton->progs.offcpu_try_kick ||
			      program == skeleton->progs.offcpu_kick_answer;

		bpf_program__set_autoload(program, wanted);
	}
	bpf_object__for_each_map(map, skeleton->obj)
	{
		if (!bpf_map__is_internal(map) && map != skeleton->maps.offcpu_kicks)
			bpf_map__set_autocreate(map, false);
	}
	bpf_map__set_max_entries(skeleton->maps.offcpu_kicks, fp_kicks_needed());
}

static int try_kicks(struct fleetprof_bpf *skeleton)
{
	int fd = bpf_program__fd(skeleton->progs.offcpu_try_kick);

	for (int i = 0; i < TRIES; i++) {
		LIBBPF_OPTS(bpf_test_run_opts, options);
		int error = bpf_prog_test_run_opts(fd, &options);

		if (error)
			return error;
		if (skeleton->bss->fp_kick_answered)
			return 0;
		nanosleep(&(struct timespec){ .tv_nsec = PAUSE_NS }, NULL);
	}
	return -ETIME;
}

static int try_here(void)
{
	struct fleetprof_bpf *skeleton = fleetprof_bpf__open();
	struct fp_kicks kicks = { 0 };
	int error;

	if (!skeleton)
		return -errno;
	choose(skeleton);
	error = fleetprof_bpf__load(skeleton);
	if (!error)
		error = fp_kicks_open(bpf_map__fd(skeleton->maps.offcpu_kicks), fp_kicks_needed(),
				      &kicks);
	if (!error)
		error = fleetprof_bpf__attach(skeleton);
	if (!error)
		error = try_kicks(skeleton);
	fp_kicks_free(&kicks);
	fleetprof_bpf__destroy(skeleton);
	return error;
}

int fp_sampler_try_irq_work(void)
{
	libbpf_print_fn_t printer;
	int error;

	if (is_realtime() || !has_tracepoint())
		return -EOPNOTSUPP;
	printer = libbpf_set_print(NULL); // a refusal is an answer, and not for people
	error = try_here();
	libbpf_set_print(printer);
	return error;
}
