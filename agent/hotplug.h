// SPDX-License-Identifier: Apache-2.0
//
// hotplug: which CPUs went offline since the last look, also those that are back by now. A
// CPU that leaves takes its perf events with it for good (the kernel detaches them, their
// descriptors stay), so who compares the list of online CPUs now and then would keep a dead
// event for one that left and came back in between.
// Source: the kernel's uevents (NETLINK_KOBJECT_UEVENT), "offline@/devices/system/cpu/cpuN",
// sent after the CPU's events were detached. Where they do not reach us (no netlink sockets,
// or a network namespace of another user namespace than the first), the comparison is all
// that remains. Suspend takes all CPUs but one off without a uevent; the kernel counts
// suspends, and those that are not short show in the clocks as well.
// Input trust: the kernel's messages, others are ignored. Threads: one owner.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fp_hotplug;

// What there is to hear begins here: open before the events that it is about. Succeeds also
// where uevents cannot be had; errors: -ENOMEM.
int fp_hotplug_open(struct fp_hotplug **ret);
void fp_hotplug_free(struct fp_hotplug *hotplug);
static inline void fp_hotplug_freep(struct fp_hotplug **hotplug)
{
	fp_hotplug_free(*hotplug);
	*hotplug = NULL;
}

// Takes what was said since the last look. Never blocks.
void fp_hotplug_look(struct fp_hotplug *hotplug);
// Whether the CPU went offline between the last two looks, or may have: when messages were
// lost or the host was suspended, that is so of every CPU.
bool fp_hotplug_left(const struct fp_hotplug *hotplug, uint32_t cpu);

// Whether a message says that a CPU went offline; *ret_cpu is below FP_CPUS_MAX then.
bool fp_hotplug_parse(const char *message, size_t size, uint32_t *ret_cpu);
