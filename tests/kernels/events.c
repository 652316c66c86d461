// SPDX-License-Identifier: Apache-2.0
//
// The stream of process events over CPUs that leave and come back. It unplugs a CPU and
// suspends the machine, so it is run in the test machine (guest.sh), never on a host that
// others use.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/sideband.h"
#include "common/clock.h"
#include "common/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define CPU	   1
#define CPU_ONLINE "/sys/devices/system/cpu/cpu1/online"
#define TURNS	   20
#define SUSPENDS   5 // the first is long (guest.py)

struct seen { // what the stream said of one process
	pid_t pid;
	unsigned int execs, exits;
};

static void write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

static void unplug_and_plug(void)
{
	write_text(CPU_ONLINE, "0");
	write_text(CPU_ONLINE, "1");
}

// A program that runs on the CPU and has ended.
static pid_t run_on_cpu(void)
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0) {
		cpu_set_t set;

		CPU_ZERO(&set);
		CPU_SET(CPU, &set);
		if (sched_setaffinity(0, sizeof(set), &set) == 0)
			execl("/bin/busybox", "true", (char *)NULL);
		_exit(1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	return pid;
}

static int note(const struct fp_event *event, void *context)
{
	struct seen *seen = context;

	if ((pid_t)event->tgid != seen->pid)
		return 0;
	seen->execs += event->kind == FP_EVENT_EXEC;
	seen->exits += event->kind == FP_EVENT_EXIT;
	return 0;
}

static void expect_events(struct fp_sideband *sideband, pid_t pid)
{
	struct seen seen = { .pid = pid };
	uint64_t lost;

	assert_int_equal(fp_sideband_read(sideband, note, &seen, &lost), 0);
	assert_int_equal(lost, 0);
	assert_int_equal(seen.execs, 1);
	assert_int_equal(seen.exits, 1);
}

static size_t open_files(void)
{
	DIR *directory = opendir("/proc/self/fd");
	size_t count = 0;

	assert_non_null(directory);
	while (readdir(directory))
		count++;
	closedir(directory);
	return count;
}

static void events_of_a_cpu_that_came_back_arrive(void **state)
{
	struct fp_sideband *sideband FP_CLEANUP(fp_sideband_freep) = NULL;

	assert_int_equal(fp_sideband_open(0, &sideband), 0);
	unplug_and_plug();
	assert_true(fp_sideband_sync_cpus(sideband) > CPU);
	expect_events(sideband, run_on_cpu());
}

static void what_a_cpu_said_before_it_left_is_not_lost(void **state)
{
	struct fp_sideband *sideband FP_CLEANUP(fp_sideband_freep) = NULL;
	pid_t pid;

	assert_int_equal(fp_sideband_open(0, &sideband), 0);
	pid = run_on_cpu();
	unplug_and_plug();
	assert_true(fp_sideband_sync_cpus(sideband) > CPU);
	expect_events(sideband, pid);
}

// Suspends the machine until its emulator is told to wake it (guest.py), which is at once but for
// the first time: no clock need show that. The kernel takes CPUs off and brings them back without a
// word.
static void a_suspended_machine_is_noticed(void **state)
{
	struct fp_sideband *sideband FP_CLEANUP(fp_sideband_freep) = NULL;

	assert_int_equal(fp_sideband_open(0, &sideband), 0);
	for (int turn = 0; turn < SUSPENDS; turn++) {
		int64_t asleep_ns = (int64_t)(fp_boottime_ns() - fp_monotonic_ns());

		write_text("/sys/power/state", "mem");
		asleep_ns = (int64_t)(fp_boottime_ns() - fp_monotonic_ns()) - asleep_ns;
		print_message("  asleep for %.3f s by the clocks\n", (double)asleep_ns / 1e9);
		assert_true(fp_sideband_sync_cpus(sideband) > CPU);
		expect_events(sideband, run_on_cpu());
	}
}

static void no_file_is_left_open_over_many_turns(void **state)
{
	struct fp_sideband *sideband FP_CLEANUP(fp_sideband_freep) = NULL;
	size_t before;

	assert_int_equal(fp_sideband_open(0, &sideband), 0);
	before = open_files();
	for (int turn = 0; turn < TURNS; turn++) {
		unplug_and_plug();
		assert_true(fp_sideband_sync_cpus(sideband) > CPU);
		expect_events(sideband, run_on_cpu());
	}
	assert_int_equal(open_files(), before);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(events_of_a_cpu_that_came_back_arrive),
		cmocka_unit_test(what_a_cpu_said_before_it_left_is_not_lost),
		cmocka_unit_test(a_suspended_machine_is_noticed),
		cmocka_unit_test(no_file_is_left_open_over_many_turns),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
