// SPDX-License-Identifier: Apache-2.0
#include "symbolrole_maps.h"

#include "perfmap.h"

#include <errno.h>
#include <string.h>

// Read for one request. 8 MiB are some 100,000 lines and take about 50 ms, well below any
// deadline of the client's.
#define STEP_BYTES ((size_t)8 << 20)

struct role_map {
	struct fp_perf_map *map;
	size_t bytes;
	uint64_t last_used;
};

void fp_role_maps_init(struct fp_role_maps *maps)
{
	*maps = (struct fp_role_maps){ .by_handle = FP_HASHMAP_INIT(uint64_t, struct role_map),
				       .bytes_max = FP_ROLE_MAPS_BYTES_MAX };
}

void fp_role_maps_free(struct fp_role_maps *maps)
{
	const void *key;
	size_t position = 0;
	void *value;

	while (fp_hashmap_next(&maps->by_handle, &position, &key, &value))
		fp_perf_map_free(((struct role_map *)value)->map);
	fp_hashmap_free(&maps->by_handle);
}

static void account(struct fp_role_maps *maps, struct role_map *entry)
{
	size_t bytes = fp_perf_map_bytes(entry->map);

	maps->bytes = maps->bytes - entry->bytes + bytes;
	entry->bytes = bytes;
}

// Of those that hold something.
static struct role_map *least_recent(const struct fp_role_maps *maps, const struct role_map *kept)
{
	struct role_map *oldest = NULL;
	const void *key;
	size_t position = 0;
	void *value;

	while (fp_hashmap_next(&maps->by_handle, &position, &key, &value)) {
		struct role_map *entry = value;

		if (entry != kept && entry->bytes > 0 &&
		    (!oldest || entry->last_used < oldest->last_used))
			oldest = entry;
	}
	return oldest;
}

static void make_room(struct fp_role_maps *maps, const struct role_map *kept)
{
	while (maps->bytes > maps->bytes_max) {
		struct role_map *oldest = least_recent(maps, kept);

		if (!oldest)
			return;
		fp_perf_map_forget(oldest->map);
		account(maps, oldest);
	}
}

static void settle(struct fp_role_maps *maps, struct role_map *entry)
{
	entry->last_used = ++maps->clock;
	account(maps, entry);
	make_room(maps, entry);
}

static int refresh(struct fp_role_maps *maps, struct role_map *entry)
{
	int error = fp_perf_map_refresh(entry->map, STEP_BYTES);

	settle(maps, entry);
	return error;
}

static void clear(struct fp_role_maps *maps, struct role_map *entry)
{
	maps->bytes -= entry->bytes;
	fp_perf_map_free(entry->map);
	*entry = (struct role_map){ 0 };
}

int fp_role_maps_add(struct fp_role_maps *maps, uint64_t handle, int fd)
{
	struct role_map *entry = fp_hashmap_get(&maps->by_handle, &handle);
	struct fp_perf_map *map;
	bool inserted;
	int error;

	if (!entry && maps->by_handle.count >= FP_ROLE_MAPS_MAX)
		return -ENOSPC;
	entry = fp_hashmap_put(&maps->by_handle, &handle, &inserted);
	if (!entry)
		return -ENOMEM;
	error = fp_perf_map_new(fd, &map);
	if (error) {
		if (inserted)
			fp_hashmap_remove(&maps->by_handle, &handle);
		return error;
	}
	clear(maps, entry);
	entry->map = map;
	refresh(maps, entry); // what went wrong goes wrong again when a name is wanted
	return 0;
}

int fp_role_maps_drop(struct fp_role_maps *maps, uint64_t handle)
{
	struct role_map *entry = fp_hashmap_get(&maps->by_handle, &handle);

	if (!entry)
		return -ENOENT;
	clear(maps, entry);
	fp_hashmap_remove(&maps->by_handle, &handle);
	return 0;
}

int fp_role_maps_seal(struct fp_role_maps *maps, uint64_t handle, uint64_t ended_ns)
{
	struct role_map *entry = fp_hashmap_get(&maps->by_handle, &handle);
	int error;

	if (!entry)
		return -ENOENT;
	error = fp_perf_map_seal(entry->map, ended_ns, STEP_BYTES);
	settle(maps, entry);
	return error;
}

static int append_name(struct fp_perf_map *map, uint64_t address, struct fp_buf *answer)
{
	size_t place = answer->len;
	uint16_t length = 0;
	int error = fp_buf_append(answer, &length, sizeof(length));

	if (!error)
		error = fp_perf_map_name(map, address, answer);
	if (error)
		return error == -ENOENT ? 0 : error;
	length = (uint16_t)(answer->len - place - sizeof(length));
	memcpy(answer->data + place, &length, sizeof(length));
	return 0;
}

static int append_names(struct fp_perf_map *map, const uint64_t *addresses, size_t count,
			struct fp_buf *answer)
{
	int error = 0;

	fp_buf_clear(answer);
	for (size_t i = 0; !error && i < count; i++)
		error = append_name(map, addresses[i], answer);
	return error;
}

int fp_role_maps_lookup(struct fp_role_maps *maps, uint64_t handle, const uint64_t *addresses,
			size_t count, struct fp_buf *answer)
{
	struct role_map *entry = fp_hashmap_get(&maps->by_handle, &handle);
	int error;

	if (!entry)
		return -ENOENT;
	error = refresh(maps, entry);
	if (!error)
		error = append_names(entry->map, addresses, count, answer);
	if (error != -ESTALE)
		return error;
	account(maps, entry); // it has forgotten what it had read
	error = refresh(maps, entry);
	return error ? error : append_names(entry->map, addresses, count, answer);
}
