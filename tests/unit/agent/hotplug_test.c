// SPDX-License-Identifier: Apache-2.0
//
// The kernel's messages about CPUs that went offline, and all the others that are not. That
// CPUs which really leave are reported is shown in tests/kernels.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/cpus.h"
#include "agent/hotplug.h"
#include "common/cleanup.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#define STORM	  3000 // messages; more than a socket queues
#define UNTOUCHED UINT32_MAX
#define REST	  "\0ACTION=offline\0SUBSYSTEM=cpu\0SEQNUM=9"
// Without the NUL that C adds: a message ends where the kernel ends it.
#define MESSAGE(literal) literal, sizeof(literal) - 1

static const struct {
	const char *sentence, *message;
	size_t size;
	bool left;
	uint32_t cpu;
} cases[] = {
	{ "a CPU that went offline", MESSAGE("offline@/devices/system/cpu/cpu1" REST), true, 1 },
	{ "the first CPU", MESSAGE("offline@/devices/system/cpu/cpu0" REST), true, 0 },
	{ "the highest that there can be", MESSAGE("offline@/devices/system/cpu/cpu8191" REST),
	  true, 8191 },
	{ "nothing but the first string", MESSAGE("offline@/devices/system/cpu/cpu12\0"), true,
	  12 },
	{ "a CPU that came online", MESSAGE("online@/devices/system/cpu/cpu1" REST), false, 0 },
	{ "a CPU that was added", MESSAGE("add@/devices/system/cpu/cpu1" REST), false, 0 },
	{ "memory that went offline", MESSAGE("offline@/devices/system/memory/memory1" REST), false,
	  0 },
	{ "something below a CPU", MESSAGE("offline@/devices/system/cpu/cpu1/cache" REST), false,
	  0 },
	{ "another folder beside the CPUs", MESSAGE("offline@/devices/system/cpu/cpufreq" REST),
	  false, 0 },
	{ "a CPU without a number", MESSAGE("offline@/devices/system/cpu/cpu" REST), false, 0 },
	{ "one past the highest", MESSAGE("offline@/devices/system/cpu/cpu8192" REST), false, 0 },
	{ "a number that wraps around 32 bits",
	  MESSAGE("offline@/devices/system/cpu/cpu4294967297" REST), false, 0 },
	{ "a negative number", MESSAGE("offline@/devices/system/cpu/cpu-1" REST), false, 0 },
	{ "a number with a blank", MESSAGE("offline@/devices/system/cpu/cpu1 " REST), false, 0 },
	{ "a number that is cut off", MESSAGE("offline@/devices/system/cpu/cpu1"), false, 0 },
	{ "a path that is cut off", MESSAGE("offline@/devices/system/c"), false, 0 },
	{ "the path alone", MESSAGE("offline@/devices/system/cpu/cpu"), false, 0 },
	{ "another case", MESSAGE("OFFLINE@/devices/system/cpu/cpu1" REST), false, 0 },
	{ "what udev sends", MESSAGE("libudev\0\xfe\xed\xca\xfe"), false, 0 },
	{ "an empty string", MESSAGE("\0"), false, 0 },
	{ "an empty message", "", 0, false, 0 },
};

static void messages_are_understood_as_stated(void **state)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		// A copy of just its size, so that a sanitizer sees a read past its end.
		char *message = malloc(cases[i].size + !cases[i].size);
		uint32_t cpu = UNTOUCHED;

		assert_non_null(message);
		memcpy(message, cases[i].message, cases[i].size);
		print_message("%s\n", cases[i].sentence);
		assert_int_equal(fp_hotplug_parse(message, cases[i].size, &cpu), cases[i].left);
		assert_int_equal(cpu, cases[i].left ? cases[i].cpu : UNTOUCHED);
		free(message);
	}
}

static void no_cpu_has_left_when_none_did(void **state)
{
	struct fp_hotplug *hotplug FP_CLEANUP(fp_hotplug_freep) = NULL;

	assert_int_equal(fp_hotplug_open(&hotplug), 0);
	for (int look = 0; look < 3; look++) {
		fp_hotplug_look(hotplug);
		for (uint32_t cpu = 0; cpu < FP_CPUS_MAX; cpu++)
			assert_false(fp_hotplug_left(hotplug, cpu));
		assert_false(fp_hotplug_left(hotplug, FP_CPUS_MAX));
		assert_false(fp_hotplug_left(hotplug, UINT32_MAX));
	}
}

// The kernel says of a device what is written to its `uevent` file; the CPU stays.
static bool have_said(const char *action, uint32_t cpu)
{
	char path[64];
	int fd FP_AUTOCLOSE = -1;

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%u/uevent", cpu);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	return fd >= 0 && write(fd, action, strlen(action)) == (ssize_t)strlen(action);
}

// Before anything is owned: a skip leaves by longjmp.
static void skip_unless_heard(void)
{
	char space[32] = "";

	// The first user namespace's number is fixed (PROC_USER_INIT_INO).
	if (readlink("/proc/self/ns/user", space, sizeof(space) - 1) > 0 &&
	    strcmp(space, "user:[4026531837]") == 0 && have_said("change", 0))
		return;
	print_message("skipped: uevents need root of the first user namespace\n");
	skip();
}

static void what_the_kernel_says_is_heard_once(void **state)
{
	struct fp_hotplug *hotplug FP_CLEANUP(fp_hotplug_freep) = NULL;

	skip_unless_heard();
	assert_int_equal(fp_hotplug_open(&hotplug), 0);
	assert_true(have_said("online", 0));
	fp_hotplug_look(hotplug);
	assert_false(fp_hotplug_left(hotplug, 0));
	assert_true(have_said("offline", 0));
	assert_false(fp_hotplug_left(hotplug, 0)); // not before the look
	fp_hotplug_look(hotplug);
	assert_true(fp_hotplug_left(hotplug, 0));
	assert_false(fp_hotplug_left(hotplug, 1));
	fp_hotplug_look(hotplug);
	assert_false(fp_hotplug_left(hotplug, 0));
}

static void a_storm_of_other_messages_hides_none(void **state)
{
	struct fp_hotplug *hotplug FP_CLEANUP(fp_hotplug_freep) = NULL;

	skip_unless_heard();
	assert_int_equal(fp_hotplug_open(&hotplug), 0);
	for (int i = 0; i < STORM; i++)
		assert_true(have_said("change", 0));
	assert_true(have_said("offline", 0));
	fp_hotplug_look(hotplug);
	assert_true(fp_hotplug_left(hotplug, 0));
	assert_false(fp_hotplug_left(hotplug, 1)); // as it would be had messages been lost
}

static void lost_messages_may_have_been_of_any_cpu(void **state)
{
	struct fp_hotplug *hotplug FP_CLEANUP(fp_hotplug_freep) = NULL;

	skip_unless_heard();
	assert_int_equal(fp_hotplug_open(&hotplug), 0);
	for (int i = 0; i < STORM; i++)
		assert_true(have_said("offline", 0));
	fp_hotplug_look(hotplug);
	assert_true(fp_hotplug_left(hotplug, FP_CPUS_MAX - 1));
	fp_hotplug_look(hotplug);
	assert_false(fp_hotplug_left(hotplug, FP_CPUS_MAX - 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(messages_are_understood_as_stated),
		cmocka_unit_test(no_cpu_has_left_when_none_did),
		cmocka_unit_test(what_the_kernel_says_is_heard_once),
		cmocka_unit_test(a_storm_of_other_messages_hides_none),
		cmocka_unit_test(lost_messages_may_have_been_of_any_cpu),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
