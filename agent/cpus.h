// SPDX-License-Identifier: Apache-2.0
//
// cpus: which CPUs are online, from /sys/devices/system/cpu/online. CPU numbers may have
// holes and `possible` is not `online`.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FP_CPUS_MAX 8192 // the kernel's own NR_CPUS limit

struct fp_cpus {
	uint8_t online[FP_CPUS_MAX]; // 1: online
	uint32_t count;		     // online CPUs
	uint32_t highest;	     // highest online number
};

int fp_cpus_read(struct fp_cpus *ret_cpus);		  // 0 or -errno
int fp_cpus_parse(const char *list, struct fp_cpus *ret); // "0-3,8"; -EINVAL when malformed
