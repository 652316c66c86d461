// SPDX-License-Identifier: Apache-2.0
//
// The maps that the walker reads, made here and handed to every sampler's programs. Pages, rules
// and chunks are mapped into our memory: writing them is a store.
#include "unwind_private.h"

#include "common/log.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <linux/bpf.h>
#include <string.h>
#include <sys/mman.h>

#define MAPPED	    BPF_F_MMAPABLE
#define PAGE_BYTES  4096u
#define PAGES_BYTES (FP_UNWIND_PAGES * sizeof(fp_u64))
#define RULES_BYTES (FP_UNWIND_RULES * sizeof(struct fp_unwind_rule))
// What the kernel puts before a key and a value of a hash map, and the bucket of an entry.
#define ENTRY_BYTES(key, value) (48 + sizeof(key) + sizeof(value) + 16)

static int make_map(enum bpf_map_type type, const char *name, uint32_t value_size,
		    uint32_t max_entries, uint32_t flags)
{
	LIBBPF_OPTS(bpf_map_create_opts, options, .map_flags = flags);
	int fd = bpf_map_create(type, name, sizeof(fp_u32), value_size, max_entries, &options);

	return fd < 0 ? -errno : fd;
}

static int make_rows(struct fp_unwind *unwind)
{
	LIBBPF_OPTS(bpf_map_create_opts, options, .inner_map_fd = (uint32_t)unwind->chunk_template);
	int fd = bpf_map_create(BPF_MAP_TYPE_ARRAY_OF_MAPS, "unwind_rows", sizeof(fp_u32),
				sizeof(fp_u32), FP_UNWIND_CHUNKS, &options);

	return fd < 0 ? -errno : fd;
}

// Allocated ahead: before 6.1 programs of perf events may use no other hash.
static int make_ranges(void)
{
	int fd =
	    bpf_map_create(BPF_MAP_TYPE_HASH, "unwind_ranges", sizeof(struct fp_unwind_ranges_key),
			   sizeof(struct fp_unwind_ranges), FP_UNWIND_RANGES_ENTRIES, NULL);

	return fd < 0 ? -errno : fd;
}

static int make_files(struct fp_unwind_maps *maps)
{
	int r = maps->files =
	    bpf_map_create(BPF_MAP_TYPE_HASH, "unwind_files", sizeof(struct fp_unwind_file_key),
			   sizeof(struct fp_unwind_file), FP_UNWIND_FILES, NULL);

	if (r >= 0)
		r = maps->met = bpf_map_create(
		    BPF_MAP_TYPE_HASH, "unwind_met", sizeof(struct fp_unwind_file_key),
		    sizeof(struct fp_unwind_met), FP_UNWIND_FILES_MET, NULL);
	return r < 0 ? -errno : 0;
}

static int map_memory(int fd, size_t size, void **ret)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (memory == MAP_FAILED)
		return -errno;
	*ret = memory;
	return 0;
}

static struct fp_unwind_chunk *make_chunk(uint32_t index, void *context)
{
	struct fp_unwind *unwind = context;
	int fd FP_AUTOCLOSE = fp_unwind_chunk_new();
	void *memory = NULL;

	if (fd < 0 || map_memory(fd, sizeof(struct fp_unwind_chunk), &memory) < 0)
		return NULL;
	if (bpf_map_update_elem(unwind->maps.rows, &index, &fd, BPF_ANY) < 0) {
		munmap(memory, sizeof(struct fp_unwind_chunk));
		return NULL;
	}
	return memory; // which holds the map from here on
}

static void drop_chunk(uint32_t index, struct fp_unwind_chunk *chunk, void *context)
{
	const struct fp_unwind *unwind = context;

	bpf_map_delete_elem(unwind->maps.rows, &index);
	munmap(chunk, sizeof(*chunk));
}

static int make_all(struct fp_unwind *unwind)
{
	struct fp_unwind_maps *maps = &unwind->maps;
	int r;

	r = maps->pages =
	    make_map(BPF_MAP_TYPE_ARRAY, "unwind_pages", sizeof(fp_u64), FP_UNWIND_PAGES, MAPPED);
	if (r >= 0)
		r = maps->rules = make_map(BPF_MAP_TYPE_ARRAY, "unwind_rules",
					   sizeof(struct fp_unwind_rule), FP_UNWIND_RULES, MAPPED);
	if (r >= 0)
		r = unwind->chunk_template = fp_unwind_chunk_new();
	if (r >= 0)
		r = maps->rows = make_rows(unwind);
	if (r >= 0)
		r = maps->ranges = make_ranges();
	if (r >= 0)
		r = make_files(maps);
	return r < 0 ? r : 0;
}

int fp_unwind_maps_open(struct fp_unwind *unwind)
{
	void *pages = NULL, *rules = NULL;
	int r = make_all(unwind);

	if (r == 0)
		r = map_memory(unwind->maps.pages, PAGES_BYTES, &pages);
	if (r == 0)
		r = map_memory(unwind->maps.rules, RULES_BYTES, &rules);
	unwind->memory = (struct fp_unwind_memory){ .pages = pages,
						    .rules = rules,
						    .make_chunk = make_chunk,
						    .drop_chunk = drop_chunk,
						    .context = unwind };
	return r;
}

void fp_unwind_maps_close(struct fp_unwind *unwind)
{
	if (unwind->memory.pages)
		munmap(unwind->memory.pages, PAGES_BYTES);
	if (unwind->memory.rules)
		munmap(unwind->memory.rules, RULES_BYTES);
	fp_close_fd(&unwind->maps.pages);
	fp_close_fd(&unwind->maps.rules);
	fp_close_fd(&unwind->maps.rows);
	fp_close_fd(&unwind->maps.ranges);
	fp_close_fd(&unwind->maps.files);
	fp_close_fd(&unwind->maps.met);
	fp_close_fd(&unwind->chunk_template);
}

// An array that can be mapped has a page of its own before its values.
uint64_t fp_unwind_chunk_bytes(void)
{
	return sizeof(struct fp_unwind_chunk) + PAGE_BYTES;
}

uint64_t fp_unwind_maps_bytes(const struct fp_unwind *unwind)
{
	return PAGES_BYTES + RULES_BYTES + 2 * PAGE_BYTES + fp_unwind_chunk_bytes() +
	       FP_UNWIND_CHUNKS * sizeof(void *) +
	       FP_UNWIND_RANGES_ENTRIES *
		   ENTRY_BYTES(struct fp_unwind_ranges_key, struct fp_unwind_ranges) +
	       FP_UNWIND_FILES * ENTRY_BYTES(struct fp_unwind_file_key, struct fp_unwind_file) +
	       FP_UNWIND_FILES_MET * ENTRY_BYTES(struct fp_unwind_file_key, struct fp_unwind_met);
}

int fp_unwind_maps_put(const struct fp_unwind *unwind, uint32_t tgid, uint32_t part,
		       const struct fp_unwind_ranges *ranges)
{
	const struct fp_unwind_ranges_key key = { .tgid = tgid, .part = part };

	return bpf_map_update_elem(unwind->maps.ranges, &key, ranges, BPF_ANY) < 0 ? -errno : 0;
}

void fp_unwind_maps_drop(const struct fp_unwind *unwind, uint32_t tgid, uint32_t part)
{
	const struct fp_unwind_ranges_key key = { .tgid = tgid, .part = part };

	bpf_map_delete_elem(unwind->maps.ranges, &key);
}
