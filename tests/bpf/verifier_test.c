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

#include "object.h"

#define VERIFIED_BUDGET 20000u // five times what 6.18 needs for the dearest (way_out switch)

struct variant {
	const char *sentence;
	bool helper_walk, way_out, prev_state, only_one;
	uint32_t cgroup_subsystem;
};

static const struct variant variants[] = {
	{ "own walk, stacks in the returning task", false, false, true, false, 0 },
	{ "own walk, stacks on the way out", false, true, true, false, 0 },
	{ "the kernel's walk", true, false, true, false, 0 },
	{ "the kernel's walk, on the way out, one process", true, true, true, true, 0 },
	{ "without prev_state in the tracepoint", false, false, false, false, 0 },
	{ "cgroups of a v1 controller", false, false, true, false, 5 },
	{ "cgroups of a v1 controller, on the way out", false, true, true, false, 5 },
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

static void every_variant_loads_within_the_budget(void **state)
{
	bool exit_hook = kernel_has("btf_trace_sched_exit_tp");

	for (size_t i = 0; i < sizeof(variants) / sizeof(variants[0]); i++) {
		const struct variant *variant = &variants[i];
		struct bpf_object *object = bpf_object__open_file(FP_BPF_OBJECT, NULL);
		uint32_t tgid = variant->only_one ? 1 : 0;

		print_message("%s\n", variant->sentence);
		assert_non_null(object);
		assert_int_equal(
		    set_variable(object, ".rodata", "fp_use_helper_walk", &variant->helper_walk, 1),
		    0);
		assert_int_equal(
		    set_variable(object, ".rodata", "fp_way_out", &variant->way_out, 1), 0);
		assert_int_equal(
		    set_variable(object, ".rodata", "fp_has_prev_state", &variant->prev_state, 1),
		    0);
		assert_int_equal(set_variable(object, ".rodata", "fp_tgid", &tgid, 4), 0);
		assert_int_equal(set_variable(object, ".rodata", "fp_cgroup_subsystem",
					      &variant->cgroup_subsystem, 4),
				 0);
		bpf_program__set_autoload(bpf_object__find_program_by_name(object, "cpu_tick_twin"),
					  true);
		bpf_program__set_autoload(bpf_object__find_program_by_name(object, "offcpu_return"),
					  exit_hook && !variant->way_out);
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
