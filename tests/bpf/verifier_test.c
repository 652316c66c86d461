// SPDX-License-Identifier: Apache-2.0
//
// Every program loads in every variant the agent uses, and the verifier's work stays within
// a budget: the limit is a million instructions, and a program near it is one kernel
// release away from being refused.
#include <bpf/btf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bpf/abi.h"
#include "object.h"

#define VERIFIED_BUDGET 50000u // a twentieth of the kernel's limit; the most is 27,000

enum hook { SCHED_EXIT, FEXIT, WAY_OUT, IRQ_WORK };

struct variant {
	const char *sentence;
	enum hook hook;
	bool helper_walk, no_tables, no_prev_state, only_one, run_queue, wakers;
	uint32_t cgroup_subsystem, max_user_frames;
};

static const struct variant variants[] = {
	{ "own walk, stacks in the returning task", .hook = SCHED_EXIT },
	{ "own walk, in an interrupt of our own", .hook = IRQ_WORK },
	{ "own walk, stacks on the way out", .hook = WAY_OUT },
	{ "own walk, at the end of schedule", .hook = FEXIT },
	{ "own walk, without tables", .hook = SCHED_EXIT, .no_tables = true },
	{ "own walk, without tables, on the way out", .hook = WAY_OUT, .no_tables = true },
	{ "the kernel's walk", .hook = SCHED_EXIT, .helper_walk = true },
	{ "the kernel's walk, on the way out, one process", .hook = WAY_OUT, .helper_walk = true,
	  .only_one = true },
	{ "without prev_state in the tracepoint", .hook = SCHED_EXIT, .no_prev_state = true },
	{ "with the run queue and wakers", .hook = SCHED_EXIT, .run_queue = true, .wakers = true },
	{ "with the run queue and wakers, in an interrupt", .hook = IRQ_WORK, .run_queue = true,
	  .wakers = true },
	{ "with the run queue and wakers, on the way out", .hook = WAY_OUT, .run_queue = true,
	  .wakers = true },
	{ "with the run queue and wakers, fexit, one process", .hook = FEXIT, .only_one = true,
	  .run_queue = true, .wakers = true },
	{ "one user frame", .hook = WAY_OUT, .max_user_frames = 1 },
	{ "as many user frames as can be", .hook = SCHED_EXIT,
	  .max_user_frames = FP_MAX_USER_FRAMES },
	{ "cgroups of a v1 controller", .hook = SCHED_EXIT, .cgroup_subsystem = 5 },
	{ "cgroups of a v1 controller, on the way out", .hook = WAY_OUT, .cgroup_subsystem = 5 },
};

static bool kernel_has(const char *typedef_name)
{
	struct btf *btf = btf__load_vmlinux_btf();
	bool found = btf && btf__find_by_name_kind(btf, typedef_name, BTF_KIND_TYPEDEF) > 0;

	btf__free(btf);
	return found;
}

static void check_budget(struct bpf_object *object)
{
	struct bpf_program *program;

	bpf_object__for_each_program(program, object)
	{
		struct bpf_prog_info info = { 0 };
		uint32_t size = sizeof(info);

		if (bpf_program__fd(program) < 0)
			continue;
		assert_int_equal(bpf_obj_get_info_by_fd(bpf_program__fd(program), &info, &size), 0);
		print_message("  %-16s %5u instructions, %6u verified\n",
			      bpf_program__name(program),
			      info.xlated_prog_len / (unsigned int)sizeof(struct bpf_insn),
			      info.verified_insns);
		assert_true(info.verified_insns > 0);
		assert_true(info.verified_insns <= VERIFIED_BUDGET);
	}
}

static void set_flag(struct bpf_object *object, const char *name, bool value)
{
	assert_int_equal(set_variable(object, ".rodata", name, &value, 1), 0);
}

static void autoload(struct bpf_object *object, const char *name, bool wanted)
{
	bpf_program__set_autoload(bpf_object__find_program_by_name(object, name), wanted);
}

static void choose(struct bpf_object *object, const struct variant *variant, bool exit_hook,
		   bool trampolines)
{
	uint32_t tgid = variant->only_one ? 1 : 0;
	uint32_t frames =
	    variant->max_user_frames ? variant->max_user_frames : FP_DEFAULT_USER_FRAMES;

	set_flag(object, "fp_use_helper_walk", variant->helper_walk);
	set_flag(object, "fp_unwind_tables", !variant->no_tables);
	set_flag(object, "fp_way_out", variant->hook == WAY_OUT);
	set_flag(object, "fp_kick", variant->hook == IRQ_WORK);
	set_flag(object, "fp_has_prev_state", !variant->no_prev_state);
	set_flag(object, "fp_run_queue", variant->run_queue);
	set_flag(object, "fp_wakers", variant->wakers);
	assert_int_equal(set_variable(object, ".rodata", "fp_tgid", &tgid, 4), 0);
	assert_int_equal(set_variable(object, ".rodata", "fp_max_user_frames", &frames, 4), 0);
	assert_int_equal(
	    set_variable(object, ".rodata", "fp_cgroup_subsystem", &variant->cgroup_subsystem, 4),
	    0);
	autoload(object, "cpu_tick_twin", true);
	autoload(object, "offcpu_visit", true);
	autoload(object, "offcpu_waking", variant->run_queue || variant->wakers);
	autoload(object, "offcpu_return_irq",
		 kernel_has("btf_trace_irq_work_entry") && variant->hook == IRQ_WORK);
	autoload(object, "offcpu_return", exit_hook && variant->hook == SCHED_EXIT);
	autoload(object, "offcpu_return_fexit", trampolines && variant->hook == FEXIT);
}

// Whether this kernel and its lockdown let fexit programs in at all.
static bool fexit_loads(void)
{
	struct bpf_object *object = bpf_object__open_file(FP_BPF_OBJECT, NULL);
	struct bpf_link *link = NULL;

	assert_non_null(object);
	choose(object, &(struct variant){ .hook = FEXIT }, false, true);
	if (bpf_object__load(object) == 0)
		link = bpf_program__attach(
		    bpf_object__find_program_by_name(object, "offcpu_return_fexit"));
	bpf_link__destroy(link);
	bpf_object__close(object);
	return link != NULL;
}

static void every_variant_loads_within_the_budget(void **state)
{
	bool exit_hook = kernel_has("btf_trace_sched_exit_tp"), trampolines = fexit_loads();

	print_message("sched_exit_tp: %s; fexit: %s\n", exit_hook ? "yes" : "no",
		      trampolines ? "yes" : "no");
	for (size_t i = 0; i < sizeof(variants) / sizeof(variants[0]); i++) {
		struct bpf_object *object = bpf_object__open_file(FP_BPF_OBJECT, NULL);

		print_message("%s\n", variants[i].sentence);
		assert_non_null(object);
		choose(object, &variants[i], exit_hook, trampolines);
		assert_int_equal(bpf_object__load(object), 0);
		check_budget(object);
		bpf_object__close(object);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_variant_loads_within_the_budget),
	};

	need_root_and_btf();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
