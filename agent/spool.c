// SPDX-License-Identifier: Apache-2.0
#include "spool_state.h"

#include "common/clock.h"
#include "common/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

// Numbers reserved on disk at a time: one write in 17 hours of windows of a minute, and at
// most that many numbers lost by a crash.
#define RESERVE 1024

#define QUARANTINE_MAX 8 // enough to see what went wrong; damage must not fill the disk

void fp_spool_count_drop(struct fp_spool *spool, enum fp_spool_drop reason, uint64_t samples)
{
	spool->dropped_batches[reason]++;
	spool->dropped_samples[reason] += samples;
}

int fp_spool_reserve(struct fp_spool *spool, uint64_t sequence)
{
	uint64_t mark;
	char text[32];
	int error, size;

	if (sequence < spool->reserved_sequence)
		return 0;
	mark = (sequence > spool->next_sequence ? sequence : spool->next_sequence) + RESERVE;
	size = snprintf(text, sizeof(text), "%" PRIu64 "\n", mark);
	error = fp_file_write_durable(spool->fd, FP_SPOOL_SEQUENCE_FILE, text, (size_t)size,
				      FP_SPOOL_FILE_MODE);
	if (!error)
		spool->reserved_sequence = mark;
	return error;
}

// A sequence must not come again within a boot, even when the directory was emptied or
// replaced: so it starts no lower than the time in microseconds, which is faster than windows
// can follow each other. The mark and the files guard against a clock that was set back.
static int start_sequence(struct fp_spool *spool)
{
	FP_AUTOBUF struct fp_buf text = { 0 };
	uint64_t next = fp_realtime_ns() / 1000;
	int error = fp_file_read_at(spool->fd, FP_SPOOL_SEQUENCE_FILE, 64, &text);

	if (!error && text.len) {
		uint64_t mark = strtoull((const char *)text.data, NULL, 10);

		next = mark > next ? mark : next;
	}
	if (spool->index.count) {
		uint64_t last = spool->index.entries[spool->index.count - 1].sequence;

		next = last >= next ? last + 1 : next;
	}
	spool->next_sequence = next;
	return 0;
}

uint64_t fp_spool_next_sequence(struct fp_spool *spool)
{
	// Should the reservation fail, fp_spool_put asks again before it writes anything.
	fp_spool_reserve(spool, spool->next_sequence);
	return spool->next_sequence++;
}

static bool is_temporary(const char *name)
{
	size_t size = strlen(name);

	return name[0] == '.' && size > 4 && strcmp(name + size - 4, ".tmp") == 0;
}

static int remove_temporary(const char *name, void *context)
{
	if (is_temporary(name))
		unlinkat(*(int *)context, name, 0);
	return 0;
}

static int open_below(int directory_fd, const char *name, int *ret_fd)
{
	if (mkdirat(directory_fd, name, 0700) < 0 && errno != EEXIST)
		return -errno;
	*ret_fd = openat(directory_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	return *ret_fd < 0 ? -errno : 0;
}

static int open_directories(struct fp_spool *spool)
{
	int error = open_below(spool->fd, FP_SPOOL_QUARANTINE, &spool->quarantine_fd);

	if (!error)
		error = open_below(spool->fd, FP_SPOOL_SYMBOLS, &spool->symbols_fd);
	return error ? error : open_below(spool->symbols_fd, FP_SPOOL_WANTED, &spool->wanted_fd);
}

static int spool_new(int fd, const struct fp_spool_limits *limits, struct fp_spool **ret)
{
	FP_CLEANUP(fp_spool_freep) struct fp_spool *spool = NULL;
	FP_AUTOCLOSE int owned = fd;
	int error;

	if (fd < 0)
		return fd;
	spool = calloc(1, sizeof(*spool));
	if (!spool)
		return -ENOMEM;
	spool->quarantine_fd = spool->symbols_fd = spool->wanted_fd = -1;
	spool->limits = *limits;
	spool->fd = fp_take_fd(&owned);
	error = open_directories(spool);
	if (!error)
		error = fp_spool_index_scan(&spool->index, spool->fd);
	if (!error)
		*ret = fp_take_ptr(spool);
	return error;
}

// Missing parents are made so that others may pass through: the ship role may be another user.
static int make_directory(const char *directory)
{
	FP_AUTOFREE char *parent = strdup(directory);
	char *slash = parent ? strrchr(parent, '/') : NULL;
	FP_AUTOCLOSE int fd = -1;

	if (!parent)
		return -ENOMEM;
	if (slash && slash != parent) {
		*slash = '\0';
		fd = fp_dir_open(parent, 0755);
		if (fd < 0)
			return fd;
	}
	return fp_dir_open(directory, 0700);
}

int fp_spool_open(const char *directory, const struct fp_spool_limits *limits,
		  struct fp_spool **ret)
{
	FP_CLEANUP(fp_spool_freep) struct fp_spool *spool = NULL;
	int error = spool_new(make_directory(directory), limits, &spool);

	if (error)
		return error;
	fp_spool_each_name(spool->fd, remove_temporary, &spool->fd);
	fp_spool_each_name(spool->symbols_fd, remove_temporary, &spool->symbols_fd);
	// What a collector refused yesterday it may take today; it costs one batch to find out.
	unlinkat(spool->fd, FP_SPOOL_LIMIT_FILE, 0);
	error = start_sequence(spool);
	if (!error)
		*ret = fp_take_ptr(spool);
	return error;
}

int fp_spool_attach(const char *directory, const struct fp_spool_limits *limits,
		    struct fp_spool **ret)
{
	int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return spool_new(fd < 0 ? -errno : fd, limits, ret);
}

void fp_spool_free(struct fp_spool *spool)
{
	if (!spool)
		return;
	fp_close_fd(&spool->fd);
	fp_close_fd(&spool->quarantine_fd);
	fp_close_fd(&spool->symbols_fd);
	fp_close_fd(&spool->wanted_fd);
	fp_spool_index_free(&spool->index);
	free(spool);
}

void fp_spool_item_clear(struct fp_spool_item *item)
{
	fp_buf_free(&item->bytes);
	*item = (struct fp_spool_item){ 0 };
}

struct oldest_name {
	char name[FP_SPOOL_NAME_MAX];
	size_t count;
};

static int find_oldest(const char *name, void *context)
{
	struct oldest_name *oldest = context;
	uint64_t sequence;

	if (!fp_spool_name_parse(name, &sequence))
		return 0;
	if (!oldest->count++ || strcmp(name, oldest->name) < 0)
		fp_spool_name(sequence, oldest->name);
	return 0;
}

static void quarantine(struct fp_spool *spool, size_t position)
{
	const struct fp_spool_entry *entry = spool->index.entries + position;
	struct oldest_name oldest = { .count = 0 };
	char name[FP_SPOOL_NAME_MAX];

	fp_spool_name(entry->sequence, name);
	if (renameat(spool->fd, name, spool->quarantine_fd, name) == 0 ||
	    unlinkat(spool->fd, name, 0) == 0)
		fp_spool_count_drop(spool, FP_SPOOL_DROP_CORRUPT, entry->header.samples);
	fp_spool_index_remove(&spool->index, position);
	if (fp_spool_each_name(spool->quarantine_fd, find_oldest, &oldest) == 0 &&
	    oldest.count > QUARANTINE_MAX)
		unlinkat(spool->quarantine_fd, oldest.name, 0);
}

static int read_item(const struct fp_spool *spool, const struct fp_spool_entry *entry,
		     struct fp_spool_item *ret)
{
	FP_AUTOBUF struct fp_buf file = { 0 };
	size_t size = entry->header.payload_size;
	char name[FP_SPOOL_NAME_MAX] = "";
	int error;

	fp_spool_name(entry->sequence, name);
	if (size > fp_batch_default_limits.compressed_bytes)
		return -EBADMSG;
	error = fp_file_read_at(spool->fd, name, FP_SPOOL_HEADER_SIZE + size, &file);
	if (error)
		return error;
	if (file.len != FP_SPOOL_HEADER_SIZE + size ||
	    fp_spool_payload_hash(file.data + FP_SPOOL_HEADER_SIZE, size) !=
		entry->header.payload_hash)
		return -EBADMSG;
	error = fp_buf_append(&ret->bytes, file.data + FP_SPOOL_HEADER_SIZE, size);
	memcpy(ret->name, name, sizeof(name));
	ret->sequence = entry->sequence;
	ret->samples = entry->header.samples;
	ret->start_realtime_ns = entry->header.start_realtime_ns;
	memcpy(ret->batch_id, entry->header.batch_id, FP_BATCH_ID_LEN);
	return error;
}

int fp_spool_peek(struct fp_spool *spool, bool newest, struct fp_spool_item *ret)
{
	struct fp_spool_index *index = &spool->index;
	size_t passed = 0; // entries that stay but are not for us
	int error = fp_spool_index_scan(index, spool->fd);

	while (!error && passed < index->count) {
		size_t position = newest ? index->count - 1 - passed : passed;
		const struct fp_spool_entry *entry = index->entries + position;
		struct fp_spool_item item = { 0 };
		int result =
		    entry->state == FP_SPOOL_GOOD ? read_item(spool, entry, &item) : -EBADMSG;

		if (!result) {
			*ret = item;
			return 0;
		}
		fp_spool_item_clear(&item);
		if (entry->state == FP_SPOOL_FOREIGN)
			passed++;
		else if (result == -ENOENT) // the writer made room
			fp_spool_index_remove(index, position);
		else if (result == -ENOMEM || result == -EMFILE || result == -ENFILE)
			return result; // not the file's fault
		else
			quarantine(spool, position);
	}
	return error ? error : -ENOENT;
}

// Position of the entry in the index; count when it is not there.
static size_t find_entry(const struct fp_spool *spool, const char *name)
{
	uint64_t sequence = 0;
	size_t i = 0;

	if (!fp_spool_name_parse(name, &sequence))
		return spool->index.count;
	while (i < spool->index.count && spool->index.entries[i].sequence != sequence)
		i++;
	return i;
}

int fp_spool_acknowledge(struct fp_spool *spool, const char *name)
{
	size_t position = find_entry(spool, name);

	if (position < spool->index.count)
		fp_spool_index_remove(&spool->index, position);
	return unlinkat(spool->fd, name, 0) < 0 ? -errno : 0;
}

void fp_spool_drop_entry(struct fp_spool *spool, size_t position, enum fp_spool_drop reason)
{
	const struct fp_spool_entry *entry = spool->index.entries + position;
	char name[FP_SPOOL_NAME_MAX];

	fp_spool_name(entry->sequence, name);
	if (unlinkat(spool->fd, name, 0) == 0)
		fp_spool_count_drop(spool, reason, entry->header.samples);
	fp_spool_index_remove(&spool->index, position);
}

int fp_spool_drop(struct fp_spool *spool, const char *name, enum fp_spool_drop reason)
{
	size_t position = find_entry(spool, name);

	if (position == spool->index.count)
		return -ENOENT;
	fp_spool_drop_entry(spool, position, reason);
	return 0;
}

void fp_spool_stats(struct fp_spool *spool, struct fp_spool_stats *ret)
{
	fp_spool_index_scan(&spool->index, spool->fd);
	*ret = (struct fp_spool_stats){ .batches = spool->index.count };
	for (size_t i = 0; i < spool->index.count; i++) {
		const struct fp_spool_entry *entry = spool->index.entries + i;

		ret->bytes += entry->bytes;
		ret->samples += entry->header.samples;
		if (!ret->oldest_realtime_ns)
			ret->oldest_realtime_ns = entry->header.start_realtime_ns;
	}
	memcpy(ret->dropped_batches, spool->dropped_batches, sizeof(ret->dropped_batches));
	memcpy(ret->dropped_samples, spool->dropped_samples, sizeof(ret->dropped_samples));
}
