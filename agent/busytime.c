// SPDX-License-Identifier: Apache-2.0
#include "busytime.h"

#include "common/clock.h"
#include "common/file.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

int fp_busy_time_parse_process(const char *stat, uint64_t *ret_ticks)
{
	const char *rest = strrchr(stat, ')');
	unsigned long long user, system;

	// after the name: state ppid pgrp session tty tpgid flags minflt cminflt majflt cmajflt
	if (!rest || sscanf(rest + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu",
			    &user, &system) != 2)
		return -EBADMSG;
	*ret_ticks = user + system;
	return 0;
}

int fp_busy_time_parse_host(const char *stat, uint64_t *ret_ticks)
{
	unsigned long long user, nice, system, idle, iowait, irq, softirq;

	if (sscanf(stat, "cpu %llu %llu %llu %llu %llu %llu %llu", &user, &nice, &system, &idle,
		   &iowait, &irq, &softirq) != 7)
		return -EBADMSG;
	*ret_ticks = user + nice + system + irq + softirq;
	return 0;
}

int fp_busy_time(uint32_t tgid, uint64_t *ret_ns)
{
	struct fp_buf text FP_AUTOBUF = {};
	char path[64] = "/proc/stat";
	uint64_t ticks;
	int error;

	if (tgid)
		snprintf(path, sizeof(path), "/proc/%u/stat", tgid);
	error = fp_file_read(path, 4u << 20, &text);
	if (!error)
		error = fp_buf_byte(&text, 0);
	if (!error)
		error = tgid ? fp_busy_time_parse_process((const char *)text.data, &ticks)
			     : fp_busy_time_parse_host((const char *)text.data, &ticks);
	if (!error)
		*ret_ns = ticks * (FP_NS_PER_S / (uint64_t)sysconf(_SC_CLK_TCK));
	return error;
}
