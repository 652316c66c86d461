// SPDX-License-Identifier: Apache-2.0
#include "process_table.h"

#include "process_probe.h"

#include <errno.h>
#include <string.h>

// Execs of one instance in two epochs; a process that execs in a loop keeps the last: about 1 KiB
// each, and an exec every 20 ms with epochs of five seconds.
#define GENERATIONS_MAX 512u

int fp_process_table_new(const struct fp_process_limits *limits, struct fp_process_table **ret)
{
	struct fp_process_table *table = calloc(1, sizeof(*table));

	if (!table)
		return -ENOMEM;
	if (limits)
		table->limits = *limits;
	fp_process_limits_init(table);
	table->index = FP_HASHMAP_INIT(uint32_t, struct fp_process *);
	fp_files_init(&table->pool.files);
	fp_process_probe_init(table);
	*ret = table;
	return 0;
}

void fp_process_forget(struct fp_process_table *table, struct fp_process *process, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		fp_mapset_unref(&table->pool, process->generations[i].set);
	process->count -= count;
	memmove(process->generations, process->generations + count,
		process->count * sizeof(*process->generations));
}

static void process_free(struct fp_process_table *table, struct fp_process *process)
{
	if (process->count)
		fp_process_forget(table, process, process->count);
	table->stats.bytes -= sizeof(*process) + 2 * FP_ALLOCATION_BYTES +
			      process->capacity * sizeof(*process->generations);
	free(process->generations);
	free(process);
}

static void list_free(struct fp_process_table *table, struct fp_process_list *list)
{
	while (list->first) {
		struct fp_process *process = list->first;

		fp_process_list_remove(process);
		process_free(table, process);
	}
}

void fp_process_table_free(struct fp_process_table *table)
{
	if (!table)
		return;
	list_free(table, &table->running);
	list_free(table, &table->ended);
	list_free(table, &table->waiting);
	fp_hashmap_free(&table->index);
	fp_files_free(&table->pool.files);
	free(table->scratch.mappings);
	fp_process_probe_free(table);
	free(table);
}

struct fp_process *fp_process_get(const struct fp_process_table *table, uint32_t tgid)
{
	struct fp_process **slot = fp_hashmap_get(&table->index, &tgid);

	return slot ? *slot : NULL;
}

static bool threads_counted(const struct fp_process_table *table, const struct fp_process *process)
{
	return process->counted_losses == table->losses;
}

struct fp_process *fp_process_current(const struct fp_process_table *table, uint32_t tgid)
{
	struct fp_process *process = fp_process_get(table, tgid);

	// Where threads could not be counted, the leader's exit was taken for the end of all,
	// and an event that comes later says better.
	if (process && process->exit_ns != 0 && threads_counted(table, process))
		return NULL;
	return process;
}

int fp_process_exec(struct fp_process_table *table, struct fp_process *process, uint64_t from_ns,
		    struct fp_mapset *set)
{
	if (process->count == GENERATIONS_MAX) {
		fp_process_forget(table, process, 1);
		table->stats.evicted[FP_EVICTED_PROGRAM]++;
	}
	if (process->count == process->capacity) {
		uint32_t capacity = process->capacity ? 2 * process->capacity : 1;
		void *grown =
		    reallocarray(process->generations, capacity, sizeof(*process->generations));

		if (!grown) {
			fp_mapset_unref(&table->pool, set);
			return -ENOMEM;
		}
		table->stats.bytes +=
		    (capacity - process->capacity) * sizeof(*process->generations);
		process->generations = grown;
		process->capacity = capacity;
	}
	process->generations[process->count++] =
	    (struct fp_generation){ .from_ns = from_ns, .exec_ns = from_ns, .set = set };
	return 0;
}

struct fp_process *fp_process_add(struct fp_process_table *table, uint32_t tgid,
				  struct fp_mapset *set)
{
	struct fp_process *process = calloc(1, sizeof(*process));
	struct fp_process **slot;

	if (!process) {
		fp_mapset_unref(&table->pool, set);
		return NULL;
	}
	table->stats.bytes += sizeof(*process) + 2 * FP_ALLOCATION_BYTES;
	process->turn = table->turn;
	process->tgid = tgid;
	process->counted_losses = UINT64_MAX;
	process->known_losses = table->losses_over;
	if (fp_process_exec(table, process, 0, set) < 0 ||
	    !(slot = fp_hashmap_put(&table->index, &tgid, NULL))) {
		process_free(table, process);
		return NULL;
	}
	process->older = *slot;
	*slot = process;
	fp_process_list_append(&table->running, process);
	table->stats.processes++;
	return process;
}

void fp_process_put_behind(struct fp_process_table *table, struct fp_process *process,
			   struct fp_process *newer)
{
	struct fp_process **slot = fp_hashmap_get(&table->index, &process->tgid);

	*slot = process->older;
	process->older = newer->older;
	newer->older = process;
}

void fp_process_remove(struct fp_process_table *table, struct fp_process *process)
{
	struct fp_process **slot = fp_hashmap_get(&table->index, &process->tgid);
	struct fp_process **link = slot;

	while (*link != process)
		link = &(*link)->older;
	*link = process->older;
	if (!*slot)
		fp_hashmap_remove(&table->index, &process->tgid);
	fp_process_list_remove(process);
	process_free(table, process);
	table->stats.processes--;
}

void fp_process_table_stats(const struct fp_process_table *table, struct fp_process_stats *ret)
{
	*ret = table->stats;
	ret->mappings = table->pool.mappings;
	ret->files = fp_files_used(&table->pool.files);
	ret->bytes = sizeof(*table) + table->stats.bytes + table->pool.bytes +
		     fp_files_bytes(&table->pool.files) + fp_hashmap_bytes(&table->index) +
		     fp_hashmap_bytes(&table->probed) +
		     table->scratch.capacity * sizeof(*table->scratch.mappings);
}

bool fp_process_table_instance(const struct fp_process_table *table, uint32_t tgid,
			       uint64_t *ret_start_ns, uint64_t *ret_exec_ns)
{
	struct fp_process *process = fp_process_current(table, tgid);

	if (!process || process->start_ns == 0)
		return false;
	*ret_start_ns = process->start_ns;
	*ret_exec_ns = fp_process_newest(process)->exec_ns;
	return true;
}

bool fp_process_table_runs(const struct fp_process_table *table, uint32_t tgid)
{
	const struct fp_process *process = fp_process_get(table, tgid);

	return process && process->exit_ns == 0;
}

bool fp_process_table_has_ended(const struct fp_process_table *table, uint32_t tgid)
{
	const struct fp_process *process = fp_process_get(table, tgid);

	return process && process->exit_ns != 0;
}

void fp_process_table_set_catch_up(struct fp_process_table *table, int (*fn)(void *context),
				   void *context)
{
	table->catch_up = fn;
	table->catch_up_context = context;
}
