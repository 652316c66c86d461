// SPDX-License-Identifier: Apache-2.0
#include "kicks.h"

#include "common/buf.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

uint32_t fp_kicks_needed(void)
{
	return (uint32_t)libbpf_num_possible_cpus();
}

int fp_kicks_open(int outer_fd, uint32_t cpus, struct fp_kicks *ret)
{
	*ret = (struct fp_kicks){ .fds = calloc(cpus, sizeof(int)) };
	if (!ret->fds)
		return -ENOMEM;
	for (uint32_t cpu = 0; cpu < cpus; cpu++) {
		int fd = bpf_map_create(BPF_MAP_TYPE_USER_RINGBUF, "fp_kick", 0, 0,
					(uint32_t)getpagesize(), NULL);

		if (fd < 0)
			return -errno;
		ret->fds[ret->count++] = fd;
		if (bpf_map_update_elem(outer_fd, &cpu, &fd, BPF_ANY))
			return -errno;
	}
	return 0;
}

void fp_kicks_free(struct fp_kicks *kicks)
{
	for (uint32_t i = 0; i < kicks->count; i++)
		fp_close_fd(&kicks->fds[i]);
	free(kicks->fds);
	*kicks = (struct fp_kicks){};
}
