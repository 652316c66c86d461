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
	pool->bytes += sizeof(*set) + 3 * FP_ALLOCATION_BYTES; // two arrays
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
	fp_mapset_forget(pool, set);
	pool->bytes -= sizeof(*set) + 3 * FP_ALLOCATION_BYTES;
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
	clone->sparse = set->sparse;
	clone->has_anon = set->has_anon;
	clone->has_unidentified = set->has_unidentified;
	clone->dropped_ns = set->dropped_ns;
	clone->executable = set->executable;
	fp_files_ref(&pool->files, set->executable);
	clone->newest_ns = set->newest_ns;
	clone->read_ns = set->read_ns;
	clone->read_tgid = set->read_tgid;
	clone->since_ns = set->since_ns;
	clone->read_count = set->read_count;
	clone->stamp = set->stamp;
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

// One file, described twice. A reading of /proc/PID/maps has no build-IDs: there the name has to
// do, and the side that knows a build-ID is the better one. With equal build-IDs the names do
// not matter: a deleted file's has a suffix.
static bool same_file(const struct fp_file *a, const struct fp_file *b)
{
	if (a == b)
		return true;
	if (a->kind != b->kind)
		return false;
	if (a->build_id_len != 0 && b->build_id_len != 0)
		return a->build_id_len == b->build_id_len &&
		       memcmp(a->build_id, b->build_id, a->build_id_len) == 0;
	return a->build_id_len != b->build_id_len && strcmp(a->name, b->name) == 0;
}

// Does the outer mapping show all that the inner one does?
static bool contains(const struct fp_mapset_pool *pool, const struct fp_mapping *outer,
		     const struct fp_mapping *inner)
{
	const struct fp_file *file = &pool->files.files[inner->file];

	if (inner->start < outer->start || inner->end > outer->end ||
	    !same_file(&pool->files.files[outer->file], file))
		return false;
	return file->kind != FP_FILE_REGULAR ||
	       inner->page_offset - outer->page_offset == inner->start - outer->start;
}

static bool same_mapping(const struct fp_mapset_pool *pool, const struct fp_mapping *a,
			 const struct fp_mapping *b)
{
	return a->start == b->start && a->end == b->end && contains(pool, a, b);
}

static void note_file(const struct fp_mapset_pool *pool, struct fp_mapset *set, uint32_t slot)
{
	const struct fp_file *file = &pool->files.files[slot];

	set->has_anon |= fp_file_may_be_jit(file);
	set->has_unidentified |= file->kind == FP_FILE_REGULAR && file->build_id_len == 0;
}

static void changed(struct fp_mapset_pool *pool, struct fp_mapset *set)
{
	set->stamp = ++pool->stamps;
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

// What a reading found is older than an event that is handed in later, but stamped earlier: it
// may be what that event, or one to come, made of the place.
static bool is_guess(const struct fp_mapset *set, const struct fp_mapping *known,
		     const struct fp_mapping *event)
{
	return event->from_ns < set->read_ns &&
	       (known->from_ns == set->since_ns || known->from_ns == set->read_ns);
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

		if (is_guess(set, &covered, mapping))
			fp_files_unref(&pool->files, covered.file);
		else
			old_add(pool, set, &covered, mapping->from_ns);
	}
	memmove(set->live + low + count, set->live + high,
		(set->live_count - high) * sizeof(*set->live));
	memcpy(set->live + low, pieces, count * sizeof(*pieces));
	set->live_count = set->live_count - (high - low) + count;
	pool->mappings = pool->mappings - (high - low) + count;
	changed(pool, set);
}

static void put_again(struct fp_mapset_pool *pool, struct fp_mapset *set, struct fp_mapping *known,
		      const struct fp_mapping *mapping)
{
	uint32_t file = known->file;

	// Memory of no file is made writable and executable again by who compiles into it.
	if (is_guess(set, known, mapping) && known->start == mapping->start &&
	    known->end == mapping->end &&
	    pool->files.files[mapping->file].kind == FP_FILE_REGULAR) {
		known->from_ns = mapping->from_ns;
		if (set->newest_ns < known->from_ns)
			set->newest_ns = known->from_ns;
	}
	merge_file(pool, &known->file, mapping->file);
	if (known->file != file)
		changed(pool, set);
}

static int insert(struct fp_mapset_pool *pool, struct fp_mapset *set,
		  const struct fp_mapping *mapping)
{
	uint32_t low = first_after(set->live, set->live_count, mapping->start), high = low;
	int r;

	while (high < set->live_count && set->live[high].start < mapping->end)
		high++;
	note_file(pool, set, mapping->file);
	// Also a part of it: what a JIT compiler makes writable and executable again.
	if (high == low + 1 && contains(pool, &set->live[low], mapping)) {
		put_again(pool, set, &set->live[low], mapping);
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

// Carries what is known of a mapping over to what the reading has in its place, or ends it.
static void carry_over(struct fp_mapset_pool *pool, struct fp_mapset *set,
		       const struct fp_mapping *known, struct fp_mapping *found, uint32_t count)
{
	uint64_t end_ns = set->read_ns;

	if (count == 1 && same_mapping(pool, known, found)) {
		found->from_ns = known->from_ns;
		merge_file(pool, &found->file, known->file);
		return;
	}
	if (count == 1 && contains(pool, found, known)) {
		end_ns = set->since_ns; // grown
		count = 0;
	}
	for (uint32_t i = 0; i < count; i++) {
		if (!contains(pool, known, &found[i]) && known->from_ns < set->since_ns)
			end_ns = set->since_ns;
		found[i].from_ns = set->read_ns;
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
	set->since_ns = since_ns;
	set->read_ns = read_ns;
	for (uint32_t i = 0; i < count; i++) {
		reading[i].from_ns = since_ns;
		note_file(pool, set, reading[i].file);
	}
	for (uint32_t i = 0; i < set->live_count; i++) {
		uint32_t at = first_after(reading, count, set->live[i].start), end = at;

		while (end < count && reading[end].start < set->live[i].end)
			end++;
		carry_over(pool, set, &set->live[i], reading + at, end - at);
	}
	for (uint32_t i = 0; i < count; i++)
		if (set->newest_ns < reading[i].from_ns)
			set->newest_ns = reading[i].from_ns;
	if (count)
		memcpy(set->live, reading, count * sizeof(*reading));
	pool->mappings = pool->mappings - set->live_count + count;
	set->live_count = count;
	set->complete = true;
	set->read_count = count;
	changed(pool, set);
	return 0;
}

bool fp_mapset_covers(const struct fp_mapset *set, uint64_t address)
{
	uint32_t at = first_after(set->live, set->live_count, address);

	return at < set->live_count && set->live[at].start <= address;
}

void fp_mapset_drop_live(struct fp_mapset_pool *pool, struct fp_mapset *set)
{
	for (uint32_t i = 0; i < set->live_count; i++)
		fp_files_unref(&pool->files, set->live[i].file);
	pool->mappings -= set->live_count;
	pool->bytes -= set->live_capacity * sizeof(*set->live);
	fp_free_ptr(&set->live);
	set->live_count = set->live_capacity = 0;
	changed(pool, set);
}

void fp_mapset_forget(struct fp_mapset_pool *pool, struct fp_mapset *set)
{
	struct fp_mapset unread = { .refs = set->refs,
				    .owner_tgid = set->owner_tgid,
				    .executable = FP_FILES_NONE };

	fp_mapset_drop_live(pool, set);
	old_drop(pool, set, set->old_count);
	pool->bytes -= set->old_capacity * sizeof(*set->old);
	free(set->old);
	fp_files_unref(&pool->files, set->executable);
	*set = unread;
}

int fp_mapset_fill_gap(struct fp_mapset_pool *pool, struct fp_mapset *set, uint64_t address,
		       const struct fp_mapping *mapping)
{
	uint32_t at = first_after(set->live, set->live_count, address);
	uint64_t low = at > 0 ? set->live[at - 1].end : 0;
	uint64_t high = at < set->live_count ? set->live[at].start : UINT64_MAX;
	int r = high <= address ? -EEXIST : live_reserve(pool, set, set->live_count + 1);

	if (r < 0) {
		fp_files_unref(&pool->files, mapping->file);
		return r == -EEXIST ? 0 : r;
	}
	note_file(pool, set, mapping->file);
	memmove(set->live + at + 1, set->live + at, (set->live_count - at) * sizeof(*set->live));
	set->live[at] = part(mapping, low, high);
	set->live_count++;
	pool->mappings++;
	changed(pool, set);
	if (set->newest_ns < mapping->from_ns)
		set->newest_ns = mapping->from_ns;
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
