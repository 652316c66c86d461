// SPDX-License-Identifier: Apache-2.0
//
// Files as the kernel knows them, for walks through code that nobody has written ranges for: of a
// program that has begun a moment ago, or that ends before it could be looked at. A program of ours
// that meets a file it does not know notes where (struct fp_unwind_met); what the process had
// mapped there at that time says whose table the file has. From then on every program that has it
// mapped is walked by it from its first instruction.
//
// A file that was written to while a program had it mapped is another one for the next program, and
// still the same for this one, as whose build was read when it was mapped. So only a program is
// believed that has begun after the file changed last.
#include "unwind_private.h"

#include "common/clock.h"
#include "procfs.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <string.h>

#define MET_MAX	   64 // looked at in a turn
#define MET_OLD_NS (10 * FP_NS_PER_S)
// Until a file of which nothing could be found out may be met again.
#define NAMELESS_NS   FP_NS_PER_S
#define CLOCK_STEP_NS (2 * FP_NS_PER_S) // that a file may seem older than it is

struct fp_unwind_known {
	TAILQ_ENTRY(fp_unwind_known) by_age;
	struct fp_unwind_file_key key;
	uint32_t build; // with a reference; FP_UNWIND_NO_BUILD
	uint64_t since_ns;
};

static struct fp_unwind_known_list *list_of(struct fp_unwind *unwind,
					    const struct fp_unwind_known *known)
{
	return known->build == FP_UNWIND_NO_BUILD ? &unwind->nameless : &unwind->known;
}

static void write_file(const struct fp_unwind *unwind, const struct fp_unwind_known *known)
{
	const struct fp_unwind_build *build =
	    known->build == FP_UNWIND_NO_BUILD ? NULL
					       : fp_unwind_demand_at(unwind->demand, known->build);
	struct fp_unwind_file file = { 0 };

	if (build && build->state == FP_UNWIND_LOADED)
		file = (struct fp_unwind_file){
			.offset = (fp_u64)build->place.file_page << FP_UNWIND_PAGE_BITS,
			.size = (fp_u64)build->place.pages << FP_UNWIND_PAGE_BITS,
			.at = build->place.page << FP_UNWIND_PAGE_BITS,
			.tag = build->place.tag,
		};
	// One that finds no room is noted and found again.
	(void)bpf_map_update_elem(unwind->maps.files, &known->key, &file, BPF_ANY);
}

static void give(struct fp_unwind *unwind, uint32_t build)
{
	if (build != FP_UNWIND_NO_BUILD)
		fp_unwind_demand_give(unwind->demand, build);
}

static void forget(struct fp_unwind *unwind, struct fp_unwind_known *known)
{
	TAILQ_REMOVE(list_of(unwind, known), known, by_age);
	bpf_map_delete_elem(unwind->maps.files, &known->key);
	fp_hashmap_remove(&unwind->files, &known->key);
	give(unwind, known->build);
	free(known);
}

// Those met longest ago: one that is still in use is met again.
static void make_room(struct fp_unwind *unwind)
{
	struct fp_unwind_known *oldest = TAILQ_FIRST(&unwind->nameless);

	while (oldest && oldest->since_ns + NAMELESS_NS < unwind->now_ns) {
		forget(unwind, oldest);
		oldest = TAILQ_FIRST(&unwind->nameless);
	}
	while (unwind->files.count >= FP_UNWIND_FILES) {
		oldest = TAILQ_FIRST(&unwind->nameless);
		forget(unwind, oldest ? oldest : TAILQ_FIRST(&unwind->known));
	}
}

// Takes over the reference to the build.
static int keep(struct fp_unwind *unwind, const struct fp_unwind_file_key *key, uint32_t build)
{
	struct fp_unwind_known *known, **slot;

	slot = fp_hashmap_get(&unwind->files, key);
	if (slot)
		forget(unwind, *slot);
	make_room(unwind);
	known = calloc(1, sizeof(*known));
	slot = known ? fp_hashmap_put(&unwind->files, key, NULL) : NULL;
	if (!slot) {
		free(known);
		give(unwind, build);
		return -ENOMEM;
	}
	*slot = known;
	known->key = *key;
	known->build = build;
	known->since_ns = unwind->now_ns;
	TAILQ_INSERT_TAIL(list_of(unwind, known), known, by_age);
	write_file(unwind, known);
	return 0;
}

// Whether the file changed last before the program began. The clock of files may have been set
// since, and the monotonic one stands still in suspend.
static bool is_older(const struct fp_unwind_file_key *key, uint64_t began_ns)
{
	uint64_t changed_ns =
	    (key->changed >> 30) * FP_NS_PER_S + (key->changed & ((1U << 30) - 1));
	uint64_t now_ns = fp_procfs_monotonic_ns();
	uint64_t age_ns = (now_ns > began_ns ? now_ns - began_ns : 0) +
			  (fp_boottime_ns() - fp_monotonic_ns()) + CLOCK_STEP_NS;

	return changed_ns + age_ns < fp_realtime_ns();
}

// Whether the area is what the program saw mapped there.
static bool is_as_met(const struct fp_unwind_area *area, const struct fp_unwind_met *met)
{
	return area && met->address - area->start + area->offset == met->offset;
}

// The build whose file it is. *ret_build: FP_UNWIND_NO_BUILD when that cannot be told.
static int find(struct fp_unwind_source *source, const struct fp_unwind_file_key *key,
		const struct fp_unwind_met *met, uint32_t *ret_build)
{
	const struct fp_stack_record record = { .tgid = met->tgid,
						.tid = met->tgid,
						.exec_id = met->exec_id,
						.time_ns = met->time_ns,
						.start_ns = met->start_ns,
						.start_boottime_ns = met->start_boottime_ns };
	struct fp_unwind *unwind = source->unwind;
	struct fp_unwind_version *areas = NULL;
	const struct fp_unwind_area *area;
	struct fp_process_view view;
	bool pending;
	int r = fp_process_table_view(source->processes, &record, &view);

	*ret_build = FP_UNWIND_NO_BUILD;
	if (r == 0 && key->inode &&
	    !is_older(key, view.exec_ns > met->start_ns ? view.exec_ns : met->start_ns))
		return 0;
	if (r == 0)
		r = fp_unwind_areas(unwind, met->tgid, &view, &areas, &pending);
	if (r < 0)
		return r == -ESRCH ? 0 : r;
	area = fp_unwind_area_at(areas->areas, areas->count, met->address);
	if (is_as_met(area, met) && area->build != FP_UNWIND_NO_BUILD) {
		*ret_build = area->build;
		fp_unwind_demand_ref(unwind->demand, area->build);
	}
	fp_unwind_version_free(unwind, areas);
	return 0;
}

// True: the entry is done with. What happened until sure_ns is known of all processes.
static bool meet(struct fp_unwind_source *source, const struct fp_unwind_file_key *key,
		 const struct fp_unwind_met *met, uint64_t sure_ns)
{
	uint32_t build;

	if (met->time_ns + MET_OLD_NS < source->unwind->now_ns)
		return true;
	if (met->time_ns > sure_ns || (source->tgid && source->tgid != met->tgid))
		return false;
	// Without memory it is met again.
	if (find(source, key, met, &build) == 0)
		(void)keep(source->unwind, key, build);
	return true;
}

void fp_unwind_files_meet(struct fp_unwind_source *source, uint64_t sure_ns)
{
	int fd = source->unwind->maps.met;
	struct fp_unwind_file_key key, next;
	struct fp_unwind_met met;
	bool more = bpf_map_get_next_key(fd, NULL, &next) == 0;

	make_room(source->unwind);
	for (int i = 0; more && i < MET_MAX; i++) {
		key = next;
		more = bpf_map_get_next_key(fd, &key, &next) == 0;
		if (bpf_map_lookup_elem(fd, &key, &met) == 0 && meet(source, &key, &met, sure_ns))
			bpf_map_delete_elem(fd, &key);
	}
}

void fp_unwind_files_write(struct fp_unwind *unwind, uint32_t build)
{
	struct fp_unwind_known *known;

	TAILQ_FOREACH(known, &unwind->known, by_age)
	if (known->build == build)
		write_file(unwind, known);
}

void fp_unwind_files_forget(struct fp_unwind *unwind, uint32_t build)
{
	struct fp_unwind_known *known = TAILQ_FIRST(&unwind->known), *next;

	for (; known; known = next) {
		next = TAILQ_NEXT(known, by_age);
		if (known->build == build)
			forget(unwind, known);
	}
}

void fp_unwind_files_forget_tag(struct fp_unwind *unwind, uint16_t tag)
{
	struct fp_unwind_known *known = TAILQ_FIRST(&unwind->known), *next;

	for (; known; known = next) {
		const struct fp_unwind_build *build =
		    fp_unwind_demand_at(unwind->demand, known->build);

		next = TAILQ_NEXT(known, by_age);
		if (build->state == FP_UNWIND_LOADED && build->place.tag == tag)
			forget(unwind, known);
	}
}

void fp_unwind_files_init(struct fp_unwind *unwind)
{
	unwind->files = FP_HASHMAP_INIT(struct fp_unwind_file_key, struct fp_unwind_known *);
	TAILQ_INIT(&unwind->known);
	TAILQ_INIT(&unwind->nameless);
}

void fp_unwind_files_empty(struct fp_unwind *unwind)
{
	while (!TAILQ_EMPTY(&unwind->known))
		forget(unwind, TAILQ_FIRST(&unwind->known));
	while (!TAILQ_EMPTY(&unwind->nameless))
		forget(unwind, TAILQ_FIRST(&unwind->nameless));
}

uint64_t fp_unwind_files_bytes(const struct fp_unwind *unwind)
{
	return fp_hashmap_bytes(&unwind->files) +
	       unwind->files.count * sizeof(struct fp_unwind_known);
}
