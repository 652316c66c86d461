// SPDX-License-Identifier: Apache-2.0
#include "spool_index.h"

#include "common/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#define SEQUENCE_DIGITS 20 // of UINT64_MAX; zero-padded, names sort like sequences

void fp_spool_name(uint64_t sequence, char ret_name[FP_SPOOL_NAME_MAX])
{
	snprintf(ret_name, FP_SPOOL_NAME_MAX, "%0*" PRIu64 ".batch", SEQUENCE_DIGITS, sequence);
}

bool fp_spool_name_parse(const char *name, uint64_t *ret_sequence)
{
	char again[FP_SPOOL_NAME_MAX];
	uint64_t sequence;

	if (strspn(name, "0123456789") != SEQUENCE_DIGITS)
		return false;
	errno = 0;
	sequence = strtoull(name, NULL, 10);
	fp_spool_name(sequence, again);
	if (errno || strcmp(again, name) != 0)
		return false;
	*ret_sequence = sequence;
	return true;
}

void fp_spool_index_free(struct fp_spool_index *index)
{
	free(index->entries);
	*index = (struct fp_spool_index){ 0 };
}

void fp_spool_index_remove(struct fp_spool_index *index, size_t position)
{
	index->count--;
	memmove(index->entries + position, index->entries + position + 1,
		(index->count - position) * sizeof(*index->entries));
}

static void close_directory(DIR **directory)
{
	if (*directory)
		closedir(*directory);
}

int fp_spool_each_name(int directory_fd, int (*fn)(const char *name, void *context), void *context)
{
	// A descriptor of its own: reading moves an offset that all duplicates share.
	FP_AUTOCLOSE int fd = openat(directory_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	FP_CLEANUP(close_directory) DIR *directory = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;
	int error = 0;

	if (!directory)
		return -errno;
	fp_take_fd(&fd); // the directory stream's now
	while (!error && (errno = 0, entry = readdir(directory)))
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			error = fn(entry->d_name, context);
	return error ? error : -errno;
}

static int append(struct fp_spool_index *index, const struct fp_spool_entry *entry)
{
	if (index->count == index->capacity) {
		size_t capacity = index->capacity ? index->capacity * 2 : 64;
		void *grown = reallocarray(index->entries, capacity, sizeof(*index->entries));

		if (!grown)
			return -ENOMEM;
		index->entries = grown;
		index->capacity = capacity;
	}
	index->entries[index->count++] = *entry;
	return 0;
}

static int add_sequence(const char *name, void *context)
{
	struct fp_spool_entry entry = { 0 };

	return fp_spool_name_parse(name, &entry.sequence) ? append(context, &entry) : 0;
}

static int compare_sequences(const void *a, const void *b)
{
	const struct fp_spool_entry *first = a, *second = b;

	return (first->sequence > second->sequence) - (first->sequence < second->sequence);
}

// Reads size and header of a file that is new to the index. False: leave it out this time.
static bool read_entry(int directory_fd, struct fp_spool_entry *entry)
{
	uint8_t bytes[FP_SPOOL_HEADER_SIZE];
	char name[FP_SPOOL_NAME_MAX];
	struct stat info;
	ssize_t size;
	int error;

	fp_spool_name(entry->sequence, name);
	FP_AUTOCLOSE int fd =
	    openat(directory_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	// Gone, or not to be had just now (no descriptors left, not yet our group's): the next
	// scan looks again. A symbolic link is nothing that we wrote.
	if (fd < 0 && errno != ELOOP)
		return false;
	entry->state = FP_SPOOL_BAD;
	if (fd < 0 || fstat(fd, &info) < 0 || !S_ISREG(info.st_mode))
		return true;
	entry->bytes = (uint64_t)info.st_size;
	size = read(fd, bytes, sizeof(bytes));
	error = fp_spool_header_parse(bytes, size < 0 ? 0 : (size_t)size, &entry->header);
	if (error == -EPROTONOSUPPORT)
		entry->state = FP_SPOOL_FOREIGN;
	else if (!error &&
		 entry->bytes == FP_SPOOL_HEADER_SIZE + (uint64_t)entry->header.payload_size)
		entry->state = FP_SPOOL_GOOD;
	return true;
}

int fp_spool_index_scan(struct fp_spool_index *index, int directory_fd)
{
	FP_CLEANUP(fp_spool_index_free) struct fp_spool_index fresh = { 0 };
	size_t known = 0, kept = 0;
	int error = fp_spool_each_name(directory_fd, add_sequence, &fresh);

	if (error)
		return error;
	if (fresh.count)
		qsort(fresh.entries, fresh.count, sizeof(*fresh.entries), compare_sequences);
	for (size_t i = 0; i < fresh.count; i++) {
		struct fp_spool_entry entry = fresh.entries[i];

		while (known < index->count && index->entries[known].sequence < entry.sequence)
			known++;
		if (known < index->count && index->entries[known].sequence == entry.sequence)
			entry = index->entries[known];
		else if (!read_entry(directory_fd, &entry))
			continue;
		fresh.entries[kept++] = entry;
	}
	fresh.count = kept;
	fp_spool_index_free(index);
	*index = fresh;
	fresh = (struct fp_spool_index){ 0 };
	return 0;
}
