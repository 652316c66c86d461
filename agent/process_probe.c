// SPDX-License-Identifier: Apache-2.0
#include "process_probe.h"

#include "buildprobe.h"

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

// Files remembered; past it the table starts anew and files are asked about once more.
#define PROBED_MAX 4096u

struct place {
	uint64_t device, inode;
};

struct answer {
	uint8_t build_id[20];
	uint8_t build_id_len;
};

void fp_process_probe_init(struct fp_process_table *table)
{
	table->probed = FP_HASHMAP_INIT(struct place, struct answer);
	if (fp_build_probe_open(&table->probe))
		table->probe = NULL;
}

void fp_process_probe_free(struct fp_process_table *table)
{
	fp_build_probe_free(table->probe);
	fp_hashmap_free(&table->probed);
}

// True when the answer holds for the place and not only for this mapping: the mapping could be
// replaced between the reading of its line and the opening of its file, and overlay file
// systems show another inode number.
static bool ask(struct fp_process_table *table, int dirfd, const struct fp_procfs_map *map,
		struct answer *ret)
{
	char name[64];
	int fd FP_AUTOCLOSE = -1;
	struct stat status;

	snprintf(name, sizeof(name), "map_files/%" PRIx64 "-%" PRIx64, map->start, map->end);
	fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0 || fstat(fd, &status) || !S_ISREG(status.st_mode))
		return false;
	if (fp_build_probe_read(table->probe, fd, ret->build_id, &ret->build_id_len))
		ret->build_id_len = 0;
	return status.st_ino == map->inode;
}

void fp_process_probe(struct fp_process_table *table, int dirfd, const struct fp_procfs_map *map,
		      struct fp_file *file)
{
	struct place place = { file->device, file->inode };
	struct answer *known = fp_hashmap_get(&table->probed, &place), answer = { 0 };

	if (!table->probe)
		return;
	if (known) {
		answer = *known;
	} else if (ask(table, dirfd, map, &answer)) {
		if (table->probed.count >= PROBED_MAX)
			fp_hashmap_clear(&table->probed);
		known = fp_hashmap_put(&table->probed, &place, NULL);
		if (known)
			*known = answer;
	}
	memcpy(file->build_id, answer.build_id, sizeof(file->build_id));
	file->build_id_len = answer.build_id_len;
}
