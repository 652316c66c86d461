// SPDX-License-Identifier: Apache-2.0
//
// The sampler's body, run once through BPF_PROG_TEST_RUN of its raw-tracepoint twin: the
// calling thread is the task, so the stack that comes out is this test's own.
#include <bpf/btf.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include <cmocka.h>

#include "bpf/abi.h"
#include "object.h"

static struct bpf_object *object;
static struct fp_stack_record *last;

static int keep_record(void *context, void *data, size_t size)
{
	free(last);
	last = malloc(size);
	memcpy(last, data, size);
	*(size_t *)context = size;
	return 0;
}

static int map_fd(const char *name)
{
	return bpf_object__find_map_fd_by_name(object, name);
}

static __attribute__((noinline)) void run_twin(void)
{
	LIBBPF_OPTS(bpf_test_run_opts, options);
	int fd = bpf_program__fd(bpf_object__find_program_by_name(object, "cpu_tick_twin"));

	assert_int_equal(bpf_prog_test_run_opts(fd, &options), 0);
	assert_int_equal(options.retval, 0);
}

static struct fp_totals totals_of(uint32_t epoch)
{
	int cpus = libbpf_num_possible_cpus();
	struct fp_totals *rows = calloc((size_t)cpus, sizeof(*rows)), sum = { 0 };

	assert_int_equal(bpf_map_lookup_elem(map_fd("cpu_totals"), &epoch, rows), 0);
	for (int cpu = 0; cpu < cpus; cpu++) {
		sum.runs += rows[cpu].runs;
		sum.announced += rows[cpu].announced;
		sum.announce_failed += rows[cpu].announce_failed;
		for (int outcome = 0; outcome < FP_OUTCOME_COUNT; outcome++)
			sum.outcomes[outcome] += rows[cpu].outcomes[outcome];
	}
	free(rows);
	for (int outcome = 0; outcome < FP_OUTCOME_COUNT; outcome++) {
		if (sum.outcomes[outcome])
			print_message("  outcome %d: %llu\n", outcome,
				      (unsigned long long)sum.outcomes[outcome]);
	}
	return sum;
}

static void load_object(uint32_t tgid, uint32_t entries)
{
	bool no = false;

	object = bpf_object__open_file(FP_BPF_OBJECT, NULL);
	assert_non_null(object);
	assert_int_equal(set_variable(object, ".rodata", "fp_tgid", &tgid, 4), 0);
	assert_int_equal(set_variable(object, ".rodata", "fp_way_out", &no, 1), 0);
	bpf_map__set_max_entries(bpf_object__find_map_by_name(object, "cpu_counts_0"), entries);
	bpf_program__set_autoload(bpf_object__find_program_by_name(object, "cpu_tick_twin"), true);
	bpf_program__set_autoload(bpf_object__find_program_by_name(object, "offcpu_switch"), false);
	assert_int_equal(bpf_object__load(object), 0);
}

static void a_run_counts_its_stack_once_and_announces_it_once(void **state)
{
	struct fp_count count;
	size_t size = 0;
	struct ring_buffer *ring;
	char comm[FP_COMM_LEN] = { 0 };

	load_object(0, 1024);
	ring = ring_buffer__new(map_fd("cpu_stacks"), keep_record, &size, NULL);
	assert_non_null(ring);
	for (volatile int i = 0; i < 3; i++) // volatile: not unrolled, one return address
		run_twin();
	assert_int_equal(ring_buffer__consume(ring), 1);
	assert_int_equal(totals_of(0).runs, 3);
	assert_int_equal(totals_of(0).outcomes[FP_OUTCOME_AGGREGATED], 3);
	assert_int_equal(totals_of(0).announced, 1);
	assert_int_equal(bpf_map_lookup_elem(map_fd("cpu_counts_0"), &last->key, &count), 0);
	assert_int_equal(count.count, 3);
	assert_int_equal(count.tgid, getpid());

	assert_int_equal(size, sizeof(*last) + 8u * (last->kernel_len + last->user_len));
	assert_int_equal(last->tgid, getpid());
	assert_int_equal(last->kernel_thread, 0);
	assert_true(last->kernel_len > 3);
	assert_true(last->frames[0] > 0xffff800000000000ULL);
	assert_true(last->user_len >= 1);
	assert_true(last->frames[last->kernel_len] < 0x800000000000ULL);
	prctl(PR_GET_NAME, comm);
	assert_string_equal(last->comm, comm);
	ring_buffer__free(ring);
	bpf_object__close(object);
}

static void a_thread_name_makes_another_stack(void **state)
{
	size_t size = 0;
	struct ring_buffer *ring;

	load_object(0, 1024);
	ring = ring_buffer__new(map_fd("cpu_stacks"), keep_record, &size, NULL);
	for (int i = 0; i < 2; i++) {
		prctl(PR_SET_NAME, i ? "evil;\n\x1b[31m" : "plain");
		run_twin();
	}
	assert_int_equal(ring_buffer__consume(ring), 2);
	assert_memory_equal(last->comm, "evil;\n\x1b[31m", 10); // raw bytes arrive raw
	ring_buffer__free(ring);
	bpf_object__close(object);
}

static void another_process_is_filtered_by_name_of_the_reason(void **state)
{
	load_object((uint32_t)getpid() + 1, 1024);
	run_twin();
	assert_int_equal(totals_of(0).runs, 1);
	assert_int_equal(totals_of(0).outcomes[FP_OUTCOME_OTHER_PROCESS], 1);
	bpf_object__close(object);
}

static void a_full_map_drops_with_its_reason(void **state)
{
	load_object(0, 1);
	for (int i = 0; i < 4; i++) {
		char name[] = "name0";

		name[4] = (char)('0' + i);
		prctl(PR_SET_NAME, name);
		run_twin();
	}
	assert_int_equal(totals_of(0).runs, 4);
	assert_int_equal(totals_of(0).outcomes[FP_OUTCOME_AGGREGATED], 1);
	assert_int_equal(totals_of(0).outcomes[FP_OUTCOME_MAP_FULL], 3);
	bpf_object__close(object);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_run_counts_its_stack_once_and_announces_it_once),
		cmocka_unit_test(a_thread_name_makes_another_stack),
		cmocka_unit_test(another_process_is_filtered_by_name_of_the_reason),
		cmocka_unit_test(a_full_map_drops_with_its_reason),
	};

	need_root_and_btf();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
