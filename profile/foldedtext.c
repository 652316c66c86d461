// SPDX-License-Identifier: Apache-2.0
//
// Writing folded text. Nodes that differ only in what the text does not carry (module, or a
// kind without a suffix) come out as the same line and are added up.
#include "folded.h"

#include "foldedname.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct line {
	size_t offset, size; // of the stack in the scratch buffer
	uint64_t value;
};

struct writer {
	const struct fp_tree *tree;
	struct fp_buf stacks;
	struct line *lines;
	size_t count;
	uint32_t *path; // nodes from leaf to root
	size_t path_capacity;
};

static void writer_free(struct writer *writer)
{
	fp_buf_free(&writer->stacks);
	free(writer->lines);
	free(writer->path);
}
#define AUTOWRITER FP_CLEANUP(writer_free)

static int writer_path(struct writer *writer, uint32_t node, size_t *ret_depth)
{
	size_t depth = 0;

	for (; node != FP_TREE_ROOT; node = writer->tree->nodes[node].parent) {
		if (depth == writer->path_capacity) {
			size_t capacity = depth ? depth * 2 : 64;
			uint32_t *path = reallocarray(writer->path, capacity, sizeof(*path));

			if (!path)
				return -ENOMEM;
			writer->path = path;
			writer->path_capacity = capacity;
		}
		writer->path[depth++] = node;
	}
	*ret_depth = depth;
	return 0;
}

static int writer_line(struct writer *writer, uint32_t leaf)
{
	struct line *line = &writer->lines[writer->count];
	size_t depth;
	int error = writer_path(writer, leaf, &depth);

	if (error)
		return error;
	line->offset = writer->stacks.len;
	line->value = writer->tree->nodes[leaf].self;
	while (depth-- > 0) {
		const struct fp_node *node = &writer->tree->nodes[writer->path[depth]];
		struct fp_tree_frame frame = {
			.name = fp_intern_get(&writer->tree->names, node->name),
			.name_size = writer->tree->names.sizes[node->name],
			.kind = node->kind,
		};

		fp_folded_name_encode(&frame, depth == 0, &writer->stacks);
		if (depth > 0)
			fp_buf_byte(&writer->stacks, ';');
	}
	line->size = writer->stacks.len - line->offset;
	writer->count++;
	return writer->stacks.error;
}

static int compare_lines(const void *a, const void *b, void *context)
{
	const uint8_t *stacks = context;
	const struct line *x = a, *y = b;
	size_t size = x->size < y->size ? x->size : y->size;
	int order = size ? memcmp(stacks + x->offset, stacks + y->offset, size) : 0;

	return order ? order : (x->size > y->size) - (x->size < y->size);
}

static int writer_emit(struct writer *writer, struct fp_buf *ret_text)
{
	size_t next;

	if (writer->count > 1)
		qsort_r(writer->lines, writer->count, sizeof(*writer->lines), compare_lines,
			writer->stacks.data);
	for (size_t i = 0; i < writer->count; i = next) {
		const struct line *line = &writer->lines[i];
		uint64_t value = line->value;

		for (next = i + 1; next < writer->count; next++) {
			if (compare_lines(line, &writer->lines[next], writer->stacks.data) != 0)
				break;
			value += writer->lines[next].value;
		}
		if (line->size > 0)
			fp_buf_append(ret_text, writer->stacks.data + line->offset, line->size);
		fp_buf_printf(ret_text, " %llu\n", (unsigned long long)value);
	}
	return ret_text->error;
}

int fp_folded_write(const struct fp_tree *tree, struct fp_buf *ret_text)
{
	AUTOWRITER struct writer writer = { .tree = tree };

	if (!tree->finished)
		return -EINVAL;
	writer.lines = calloc(tree->count, sizeof(*writer.lines));
	if (!writer.lines)
		return -ENOMEM;
	for (uint32_t i = 0; i < tree->count; i++) {
		int error = tree->nodes[i].self ? writer_line(&writer, i) : 0;

		if (error)
			return error;
	}
	return writer_emit(&writer, ret_text);
}
