// SPDX-License-Identifier: Apache-2.0
#include "unwind_private.h"

#include "common/clock.h"
#include "epochmaps.h"
#include "procfs.h"

#include <errno.h>
#include <string.h>

#define UNTRUSTED_NS (600 * FP_NS_PER_S) // until a file is looked for that only root can write
#define BOOKS_GROW   ((uint64_t)512 << 10)
#define CHUNK_BLOCKS (FP_UNWIND_CHUNK_ROWS / FP_UNWIND_BLOCK_ROWS)

static uint64_t book_bytes(const struct fp_unwind *unwind)
{
	struct fp_unwind_pool_stats pool;
	struct fp_unwind_demand_stats demand;

	fp_unwind_pool_stats(unwind->pool, &pool);
	fp_unwind_demand_stats(unwind->demand, &demand);
	return sizeof(*unwind) + pool.book_bytes + demand.book_bytes +
	       fp_hashmap_bytes(&unwind->processes) + fp_hashmap_bytes(&unwind->versions) +
	       fp_unwind_files_bytes(unwind) +
	       unwind->processes.count * sizeof(struct fp_unwind_process) + unwind->version_bytes;
}

// What is left for chunks when everything else has its memory, and books some to grow in until the
// next time.
static void set_bound(struct fp_unwind *unwind)
{
	uint64_t others = fp_unwind_maps_bytes(unwind) + book_bytes(unwind) + BOOKS_GROW;
	uint64_t left = unwind->memory_bytes > others ? unwind->memory_bytes - others : 0;
	uint64_t chunks = left / fp_unwind_chunk_bytes();

	fp_unwind_pool_set_chunks(unwind->pool,
				  chunks < FP_UNWIND_CHUNKS ? (uint32_t)chunks : FP_UNWIND_CHUNKS);
}

void fp_unwind_set_memory(struct fp_unwind *unwind, uint64_t memory_bytes)
{
	unwind->memory_bytes = memory_bytes ? memory_bytes : FP_UNWIND_MEMORY_DEFAULT;
	set_bound(unwind);
}

static int open_parts(struct fp_unwind *unwind)
{
	int r = fp_unwind_maps_open(unwind);

	if (r == 0)
		r = fp_unwind_pool_new(&unwind->memory, 0, &unwind->pool);
	if (r == 0)
		r = fp_unwind_demand_new(&unwind->demand);
	return r;
}

int fp_unwind_open(struct fp_names *names, uint64_t memory_bytes, struct fp_unwind **ret)
{
	struct fp_unwind *unwind FP_CLEANUP(fp_unwind_freep) = calloc(1, sizeof(*unwind));
	int r;

	if (!unwind)
		return -ENOMEM;
	unwind->names = names;
	unwind->maps = (struct fp_unwind_maps){ -1, -1, -1, -1, -1, -1 };
	unwind->chunk_template = -1;
	unwind->asking = FP_UNWIND_NONE;
	unwind->now_ns = fp_monotonic_ns();
	unwind->processes = FP_HASHMAP_INIT(uint32_t, struct fp_unwind_process *);
	unwind->versions = FP_HASHMAP_INIT(uint32_t, struct fp_unwind_version *);
	TAILQ_INIT(&unwind->by_use);
	TAILQ_INIT(&unwind->changes);
	STAILQ_INIT(&unwind->past);
	fp_unwind_files_init(unwind);
	r = open_parts(unwind);
	if (r < 0)
		return r;
	fp_unwind_set_memory(unwind, memory_bytes);
	*ret = fp_take_ptr(unwind);
	return 0;
}

void fp_unwind_free(struct fp_unwind *unwind)
{
	struct fp_unwind_process *process;

	if (!unwind)
		return;
	if (unwind->asking != FP_UNWIND_NONE)
		fp_names_unwind_cancel(unwind->names);
	while ((process = TAILQ_FIRST(&unwind->by_use)))
		fp_unwind_process_remove(unwind, process);
	fp_unwind_versions_expire(unwind, UINT64_MAX);
	fp_unwind_files_empty(unwind);
	fp_unwind_pool_free(unwind->pool);
	fp_unwind_demand_free(unwind->demand);
	fp_hashmap_free(&unwind->processes);
	fp_hashmap_free(&unwind->versions);
	fp_hashmap_free(&unwind->files);
	fp_unwind_maps_close(unwind);
	free(unwind);
}

const struct fp_unwind_maps *fp_unwind_maps(const struct fp_unwind *unwind)
{
	return &unwind->maps;
}

// ---- tables ----

static uint64_t free_blocks(const struct fp_unwind *unwind)
{
	struct fp_unwind_pool_stats pool;
	uint64_t most;

	fp_unwind_pool_stats(unwind->pool, &pool);
	most = (uint64_t)pool.chunks_max * CHUNK_BLOCKS;
	return pool.blocks < most ? most - pool.blocks : 0;
}

// Rows and pages say how much room a table needs, about: pages share no blocks.
static uint32_t blocks_of(const struct fp_buf *table)
{
	struct fp_unwind_view view;
	uint32_t pages;

	if (fp_unwind_table_check(table->data, table->len, &view) < 0 || view.head->rows < 2)
		return 0;
	pages = (view.offsets[view.head->rows - 1] >> FP_UNWIND_PAGE_BITS) -
		(view.offsets[0] >> FP_UNWIND_PAGE_BITS) + 1;
	return fp_unwind_pool_blocks(view.head->rows, pages);
}

static void enter(struct fp_unwind *unwind, uint32_t build, const struct fp_buf *table)
{
	struct fp_unwind_place place;
	int r = fp_unwind_pool_add(unwind->pool, table->data, table->len, &place);

	if (r < 0) {
		unwind->stats.failed[r == -ENOSPC ? FP_STOP_NO_ROOM : FP_STOP_MALFORMED]++;
		fp_unwind_demand_failed(unwind->demand, build, r, blocks_of(table), unwind->now_ns);
		return;
	}
	unwind->stats.loaded++;
	fp_unwind_demand_loaded(unwind->demand, build, &place, unwind->now_ns);
	fp_unwind_processes_write(unwind, build);
	fp_unwind_files_write(unwind, build);
}

static int ask(struct fp_unwind *unwind, uint32_t number, const struct fp_names_file *file);

// Programs that live for milliseconds are gone when their table is asked for, but mostly still lie
// where they were. Whatever lies there now, the role compares its identity.
static bool ask_by_path(struct fp_unwind *unwind, uint32_t number)
{
	const struct fp_unwind_build *build = fp_unwind_demand_at(unwind->demand, number);
	static const char deleted[] = " (deleted)";
	struct fp_names_file file = { .tgid = 1 };
	char *path FP_AUTOFREE = build->file.name ? strdup(build->file.name) : NULL;
	size_t size = path ? strlen(path) : 0;

	if (!path || path[0] != '/' || build->key.inode)
		return false;
	if (size > strlen(deleted) && strcmp(path + size - strlen(deleted), deleted) == 0)
		path[size - strlen(deleted)] = '\0';
	file.name = path;
	unwind->asking_by_path = true;
	return ask(unwind, number, &file) == 0;
}

static void note_failure(struct fp_unwind *unwind, uint32_t number, int error)
{
	struct fp_unwind_build *build = fp_unwind_demand_at(unwind->demand, number);

	fp_unwind_demand_failed(unwind->demand, number, error, 0, unwind->now_ns);
	if (error == -EPERM) { // others than root can write it: each file for itself
		build->untrusted = true;
		build->retry_ns = unwind->now_ns + UNTRUSTED_NS;
		fp_unwind_processes_forget(unwind, number);
		fp_unwind_files_forget(unwind, number);
	}
	unwind->stats.failed[build->lack]++;
}

static void ask_next(struct fp_unwind *unwind);

static void take_table(const struct fp_build *build, int error, const struct fp_buf *table,
		       void *context)
{
	struct fp_unwind *unwind = context;
	uint32_t number = unwind->asking;

	unwind->asking = FP_UNWIND_NONE;
	unwind->now_ns = fp_monotonic_ns();
	unwind->stats.asked_ns += unwind->now_ns - unwind->asked_ns;
	if (error == -ENOENT && !unwind->asking_by_path && ask_by_path(unwind, number))
		return;
	if (error < 0)
		note_failure(unwind, number, error);
	else
		enter(unwind, number, table);
	ask_next(unwind);
}

static int ask(struct fp_unwind *unwind, uint32_t number, const struct fp_names_file *file)
{
	const struct fp_unwind_build *build = fp_unwind_demand_at(unwind->demand, number);
	struct fp_names_unwind_wish wish = { .file = *file,
					     .build = { .kind = build->key.kind,
							.id_len = build->key.id_len },
					     .root_only = build->key.inode == 0,
					     .done = take_table,
					     .context = unwind };
	int r;

	memcpy(wish.build.id, build->key.id, sizeof(wish.build.id));
	r = fp_names_unwind(unwind->names, &wish);
	if (r == 0) {
		unwind->asking = number;
		unwind->asked_ns = fp_monotonic_ns();
		unwind->stats.asked++;
		fp_unwind_demand_asked(unwind->demand, number);
	}
	return r;
}

static void ask_next(struct fp_unwind *unwind)
{
	while (unwind->asking == FP_UNWIND_NONE) {
		uint32_t build =
		    fp_unwind_demand_next(unwind->demand, free_blocks(unwind), unwind->now_ns);
		int r;

		if (build == FP_UNWIND_NONE)
			return;
		unwind->asking_by_path = false;
		r = ask(unwind, build, &fp_unwind_demand_at(unwind->demand, build)->file);
		if (r == -EBUSY)
			return;
		if (r < 0)
			fp_unwind_demand_failed(unwind->demand, build, -ENOENT, 0, unwind->now_ns);
	}
}

// ---- room ----

static void evict(struct fp_unwind *unwind, uint32_t build)
{
	struct fp_unwind_place place;

	fp_unwind_demand_evicted(unwind->demand, build, unwind->now_ns, &place);
	fp_unwind_pool_remove(unwind->pool, &place);
	fp_unwind_processes_write(unwind, build); // nobody carries its tag any more
	fp_unwind_files_write(unwind, build);
	unwind->stats.evicted++;
}

void fp_unwind_make_room(struct fp_unwind *unwind)
{
	uint32_t victims[FP_UNWIND_VICTIMS_MAX], count;
	struct fp_unwind_pool_stats pool;
	uint64_t most, excess;

	unwind->now_ns = fp_monotonic_ns();
	fp_unwind_demand_cool(unwind->demand, unwind->now_ns);
	set_bound(unwind);
	fp_unwind_pool_stats(unwind->pool, &pool);
	most = (uint64_t)pool.chunks_max * CHUNK_BLOCKS;
	excess = pool.blocks > most ? pool.blocks - most : 0;
	if (!excess && !fp_unwind_pool_compact(unwind->pool))
		excess = CHUNK_BLOCKS;
	count =
	    fp_unwind_demand_victims(unwind->demand, most > pool.blocks ? most - pool.blocks : 0,
				     excess, unwind->now_ns, victims);
	for (uint32_t i = 0; i < count; i++)
		evict(unwind, victims[i]);
}

void fp_unwind_empty(struct fp_unwind *unwind)
{
	struct fp_unwind_process *process;

	while ((process = TAILQ_FIRST(&unwind->by_use)))
		fp_unwind_process_remove(unwind, process);
	fp_unwind_files_empty(unwind);
	for (uint32_t i = 0; i < fp_unwind_demand_count(unwind->demand); i++)
		if (fp_unwind_demand_at(unwind->demand, i)->state == FP_UNWIND_LOADED)
			evict(unwind, i);
	if (fp_epoch_settle() == 0)
		fp_unwind_take_room(unwind);
}

void fp_unwind_take_room(struct fp_unwind *unwind)
{
	fp_unwind_pool_grace(unwind->pool);
}

// ---- what a session tells ----

void fp_unwind_source_end(struct fp_unwind_source *source)
{
	struct fp_unwind_process *process;
	struct fp_unwind_version *version;
	size_t position = 0;
	const void *key;
	void *value;

	if (!source->unwind)
		return;
	TAILQ_FOREACH(process, &source->unwind->by_use, by_use)
	if (process->source == source)
		process->source = NULL;
	while (fp_hashmap_next(&source->unwind->versions, &position, &key, &value)) {
		memcpy(&version, value, sizeof(version));
		if (version->source == source)
			version->source = NULL;
	}
}

void fp_unwind_event(struct fp_unwind_source *source, const struct fp_event *event)
{
	struct fp_unwind *unwind = source->unwind;
	struct fp_unwind_process *process;

	if (!unwind || event->kind == FP_EVENT_COMM || event->kind == FP_EVENT_FORK)
		return;
	if (source->tgid && source->tgid != event->tgid)
		return;
	process = fp_unwind_process_of(unwind, event->tgid);
	if (process && process->since_ns >= event->time_ns)
		return; // it is about the program before, or another session has told it already
	if (event->kind == FP_EVENT_MMAP) {
		if (process && process->source == source)
			fp_unwind_process_changed(unwind, process);
		return;
	}
	if (event->kind == FP_EVENT_EXIT && fp_process_table_runs(source->processes, event->tgid))
		return; // other threads go on
	if (process)
		fp_unwind_process_remove(unwind, process);
	if (event->kind == FP_EVENT_EXEC) // without, it is met with its first stack
		(void)fp_unwind_process_begin(source, event->tgid, event->time_ns);
}

bool fp_unwind_preloading(const struct fp_unwind_source *source)
{
	struct fp_unwind_demand *demand = source->unwind->demand;

	for (uint32_t i = 0; i < fp_unwind_demand_count(demand); i++) {
		const struct fp_unwind_build *build = fp_unwind_demand_at(demand, i);

		if (build->used && build->preload && build->state != FP_UNWIND_LOADED &&
		    build->lack == FP_STOP_NOT_LOADED)
			return true;
	}
	return false;
}

void fp_unwind_turn(struct fp_unwind_source *source, uint64_t sure_ns)
{
	struct fp_unwind *unwind = source->unwind;

	if (!unwind)
		return;
	unwind->now_ns = fp_monotonic_ns();
	fp_unwind_processes_look(source);
	fp_unwind_files_meet(source, sure_ns);
	fp_unwind_versions_expire(unwind, unwind->now_ns);
	ask_next(unwind);
}

bool fp_unwind_preload(struct fp_unwind_source *source, uint32_t tgid)
{
	struct fp_unwind *unwind = source->unwind;
	struct fp_unwind_version *areas = NULL;
	struct fp_unwind_process *process;
	struct fp_process_view view;
	bool pending;

	if (!unwind || fp_process_table_view_now(source->processes, tgid, 0, 0, &view) < 0 ||
	    fp_unwind_areas(unwind, tgid, &view, &areas, &pending) < 0)
		return false;
	for (uint32_t i = 0; i < areas->count; i++)
		if (areas->areas[i].build != FP_UNWIND_NO_BUILD)
			fp_unwind_demand_at(unwind->demand, areas->areas[i].build)->preload = true;
	fp_unwind_version_free(unwind, areas);
	unwind->now_ns = fp_monotonic_ns();
	process = fp_unwind_process_of(unwind, tgid);
	if (process)
		fp_unwind_process_changed(unwind, process);
	else
		(void)fp_unwind_process_begin(source, tgid, fp_procfs_monotonic_ns());
	fp_unwind_turn(source, 0);
	return pending;
}

// ---- books ----

void fp_unwind_stats(const struct fp_unwind *unwind, struct fp_unwind_stats *ret)
{
	struct fp_unwind_demand_stats demand;
	struct fp_unwind_pool_stats pool;

	fp_unwind_demand_stats(unwind->demand, &demand);
	fp_unwind_pool_stats(unwind->pool, &pool);
	*ret = unwind->stats;
	ret->bytes_max = unwind->memory_bytes;
	ret->bytes = fp_unwind_maps_bytes(unwind) + book_bytes(unwind) +
		     pool.chunks * fp_unwind_chunk_bytes();
	ret->rows = pool.rows;
	ret->tables = pool.tables;
	ret->builds = demand.builds;
	ret->waiting = demand.waiting;
	ret->rules = pool.rules;
	ret->pages = pool.pages;
	ret->processes = (uint32_t)unwind->processes.count;
	ret->ranges = unwind->parts;
	ret->no_room = demand.no_room;
}
