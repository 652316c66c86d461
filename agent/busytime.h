// SPDX-License-Identifier: Apache-2.0
//
// busytime: CPU time spent, in nanoseconds: what Hz × CPU-seconds predicts samples from. An
// idle CPU may deliver no ticks at all, so wall time predicts nothing.
#pragma once

#include <stdint.h>

// All CPUs' non-idle time since boot (tgid 0; /proc/stat, clock-tick granularity), or the
// time used by all threads of one process, also ended ones (/proc/PID/stat). Errors: -errno.
int fp_busy_time(uint32_t tgid, uint64_t *ret_ns);
// The process's name is cut off at the last ')', so that no name can shift the fields.
int fp_busy_time_parse_process(const char *stat, uint64_t *ret_ticks);
int fp_busy_time_parse_host(const char *stat, uint64_t *ret_ticks);
