// SPDX-License-Identifier: Apache-2.0
#include "process_table.h"

#include "process_probe.h"

#include <errno.h>
#include <string.h>

#define PROCESSES_DEFAULT 65536u
#define MAPPINGS_DEFAULT  1000000u
// Execs of one instance between two retires; a process that execs in a loop keeps the last.
#define GENERATIONS_MAX 64u
static void list_remove(struct fp_process *process)
{
	struct fp_process_list *list = process->list;

	*(process->previous ? &process->previous->next : &list->first) = process->next;
	*(process->next ? &process->next->previous : &list->last) = process->previous;
	process->previous = process->next = NULL;
	process->list = NULL;
}

static void list_append(struct fp_process_list *list, struct fp_process *process)
{
	process->list = list;
	process->previous = list->last;
	process->next = NULL;
	*(list->last ? &list->last->next : &list->first) = process;
	list->last = process;
}

static void list_move(struct fp_process_list *list, struct fp_process *process)
{
	list_remove(process);
	list_append(list, process);
}

int fp_process_table_new(const struct fp_process_limits *limits, struct fp_process_table **ret)
{
	struct fp_process_table *table = calloc(1, sizeof(*table));

	if (!table)
		return -ENOMEM;
	if (limits)
		table->limits = *limits;
	if (table->limits.processes == 0)
		table->limits.processes = PROCESSES_DEFAULT;
	if (table->limits.mappings == 0)
		table->limits.mappings = MAPPINGS_DEFAULT;
	// One process must not push all others out.
	table->set_limit = table->limits.mappings / 4 + 1;
	table->index = FP_HASHMAP_INIT(uint32_t, struct fp_process *);
	fp_files_init(&table->pool.files);
	fp_process_probe_init(table);
	*ret = table;
	return 0;
}

static void generations_drop(struct fp_process_table *table, struct fp_process *process,
			     uint32_t count)
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
		generations_drop(table, process, process->count);
	table->stats.bytes -= sizeof(*process) + process->capacity * sizeof(*process->generations);
	free(process->generations);
	free(process);
}

static void list_free(struct fp_process_table *table, struct fp_process_list *list)
{
	while (list->first) {
		struct fp_process *process = list->first;

		list_remove(process);
		process_free(table, process);
	}
}

void fp_process_table_free(struct fp_process_table *table)
{
	if (!table)
		return;
	list_free(table, &table->running);
	list_free(table, &table->ended);
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
		generations_drop(table, process, 1);
		table->stats.evicted++;
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
	    (struct fp_generation){ .from_ns = from_ns, .set = set };
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
	table->stats.bytes += sizeof(*process);
	process->tgid = tgid;
	process->counted_losses = UINT64_MAX;
	process->known_losses = table->losses;
	if (fp_process_exec(table, process, 0, set) < 0 ||
	    !(slot = fp_hashmap_put(&table->index, &tgid, NULL))) {
		process_free(table, process);
		return NULL;
	}
	process->older = *slot;
	*slot = process;
	list_append(&table->running, process);
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
	list_remove(process);
	process_free(table, process);
	table->stats.processes--;
}

void fp_process_end(struct fp_process_table *table, struct fp_process *process, uint64_t time_ns)
{
	process->exit_ns = time_ns ? time_ns : 1;
	list_move(&table->ended, process);
}

void fp_process_revive(struct fp_process_table *table, struct fp_process *process)
{
	process->exit_ns = 0;
	list_move(&table->running, process);
}

void fp_process_touch(struct fp_process_table *table, struct fp_process *process)
{
	if (process->list == &table->running)
		list_move(&table->running, process);
}

// Ended instances go first, then those that no stack asked for the longest.
static struct fp_process *victim(const struct fp_process_table *table)
{
	struct fp_process *process = table->ended.first;

	if (process && process == table->in_use)
		process = process->next;
	if (!process)
		process = table->running.first;
	if (process && process == table->in_use)
		process = process->next;
	return process;
}

void fp_process_enforce_limits(struct fp_process_table *table)
{
	while (table->stats.processes > table->limits.processes ||
	       table->pool.mappings > table->limits.mappings) {
		struct fp_process *process = victim(table);

		if (!process)
			return;
		fp_process_remove(table, process);
		table->stats.evicted++;
	}
}

void fp_process_table_lost(struct fp_process_table *table)
{
	table->losses++;
}

static void process_prune(struct fp_process_table *table, struct fp_process *process,
			  uint64_t time_ns)
{
	uint32_t over = 0;

	while (over + 1 < process->count && process->generations[over + 1].from_ns < time_ns)
		over++;
	if (over)
		generations_drop(table, process, over);
	for (uint32_t i = 0; i < process->count; i++)
		fp_mapset_prune(&table->pool, process->generations[i].set, time_ns);
}

void fp_process_table_retire(struct fp_process_table *table, uint64_t time_ns)
{
	struct fp_process *process = table->ended.first, *next;

	for (; process; process = next) {
		next = process->next;
		if (process->exit_ns < time_ns)
			fp_process_remove(table, process);
	}
	for (process = table->running.first; process; process = process->next)
		process_prune(table, process, time_ns);
}

void fp_process_table_stats(const struct fp_process_table *table, struct fp_process_stats *ret)
{
	*ret = table->stats;
	ret->mappings = table->pool.mappings;
	ret->files = fp_files_used(&table->pool.files);
	ret->bytes = sizeof(*table) + table->stats.bytes + table->pool.bytes +
		     fp_files_bytes(&table->pool.files) + fp_hashmap_bytes(&table->index) +
		     table->scratch.capacity * sizeof(*table->scratch.mappings);
}

void fp_process_table_set_catch_up(struct fp_process_table *table, int (*fn)(void *context),
				   void *context)
{
	table->catch_up = fn;
	table->catch_up_context = context;
}
