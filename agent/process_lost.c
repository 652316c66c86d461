// SPDX-License-Identifier: Apache-2.0
//
// What is no longer known once the kernel lost events. Between the time that the table was settled
// before a loss and the one that it was settled at afterwards, anything may have been mapped,
// unmapped or executed unseen, also what is found there again: a library that was replaced and came
// back. Nor does what was known before hold after it, since of unmapping there are no events. So a
// process has a gap: its generation ends with the loss, and one that knows nothing begins when
// events are whole again. That is read from /proc, while the process runs, or stays unknown.
#include "process_table.h"

#include <errno.h>

void fp_process_table_lost(struct fp_process_table *table)
{
	table->loss_since_ns[table->losses % FP_LOSSES_KNOWN] = table->settled_ns;
	table->losses++;
}

// A loss is reported with a record from after it, so it was over when all until then was handed in.
// While a ring is full that time does not advance: more may be missing.
void fp_process_table_settle(struct fp_process_table *table, uint64_t time_ns)
{
	if (time_ns > table->settled_ns && table->losses_over != table->losses) {
		table->losses_over = table->losses;
		table->whole_since_ns = time_ns;
	}
	table->settled_ns = time_ns;
}

uint64_t fp_process_losses_at(const struct fp_process_table *table, uint64_t time_ns)
{
	bool before = table->losses_over > 0 && time_ns < table->whole_since_ns;

	return before ? table->losses_over - 1 : table->losses_over;
}

static uint64_t loss_began(const struct fp_process_table *table, uint64_t loss)
{
	if (table->losses - loss > FP_LOSSES_KNOWN)
		return 0;
	return table->loss_since_ns[loss % FP_LOSSES_KNOWN];
}

// A reading from after the loss began may show what came with it, and says nothing of before.
static uint64_t reliable_until(const struct fp_generation *generation, uint64_t loss_ns)
{
	const struct fp_mapset *set = generation->set;
	uint64_t read_since_ns = set->sparse ? set->dropped_ns : set->since_ns;

	if (!set->complete || set->read_ns <= loss_ns || read_since_ns >= loss_ns)
		return loss_ns;
	return read_since_ns > generation->from_ns ? read_since_ns : generation->from_ns;
}

// Since when what is known of the process cannot be relied on. A newest generation that was not read
// by now is not to be read any more.
static uint64_t doubtful_since(const struct fp_process_table *table,
			       const struct fp_process *process)
{
	const struct fp_generation *newest = &process->generations[process->count - 1];
	uint64_t loss_ns = loss_began(table, process->known_losses), since_ns = loss_ns;

	if (!newest->set->complete && newest->from_ns < since_ns)
		since_ns = newest->from_ns;
	for (uint32_t i = 0; i < process->count; i++) {
		uint64_t until_ns = reliable_until(&process->generations[i], loss_ns);

		if (until_ns < since_ns)
			since_ns = until_ns;
	}
	return since_ns;
}

bool fp_process_in_doubt(const struct fp_process_table *table, const struct fp_process *process,
			 uint64_t time_ns)
{
	return !fp_process_is_sure(table, process) && time_ns >= doubtful_since(table, process);
}

int fp_process_give_up(struct fp_process_table *table, struct fp_process *process)
{
	uint64_t since_ns = doubtful_since(table, process);
	uint64_t exec_ns = fp_process_newest(process)->exec_ns;
	struct fp_mapset *unknown = fp_mapset_new(&table->pool, process->tgid);
	int r;

	if (!unknown)
		return -ENOMEM;
	unknown->failed = true;
	while (process->count > 0 && fp_process_newest(process)->from_ns >= since_ns)
		fp_mapset_unref(&table->pool, process->generations[--process->count].set);
	// Losses without an end leave one gap.
	if (process->count > 0 && fp_process_newest(process)->set->failed) {
		fp_mapset_unref(&table->pool, unknown);
		return 0;
	}
	r = fp_process_exec(table, process, since_ns, unknown);
	if (r == 0)
		fp_process_newest(process)->exec_ns = exec_ns;
	return r;
}

// What is too large to be held is known by looking it up, from now on as before.
static struct fp_mapset *new_unread(struct fp_process_table *table,
				    const struct fp_process *process)
{
	const struct fp_mapset *last = process->generations[process->count - 1].set;
	struct fp_mapset *set = fp_mapset_new(&table->pool, process->tgid);

	if (set && last->sparse) {
		set->executable = last->executable;
		fp_files_ref(&table->pool.files, set->executable);
		fp_process_make_sparse(table, set, table->whole_since_ns);
	}
	return set;
}

int fp_process_renew(struct fp_process_table *table, struct fp_process *process)
{
	uint64_t exec_ns = fp_process_newest(process)->exec_ns;
	struct fp_mapset *set;
	int r;

	if (fp_process_is_sure(table, process) || table->losses_over != table->losses)
		return 0;
	if (fp_process_newest(process)->set->failed) {
		process->known_losses = table->losses; // of nothing
		return 0;
	}
	set = new_unread(table, process);
	if (!set)
		return -ENOMEM;
	r = fp_process_give_up(table, process);
	if (r < 0) {
		fp_mapset_unref(&table->pool, set);
		return r;
	}
	r = fp_process_exec(table, process, table->whole_since_ns, set);
	if (r < 0)
		return r;
	fp_process_newest(process)->exec_ns = exec_ns;
	fp_process_newest(process)->after_loss = true;
	process->known_losses = table->losses;
	process->overgrown = false;
	return 0;
}
