// SPDX-License-Identifier: Apache-2.0
// Group commit. An append writes its record under the lock and then waits. The first waiter
// becomes the leader: it takes everything written so far, syncs without the lock, enters the
// group into the manifest and wakes the others, one of whom leads the next group. So a batch
// is visible, and known as counted, only once it is on disk.
#include "storestate.h"

#include "common/clock.h"

#include <errno.h>
#include <string.h>

static const struct fp_facts *find_in(const struct fp_append *list, const uint8_t *id)
{
	for (; list; list = list->next)
		if (memcmp(list->facts->id, id, FP_BATCH_ID_LEN) == 0)
			return list->facts;
	return NULL;
}

// The group being synced, else the ones waiting.
static const struct fp_facts *find_pending(const struct fp_store *store, const uint8_t *id)
{
	const struct fp_facts *found = find_in(store->syncing, id);

	return found ? found : find_in(store->waiting, id);
}

// 1 and the verdict when the id is known, 0 when new. A twin that is still being synced is
// waited for, since "duplicate" promises that the batch is safe.
static int check_known(struct fp_store *store, const struct fp_facts *facts,
		       enum fp_store_verdict *ret_verdict)
{
	uint8_t content[FP_HASH_LEN];
	int r;

	while (find_pending(store, facts->id))
		pthread_cond_wait(&store->synced, &store->lock);
	r = fp_manifest_find(&store->manifest, facts->id, content);
	if (r <= 0)
		return r;
	*ret_verdict = memcmp(content, facts->content, FP_HASH_LEN) == 0 ? FP_STORE_DUPLICATE
									 : FP_STORE_CONFLICT;
	return 1;
}

static int write_record(struct fp_store *store, struct fp_facts *facts, const void *bytes,
			size_t size)
{
	struct fp_wal *wal = &store->wal;

	if (wal->fd >= 0 && (wal->offset >= fp_store_segment_bytes(store) ||
			     fp_boottime_ns() - wal->opened_ns >= FP_SEGMENT_AGE_NS)) {
		int r = fp_wal_rotate(wal);

		if (r < 0) {
			fp_wal_abandon(wal);
			return r;
		}
	}
	return fp_wal_append(wal, bytes, (uint32_t)size, facts->received_ns, &facts->position);
}

static struct fp_append *reversed(struct fp_append *list)
{
	struct fp_append *result = NULL;

	while (list) {
		struct fp_append *next = list->next;

		list->next = result;
		result = list;
		list = next;
	}
	return result;
}

static int record_group(struct fp_store *store, struct fp_append *group)
{
	int r = fp_manifest_begin(&store->manifest);

	if (r < 0)
		return r;
	for (struct fp_append *append = group; append && r >= 0; append = append->next)
		r = fp_manifest_add(&store->manifest, append->facts);
	if (r >= 0)
		r = fp_manifest_commit(&store->manifest);
	if (r < 0)
		fp_manifest_rollback(&store->manifest);
	return r < 0 ? r : 0;
}

// The lock is held on entry and exit, and released during the sync. A rotation meanwhile has
// synced the old segment itself, so syncing the one that was open is enough.
static int sync_open_segment(struct fp_store *store)
{
	FP_AUTOCLOSE int fd = -1;
	uint64_t segment = store->wal.segment;
	int r = 0;

	if (store->wal.fd < 0)
		return 0;
	fd = dup(store->wal.fd);
	if (fd < 0)
		return -errno;
	pthread_mutex_unlock(&store->lock);
	if (fdatasync(fd) < 0)
		r = -errno;
	pthread_mutex_lock(&store->lock);
	store->syncs++;
	// After a failed sync the kernel may have dropped the pages: nothing more goes there.
	if (r < 0 && store->wal.segment == segment)
		fp_wal_abandon(&store->wal);
	return r;
}

static void lead(struct fp_store *store)
{
	struct fp_append *next;
	int r;

	store->leader = true;
	store->syncing = reversed(store->waiting);
	store->waiting = NULL;
	r = sync_open_segment(store);
	if (r == 0)
		r = record_group(store, store->syncing);
	for (struct fp_append *append = store->syncing; append; append = next) {
		next = append->next; // the waiter may leave as soon as the lock is free
		append->result = r;
		append->done = true;
	}
	store->syncing = NULL;
	store->leader = false;
	pthread_cond_broadcast(&store->synced);
}

static int commit(struct fp_store *store, const struct fp_facts *facts)
{
	struct fp_append append = { .facts = facts, .next = store->waiting };

	store->waiting = &append;
	while (!append.done) {
		if (store->leader)
			pthread_cond_wait(&store->synced, &store->lock);
		else
			lead(store);
	}
	return append.result;
}

int fp_store_append(struct fp_store *store, const struct fp_profile *profile, const void *bytes,
		    size_t size, uint64_t received_ns, enum fp_store_verdict *ret_verdict)
{
	FP_AUTOFACTS struct fp_facts facts = { 0 };
	int r = size <= UINT32_MAX ? fp_facts_derive(profile, bytes, size, received_ns, &facts)
				   : -E2BIG;

	if (r < 0)
		return r;
	FP_STORE_LOCKED(store);
	r = check_known(store, &facts, ret_verdict);
	if (r != 0)
		return r < 0 ? r : 0;
	r = write_record(store, &facts, bytes, size);
	if (r == 0)
		r = commit(store, &facts);
	if (r == 0)
		*ret_verdict = FP_STORED;
	return r;
}
