// SPDX-License-Identifier: Apache-2.0
//
// perfmap_fuzz: any bytes as a perf map. The first byte says in what pieces the file grows.
// However it grew, it names what a plain reading of the whole text names: the last line that
// covers the address. And it goes on doing so when it is sealed and the file written anew, even with
// the same bytes in another order.
#include "fuzz.h"
#include "memfile.h"

#include "agent/perfmap.h"
#include "agent/perfmap_line.h"
#include "proto/profile.h"

#include <errno.h>
#include <string.h>

#define LINES_MAX 256

struct model {
	const char *texts[LINES_MAX];
	struct fp_perf_line lines[LINES_MAX];
	size_t count;
};

// False when there are more lines than the model holds.
static bool model_read(struct model *model, const char *text, size_t size)
{
	const char *end;

	model->count = 0;
	for (; size > 0 && (end = memchr(text, '\n', size));
	     size -= (size_t)(end + 1 - text), text = end + 1) {
		if (!fp_perf_line_parse(text, (size_t)(end - text), &model->lines[model->count]))
			continue;
		model->texts[model->count] = text;
		if (++model->count == LINES_MAX)
			return false;
	}
	return true;
}

static void check(struct fp_perf_map *map, const struct model *model, uint64_t address)
{
	FP_AUTOBUF struct fp_buf name = { 0 };
	size_t line = model->count;
	int error = fp_perf_map_name(map, address, &name);

	while (line > 0 && address - model->lines[line - 1].start >= model->lines[line - 1].size)
		line--;
	if (line-- == 0) {
		if (error != -ENOENT)
			abort();
		return;
	}
	if (error || name.len > FP_STRING_MAX || name.len > model->lines[line].name_size ||
	    (name.len < FP_STRING_MAX && name.len < model->lines[line].name_size) ||
	    memcmp(name.data, model->texts[line] + model->lines[line].name, name.len) != 0)
		abort();
}

static void check_all(struct fp_perf_map *map, const struct model *model)
{
	for (size_t i = 0; i < model->count; i++) {
		uint64_t start = model->lines[i].start, end = start + model->lines[i].size;

		check(map, model, start);
		check(map, model, end - 1);
		check(map, model, end);
		check(map, model, start - 1);
	}
}

static void seal(struct fp_perf_map *map, uint64_t ended_ns, size_t step)
{
	int error;

	do
		error = fp_perf_map_seal(map, ended_ns, step);
	while (error == -EAGAIN);
	if (error)
		abort();
}

static void write_backwards(int file, const char *text, size_t size)
{
	FP_AUTOFREE char *backwards = malloc(size + 1);

	if (!backwards)
		abort();
	for (size_t i = 0; i < size; i++)
		backwards[i] = text[size - 1 - i];
	memfile_set(&file, backwards, size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct model model;
	static int file = -1;
	FP_AUTOPERFMAP struct fp_perf_map *map = NULL;
	const char *text = (const char *)data + 1;
	size_t piece, step;

	if (size < 1 || !model_read(&model, text, size - 1))
		return 0;
	size--;
	piece = data[0] % 16 ? (size_t)(data[0] % 16) * 7 : size;
	step = data[0] / 16 ? (size_t)(data[0] / 16) * 5 : SIZE_MAX;
	memfile_set(&file, text, 0);
	if (fp_perf_map_new(dup(file), &map))
		abort();
	for (size_t written = 0; written < size; written += piece) {
		size_t left = size - written < piece ? size - written : piece;

		if (pwrite(file, text + written, left, (off_t)written) != (ssize_t)left)
			abort();
		if (fp_perf_map_refresh(map, step) != 0 && step == SIZE_MAX)
			abort();
	}
	while (fp_perf_map_refresh(map, step) == -EAGAIN)
		;
	check_all(map, &model);
	seal(map, size % 2 ? 0 : UINT64_MAX, step); // an end that is not known, or known
	check_all(map, &model);
	write_backwards(file, text, size);
	if (fp_perf_map_refresh(map, step))
		abort();
	check_all(map, &model);
	return 0;
}
