// SPDX-License-Identifier: Apache-2.0
//
// Address spaces with more mappings than are worth holding: a question per address that a stack
// has, asked while the process runs. What it answers is kept until the set is emptied, since the
// next stacks mostly have the same addresses.
#include "process_table.h"

#include "procfs.h"

#include <errno.h>
#include <string.h>

void fp_process_make_sparse(struct fp_process_table *table, struct fp_mapset *set, uint64_t time_ns)
{
	if (!set->sparse)
		table->stats.evicted[FP_EVICTED_MAPPINGS]++;
	fp_mapset_drop_live(&table->pool, set);
	set->sparse = set->complete = true;
	set->has_anon = true; // thousands of code mappings are a compiler's
	if (set->dropped_ns < set->newest_ns)
		set->dropped_ns = set->newest_ns;
	if (set->dropped_ns < time_ns)
		set->dropped_ns = time_ns;
}

struct wanted {
	uint64_t addresses[FP_MAX_USER_FRAMES]; // ascending
	uint32_t count;
};

static int compare_addresses(const void *a, const void *b)
{
	const uint64_t *left = a, *right = b;

	return *left < *right ? -1 : *left > *right;
}

// An address of a mapping that came after the record is not asked about: what was there at the
// time of the record is gone.
static void want(const struct fp_mapset *set, const struct fp_stack_record *record,
		 struct wanted *ret)
{
	const uint64_t *addresses = (const uint64_t *)record->frames + record->kernel_len;

	for (uint32_t i = 0; i < record->user_len; i++) {
		uint64_t address = addresses[i] - (i > 0); // callers: see resolve.c

		if (!fp_mapset_covers(set, address))
			ret->addresses[ret->count++] = address;
	}
	qsort(ret->addresses, ret->count, sizeof(*ret->addresses), compare_addresses);
}

struct answer {
	struct fp_process_table *table;
	struct fp_mapset *set;
	const struct wanted *wanted;
	int dirfd;
};

static int on_map(const struct fp_procfs_map *map, void *context)
{
	struct answer *answer = context;

	for (uint32_t i = 0; i < answer->wanted->count; i++) {
		uint64_t address = answer->wanted->addresses[i];
		struct fp_mapping mapping = { .start = map->start,
					      .end = map->end,
					      .page_offset = map->page_offset,
					      .from_ns = answer->set->dropped_ns };
		int r;

		if (address < map->start || address >= map->end ||
		    fp_mapset_covers(answer->set, address))
			continue;
		r = fp_process_map_file(answer->table, answer->dirfd, map, &mapping.file);
		if (r == 0)
			r = fp_mapset_fill_gap(&answer->table->pool, answer->set, address,
					       &mapping);
		if (r < 0)
			return r;
	}
	return 0;
}

static int ask(struct fp_process_table *table, const struct fp_process *process, uint32_t tid,
	       struct fp_mapset *set, const struct wanted *wanted)
{
	FP_AUTOCLOSE int dirfd = fp_procfs_open(process->tgid);
	struct answer answer = { table, set, wanted, dirfd };
	struct fp_procfs_stat stat;
	char name[FP_PROCESS_MAPS_NAME];
	int r = dirfd < 0 ? dirfd : fp_process_check(process, dirfd, tid, &stat, name);

	if (r == 0)
		r = fp_procfs_maps_at(dirfd, name, wanted->addresses, wanted->count, on_map,
				      &answer);
	if (r == 0) {
		table->stats.lookups += wanted->count;
		set->read_ns = fp_procfs_monotonic_ns();
		set->read_tgid = process->tgid;
	}
	return r;
}

int fp_process_look_up(struct fp_process_table *table, struct fp_process *process,
		       struct fp_mapset *set, const struct fp_stack_record *record)
{
	struct wanted wanted = { .count = 0 };
	int r;

	if (process->exit_ns != 0 || fp_process_newest(process)->set != set ||
	    record->time_ns < set->dropped_ns || record->user_len > FP_MAX_USER_FRAMES)
		return 0;
	want(set, record, &wanted);
	if (wanted.count == 0)
		return 0;
	if (set->live_count + wanted.count > FP_PROCESS_MAPPINGS_MAX)
		fp_process_make_sparse(table, set, 0);
	r = ask(table, process, record->tid, set, &wanted);
	if (r < 0 && r != -ENOMEM) {
		table->stats.lazy_failed++;
		return 0; // the stack says which of its addresses are not known
	}
	return r;
}
