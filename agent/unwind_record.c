// SPDX-License-Identifier: Apache-2.0
//
// What stack records tell: which processes and builds are met, where walks stop, and whether a walk
// went by ranges that held when it was taken.
#include "unwind_private.h"

#include <errno.h>

static const uint64_t *user_addresses(const struct fp_stack_record *record)
{
	return (const uint64_t *)record->frames + record->kernel_len;
}

// A return address may stand behind the last byte of its function.
static uint64_t inside_of(const struct fp_stack_record *record, uint32_t index)
{
	return user_addresses(record)[index] - (index > 0);
}

static bool is_of(const struct fp_unwind_process *process, const struct fp_stack_record *record)
{
	return process->start_ns == record->start_ns && process->exec_id == record->exec_id;
}

// Records of several CPUs come a little out of order.
static bool is_older(const struct fp_stack_record *record, const struct fp_unwind_process *process)
{
	if (fp_unwind_process_is_new(process))
		return record->time_ns < process->since_ns;
	if (record->start_ns != process->start_ns)
		return record->start_ns < process->start_ns;
	return (int32_t)(record->exec_id - process->exec_id) < 0;
}

static int find_process(struct fp_unwind_source *source, const struct fp_stack_record *record,
			struct fp_unwind_process **ret)
{
	struct fp_unwind_process *process = fp_unwind_process_of(source->unwind, record->tgid);

	*ret = NULL;
	if (process && is_older(record, process))
		return 0;
	if (process && (is_of(process, record) || fp_unwind_process_is_new(process))) {
		fp_unwind_process_touch(source->unwind, process);
		*ret = process;
		return is_of(process, record)
			   ? 0
			   : fp_unwind_process_met(source->unwind, process, record);
	}
	if (process)
		fp_unwind_process_remove(source->unwind, process);
	return fp_unwind_process_add(source, record, ret);
}

static int bring_up_to_date(struct fp_unwind_source *source, struct fp_unwind_process *process,
			    uint64_t stamp)
{
	if (!process->source)
		process->source = source;
	if (process->source != source || !fp_unwind_process_is_stale(process, stamp))
		return 0;
	return fp_unwind_process_look(source->unwind, process);
}

static void cut(struct fp_unwind *unwind, struct fp_stack_record *record, uint32_t left)
{
	unwind->stats.records_cut++;
	unwind->stats.frames_cut += record->user_len - left;
	record->user_len = (fp_u16)left;
	record->walk_end = FP_WALK_END_STALE;
	record->user_root_gap = UINT64_MAX;
}

static bool is_same_code(const struct fp_unwind_area *then, const struct fp_unwind_area *now,
			 uint64_t address)
{
	return now && then->build != FP_UNWIND_NO_BUILD && then->build == now->build &&
	       address - then->start + then->offset == address - now->start + now->offset;
}

// As fp_unwind_believed, by builds: before 6.11 one session may know of a file what the kernel told
// when it was mapped, and another what /proc says, which is no build-ID.
static int believe_builds(struct fp_unwind *unwind, const struct fp_unwind_version *version,
			  const struct fp_process_view *view, const struct fp_stack_record *record,
			  uint32_t *ret_left)
{
	struct fp_unwind_version *now;
	bool pending;
	int r = fp_unwind_areas(unwind, record->tgid, view, &now, &pending);

	if (r < 0)
		return r;
	for (*ret_left = 0; *ret_left < record->user_len; ++*ret_left) {
		uint64_t inside = inside_of(record, *ret_left);
		const struct fp_unwind_area *area =
		    fp_unwind_area_at(version->areas, version->count, inside);

		if (area && area->by_table &&
		    !is_same_code(area, fp_unwind_area_at(now->areas, now->count, inside), inside))
			break;
	}
	fp_unwind_version_free(unwind, now);
	return 0;
}

// Where the mappings were the same then as when the ranges were made, there is nothing to compare.
static int hold_against(struct fp_unwind_source *source, struct fp_stack_record *record,
			uint64_t stamp)
{
	const struct fp_unwind_version *version;
	struct fp_process_view view;
	uint32_t left;
	bool stale;
	int r;

	if (!record->unwind_version)
		return 0;
	source->unwind->stats.records_by_table += record->by_table > 0;
	if (record->unwind_version == FP_UNWIND_BY_FILE)
		return 0; // what the kernel had mapped just then: see hold_files
	version = fp_unwind_version_of(source->unwind, record->unwind_version);
	if (version && version->source == source && stamp && version->stamp == stamp)
		return 0;
	if (!version) { // it came too late: what it went by is forgotten
		cut(source->unwind, record, 1);
		return 0;
	}
	r = fp_process_table_view(source->processes, record, &view);
	if (r < 0)
		return r == -ESRCH ? 0 : r;
	left = fp_unwind_believed(version->areas, version->count, &view, record, &stale);
	if (!stale)
		return 0;
	r = believe_builds(source->unwind, version, &view, record, &left);
	if (r == 0 && left < record->user_len)
		cut(source->unwind, record, left + 1);
	return r;
}

static bool is_build_of_a_frame(const struct fp_unwind *unwind,
				const struct fp_stack_record *record,
				const struct fp_unwind_version *version, fp_u16 tag)
{
	for (uint32_t i = 0; i < record->user_len; i++) {
		const struct fp_unwind_area *area =
		    fp_unwind_area_at(version->areas, version->count, inside_of(record, i));
		const struct fp_unwind_build *build =
		    area && area->build != FP_UNWIND_NO_BUILD
			? fp_unwind_demand_at(unwind->demand, area->build)
			: NULL;

		if (build && build->state == FP_UNWIND_LOADED && build->place.tag == tag)
			return true;
	}
	return false;
}

// What the kernel says of a file does not always tell it from another: images with fixed times on a
// device that is used again, content that was changed through a shared mapping. So each table
// that was found by a file must be of a build that the process had mapped where the stack
// has a frame; else none of its frames is believed, and the file has to be met anew.
static void hold_files(struct fp_unwind *unwind, struct fp_stack_record *record,
		       const struct fp_unwind_version *version)
{
	for (int i = 0; i < FP_UNWIND_FILE_TAGS && record->file_tags[i]; i++) {
		fp_u16 tag = record->file_tags[i];

		if (version && is_build_of_a_frame(unwind, record, version, tag))
			continue;
		fp_unwind_files_forget_tag(unwind, tag);
		cut(unwind, record, 1);
		return;
	}
}

// The frame pointer register is 0 where a stack begins, and by chance in code that uses it for other
// things: there only a table tells the outermost frame, and this one came too late.
static bool is_by_chance(const struct fp_unwind *unwind, const struct fp_stack_record *record,
			 const struct fp_unwind_version *now)
{
	const struct fp_unwind_area *area;
	const struct fp_unwind_build *build;

	if (record->walk_end != FP_WALK_END_ROOT || record->end_has_table || !now)
		return false;
	area = fp_unwind_area_at(now->areas, now->count, inside_of(record, record->user_len - 1U));
	if (!area || area->build == FP_UNWIND_NO_BUILD)
		return false;
	build = fp_unwind_demand_at(unwind->demand, area->build);
	return build->state == FP_UNWIND_LOADED || build->lack == FP_STOP_NOT_LOADED;
}

// One frame that claims to be the outermost is not believed: see agent/resolve.c.
static bool stopped_short(const struct fp_stack_record *record)
{
	if (record->walk_end == FP_WALK_END_ROOT && record->user_len < 2)
		return true;
	return record->walk_end == FP_WALK_END_BROKEN || record->walk_end == FP_WALK_END_NO_TABLE ||
	       record->walk_end == FP_WALK_END_FAULT;
}

// Why there was no table for the code that the walk stopped in: by what it went by, not by what is
// there now.
static enum fp_stop why_stopped(struct fp_unwind *unwind, const struct fp_stack_record *record,
				const struct fp_unwind_version *now)
{
	const struct fp_unwind_version *then = fp_unwind_version_of(unwind, record->unwind_version);
	uint64_t inside = inside_of(record, record->user_len - 1U);
	const struct fp_unwind_area *area =
	    then ? fp_unwind_area_at(then->areas, then->count, inside) : NULL;
	bool has_ranges = record->unwind_version && record->unwind_version != FP_UNWIND_BY_FILE;
	const struct fp_unwind_build *build;

	if (area && area->by_table)
		return FP_STOP_NO_ENTRY;
	area = now ? fp_unwind_area_at(now->areas, now->count, inside) : NULL;
	if (!area && record->by_table) // the last step led to what is no code of a file
		return FP_STOP_ASTRAY;
	if (!area) // of the program before an exec, mostly
		return has_ranges ? FP_STOP_NONE : FP_STOP_NEW_PROCESS;
	if (area->build == FP_UNWIND_NO_BUILD)
		return FP_STOP_NO_IDENTITY;
	build = fp_unwind_demand_at(unwind->demand, area->build);
	if (build->state != FP_UNWIND_LOADED)
		return build->lack;
	return has_ranges ? FP_STOP_NOT_LOADED : FP_STOP_NEW_PROCESS;
}

static void note_builds(struct fp_unwind *unwind, const struct fp_stack_record *record,
			const struct fp_unwind_version *version)
{
	const struct fp_unwind_area *area = NULL;
	bool stopped = stopped_short(record);

	for (uint32_t i = 0; i < record->user_len; i++) {
		uint64_t inside = inside_of(record, i);

		if (!area || inside < area->start || inside >= area->end)
			area = fp_unwind_area_at(version->areas, version->count, inside);
		if (area && area->build != FP_UNWIND_NO_BUILD)
			fp_unwind_demand_note(unwind->demand, area->build, unwind->stats.records,
					      unwind->now_ns);
	}
	if (stopped && area && area->build != FP_UNWIND_NO_BUILD)
		fp_unwind_demand_stopped(unwind->demand, area->build);
}

struct short_lived { // what a process had mapped that has ended before it could be looked at
	struct fp_unwind *unwind;
	struct fp_unwind_version *version;
};

static void short_lived_end(struct short_lived *process)
{
	fp_unwind_version_free(process->unwind, process->version);
}

// Whether what is known of the process is what the record met.
static bool is_as_of(const struct fp_unwind_process *process, const struct fp_unwind_source *source,
		     uint64_t stamp)
{
	return process && process->version && process->version->source == source && stamp &&
	       process->version->stamp == stamp;
}

// Its builds are wanted all the same: the next program will be one like it.
static int look_back(struct fp_unwind_source *source, const struct fp_stack_record *record,
		     struct short_lived *ret)
{
	struct fp_process_view view;
	bool pending;
	int r = fp_process_table_view(source->processes, record, &view);

	if (r == 0)
		r = fp_unwind_areas(source->unwind, record->tgid, &view, &ret->version, &pending);
	return r == -ESRCH ? 0 : r;
}

int fp_unwind_record(struct fp_unwind_source *source, struct fp_stack_record *record,
		     uint64_t stamp)
{
	struct fp_unwind *unwind = source ? source->unwind : NULL;
	struct short_lived past FP_CLEANUP(short_lived_end) = { .unwind = unwind };
	const struct fp_unwind_version *version;
	struct fp_unwind_process *process;
	int r;

	if (!unwind || record->kernel_thread || record->user_len == 0)
		return 0;
	unwind->stats.records++;
	r = find_process(source, record, &process);
	if (r == 0 && process)
		r = bring_up_to_date(source, process, stamp);
	if (r == 0)
		r = hold_against(source, record, stamp);
	if (r == 0 && !is_as_of(process, source, stamp))
		r = look_back(source, record, &past);
	if (r < 0)
		return r;
	version = past.version ? past.version : process ? process->version : NULL;
	hold_files(unwind, record, version);
	if (is_by_chance(unwind, record, version))
		record->walk_end = FP_WALK_END_NO_TABLE;
	if (stopped_short(record))
		record->stop = (fp_u8)why_stopped(unwind, record, version);
	if (version)
		note_builds(unwind, record, version);
	return 0;
}
