// SPDX-License-Identifier: Apache-2.0
//
// unwindwalk_fuzz: walks over hostile stacks by hostile tables, in maps whose every value is an
// allocation of its own. The first byte says what the bytes are:
//   an ELF file (the byte is its magic number's first), compiled as the symbols role would;
//   't': a table as the role gives it, used when it passes the agent's check;
//   'r': rules and rows that nobody has checked.
// No walk may leave the maps, go on for ever, or say that it ended in a way that there is not.
#include "fuzz.h"

#include "../unit/bpf/unwindmodel.h"
#include "../unit/lots.h"
#include "memfile.h"

#include <stdlib.h>

#define STACK	    0x7ffc00001000ULL
#define STACK_WORDS 256
#define CODE	    0x400000ULL
#define WALKS	    16

static void seed(const uint8_t *data, size_t size)
{
	random_state = 0xcbf29ce484222325ULL; // FNV-1a
	for (size_t i = 0; i < size; i++)
		random_state = (random_state ^ data[i]) * 0x100000001b3ULL;
	random_state |= 1;
}

// Bytes of code that the table knows; 0: it is none.
static uint32_t add_table(const void *bytes, size_t size)
{
	struct fp_unwind_view view;
	struct space_table table;

	if (fp_unwind_table_check(bytes, size, &view) || !space_add(&model.space, &view, &table))
		return 0;
	model_ranges(&(struct fp_unwind_range){ .start = CODE,
						.size = view.offsets[view.head->rows - 1] + 4096,
						.at = table.first_page << FP_UNWIND_PAGE_BITS,
						.tag = table.tag },
		     1);
	return view.offsets[view.head->rows - 1] + 4096;
}

static uint32_t add_copy(const uint8_t *data, size_t size)
{
	uint64_t *copy = malloc(size + 8); // aligned, as what is mapped
	uint32_t code;

	if (!copy)
		abort();
	memcpy(copy, data, size);
	code = add_table(copy, size);
	free(copy);
	return code;
}

static uint32_t add_file(const uint8_t *data, size_t size)
{
	FP_AUTOBUF struct fp_buf table = { 0 };
	static int fd = -1;

	memfile_set(&fd, data, size);
	if (fp_unwind_table_make(fd, NULL, &table))
		return 0;
	if (fp_unwind_table_check(table.data, table.len, &(struct fp_unwind_view){ 0 }))
		abort(); // it does not believe itself
	return add_copy(table.data, table.len);
}

// A quarter of the bytes are rules, the others rows of one page, sorted or not.
static uint32_t add_rows(const uint8_t *data, size_t size)
{
	uint32_t rules = (uint32_t)(size / 4 / sizeof(struct fp_unwind_rule));
	size_t rows = (size - rules * sizeof(struct fp_unwind_rule)) / sizeof(fp_u32);

	if (rows > FP_UNWIND_CHUNK_ROWS)
		rows = FP_UNWIND_CHUNK_ROWS;
	memcpy(model.space.rules, data, rules * sizeof(struct fp_unwind_rule));
	memcpy(model.space.chunks[0]->rows, data + rules * sizeof(struct fp_unwind_rule),
	       rows * sizeof(fp_u32));
	for (size_t row = 0; row < rows && rules > 0; row++) // mostly of rules that there are
		if (row % 8)
			model.space.chunks[0]->rows[row] %= rules << 16;
	model.space.row_count = (uint32_t)rows;
	model.space.rule_count = rules + 1;
	model_page(0, 1);
	model_ranges(&(struct fp_unwind_range){ .start = CODE, .size = 0x20000, .tag = 1 }, 1);
	return 0x20000;
}

static uint64_t random_word(uint32_t code)
{
	switch (random_below(4)) {
	case 0:
		return STACK + random_below(STACK_WORDS) * 8;
	case 1:
		return random_state;
	default:
		return CODE + random_below(code);
	}
}

static void check_walk(const struct fp_walk *walk, const fp_u64 *frames, uint32_t steps)
{
	bool limit = walk->end == FP_WALK_END_DEPTH;

	if (walk->end >= FP_WALK_END_COUNT || walk->end == FP_WALK_END_NONE ||
	    walk->cannot >= FP_UNWIND_CANNOT_COUNT || walk->by_table > steps ||
	    limit != (steps == FP_MAX_USER_FRAMES - 1))
		abort();
	for (uint32_t i = 1; i <= steps; i++)
		if (!fp_user_address(frames[i] - 1))
			abort();
}

static void walk_once(uint32_t code)
{
	static fp_u64 frames[FP_WALK_SLOTS];
	struct fp_walk walk = model_walk(CODE + random_below(code), 0);

	for (size_t i = 0; i < STACK_WORDS; i++) {
		uint64_t word = random_word(code);

		memcpy(model.memory + 8 * i, &word, sizeof(word));
	}
	for (int i = 0; i < FP_REGISTERS; i++)
		walk.registers[i] = STACK + random_below(STACK_WORDS) * 8;
	if (random_below(4) == 0)
		walk.registers[random_below(FP_REGISTERS)] = random_word(code);
	check_walk(&walk, frames, model_take_steps(&walk, frames, FP_MAX_USER_FRAMES - 1));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint32_t code = 0;

	if (size == 0)
		return 0;
	if (!model.memory)
		model_begin(STACK, STACK_WORDS * 8);
	seed(data, size);
	if (data[0] == 0x7f)
		code = add_file(data, size);
	else if (data[0] == 't')
		code = add_copy(data + 1, size - 1);
	else if (data[0] == 'r')
		code = add_rows(data + 1, size - 1);
	for (int i = 0; code > 0 && i < WALKS; i++)
		walk_once(code);
	model_clear();
	return 0;
}
