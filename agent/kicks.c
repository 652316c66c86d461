// SPDX-License-Identifier: Apache-2.0
#include "kicks.h"

#include "bpf/abi.h"
#include "common/buf.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

struct kick {
	int fd;
	// Pages that the kernel shares: where user space has read to, and where it has written to.
	unsigned long *consumed;
	const unsigned long *produced;
};

struct fp_kicks {
	uint32_t count;
	struct kick rows[];
};

static void *map_page(int fd, int protection, off_t offset)
{
	void *page = mmap(NULL, (size_t)getpagesize(), protection, MAP_SHARED, fd, offset);

	return page == MAP_FAILED ? NULL : page;
}

static int open_kick(int outer_fd, uint32_t cpu, struct kick *ret)
{
	ret->fd = bpf_map_create(BPF_MAP_TYPE_RINGBUF, "fp_kick", 0, 0, FP_KICK_RING_BYTES, NULL);
	if (ret->fd < 0)
		return -errno;
	ret->consumed = map_page(ret->fd, PROT_READ | PROT_WRITE, 0);
	if (!ret->consumed)
		return -errno;
	ret->produced = map_page(ret->fd, PROT_READ, getpagesize());
	if (!ret->produced)
		return -errno;
	return bpf_map_update_elem(outer_fd, &cpu, &ret->fd, BPF_ANY) ? -errno : 0;
}

int fp_kicks_new(int outer_fd, uint32_t cpus, struct fp_kicks **ret)
{
	struct fp_kicks *kicks = calloc(1, sizeof(*kicks) + cpus * sizeof(kicks->rows[0]));
	int error = kicks ? 0 : -ENOMEM;

	for (uint32_t cpu = 0; cpu < cpus && !error; cpu++) {
		kicks->count = cpu + 1;
		error = open_kick(outer_fd, cpu, &kicks->rows[cpu]);
	}
	if (error)
		fp_kicks_free(kicks);
	else
		*ret = kicks;
	return error;
}

void fp_kicks_free(struct fp_kicks *kicks)
{
	size_t page = (size_t)getpagesize();

	for (uint32_t i = 0; kicks && i < kicks->count; i++) {
		if (kicks->rows[i].consumed)
			munmap(kicks->rows[i].consumed, page);
		if (kicks->rows[i].produced)
			munmap((void *)kicks->rows[i].produced, page);
		fp_close_fd(&kicks->rows[i].fd);
	}
	free(kicks);
}

void fp_kicks_clear(struct fp_kicks *kicks)
{
	for (uint32_t i = 0; kicks && i < kicks->count; i++)
		__atomic_store_n(kicks->rows[i].consumed,
				 __atomic_load_n(kicks->rows[i].produced, __ATOMIC_ACQUIRE),
				 __ATOMIC_RELEASE);
}

uint32_t fp_kicks_count(const struct fp_kicks *kicks)
{
	return kicks ? kicks->count : 0;
}

int fp_kicks_fd(const struct fp_kicks *kicks, uint32_t cpu)
{
	return kicks->rows[cpu].fd;
}
