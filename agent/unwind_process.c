// SPDX-License-Identifier: Apache-2.0
//
// Processes and their ranges. Whenever a process's code mappings or the tables of its builds
// change, its entries in the map are written anew under a new version. Versions that hold no longer
// are remembered until the last record that was walked by them has arrived.
#include "unwind_private.h"

#include "common/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#define PAST_NS		 (10 * FP_NS_PER_S) // a record waits in its ring for a second at most
#define PAST_BYTES_MAX	 ((uint64_t)2 << 20)
#define LOOK_INTERVAL_NS (100 * FP_NS_PER_MS) // at a process that has files not identified yet

static uint64_t bytes_of(const struct fp_unwind_version *version)
{
	return sizeof(*version) + version->count * sizeof(version->areas[0]);
}

void fp_unwind_version_free(struct fp_unwind *unwind, struct fp_unwind_version *version)
{
	if (!version)
		return;
	for (uint32_t i = 0; i < version->count; i++)
		if (version->areas[i].build != FP_UNWIND_NO_BUILD)
			fp_unwind_demand_give(unwind->demand, version->areas[i].build);
	if (version->number) {
		fp_hashmap_remove(&unwind->versions, &version->number);
		unwind->version_bytes -= bytes_of(version);
	}
	free(version);
}

const struct fp_unwind_version *fp_unwind_version_of(struct fp_unwind *unwind, uint32_t number)
{
	struct fp_unwind_version **slot = fp_hashmap_get(&unwind->versions, &number);

	return slot ? *slot : NULL;
}

static void forget_oldest(struct fp_unwind *unwind)
{
	struct fp_unwind_version *oldest = STAILQ_FIRST(&unwind->past);

	STAILQ_REMOVE_HEAD(&unwind->past, later);
	unwind->past_bytes -= bytes_of(oldest);
	fp_unwind_version_free(unwind, oldest);
}

void fp_unwind_versions_expire(struct fp_unwind *unwind, uint64_t now_ns)
{
	const struct fp_unwind_version *oldest;

	while ((oldest = STAILQ_FIRST(&unwind->past)) &&
	       (oldest->until_ns + PAST_NS < now_ns || unwind->past_bytes > PAST_BYTES_MAX))
		forget_oldest(unwind);
}

static void supersede(struct fp_unwind *unwind, struct fp_unwind_version *version)
{
	if (!version)
		return;
	version->until_ns = fp_monotonic_ns();
	STAILQ_INSERT_TAIL(&unwind->past, version, later);
	unwind->past_bytes += bytes_of(version);
}

struct fp_unwind_process *fp_unwind_process_of(struct fp_unwind *unwind, uint32_t tgid)
{
	struct fp_unwind_process **slot = fp_hashmap_get(&unwind->processes, &tgid);

	return slot ? *slot : NULL;
}

static void drop_parts(struct fp_unwind *unwind, struct fp_unwind_process *process, uint32_t left)
{
	for (uint32_t part = left; part < process->parts; part++)
		fp_unwind_maps_drop(unwind, process->tgid, part);
	if (process->parts > left) {
		unwind->parts -= process->parts - left;
		process->parts = left;
	}
}

static void unlist(struct fp_unwind *unwind, struct fp_unwind_process *process)
{
	if (process->changed)
		TAILQ_REMOVE(&unwind->changes, process, changes);
	process->changed = false;
}

void fp_unwind_process_remove(struct fp_unwind *unwind, struct fp_unwind_process *process)
{
	drop_parts(unwind, process, 0);
	supersede(unwind, process->version);
	unlist(unwind, process);
	TAILQ_REMOVE(&unwind->by_use, process, by_use);
	fp_hashmap_remove(&unwind->processes, &process->tgid);
	free(process);
}

// The least recently seen in stacks.
static bool evict_one(struct fp_unwind *unwind, const struct fp_unwind_process *but)
{
	struct fp_unwind_process *victim = TAILQ_LAST(&unwind->by_use, fp_unwind_process_list);

	if (victim == but)
		victim = TAILQ_PREV(victim, fp_unwind_process_list, by_use);
	if (!victim)
		return false;
	fp_unwind_process_remove(unwind, victim);
	unwind->stats.processes_evicted++;
	return true;
}

static int add(struct fp_unwind_source *source, uint32_t tgid, uint64_t time_ns,
	       struct fp_unwind_process **ret)
{
	struct fp_unwind *unwind = source->unwind;
	struct fp_unwind_process *process = calloc(1, sizeof(*process)), **slot;

	if (!process)
		return -ENOMEM;
	while (unwind->processes.count >= FP_UNWIND_RANGES_ENTRIES && evict_one(unwind, NULL))
		;
	slot = fp_hashmap_put(&unwind->processes, &tgid, NULL);
	if (!slot) {
		free(process);
		return -ENOMEM;
	}
	*slot = process;
	process->tgid = tgid;
	process->since_ns = time_ns;
	process->source = source;
	*ret = process;
	return 0;
}

int fp_unwind_process_add(struct fp_unwind_source *source, const struct fp_stack_record *record,
			  struct fp_unwind_process **ret)
{
	int r = add(source, record->tgid, record->time_ns, ret);

	if (r < 0)
		return r;
	(*ret)->exec_id = record->exec_id;
	(*ret)->start_ns = record->start_ns;
	(*ret)->start_boottime_ns = record->start_boottime_ns;
	TAILQ_INSERT_HEAD(&source->unwind->by_use, *ret, by_use);
	return 0;
}

int fp_unwind_process_begin(struct fp_unwind_source *source, uint32_t tgid, uint64_t time_ns)
{
	struct fp_unwind_process *process;
	int r = add(source, tgid, time_ns, &process);

	if (r < 0)
		return r;
	TAILQ_INSERT_TAIL(&source->unwind->by_use, process, by_use);
	fp_unwind_process_changed(source->unwind, process);
	return 0;
}

void fp_unwind_process_touch(struct fp_unwind *unwind, struct fp_unwind_process *process)
{
	if (TAILQ_FIRST(&unwind->by_use) == process)
		return;
	TAILQ_REMOVE(&unwind->by_use, process, by_use);
	TAILQ_INSERT_HEAD(&unwind->by_use, process, by_use);
}

void fp_unwind_process_changed(struct fp_unwind *unwind, struct fp_unwind_process *process)
{
	if (process->changed)
		return;
	process->changed = true;
	TAILQ_INSERT_TAIL(&unwind->changes, process, changes);
}

static bool locate(uint32_t number, struct fp_unwind_located *ret, void *context)
{
	struct fp_unwind *unwind = context;
	const struct fp_unwind_build *build = fp_unwind_demand_at(unwind->demand, number);

	if (build->state != FP_UNWIND_LOADED)
		return false;
	*ret = (struct fp_unwind_located){ .page = build->place.page,
					   .pages = build->place.pages,
					   .file_page = build->place.file_page,
					   .tag = build->place.tag,
					   .heat = (uint64_t)(build->heat * 16) };
	return true;
}

static bool same_areas(const struct fp_unwind_version *a, const struct fp_unwind_version *b)
{
	if (a->count != b->count)
		return false;
	for (uint32_t i = 0; i < a->count; i++) {
		const struct fp_unwind_area *x = &a->areas[i], *y = &b->areas[i];

		if (x->start != y->start || x->end != y->end || x->offset != y->offset ||
		    x->file != y->file || x->build != y->build || x->by_table != y->by_table)
			return false;
	}
	return true;
}

// A part that is not of the head's version finds nothing, so it does not matter which comes first.
static int put_parts(struct fp_unwind *unwind, struct fp_unwind_process *process,
		     const struct fp_unwind_version *version)
{
	uint32_t parts = fp_unwind_ranges_parts(version->ranges);
	const struct fp_unwind_program program = { .start_boottime_ns = process->start_boottime_ns,
						   .exec_id = process->exec_id,
						   .version = version->number };

	while (unwind->parts - process->parts + parts > FP_UNWIND_RANGES_ENTRIES &&
	       evict_one(unwind, process))
		;
	drop_parts(unwind, process, parts);
	for (uint32_t part = 0; part < parts; part++) {
		struct fp_unwind_ranges entry;
		int r;

		fp_unwind_ranges_part(&program, unwind->ranges, version->ranges, part, &entry);
		r = fp_unwind_maps_put(unwind, process->tgid, part, &entry);
		if (r < 0)
			return r;
		if (part >= process->parts) {
			process->parts = part + 1;
			unwind->parts++;
		}
	}
	return 0;
}

static int number_version(struct fp_unwind *unwind, struct fp_unwind_version *version)
{
	struct fp_unwind_version **slot;

	do
		unwind->last_version++;
	while (unwind->last_version == 0 || unwind->last_version == FP_UNWIND_BY_FILE ||
	       fp_unwind_version_of(unwind, unwind->last_version));
	slot = fp_hashmap_put(&unwind->versions, &unwind->last_version, NULL);
	if (!slot)
		return -ENOMEM;
	*slot = version;
	version->number = unwind->last_version;
	unwind->version_bytes += bytes_of(version);
	return 0;
}

// A program that has just begun is of no interest as long as none of its code has a table.
static bool is_to_be_put(const struct fp_unwind_process *process,
			 const struct fp_unwind_version *version)
{
	return version->ranges || !fp_unwind_process_is_new(process);
}

static void put(struct fp_unwind *unwind, struct fp_unwind_process *process)
{
	int r = 0;

	if (is_to_be_put(process, process->version))
		r = put_parts(unwind, process, process->version);
	else
		drop_parts(unwind, process, 0);
	if (r < 0) { // no room in the map: it goes on without
		drop_parts(unwind, process, 0);
		unwind->stats.ranges_failed++;
	}
}

// Takes over the version, whose areas are complete.
static int write_version(struct fp_unwind *unwind, struct fp_unwind_process *process,
			 struct fp_unwind_version *version)
{
	struct fp_unwind_version *old = process->version;
	int count =
	    fp_unwind_ranges_make(version->areas, version->count, locate, unwind, unwind->ranges);
	int r = count < 0 ? count : 0;

	version->ranges = count < 0 ? 0 : (uint32_t)count;
	version->ranges_hash =
	    XXH3_64bits(unwind->ranges, version->ranges * sizeof(unwind->ranges[0]));
	if (r == 0 && old && process->parts && old->ranges_hash == version->ranges_hash &&
	    same_areas(old, version)) {
		old->source = version->source;
		old->stamp = version->stamp;
		fp_unwind_version_free(unwind, version);
		return 0;
	}
	if (r == 0)
		r = number_version(unwind, version);
	if (r < 0) {
		fp_unwind_version_free(unwind, version);
		return r;
	}
	process->version = version;
	supersede(unwind, old);
	unwind->stats.versions++;
	put(unwind, process);
	return 0;
}

int fp_unwind_process_met(struct fp_unwind *unwind, struct fp_unwind_process *process,
			  const struct fp_stack_record *record)
{
	int count;

	process->exec_id = record->exec_id;
	process->start_ns = record->start_ns;
	process->start_boottime_ns = record->start_boottime_ns;
	if (!process->version)
		return 0;
	count = fp_unwind_ranges_make(process->version->areas, process->version->count, locate,
				      unwind, unwind->ranges);
	if (count >= 0) // the same ranges as before, of the program that is now known
		put(unwind, process);
	return count < 0 ? count : 0;
}

int fp_unwind_process_look(struct fp_unwind *unwind, struct fp_unwind_process *process)
{
	struct fp_unwind_version *version;
	struct fp_process_view view;
	int r;

	unlist(unwind, process);
	if (!process->source)
		return 0;
	r = fp_process_table_view_now(process->source->processes, process->tgid, process->start_ns,
				      process->exec_id, &view);
	if (r < 0)
		return r == -ESRCH ? 0 : r;
	r = fp_unwind_areas(unwind, process->tgid, &view, &version, &process->unidentified);
	if (r < 0)
		return r;
	process->looked_ns = fp_monotonic_ns();
	version->source = process->source;
	return write_version(unwind, process, version);
}

bool fp_unwind_process_is_stale(const struct fp_unwind_process *process, uint64_t stamp)
{
	if (process->changed || !process->version || process->version->stamp != stamp)
		return true;
	return process->unidentified && process->looked_ns + LOOK_INTERVAL_NS < fp_monotonic_ns();
}

static struct fp_unwind_process *first_changed(const struct fp_unwind_source *source)
{
	struct fp_unwind_process *process;

	TAILQ_FOREACH(process, &source->unwind->changes, changes)
	if (process->source == source)
		return process;
	return NULL;
}

void fp_unwind_processes_look(struct fp_unwind_source *source)
{
	struct fp_unwind_process *process;

	// One that fails goes on as before, and is looked at when its next stack comes.
	while ((process = first_changed(source)))
		(void)fp_unwind_process_look(source->unwind, process);
}

static bool has_build(const struct fp_unwind_process *process, uint32_t build)
{
	const struct fp_unwind_version *version = process->version;

	for (uint32_t i = 0; version && i < version->count; i++)
		if (version->areas[i].build == build)
			return true;
	return false;
}

// The same areas, whose builds have other tables by now.
static int write_again(struct fp_unwind *unwind, struct fp_unwind_process *process)
{
	const struct fp_unwind_version *old = process->version;
	struct fp_unwind_version *version = malloc(bytes_of(old));

	if (!version)
		return -ENOMEM;
	memcpy(version, old, bytes_of(old));
	version->number = 0;
	for (uint32_t i = 0; i < version->count; i++)
		if (version->areas[i].build != FP_UNWIND_NO_BUILD)
			fp_unwind_demand_ref(unwind->demand, version->areas[i].build);
	return write_version(unwind, process, version);
}

void fp_unwind_processes_write(struct fp_unwind *unwind, uint32_t build)
{
	struct fp_unwind_process *process;

	// Writing may evict others, from the end.
	TAILQ_FOREACH(process, &unwind->by_use, by_use)
	if (has_build(process, build) && write_again(unwind, process) < 0)
		drop_parts(unwind, process, 0);
}

void fp_unwind_processes_forget(struct fp_unwind *unwind, uint32_t build)
{
	struct fp_unwind_process *process;

	TAILQ_FOREACH(process, &unwind->by_use, by_use)
	if (has_build(process, build))
		fp_unwind_process_changed(unwind, process);
}
