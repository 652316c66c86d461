/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * reader: whose user memory a walk reads, and how. The current task's is read where it is, by a
 * helper that fails instead of faulting memory in; another task's may fault it in, so that only a
 * program that can sleep does it.
 */
#ifndef FLEETPROF_READER_H
#define FLEETPROF_READER_H

#include "bpf/kernel.h"
#include <bpf/bpf_helpers.h>

/* Another task's memory, and the stretch of it that is safe to read. */
struct fp_reader {
	struct task_struct *task;
	u64 start, end;
};

/* reader: NULL for the current task. 0, or not when it cannot be read. */
static __always_inline long fp_read_user(const struct fp_reader *reader, void *destination,
					 u32 size, u64 address)
{
	if (!reader)
		return bpf_probe_read_user(destination, size, (const void *)address);
	if (address < reader->start || address + size > reader->end)
		return -1;
	return bpf_copy_from_user_task(destination, size, (const void *)address, reader->task, 0);
}

#define FP_READ_USER(reader, destination, size, address)                                           \
	fp_read_user(reader, destination, size, address)

#endif
