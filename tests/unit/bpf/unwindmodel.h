// SPDX-License-Identifier: Apache-2.0
//
// unwindmodel: the four maps of unwind tables and one process's stack in ordinary memory, so that
// bpf/unwind.h runs natively. Each map value is an allocation of its exact size, in which a
// sanitizer sees every step outside. Filled row by row, or from a whole table the way the agent
// fills the maps.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "unwindspace.h"

#define MODEL_TGID     4711u
#define MODEL_BOOTTIME 815ULL
#define MODEL_EXEC_ID  7u
#define MODEL_CHUNKS   4u // of the slots

struct model {
	struct space space;
	struct fp_unwind_ranges *parts[FP_UNWIND_PARTS];
	uint8_t *memory; // of the stack
	uint64_t memory_base;
	size_t memory_size;
	bool change_at_barrier; // the entries become another process's
	uint32_t reads;
};
static struct model model;

static int model_read(void *destination, uint32_t size, uint64_t address)
{
	model.reads++;
	if (address < model.memory_base || address + size < address ||
	    address + size > model.memory_base + model.memory_size)
		return -14;
	memcpy(destination, model.memory + (address - model.memory_base), size);
	return 0;
}

static const struct fp_unwind_ranges *model_ranges_at(uint32_t tgid, uint32_t part)
{
	return tgid == MODEL_TGID && part < FP_UNWIND_PARTS ? model.parts[part] : NULL;
}

static const fp_u64 *model_page_at(uint32_t index)
{
	return index < FP_UNWIND_PAGES ? &model.space.pages[index] : NULL;
}

static const struct fp_unwind_chunk *model_chunk_at(uint32_t index)
{
	return index < MODEL_CHUNKS ? model.space.chunks[index] : NULL;
}

static const struct fp_unwind_rule *model_rule_at(uint32_t index)
{
	return index < FP_UNWIND_RULES ? &model.space.rules[index] : NULL;
}

static void model_barrier(void)
{
	for (uint32_t i = 0; i < FP_UNWIND_PARTS && model.change_at_barrier; i++)
		if (model.parts[i])
			model.parts[i]->start_boottime_ns++;
}

#define FP_READ_USER(reader, destination, size, address) model_read(destination, size, address)
#define FP_UNWIND_TABLES				 1
#define FP_UNWIND_RANGES_AT(tgid, part)			 model_ranges_at(tgid, part)
#define FP_UNWIND_PAGE_AT(index)			 model_page_at(index)
#define FP_UNWIND_CHUNK_AT(index)			 model_chunk_at(index)
#define FP_UNWIND_RULE_AT(index)			 model_rule_at(index)
#define FP_UNWIND_BARRIER()				 model_barrier()
#include "bpf/unwind.h"

static inline void model_free(void)
{
	for (uint32_t i = 0; i < FP_UNWIND_PARTS; i++)
		free(model.parts[i]);
	for (uint32_t i = 0; i < MODEL_CHUNKS; i++)
		free(model.space.chunks[i]);
	free(model.space.pages);
	free(model.space.rules);
	free(model.memory);
	memset(&model, 0, sizeof(model));
}

static inline void *model_room(size_t count, size_t size)
{
	void *room = calloc(count, size);

	if (!room)
		abort();
	return room;
}

// Empty maps; rule 0 is FP_UNWIND_GAP. The stack is `memory_size` bytes of 0 from memory_base on.
static inline void model_begin(uint64_t memory_base, size_t memory_size)
{
	model_free();
	model.space.pages = model_room(FP_UNWIND_PAGES, sizeof(*model.space.pages));
	model.space.rules = model_room(FP_UNWIND_RULES, sizeof(*model.space.rules));
	model.space.chunk_count = MODEL_CHUNKS;
	for (uint32_t i = 0; i < MODEL_CHUNKS; i++)
		model.space.chunks[i] = model_room(1, sizeof(struct fp_unwind_chunk));
	model.memory = model_room(memory_size, 1);
	model.memory_base = memory_base;
	model.memory_size = memory_size;
	model.space.rule_count = 1;
}

static inline uint16_t model_rule(struct fp_unwind_rule rule)
{
	model.space.rules[model.space.rule_count] = rule;
	return (uint16_t)model.space.rule_count++;
}

// Empty again; as much is cleared as the counts say was used.
static inline void model_clear(void)
{
	struct space *space = &model.space;

	memset(space->pages, 0, space->page_count * sizeof(*space->pages));
	memset(space->rules, 0, space->rule_count * sizeof(*space->rules));
	for (uint32_t i = 0; i * FP_UNWIND_CHUNK_ROWS < space->row_count; i++)
		memset(space->chunks[i], 0, sizeof(*space->chunks[i]));
	space->page_count = space->row_count = 0;
	space->rule_count = 1;
	for (uint32_t i = 0; i < FP_UNWIND_PARTS; i++) {
		free(model.parts[i]);
		model.parts[i] = NULL;
	}
}

// The rows from `first` on become the next page.
static inline void model_page(uint32_t first, uint16_t tag)
{
	model.space.pages[model.space.page_count++] =
	    FP_UNWIND_PAGE(first / FP_UNWIND_CHUNK_ROWS, first % FP_UNWIND_CHUNK_ROWS,
			   model.space.row_count - first, tag);
}

static inline struct fp_unwind_ranges *model_part(uint32_t part)
{
	struct fp_unwind_ranges *entry = model_room(1, sizeof(*entry));

	*entry = (struct fp_unwind_ranges){ .start_boottime_ns = MODEL_BOOTTIME,
					    .exec_id = MODEL_EXEC_ID,
					    .version = 1 };
	memset(entry->part_start, 0xff, sizeof(entry->part_start));
	for (uint32_t i = 0; i < FP_UNWIND_PART_RANGES; i++)
		entry->ranges[i].start = ~0ULL;
	free(model.parts[part]);
	model.parts[part] = entry;
	return entry;
}

// The process has these ranges, sorted; at most FP_UNWIND_PARTS × FP_UNWIND_PART_RANGES.
static inline void model_ranges(const struct fp_unwind_range *ranges, uint32_t count)
{
	struct fp_unwind_ranges *first = model_part(0), *entry = first;

	for (uint32_t i = 0; i < count; i++) {
		uint32_t part = i / FP_UNWIND_PART_RANGES, index = i % FP_UNWIND_PART_RANGES;

		if (index == 0 && part > 0)
			entry = model_part(part);
		if (index == 0)
			first->part_start[part] = ranges[i].start;
		entry->ranges[index] = ranges[i];
		entry->count = index + 1;
		first->parts = part + 1;
	}
}

// A walk that stands at `ip` with its stack's beginning in the stack pointer.
static inline struct fp_walk model_walk(uint64_t ip, uint64_t sp)
{
	struct fp_walk walk = { .ip = ip,
				.tgid = MODEL_TGID,
				.exec_id = MODEL_EXEC_ID,
				.start_boottime_ns = MODEL_BOOTTIME };

	walk.registers[FP_RSP] = sp;
	return walk;
}

// Takes at most `limit` steps; their number. frames: FP_WALK_SLOTS, the first in slot 0.
static inline uint32_t model_take_steps(struct fp_walk *walk, fp_u64 *frames, uint32_t limit)
{
	uint32_t steps = 0;

	fp_walk_begin(walk, frames, 0, &(struct fp_hash){ 1, 2 });
	while (steps < limit && !fp_unwind_step(walk, frames, steps, NULL))
		steps++;
	return steps;
}
