// SPDX-License-Identifier: Apache-2.0
//
// What the process table lets go of, and when: after an epoch, and when memory is short.
#include "process_table.h"

#define PROCESSES_DEFAULT 65536u
#define MAPPINGS_DEFAULT  1000000u
// The least that an instance takes with its share of the index; see fp_process_add.
#define PROCESS_BYTES_MIN 400u
// A file slot takes 64 bytes and twice 21 in the index that is half empty, which do not shrink
// again: at this many bytes of the limit for each they stay a fifth of it.
#define FILE_BYTES 512u

void fp_process_limits_init(struct fp_process_table *table)
{
	struct fp_process_limits *limits = &table->limits;

	if (limits->bytes == 0)
		limits->bytes = FP_PROCESS_BYTES_DEFAULT;
	if (limits->processes == 0)
		limits->processes = PROCESSES_DEFAULT;
	if (limits->processes > limits->bytes / PROCESS_BYTES_MIN)
		limits->processes = (uint32_t)(limits->bytes / PROCESS_BYTES_MIN);
	if (limits->mappings == 0)
		limits->mappings = MAPPINGS_DEFAULT;
	table->file_limit = (uint32_t)(limits->bytes / FILE_BYTES);
}

void fp_process_list_remove(struct fp_process *process)
{
	struct fp_process_list *list = process->list;

	*(process->previous ? &process->previous->next : &list->first) = process->next;
	*(process->next ? &process->next->previous : &list->last) = process->previous;
	process->previous = process->next = NULL;
	process->list = NULL;
	list->count--;
}

void fp_process_list_append(struct fp_process_list *list, struct fp_process *process)
{
	process->list = list;
	process->previous = list->last;
	process->next = NULL;
	*(list->last ? &list->last->next : &list->first) = process;
	list->last = process;
	list->count++;
}

static void list_move(struct fp_process_list *list, struct fp_process *process)
{
	fp_process_list_remove(process);
	fp_process_list_append(list, process);
}

void fp_process_end(struct fp_process_table *table, struct fp_process *process, uint64_t time_ns)
{
	process->exit_ns = time_ns ? time_ns : 1;
	list_move(process->wanted ? &table->waiting : &table->ended, process);
}

void fp_process_revive(struct fp_process_table *table, struct fp_process *process)
{
	process->exit_ns = 0;
	list_move(&table->running, process);
}

void fp_process_touch(struct fp_process_table *table, struct fp_process *process)
{
	process->turn = table->turn;
	if (process->list == &table->running)
		list_move(&table->running, process);
}

void fp_process_want(struct fp_process_table *table, struct fp_process *process)
{
	process->wanted = true;
	fp_process_touch(table, process);
	if (process->list == &table->ended)
		list_move(&table->waiting, process);
}

static struct fp_process *first_not_in_use(const struct fp_process_table *table,
					   const struct fp_process_list *list)
{
	struct fp_process *process = list->first;

	return process && process == table->in_use ? process->next : process;
}

// A running one costs a reading when it is asked about again, a waiting one its frames; but where
// those that wait are most of all, letting the last running ones go would not help for long.
static struct fp_process *victim(const struct fp_process_table *table,
				 enum fp_process_eviction *ret_why)
{
	bool crowded = table->waiting.count > table->running.count;
	const struct {
		const struct fp_process_list *list;
		enum fp_process_eviction why;
	} order[] = {
		{ &table->ended, FP_EVICTED_ENDED },
		{ crowded ? &table->waiting : &table->running,
		  crowded ? FP_EVICTED_WAITING : FP_EVICTED_RUNNING },
		{ crowded ? &table->running : &table->waiting,
		  crowded ? FP_EVICTED_RUNNING : FP_EVICTED_WAITING },
	};

	for (size_t i = 0; i < FP_ARRAY_SIZE(order); i++) {
		struct fp_process *process = first_not_in_use(table, order[i].list);

		*ret_why = order[i].why;
		if (process)
			return process;
	}
	return NULL;
}

// When it is read again it may be another program, or have something else mapped, than at the
// time of a record: one older than the last change that we have forgotten cannot be answered.
static void remember_change(struct fp_process_table *table, struct fp_process *process)
{
	const struct fp_generation *newest = fp_process_newest(process);
	uint64_t changed_ns = newest->from_ns;

	if (changed_ns < newest->set->newest_ns)
		changed_ns = newest->set->newest_ns;
	if (table->forgotten_ns < changed_ns)
		table->forgotten_ns = changed_ns;
}

static bool over_limits(const struct fp_process_table *table)
{
	struct fp_process_stats stats;

	if (table->stats.processes > table->limits.processes ||
	    table->pool.mappings > table->limits.mappings ||
	    fp_files_used(&table->pool.files) > table->file_limit)
		return true;
	fp_process_table_stats(table, &stats);
	return stats.bytes > table->limits.bytes;
}

void fp_process_enforce_limits(struct fp_process_table *table)
{
	while (over_limits(table)) {
		enum fp_process_eviction why;
		struct fp_process *process = victim(table, &why);

		if (!process)
			return;
		if (why == FP_EVICTED_RUNNING)
			remember_change(table, process);
		fp_process_remove(table, process);
		table->stats.evicted[why]++;
	}
}

static void retire_list(struct fp_process_table *table, struct fp_process_list *list,
			uint64_t time_ns)
{
	struct fp_process *process = list->first, *next;

	for (; process; process = next) {
		next = process->next;
		if (process->exit_ns < time_ns)
			fp_process_remove(table, process);
	}
}

void fp_process_table_retire_unwanted(struct fp_process_table *table, uint64_t time_ns)
{
	// In order of exit_ns but for threads that outlive their leader uncounted, which wait
	// behind a later one for the full retire.
	while (table->ended.first && table->ended.first->exit_ns < time_ns)
		fp_process_remove(table, table->ended.first);
}

static void prune(struct fp_process_table *table, struct fp_process *process, uint64_t time_ns)
{
	uint32_t over = 0;

	while (over + 1 < process->count && process->generations[over + 1].from_ns < time_ns)
		over++;
	if (over)
		fp_process_forget(table, process, over);
	for (uint32_t i = 0; i < process->count; i++)
		fp_mapset_prune(&table->pool, process->generations[i].set, time_ns);
}

// Only what was touched lately has a past to be forgotten: what changed in one turn is pruned at
// the end of the next, so a walk from the most recently used end need not go further back.
void fp_process_table_retire(struct fp_process_table *table, uint64_t time_ns)
{
	uint32_t turn = table->turn;

	retire_list(table, &table->ended, time_ns);
	retire_list(table, &table->waiting, time_ns);
	for (struct fp_process *process = table->running.last; process && process->turn + 1 >= turn;
	     process = process->previous) {
		prune(table, process, time_ns);
		process->wanted = process->turn == turn && process->wanted;
	}
	table->turn++;
}
