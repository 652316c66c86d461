// SPDX-License-Identifier: Apache-2.0
#include "process_table.h"

#include <errno.h>
#include <string.h>

// Beyond this many mappings, and twice what the last reading showed, most are probably gone:
// the kernel tells of new mappings but not of unmapped ones.
#define GROWN_MIN 1024u

// A process that ran before its first event: what it has mapped is not known yet.
static struct fp_process *add_unread(struct fp_process_table *table, uint32_t tgid,
				     uint64_t seen_ns)
{
	struct fp_mapset *set = fp_mapset_new(&table->pool, tgid);
	struct fp_process *process = set ? fp_process_add(table, tgid, set) : NULL;

	if (process) {
		fp_process_newest(process)->from_ns = table->whole_since_ns;
		process->seen_ns = seen_ns;
	}
	return process;
}

static struct fp_process *current_or_unread(struct fp_process_table *table,
					    const struct fp_event *event, uint32_t tgid)
{
	struct fp_process *process = fp_process_current(table, tgid);

	return process ? process : add_unread(table, tgid, event->time_ns);
}

// True when the instance is the one that the event tells the beginning of: it was found in
// /proc, or missed there, before its event was handed in.
static bool found_early(const struct fp_process *process, const struct fp_event *fork)
{
	return process->fork_ns == 0 && process->start_ns <= fork->time_ns &&
	       process->start_ns != 0 && fork->time_ns <= process->seen_ns;
}

static int apply_process_fork(struct fp_process_table *table, const struct fp_event *event)
{
	struct fp_process *parent, *child = fp_process_get(table, event->tgid);
	int r;

	if (child && found_early(child, event)) {
		if (!fp_process_newest(child)->set->failed) {
			child->fork_ns = event->time_ns;
			return 0;
		}
		fp_process_remove(table, child);
		child = NULL;
	}
	if (child && child->exit_ns == 0)
		fp_process_end(table, child, event->time_ns);
	parent = current_or_unread(table, event, event->parent_tgid);
	r = parent ? fp_process_renew(table, parent) : -ENOMEM;
	if (r < 0)
		return r;
	child = fp_process_add(table, event->tgid, fp_mapset_ref(fp_process_newest(parent)->set));
	if (!child)
		return -ENOMEM;
	child->parent_tgid = event->parent_tgid;
	child->fork_ns = child->seen_ns = event->time_ns;
	child->known_losses = parent->known_losses;
	child->overgrown = parent->overgrown;
	child->counted_losses = table->losses;
	child->threads = 1;
	return 0;
}

static int apply_fork(struct fp_process_table *table, const struct fp_event *event)
{
	struct fp_process *process;

	if (event->tid == event->tgid)
		return apply_process_fork(table, event);
	process = fp_process_current(table, event->tgid);
	if (process)
		process->threads++;
	return 0;
}

// A process that was read after this exec, or during it, before the event was handed in, may have been
// read as the new program. So what the old one had stays unknown, unless others share it: for all of
// them the set is to be read again, from one that is still in it, but not if events had told since
// when its mappings are there: a reading would take them to be older. If one of these was what was
// read, it stands. What the new program has, its events tell.
static void drop_early_reading(struct fp_process_table *table, struct fp_process *process,
			       uint64_t time_ns)
{
	struct fp_generation *newest = fp_process_newest(process);
	struct fp_mapset *read = newest->set;
	bool lost = read->refs == 1 || read->newest_ns != 0;

	if (read->read_ns <= time_ns || read->read_tgid != process->tgid)
		return;
	newest->exec_id_known = false;
	if (read->sparse) { // what has been looked up may be of either program
		fp_process_make_sparse(table, read, time_ns);
		return;
	}
	fp_mapset_forget(&table->pool, read);
	read->failed = lost;
}

static int apply_exec(struct fp_process_table *table, const struct fp_event *event)
{
	struct fp_process *process = current_or_unread(table, event, event->tgid);
	struct fp_mapset *set;
	int r;

	if (!process)
		return -ENOMEM;
	if (!fp_process_is_sure(table, process)) {
		r = fp_process_give_up(table, process);
		if (r < 0)
			return r;
	}
	drop_early_reading(table, process, event->time_ns);
	set = fp_mapset_new(&table->pool, event->tgid);
	if (!set)
		return -ENOMEM;
	set->complete = true; // an empty address space; events tell the rest
	set->awaits_executable = true;
	r = fp_process_exec(table, process, event->time_ns, set);
	if (r < 0)
		return r;
	fp_process_touch(table, process);
	process->known_losses = fp_process_losses_at(table, event->time_ns);
	process->overgrown = false;
	// All other threads have exited by now.
	process->threads = 1;
	process->counted_losses = table->losses;
	if (process->exit_ns != 0)
		fp_process_revive(table, process);
	return 0;
}

static int event_file(struct fp_process_table *table, const struct fp_event *event,
		      uint32_t *ret_slot)
{
	struct fp_file file = {
		.kind = fp_file_kind_of(event->name),
		.build_id_len = event->build_id_len,
		.device = (uint64_t)event->major << 32 | event->minor,
		.inode = event->inode,
		.name = (char *)event->name, // copied
	};

	memcpy(file.build_id, event->build_id, sizeof(file.build_id));
	if (file.kind == FP_FILE_REGULAR && file.build_id_len == 0)
		table->stats.mappings_no_build_id++;
	return fp_files_add(&table->pool.files, &file, ret_slot);
}

static int apply_mmap(struct fp_process_table *table, const struct fp_event *event)
{
	struct fp_process *process = current_or_unread(table, event, event->tgid);
	struct fp_mapping mapping = {
		.start = event->start,
		.end = event->start + event->length,
		.page_offset = event->page_offset,
		.from_ns = event->time_ns,
	};
	struct fp_mapset *set;
	int r;

	r = process ? fp_process_renew(table, process) : -ENOMEM;
	if (r < 0)
		return r;
	// What comes late may have been replaced among what was lost.
	if (fp_process_newest(process)->after_loss &&
	    event->time_ns < fp_process_newest(process)->from_ns)
		return 0;
	r = fp_process_unshare(table, process);
	if (r < 0)
		return r;
	set = fp_process_newest(process)->set;
	fp_process_touch(table, process);
	if (set->live_count >= FP_PROCESS_MAPPINGS_MAX)
		fp_process_make_sparse(table, set, 0);
	r = event_file(table, event, &mapping.file);
	if (r < 0)
		return r;
	if (set->awaits_executable &&
	    table->pool.files.files[mapping.file].kind == FP_FILE_REGULAR) {
		set->awaits_executable = false;
		fp_files_unref(&table->pool.files, set->executable); // of a name alone
		set->executable = mapping.file;
		fp_files_ref(&table->pool.files, mapping.file);
	}
	r = fp_mapset_insert(&table->pool, set, &mapping);
	if (set->complete && !set->sparse && set->live_count > 2 * set->read_count + GROWN_MIN)
		process->overgrown = true;
	return r;
}

static int apply_exit(struct fp_process_table *table, const struct fp_event *event)
{
	struct fp_process *process = fp_process_current(table, event->tgid);

	if (!process)
		return 0;
	if (process->counted_losses == table->losses) {
		if (process->threads > 1) {
			process->threads--;
			return 0;
		}
	} else if (event->tid != event->tgid && process->exit_ns == 0) {
		return 0;
	}
	// Threads that nobody counted may outlive their leader: each exit moves the end.
	fp_process_end(table, process, event->time_ns);
	return 0;
}

int fp_process_table_event(struct fp_process_table *table, const struct fp_event *event)
{
	int r = 0;

	table->stats.events++;
	switch (event->kind) {
	case FP_EVENT_FORK:
		r = apply_fork(table, event);
		break;
	case FP_EVENT_EXEC:
		r = apply_exec(table, event);
		break;
	case FP_EVENT_MMAP:
		r = apply_mmap(table, event);
		break;
	case FP_EVENT_EXIT:
		r = apply_exit(table, event);
		break;
	case FP_EVENT_COMM: // stack records carry their thread's name
		break;
	}
	fp_process_enforce_limits(table);
	return r;
}
