// SPDX-License-Identifier: Apache-2.0
#include "epochmaps.h"

#include "outcomes.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/membarrier.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BATCH_MIN 4096u // smaller ones meet ENOSPC on ordinary bucket lengths

void fp_batch_space_free(struct fp_batch_space *space)
{
	free(space->keys);
	free(space->counts);
	*space = (struct fp_batch_space){};
}

static int grow(struct fp_batch_space *space, uint32_t capacity)
{
	struct fp_key *keys = realloc(space->keys, capacity * sizeof(*keys));
	struct fp_count *counts;

	if (!keys)
		return -ENOMEM;
	space->keys = keys;
	counts = realloc(space->counts, capacity * sizeof(*counts));
	if (!counts)
		return -ENOMEM;
	space->counts = counts;
	space->capacity = capacity;
	return 0;
}

static int hand_out(const struct fp_batch_space *space, uint32_t count, fp_count_fn fn,
		    void *context)
{
	int error = 0;

	for (uint32_t i = 0; i < count && !error; i++)
		error = fn((enum fp_source)space->counts[i].source, &space->keys[i],
			   &space->counts[i], context);
	return error;
}

int fp_count_map_drain(int map_fd, struct fp_batch_space *space, fp_count_fn fn, void *context)
{
	uint32_t position, *from = NULL;
	int result = 0, error = 0;

	if (!space->capacity)
		error = grow(space, BATCH_MIN);
	while (!error && result != -ENOENT) {
		uint32_t next = 0, count = space->capacity;

		result = bpf_map_lookup_and_delete_batch(map_fd, from, &next, space->keys,
							 space->counts, &count, NULL);
		if (result && result != -ENOENT && result != -ENOSPC)
			return result;
		error = hand_out(space, count, fn, context);
		if (!error && result == -ENOSPC && !count) {
			error = grow(space, space->capacity * 2);
			continue; // from the same place, with more room
		}
		position = next;
		from = &position;
	}
	return error;
}

typedef void (*add_fn)(void *sum, const void *row);

// Sums a row of a per-CPU array over all possible CPUs and zeroes it.
static int take_row(int map_fd, uint32_t row, size_t size, add_fn add, void *ret)
{
	int cpus = libbpf_num_possible_cpus();
	char *rows FP_AUTOFREE = NULL;

	if (cpus < 0)
		return cpus;
	rows = calloc((size_t)cpus, size); // sizes are multiples of 8, as the kernel's values are
	if (!rows)
		return -ENOMEM;
	if (bpf_map_lookup_elem(map_fd, &row, rows))
		return -errno;
	for (int cpu = 0; cpu < cpus; cpu++)
		add(ret, rows + (size_t)cpu * size);
	memset(rows, 0, (size_t)cpus * size);
	return bpf_map_update_elem(map_fd, &row, rows, BPF_ANY) ? -errno : 0;
}

static void add_totals(void *sum, const void *row)
{
	fp_totals_add(sum, row);
}

static void add_durations(void *sum, const void *row)
{
	fp_durations_add(sum, row);
}

void fp_durations_add(struct fp_durations *sum, const struct fp_durations *more)
{
	for (int i = 0; i < FP_DURATION_BUCKETS; i++) {
		sum->count[i] += more->count[i];
		sum->sum_ns[i] += more->sum_ns[i];
	}
}

int fp_totals_take(int map_fd, uint32_t row, struct fp_totals *ret)
{
	*ret = (struct fp_totals){};
	return take_row(map_fd, row, sizeof(*ret), add_totals, ret);
}

int fp_durations_take(int map_fd, uint32_t row, struct fp_durations *ret)
{
	*ret = (struct fp_durations){};
	return take_row(map_fd, row, sizeof(*ret), add_durations, ret);
}

int fp_epoch_settle_by_map(void)
{
	int inner FP_AUTOCLOSE = bpf_map_create(BPF_MAP_TYPE_ARRAY, "fp_settle_in", 4, 4, 1, NULL);
	LIBBPF_OPTS(bpf_map_create_opts, options, .inner_map_fd = (uint32_t)inner);
	int outer FP_AUTOCLOSE = -1;
	uint32_t zero = 0;

	if (inner < 0)
		return -errno;
	outer = bpf_map_create(BPF_MAP_TYPE_ARRAY_OF_MAPS, "fp_settle", 4, 4, 1, &options);
	if (outer < 0)
		return -errno;
	return bpf_map_update_elem(outer, &zero, &inner, BPF_ANY) ? -errno : 0;
}

int fp_epoch_settle(void)
{
	if (syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) == 0)
		return 0;
	return fp_epoch_settle_by_map();
}
