// SPDX-License-Identifier: Apache-2.0
#include "process_table.h"

#include "procfs.h"

#include <errno.h>
#include <string.h>

// The start time is taken a little before the FORK event, and the kernel reads the clock in
// two ways that may differ for the length of an adjustment.
#define CLOCK_SLACK_NS 100000u

// Could the record be one of this instance, which has none yet? With every event seen, the
// fork of the instance lies between the record's start time and the record.
static bool may_own(const struct fp_process *process, const struct fp_stack_record *record)
{
	if (process->start_ns != 0)
		return false;
	if (process->fork_ns != 0)
		return record->start_ns <= process->fork_ns + CLOCK_SLACK_NS &&
		       process->fork_ns <= record->time_ns + CLOCK_SLACK_NS;
	if (process->start_ticks != 0)
		return process->start_ticks == fp_procfs_start_ticks(record->start_boottime_ns);
	return record->start_ns <= process->seen_ns + CLOCK_SLACK_NS;
}

static uint64_t known_since(const struct fp_process *process)
{
	return process->fork_ns ? process->fork_ns : process->seen_ns;
}

static struct fp_process *find(const struct fp_process_table *table,
			       const struct fp_stack_record *record)
{
	struct fp_process *process = fp_process_get(table, record->tgid), *nearest = NULL;

	for (; process; process = process->older) {
		if (process->start_ns == record->start_ns)
			return process;
		if (may_own(process, record) &&
		    (!nearest || known_since(process) < known_since(nearest)))
			nearest = process;
	}
	return nearest;
}

static bool began_after(const struct fp_process *process, const struct fp_stack_record *record)
{
	uint64_t began_ns = process->start_ns ? process->start_ns : process->fork_ns;

	return began_ns > record->start_ns + CLOCK_SLACK_NS;
}

// An instance that no event told of: it ran before us, or its events were lost.
static struct fp_process *add_unseen(struct fp_process_table *table,
				     const struct fp_stack_record *record)
{
	struct fp_process *newest = fp_process_get(table, record->tgid), *process;
	struct fp_mapset *set = fp_mapset_new(&table->pool, record->tgid);

	if (!set)
		return NULL;
	// Its PID belongs to another now, or it may be another program than it was then.
	set->failed =
	    (newest && began_after(newest, record)) || record->time_ns < table->forgotten_ns;
	if (set->failed && newest) {
		process = fp_process_add(table, record->tgid, set);
		if (process)
			fp_process_put_behind(table, process, newest);
	} else {
		if (newest && newest->exit_ns == 0)
			fp_process_end(table, newest, record->time_ns);
		process = fp_process_add(table, record->tgid, set);
	}
	if (!process)
		return NULL;
	fp_process_newest(process)->from_ns = table->whole_since_ns;
	process->seen_ns = record->time_ns;
	if (set->failed)
		fp_process_end(table, process, record->time_ns);
	return process;
}

static struct fp_generation *generation_at(struct fp_process *process, uint64_t time_ns)
{
	for (uint32_t i = process->count; i > 0; i--)
		if (process->generations[i - 1].from_ns <= time_ns)
			return &process->generations[i - 1];
	return NULL;
}

// Whether the exec id is that of the program whose stack it is. A record without a user side may
// come from inside an execve: the kernel counts the exec some microseconds before it announces
// it, and the id would be learnt as the old program's.
static bool tells_program(const struct fp_stack_record *record)
{
	return record->exec_id != 0 && record->user_len > 0;
}

static bool is_of(const struct fp_generation *generation, const struct fp_stack_record *record)
{
	return generation->exec_id_known && generation->exec_id == record->exec_id;
}

// The program that the record was taken in. Time alone would do but for the moments between an
// exec's event and its id, which is of one program only. What was known before a loss is not asked
// about the time after it, whatever the program.
static struct fp_generation *generation_of(struct fp_process *process,
					   const struct fp_stack_record *record)
{
	struct fp_generation *at = generation_at(process, record->time_ns), *each;
	const struct fp_generation *end = process->generations + process->count;

	if (!at || !tells_program(record) || is_of(at, record))
		return at;
	for (each = at + 1; each < end && !each->after_loss; each++)
		if (is_of(each, record))
			return each;
	for (each = at; each > process->generations && !each->after_loss && !each->set->failed;)
		if (is_of(--each, record))
			return each;
	return at->exec_id_known ? NULL : at;
}

// The kernel lost events since the mappings were known, or far more have been mapped than
// can still be there.
static int check_again(struct fp_process_table *table, struct fp_process *process,
		       const struct fp_stack_record *record)
{
	int r = process->exit_ns == 0 ? fp_process_renew(table, process) : 0;
	const struct fp_generation *newest = fp_process_newest(process);

	if (r < 0 || process->exit_ns != 0 || !process->overgrown ||
	    !fp_process_is_sure(table, process) || record->time_ns < newest->from_ns ||
	    !newest->set->complete)
		return r;
	process->overgrown = false;
	// Nothing is missing, too much is there.
	return fp_process_reread(table, process, record->tid, table->settled_ns);
}

// The set that has to be read for the record. Where its own cannot be known, the newest: reading
// it now, while the process runs, is for the records to come.
static struct fp_mapset *unread_set(struct fp_process *process,
				    const struct fp_generation *generation)
{
	struct fp_mapset *set = generation ? generation->set : NULL;

	if ((!set || set->failed) && process->exit_ns == 0)
		set = fp_process_newest(process)->set;
	return set && !set->complete && !set->failed ? set : NULL;
}

static int read_for(struct fp_process_table *table, struct fp_process *process,
		    const struct fp_stack_record *record)
{
	struct fp_generation *generation;
	struct fp_mapset *unread;
	uint64_t reads = table->stats.lazy_reads + table->stats.lookups;
	int r = check_again(table, process, record);

	if (r < 0 || !fp_process_is_sure(table, process))
		return r;
	generation = generation_of(process, record);
	unread = unread_set(process, generation);
	if (unread)
		r = fp_process_fill(table, process, record->tid, unread);
	if (r == 0 && generation && generation->set->sparse)
		r = fp_process_look_up(table, process, generation->set, record);
	if (r < 0 && r != -ESRCH)
		return r;
	if (table->stats.lazy_reads + table->stats.lookups != reads && table->catch_up)
		return table->catch_up(table->catch_up_context);
	return 0;
}

#define READINGS_MAX 3

// Sees to it that the generation of the record can be looked at, reading /proc if need be. An exec
// that comes to light after a reading takes it along; who is still in the old program is then read
// in its place.
static int prepare(struct fp_process_table *table, struct fp_process *process,
		   const struct fp_stack_record *record)
{
	int r = 0;

	for (int i = 0; i < READINGS_MAX && r == 0; i++) {
		r = read_for(table, process, record);
		if (!fp_process_is_sure(table, process) ||
		    !unread_set(process, generation_of(process, record)))
			break;
	}
	if (r < 0 || generation_of(process, record) != fp_process_newest(process))
		return r;
	return fp_process_read_name(table, process);
}

static void executable_name(struct fp_process_table *table, const struct fp_mapset *set)
{
	static const char deleted[] = " (deleted)";
	const size_t deleted_len = sizeof(deleted) - 1;
	const char *path, *base;
	size_t len;

	table->executable[0] = '\0';
	if (set->executable == FP_FILES_NONE)
		return;
	path = table->pool.files.files[set->executable].name;
	base = strrchr(path, '/');
	base = base ? base + 1 : path;
	len = strlen(base);
	// The kernel's suffix on the path of an unlinked file. A file really named so loses
	// these letters in the label, nowhere else.
	if (len > deleted_len && strcmp(base + len - deleted_len, deleted) == 0)
		len -= deleted_len;
	if (len >= sizeof(table->executable))
		len = sizeof(table->executable) - 1;
	memcpy(table->executable, base, len);
	table->executable[len] = '\0';
}

static int view_generation(struct fp_process_table *table, const struct fp_process *process,
			   const struct fp_generation *generation, uint64_t time_ns,
			   struct fp_process_view *ret)
{
	struct fp_process_view result = { 0 };
	int r = fp_mapset_at(generation->set, time_ns, &table->scratch, &result.mappings,
			     &result.count);

	if (r < 0)
		return r;
	executable_name(table, generation->set);
	result.files = table->pool.files.files;
	result.executable = table->executable;
	result.executable_file = generation->set->executable;
	result.parent_tgid = process->parent_tgid;
	result.exec_ns = generation->exec_ns;
	if (result.mappings == generation->set->live)
		result.stamp = generation->set->stamp;
	result.has_anon = generation->set->has_anon;
	result.has_unidentified = generation->set->has_unidentified;
	result.partial = generation->set->sparse;
	*ret = result;
	return 0;
}

// After a loss it may be another program than before it.
static void learn_program(const struct fp_process *process, struct fp_generation *generation,
			  uint32_t exec_id)
{
	const struct fp_generation *before = generation;

	while (generation->after_loss && before > process->generations)
		if ((--before)->exec_id_known) {
			if (before->exec_id != exec_id)
				generation->exec_ns = generation->from_ns;
			break;
		}
	generation->exec_id = exec_id;
	generation->exec_id_known = true;
}

static int view(struct fp_process_table *table, struct fp_process *process,
		const struct fp_stack_record *record, struct fp_process_view *ret)
{
	struct fp_generation *generation = generation_of(process, record);

	if (fp_process_in_doubt(table, process, record->time_ns))
		return -ESRCH;
	if (!generation || !generation->set->complete) {
		// No event will tell that it is over: let it be retired and looked for again.
		if (process->exit_ns == 0 && process->counted_losses == UINT64_MAX &&
		    !fp_process_newest(process)->set->complete)
			fp_process_end(table, process, record->time_ns);
		return -ESRCH;
	}
	if (!generation->exec_id_known && tells_program(record))
		learn_program(process, generation, record->exec_id);
	return view_generation(table, process, generation, record->time_ns, ret);
}

int fp_process_table_view_now(struct fp_process_table *table, uint32_t tgid, uint64_t start_ns,
			      uint32_t exec_id, struct fp_process_view *ret)
{
	struct fp_process *process = fp_process_get(table, tgid);
	const struct fp_generation *newest;

	while (process && start_ns && process->start_ns != start_ns)
		process = process->older;
	if (!process || process->exit_ns != 0 || process->overgrown ||
	    !fp_process_is_sure(table, process))
		return -ESRCH;
	newest = fp_process_newest(process);
	if (!newest->set->complete || newest->set->failed ||
	    (exec_id && (!newest->exec_id_known || newest->exec_id != exec_id)))
		return -ESRCH;
	return view_generation(table, process, newest, UINT64_MAX, ret);
}

int fp_process_table_view(struct fp_process_table *table, const struct fp_stack_record *record,
			  struct fp_process_view *ret)
{
	struct fp_process *process = find(table, record);
	int r;

	if (!process)
		process = add_unseen(table, record);
	if (!process)
		return -ENOMEM;
	process->start_ns = record->start_ns;
	process->start_ticks = fp_procfs_start_ticks(record->start_boottime_ns);
	fp_process_want(table, process);
	table->in_use = process;
	r = prepare(table, process, record);
	if (r == 0)
		r = view(table, process, record, ret);
	fp_process_enforce_limits(table);
	table->in_use = NULL;
	return r;
}

int fp_process_table_preload(struct fp_process_table *table, uint32_t tgid)
{
	struct fp_process *process = fp_process_current(table, tgid);
	struct fp_mapset *set;
	int r;

	if (!process) {
		set = fp_mapset_new(&table->pool, tgid);
		process = set ? fp_process_add(table, tgid, set) : NULL;
		if (!process)
			return -ENOMEM;
		fp_process_newest(process)->from_ns = table->whole_since_ns;
		process->seen_ns = fp_procfs_monotonic_ns();
	}
	set = fp_process_newest(process)->set;
	if (set->complete)
		return 0;
	table->in_use = process;
	r = set->failed ? -ESRCH : fp_process_fill(table, process, 0, set);
	table->in_use = NULL;
	fp_process_enforce_limits(table);
	return r;
}

const struct fp_mapping *fp_process_view_at(const struct fp_process_view *view, uint64_t address)
{
	uint32_t low = 0, high = view->count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (view->mappings[middle].end > address)
			high = middle;
		else
			low = middle + 1;
	}
	if (low == view->count || view->mappings[low].start > address)
		return NULL;
	return &view->mappings[low];
}
