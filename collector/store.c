// SPDX-License-Identifier: Apache-2.0
#include "storestate.h"

#include "common/clock.h"
#include "common/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/file.h>

#define MANIFEST_NAME "manifest.sqlite"

uint64_t fp_store_segment_bytes(const struct fp_store *store)
{
	uint64_t share = store->options.max_bytes / 16;

	return share < FP_SEGMENT_BYTES_MAX ? share : FP_SEGMENT_BYTES_MAX;
}

void fp_store_close(struct fp_store *store)
{
	if (!store)
		return;
	fp_wal_close(&store->wal);
	fp_manifest_close(&store->manifest);
	fp_close_fd(&store->waldirfd);
	fp_close_fd(&store->dirfd);
	fp_close_fd(&store->lockfd);
	pthread_cond_destroy(&store->synced);
	pthread_mutex_destroy(&store->lock);
	free((char *)store->options.directory);
	free(store);
}

static int explain(struct fp_buf *error, int r, const char *directory, const char *cause)
{
	fp_buf_printf(error, "store '%s': %s: %s", directory, cause, strerror(-r));
	return r;
}

static int open_directories(struct fp_store *store, struct fp_buf *error)
{
	const char *directory = store->options.directory;
	FP_AUTOFREE char *wal = NULL;

	store->dirfd = fp_dir_open(directory, 0700);
	if (store->dirfd < 0)
		return explain(error, store->dirfd, directory, "cannot open or create it");
	store->lockfd = openat(store->dirfd, "lock", O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	if (store->lockfd < 0)
		return explain(error, -errno, directory, "cannot write in it");
	if (flock(store->lockfd, LOCK_EX | LOCK_NB) < 0)
		return explain(error, -EBUSY, directory, "another collector is using it");
	if (asprintf(&wal, "%s/wal", directory) < 0)
		return -ENOMEM;
	store->waldirfd = fp_dir_open(wal, 0700);
	if (store->waldirfd < 0)
		return explain(error, store->waldirfd, directory, "cannot create 'wal' in it");
	return fsync(store->dirfd) < 0 ? -errno : 0;
}

static int open_manifest(struct fp_store *store, struct fp_buf *error)
{
	FP_AUTOFREE char *path = NULL;
	int r;

	if (asprintf(&path, "%s/" MANIFEST_NAME, store->options.directory) < 0)
		return -ENOMEM;
	r = fp_manifest_open(&store->manifest, path, store->options.max_series);
	if (r < 0)
		fp_buf_printf(error,
			      "store '%s': %s; if '" MANIFEST_NAME "' is damaged, move it away "
			      "and it is made again from the log",
			      store->options.directory,
			      store->manifest.error.len ? (char *)store->manifest.error.data : "");
	return r;
}

int fp_store_open(const struct fp_store_options *options, struct fp_store **ret_store,
		  struct fp_store_recovery *ret_recovery, struct fp_buf *error)
{
	FP_CLEANUP(fp_store_closep) struct fp_store *store = calloc(1, sizeof(*store));
	uint64_t next_segment = 0;
	int r;

	if (!store)
		return -ENOMEM;
	pthread_mutex_init(&store->lock, NULL);
	pthread_cond_init(&store->synced, NULL);
	store->dirfd = store->waldirfd = store->lockfd = store->wal.fd = -1;
	store->options = *options;
	store->options.directory = strdup(options->directory);
	if (!store->options.directory)
		return -ENOMEM;
	r = open_directories(store, error);
	if (r == 0)
		r = open_manifest(store, error);
	if (r < 0)
		return r;
	r = fp_store_recover(store, ret_recovery, &next_segment);
	if (r < 0)
		return explain(error, r, options->directory, "cannot read its log");
	fp_wal_init(&store->wal, store->waldirfd, next_segment);
	*ret_store = fp_take_ptr(store);
	return 0;
}

// When the last batch of a segment arrived; a segment that holds nothing known is as old as
// its neighbours are, so it leaves with the first chance.
static int last_received(struct fp_store *store, uint64_t segment, uint64_t *ret_ns)
{
	uint64_t end;
	int r;

	*ret_ns = 0;
	r = fp_manifest_segment(&store->manifest, segment, &end, ret_ns);
	return r < 0 ? r : 0;
}

static int drop_segment(struct fp_store *store, uint64_t segment, uint64_t bytes,
			struct fp_store_expiry *expiry)
{
	uint64_t batches = 0;
	int r = fp_manifest_drop(&store->manifest, segment, &batches);

	if (r == 0)
		r = fp_wal_unlink(store->waldirfd, segment);
	if (r < 0)
		return r;
	expiry->segments++;
	expiry->batches += batches;
	expiry->bytes += bytes;
	return 0;
}

static int sum_bytes(struct fp_store *store, const uint64_t *segments, size_t count,
		     uint64_t *ret_sizes, uint64_t *ret_sum)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < count; i++) {
		int r = fp_wal_segment_bytes(store->waldirfd, segments[i], &ret_sizes[i]);

		if (r < 0)
			return r;
		sum += ret_sizes[i];
	}
	*ret_sum = sum;
	return 0;
}

static int drop_expired(struct fp_store *store, uint64_t now_ns, struct fp_store_expiry *expiry)
{
	FP_AUTOFREE uint64_t *segments = NULL;
	FP_AUTOFREE uint64_t *sizes = NULL;
	size_t count;
	uint64_t sum;
	int r = fp_wal_list(store->waldirfd, &segments, &count);

	if (r < 0)
		return r;
	sizes = calloc(count + 1, sizeof(*sizes));
	if (!sizes)
		return -ENOMEM;
	r = sum_bytes(store, segments, count, sizes, &sum);
	for (size_t i = 0; r == 0 && i < count; i++) {
		uint64_t last_ns;

		if (store->wal.fd >= 0 && segments[i] == store->wal.segment)
			break; // being written; it is rotated by age and size
		r = last_received(store, segments[i], &last_ns);
		if (r < 0)
			return r;
		if (sum <= store->options.max_bytes &&
		    (now_ns < store->options.retention_ns ||
		     last_ns >= now_ns - store->options.retention_ns))
			break;
		r = drop_segment(store, segments[i], sizes[i], expiry);
		sum -= sizes[i];
	}
	return r;
}

// The open segment is closed when it is due, so that a quiet collector's data expires too.
static int rotate_when_due(struct fp_store *store)
{
	uint64_t age_ns = FP_SEGMENT_AGE_NS;

	if (store->options.retention_ns / 8 < age_ns)
		age_ns = store->options.retention_ns / 8;
	if (store->wal.fd < 0 || store->waiting || store->syncing ||
	    store->wal.offset <= FP_WAL_MAGIC_BYTES ||
	    fp_boottime_ns() - store->wal.opened_ns < age_ns)
		return 0;
	return fp_wal_rotate(&store->wal);
}

int fp_store_maintain(struct fp_store *store, uint64_t now_ns, struct fp_store_expiry *ret_expiry)
{
	struct fp_store_expiry expiry = { 0 };
	uint64_t keep_ns = store->options.dedup_keep_ns, retention_ns = store->options.retention_ns;
	int r;

	FP_STORE_LOCKED(store);
	r = rotate_when_due(store);
	if (r == 0)
		r = drop_expired(store, now_ns, &expiry);
	if (r == 0)
		r = fp_manifest_forget(&store->manifest, now_ns > keep_ns ? now_ns - keep_ns : 0,
				       now_ns > retention_ns ? now_ns - retention_ns : 0);
	if (r < 0)
		return r;
	*ret_expiry = expiry;
	return 0;
}

int fp_store_hosts(struct fp_store *store, fp_host_fn fn, void *context)
{
	FP_STORE_LOCKED(store);
	return fp_manifest_hosts(&store->manifest, fn, context);
}

int fp_store_label_names(struct fp_store *store, uint32_t limit, fp_text_fn fn, void *context)
{
	FP_STORE_LOCKED(store);
	return fp_manifest_label_names(&store->manifest, limit, fn, context);
}

int fp_store_label_values(struct fp_store *store, const char *name, const char *prefix,
			  uint32_t limit, fp_text_fn fn, void *context)
{
	FP_STORE_LOCKED(store);
	return fp_manifest_label_values(&store->manifest, name, prefix, limit, fn, context);
}

int fp_store_stats(struct fp_store *store, struct fp_store_stats *ret_stats)
{
	FP_AUTOFREE uint64_t *segments = NULL;
	FP_AUTOFREE uint64_t *sizes = NULL;
	struct fp_store_stats stats = { 0 };
	size_t count;
	int r;

	FP_STORE_LOCKED(store);
	r = fp_wal_list(store->waldirfd, &segments, &count);
	if (r < 0)
		return r;
	sizes = calloc(count + 1, sizeof(*sizes));
	if (!sizes)
		return -ENOMEM;
	r = sum_bytes(store, segments, count, sizes, &stats.bytes);
	if (r == 0)
		r = fp_manifest_totals(&store->manifest, &stats.totals);
	if (r < 0)
		return r;
	stats.segments = count;
	stats.syncs = store->syncs;
	stats.series_refused = store->manifest.series_refused;
	*ret_stats = stats;
	return 0;
}
