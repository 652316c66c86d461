// SPDX-License-Identifier: Apache-2.0
//
// The id of a control group that a program puts into a record leads back to the group's path, in
// every hierarchy that this host has mounted; and from there to the labels, also when the group
// or the process is gone by then. The groups are real ones, named as a container's.
#include <bpf/btf.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "agent/procfs.h"
#include "agent/sampler.h"
#include "cgroup_group.h"
#include "object.h"

static bool join_group(void)
{
	char path[sizeof(group_path) + 16];
	int fd;
	bool joined;

	snprintf(path, sizeof(path), "%s/cgroup.procs", group_path);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	joined = fd >= 0 && write(fd, "0", 1) == 1;
	close(fd);
	return joined;
}

// A process in the group, which works until it is killed.
static pid_t start_member(void)
{
	int ready[2];
	char byte;
	pid_t pid;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		if (!join_group() || write(ready[1], "", 1) != 1)
			_exit(1);
		for (volatile uint64_t work = 0;; work++)
			;
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	return pid;
}

static void end_member(pid_t pid)
{
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

struct caught {
	uint32_t tgid;
	struct fp_stack_record record;
	bool found;
};

static int catch_record(const struct fp_stack_record *record, void *context)
{
	struct caught *caught = context;

	if (record->tgid == caught->tgid && !caught->found) {
		caught->record = *record;
		caught->found = true;
	}
	return 0;
}

static int ignore_count(enum fp_source source, const struct fp_key *key,
			const struct fp_count *count, void *context)
{
	return 0;
}

static struct fp_stack_record record_of(pid_t pid)
{
	struct fp_sampler_config config = { .cpu_hz = 199, .tgid = (uint32_t)pid };
	struct caught caught = { .tgid = (uint32_t)pid };
	struct fp_sampler *sampler;
	struct fp_refusal refusal;
	struct fp_epoch epoch;

	assert_int_equal(fp_sampler_open(&config, &sampler, &refusal), 0);
	assert_int_equal(fp_sampler_cgroup_subsystem(sampler), choice.subsystem);
	for (int turn = 0; turn < 100 && !caught.found; turn++) {
		usleep(50000);
		assert_int_equal(
		    fp_sampler_drain(sampler, catch_record, ignore_count, &caught, &epoch), 0);
	}
	fp_sampler_free(sampler);
	assert_true(caught.found);
	return caught.record;
}

static void a_sample_carries_the_id_of_its_group_as_the_file_system_has_it(void **state)
{
	struct fp_stack_record record;
	struct fp_cgroup_facts facts;
	struct fp_cgroup_tree tree;
	struct stat group;
	pid_t pid;

	assert_true(make_group(choice.mount));
	pid = start_member();
	record = record_of(pid);
	assert_int_equal(stat(group_path, &group), 0);
	assert_int_equal(record.cgroup_id, group.st_ino);
	fp_cgroup_tree_open(choice.subsystem, &tree);
	assert_int_equal(fp_cgroup_tree_find(&tree, record.cgroup_id, &facts), 0);
	assert_string_equal(facts.container_id, ID);
	assert_string_equal(facts.runtime, "docker");
	end_member(pid);
	remove_group();
	assert_true(fp_cgroup_tree_find(&tree, record.cgroup_id, &facts) < 0); // gone, not another
	fp_cgroup_tree_close(&tree);
}

static void a_group_seen_in_time_names_its_container_when_it_is_gone(void **state)
{
	struct fp_labeler *in_time = labeler_new(), *late = labeler_new();
	struct fp_labeler_stats stats;
	struct fp_stack_record record;
	pid_t pid;

	assert_true(make_group(choice.mount));
	pid = start_member();
	record = record_of(pid);
	fp_labeler_see(in_time, &record);
	end_member(pid);
	remove_group();
	expect_container(in_time, &record, 0, ID);
	expect_container(late, &record, 0, "");
	fp_labeler_stats(late, &stats);
	assert_int_equal(stats.cgroups_gone, 1);
	assert_int_equal(stats.unknown, 1);
	fp_labeler_free(in_time);
	fp_labeler_free(late);
}

// A record as a kernel without the hierarchy in its types would give it.
static void without_an_id_the_process_is_asked_then_its_parent(void **state)
{
	struct fp_labeler *labeler = labeler_new();
	struct fp_stack_record record, child, reused;
	struct fp_labeler_stats stats;
	pid_t pid;

	assert_true(make_group(choice.mount));
	pid = start_member();
	record = record_of(pid);
	record.cgroup_id = 0;
	expect_container(labeler, &record, 0, ID);
	child = record;
	child.tgid = 1u << 30; // has ended
	child.start_ns += 1000000;
	expect_container(labeler, &child, (uint32_t)pid, ID);
	reused = record; // another process of that number, an hour ago
	reused.start_ns -= 3600000000000ULL;
	reused.start_boottime_ns -= 3600000000000ULL;
	expect_container(labeler, &reused, 0, "");
	child.tgid++; // no parent can be younger than its child
	child.start_ns = 1;
	child.start_boottime_ns = 1;
	expect_container(labeler, &child, (uint32_t)pid, "");
	fp_labeler_stats(labeler, &stats);
	assert_int_equal(stats.processes_read, 1);
	assert_int_equal(stats.inherited, 1);
	end_member(pid);
	remove_group();
	fp_labeler_free(labeler);
}

static struct fp_stack_record *last;

static int keep_record(void *context, void *data, size_t size)
{
	free(last);
	last = malloc(size);
	memcpy(last, data, size);
	return 0;
}

static uint32_t kernel_number(const char *controller)
{
	struct btf *btf = btf__load_vmlinux_btf();
	const struct btf_type *type = btf__type_by_id(
	    btf, (uint32_t)btf__find_by_name_kind(btf, "cgroup_subsys_id", BTF_KIND_ENUM));
	uint32_t number = UINT32_MAX;
	char name[64];

	snprintf(name, sizeof(name), "%s_cgrp_id", controller);
	for (int i = 0; i < btf_vlen(type); i++)
		if (!strcmp(btf__name_by_offset(btf, btf_enum(type)[i].name_off), name))
			number = (uint32_t)btf_enum(type)[i].val;
	btf__free(btf);
	return number;
}

// The program runs in a process that has joined the group. Returns the id in its record.
static uint64_t run_in_group(uint32_t subsystem)
{
	uint32_t setting = subsystem ? 1 + kernel_number(fp_cgroup_controller(subsystem)) : 0;
	struct bpf_object *object = bpf_object__open_file(FP_BPF_OBJECT, NULL);
	LIBBPF_OPTS(bpf_test_run_opts, options);
	struct ring_buffer *ring;
	int status;
	pid_t pid;

	assert_int_equal(set_variable(object, ".rodata", "fp_cgroup_subsystem", &setting, 4), 0);
	bpf_program__set_autoload(bpf_object__find_program_by_name(object, "cpu_tick_twin"), true);
	assert_int_equal(bpf_object__load(object), 0);
	ring = ring_buffer__new(bpf_object__find_map_fd_by_name(object, "cpu_stacks"), keep_record,
				NULL, NULL);
	pid = fork();
	if (pid == 0)
		_exit(!join_group() ||
		      bpf_prog_test_run_opts(bpf_program__fd(bpf_object__find_program_by_name(
						 object, "cpu_tick_twin")),
					     &options) != 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(ring_buffer__consume(ring), 1);
	ring_buffer__free(ring);
	bpf_object__close(object);
	return last->cgroup_id;
}

static void every_hierarchy_of_this_host_gives_ids_that_lead_back(void **state)
{
	uint32_t tried = 0;

	for (uint32_t i = 0; i == FP_CGROUP_V2 || fp_cgroup_controller(i); i++) {
		const char *name = i ? fp_cgroup_controller(i) : "v2";
		char mount[PATH_MAX];
		struct stat group;

		// cpuset takes nobody into a group before it has been given CPUs
		if (!strcmp(name, "cpuset") || fp_cgroup_mount(i, mount) < 0)
			continue;
		assert_true(make_group(mount));
		assert_int_equal(stat(group_path, &group), 0);
		print_message("  %s at %s\n", name, mount);
		assert_int_equal(run_in_group(i), group.st_ino);
		remove_group();
		tried++;
	}
	assert_true(tried > 0);
}

static int leave_nothing(void **state)
{
	remove_group();
	free(last);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_sample_carries_the_id_of_its_group_as_the_file_system_has_it),
		cmocka_unit_test(a_group_seen_in_time_names_its_container_when_it_is_gone),
		cmocka_unit_test(without_an_id_the_process_is_asked_then_its_parent),
		cmocka_unit_test(every_hierarchy_of_this_host_gives_ids_that_lead_back),
	};

	need_root_and_btf();
	if (!can_make_groups())
		return SKIP;
	return cmocka_run_group_tests(tests, NULL, leave_nothing);
}
