// SPDX-License-Identifier: Apache-2.0
#include "mapset.h"

#include <errno.h>
#include <string.h>

// Per set, between two prunes. A program that maps and unmaps code in a loop would
// otherwise fill the table with its own past; the oldest half goes first.
#define SUPERSEDED_MAX 8192u

struct fp_mapset *fp_mapset_new(struct fp_mapset_pool *pool, uint32_t owner_tgid)
{
	struct fp_mapset *set = calloc(1, sizeof(*set));

	if (!set)
		return NULL;
	set->refs = 1;
	set->owner_tgid = owner_tgid;
	set->executable = FP_FILES_NONE;
	pool->bytes += sizeof(*set);
	return set;
}

static void old_drop(struct fp_mapset_pool *pool, struct fp_mapset *set, uint32_t count)
{
	if (count == 0)
		return;
	for (uint32_t i = 0; i < count; i++)
		fp_files_unref(&pool->files, set->old[i].mapping.file);
	set->old_count -= count;
	pool->mappings -= count;
	memmove(set->old, set->old + count, set->old_count * sizeof(*set->old));
}

void fp_mapset_unref(struct fp_mapset_pool *pool, struct fp_mapset *set)
{
	if (!set || --set->refs > 0)
		return;
	for (uint32_t i = 0; i < set->live_count; i++)
		fp_files_unref(&pool->files, set->live[i].file);
	old_drop(pool, set, set->old_count);
	fp_files_unref(&pool->files, set->executable);
	pool->mappings -= set->live_count;
	pool->bytes -= sizeof(*set) + set->live_capacity * sizeof(*set->live) +
		       set->old_capacity * sizeof(*set->old);
	free(set->live);
	free(set->old);
	free(set);
}

static int live_reserve(struct fp_mapset_pool *pool, struct fp_mapset *set, uint32_t count)
{
	uint32_t capacity = count > 2 * set->live_capacity ? count : 2 * set->live_capacity;
	struct fp_mapping *grown;

	if (count <= set->live_capacity)
		return 0;
	grown = reallocarray(set->live, capacity, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	set->live = grown;
	pool->bytes += (capacity - set->live_capacity) * sizeof(*grown);
	set->live_capacity = capacity;
	return 0;
}

static int old_reserve(struct fp_mapset_pool *pool, struct fp_mapset *set, uint32_t count)
{
	uint32_t capacity = count > 2 * set->old_capacity ? count : 2 * set->old_capacity;
	struct fp_superseded *grown;

	if (count <= set->old_capacity)
		return 0;
	grown = reallocarray(set->old, capacity, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	set->old = grown;
	pool->bytes += (capacity - set->old_capacity) * sizeof(*grown);
	set->old_capacity = capacity;
	return 0;
}

struct fp_mapset *fp_mapset_clone(struct fp_mapset_pool *pool, const struct fp_mapset *set)
{
	struct fp_mapset *clone = fp_mapset_new(pool, set->owner_tgid);

	if (!clone || live_reserve(pool, clone, set->live_count) < 0 ||
	    old_reserve(pool, clone, set->old_count) < 0) {
		fp_mapset_unref(pool, clone);
		return NULL;
	}
	clone->complete = set->complete;
	clone->failed = set->failed;
	clone->awaits_executable = set->awaits_executable;
	clone->executable = set->executable;
	fp_files_ref(&pool->files, set->executable);
	clone->newest_ns = set->newest_ns;
	clone->read_ns = set->read_ns;
	clone->read_count = set->read_count;
	for (uint32_t i = 0; i < set->live_count; i++)
		fp_files_ref(&pool->files, set->live[i].file);
	for (uint32_t i = 0; i < set->old_count; i++)
		fp_files_ref(&pool->files, set->old[i].mapping.file);
	if (set->live_count)
		memcpy(clone->live, set->live, set->live_count * sizeof(*set->live));
	if (set->old_count)
		memcpy(clone->old, set->old, set->old_count * sizeof(*set->old));
	clone->live_count = set->live_count;
	clone->old_count = set->old_count;
	pool->mappings += clone->live_count + clone->old_count;
	return clone;
}

// Index of the first mapping that ends after the address.
static uint32_t first_after(const struct fp_mapping *mappings, uint32_t count, uint64_t address)
{
	uint32_t low = 0;

	while (low < count) {
		uint32_t middle = low + (count - low) / 2;

		if (mappings[middle].end > address)
			count = middle;
		else
			low = middle + 1;
	}
	return low;
}

static struct fp_mapping part(const struct fp_mapping *mapping, uint64_t start, uint64_t end)
{
	struct fp_mapping piece = *mapping;

	piece.start = start > mapping->start ? start : mapping->start;
	piece.end = end < mapping->end ? end : mapping->end;
	piece.page_offset += piece.start - mapping->start;
	return piece;
}

// Takes over one reference to the file. Room has been reserved.
static void old_add(struct fp_mapset_pool *pool, struct fp_mapset *set,
		    const struct fp_mapping *mapping, uint64_t to_ns)
{
	uint32_t at = set->old_count;

	if (mapping->from_ns >= to_ns) { // never valid
		fp_files_unref(&pool->files, mapping->file);
		return;
	}
	while (at > 0 && set->old[at - 1].to_ns > to_ns)
		at--;
	memmove(set->old + at + 1, set->old + at, (set->old_count - at) * sizeof(*set->old));
	set->old[at] = (struct fp_superseded){ *mapping, to_ns };
	set->old_count++;
	pool->mappings++;
}

static int old_make_room(struct fp_mapset_pool *pool, struct fp_mapset *set, uint32_t count)
{
	if (set->old_count + count > SUPERSEDED_MAX)
		old_drop(pool, set, set->old_count - set->old_count / 2);
	return old_reserve(pool, set, set->old_count + count);
}

// The same memory of the same file. A reading of /proc/PID/maps has no build-IDs: there the
// name has to do, and the side that knows a build-ID is the better one.
static bool same_mapping(const struct fp_mapset_pool *pool, const struct fp_mapping *a,
			 const struct fp_mapping *b)
{
	const struct fp_file *file_a = &pool->files.files[a->file];
	const struct fp_file *file_b = &pool->files.files[b->file];

	if (a->start != b->start || a->end != b->end)
		return false;
	if (a->page_offset != b->page_offset && file_a->kind == FP_FILE_REGULAR)
		return false;
	return a->file == b->file ||
	       (file_a->kind == file_b->kind && strcmp(file_a->name, file_b->name) == 0 &&
		(file_a->build_id_len == 0) != (file_b->build_id_len == 0));
}

// Keeps the better of two descriptions of the same file in *kept; the other's reference goes.
static void merge_file(struct fp_mapset_pool *pool, uint32_t *kept, uint32_t other)
{
	if (pool->files.files[*kept].build_id_len == 0 &&
	    pool->files.files[other].build_id_len != 0) {
		uint32_t swap = *kept;

		*kept = other;
		other = swap;
	}
	fp_files_unref(&pool->files, other);
}

// Replaces the live mappings [low, high) by what is left of them beside the new one.
static void replace(struct fp_mapset_pool *pool, struct fp_mapset *set, uint32_t low, uint32_t high,
		    const struct fp_mapping *mapping)
{
	struct fp_mapping pieces[3];
	uint32_t count = 0;

	if (low < high && set->live[low].start < mapping->start) {
		pieces[count] = part(&set->live[low], 0, mapping->start);
		fp_files_ref(&pool->files, pieces[count++].file);
	}
	pieces[count++] = *mapping;
	if (low < high && set->live[high - 1].end > mapping->end) {
		pieces[count] = part(&set->live[high - 1], mapping->end, UINT64_MAX);
		fp_files_ref(&pool->files, pieces[count++].file);
	}
	for (uint32_t i = low; i < high; i++) {
		struct fp_mapping covered = part(&set->live[i], mapping->start, mapping->end);

		old_add(pool, set, &covered, mapping->from_ns);
	}
	memmove(set->live + low + count, set->live + high,
		(set->live_count - high) * sizeof(*set->live));
	memcpy(set->live + low, pieces, count * sizeof(*pieces));
	set->live_count = set->live_count - (high - low) + count;
	pool->mappings = pool->mappings - (high - low) + count;
}

static int insert(struct fp_mapset_pool *pool, struct fp_mapset *set,
		  const struct fp_mapping *mapping)
{
	uint32_t low = first_after(set->live, set->live_count, mapping->start), high = low;
	int r;

	while (high < set->live_count && set->live[high].start < mapping->end)
		high++;
	if (high == low + 1 && same_mapping(pool, &set->live[low], mapping)) {
		merge_file(pool, &set->live[low].file, mapping->file);
		return 0;
	}
	r = old_make_room(pool, set, high - low);
	if (r == 0)
		r = live_reserve(pool, set, set->live_count + 2);
	if (r < 0)
		return r;
	replace(pool, set, low, high, mapping);
	if (set->newest_ns < mapping->from_ns)
		set->newest_ns = mapping->from_ns;
	return 0;
}

int fp_mapset_insert(struct fp_mapset_pool *pool, struct fp_mapset *set,
		     const struct fp_mapping *mapping)
{
	int r = insert(pool, set, mapping);

	if (r < 0)
		fp_files_unref(&pool->files, mapping->file);
	return r;
}

// Carries what is known of a mapping over to its reading, or ends it.
static void carry_over(struct fp_mapset_pool *pool, struct fp_mapset *set,
		       const struct fp_mapping *known, struct fp_mapping *overlapping,
		       uint64_t end_ns)
{
	if (overlapping && same_mapping(pool, known, overlapping)) {
		overlapping->from_ns = known->from_ns;
		merge_file(pool, &overlapping->file, known->file);
		return;
	}
	old_add(pool, set, known, end_ns);
}

int fp_mapset_reconcile(struct fp_mapset_pool *pool, struct fp_mapset *set,
			struct fp_mapping *reading, uint32_t count, uint64_t since_ns,
			uint64_t read_ns)
{
	int r = old_make_room(pool, set, set->live_count);

	if (r == 0)
		r = live_reserve(pool, set, count);
	if (r < 0) {
		for (uint32_t i = 0; i < count; i++)
			fp_files_unref(&pool->files, reading[i].file);
		return r;
	}
	for (uint32_t i = 0; i < count; i++)
		reading[i].from_ns = since_ns;
	for (uint32_t i = 0; i < set->live_count; i++) {
		uint32_t at = first_after(reading, count, set->live[i].start);
		bool overlaps = at < count && reading[at].start < set->live[i].end;

		carry_over(pool, set, &set->live[i], overlaps ? &reading[at] : NULL,
			   overlaps ? since_ns : read_ns);
	}
	if (count)
		memcpy(set->live, reading, count * sizeof(*reading));
	pool->mappings = pool->mappings - set->live_count + count;
	set->live_count = count;
	if (set->newest_ns < since_ns)
		set->newest_ns = since_ns;
	set->complete = true;
	set->read_ns = read_ns;
	set->read_count = count;
	return 0;
}

void fp_mapset_prune(struct fp_mapset_pool *pool, struct fp_mapset *set, uint64_t time_ns)
{
	uint32_t count = 0;

	while (count < set->old_count && set->old[count].to_ns < time_ns)
		count++;
	if (count)
		old_drop(pool, set, count);
}

static int compare_mappings(const void *a, const void *b)
{
	const struct fp_mapping *left = a, *right = b;

	if (left->start != right->start)
		return left->start < right->start ? -1 : 1;
	return left->from_ns < right->from_ns ? -1 : left->from_ns > right->from_ns;
}

// Of two mappings that overlap, the later one holds. They can only overlap where an event
// came late, after what it should have preceded.
static uint32_t without_overlaps(struct fp_mapping *mappings, uint32_t count)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < count; i++) {
		if (kept == 0 || mappings[kept - 1].end <= mappings[i].start)
			mappings[kept++] = mappings[i];
		else if (mappings[kept - 1].from_ns <= mappings[i].from_ns)
			mappings[kept - 1] = mappings[i];
	}
	return kept;
}

static uint32_t collect(const struct fp_mapset *set, uint64_t time_ns, struct fp_mapping *mappings)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < set->live_count; i++)
		if (set->live[i].from_ns <= time_ns)
			mappings[count++] = set->live[i];
	for (uint32_t i = 0; i < set->old_count; i++)
		if (set->old[i].mapping.from_ns <= time_ns && time_ns < set->old[i].to_ns)
			mappings[count++] = set->old[i].mapping;
	qsort(mappings, count, sizeof(*mappings), compare_mappings);
	return without_overlaps(mappings, count);
}

int fp_mapset_at(const struct fp_mapset *set, uint64_t time_ns, struct fp_mapset_scratch *scratch,
		 const struct fp_mapping **ret_mappings, uint32_t *ret_count)
{
	uint32_t most = set->live_count + set->old_count;

	if (set->newest_ns <= time_ns &&
	    (set->old_count == 0 || set->old[set->old_count - 1].to_ns <= time_ns)) {
		*ret_mappings = set->live;
		*ret_count = set->live_count;
		return 0;
	}
	if (most > scratch->capacity) {
		void *grown = reallocarray(scratch->mappings, most, sizeof(*scratch->mappings));

		if (!grown)
			return -ENOMEM;
		scratch->mappings = grown;
		scratch->capacity = most;
	}
	*ret_count = scratch->mappings ? collect(set, time_ns, scratch->mappings) : 0;
	*ret_mappings = scratch->mappings;
	return 0;
}
