// SPDX-License-Identifier: Apache-2.0
#include "symbolwrite.h"

#include "common/file.h"
#include "elfident.h"
#include "elfsymbols.h"
#include "symbolsource.h"
#include "symboltext.h"

#include <errno.h>
#include <string.h>

#define CHUNK_BYTES ((size_t)64 << 10)

struct text_writer {
	int fd;
	uint64_t written, max_bytes;
	struct fp_buf chunk;
};

static void text_writer_free(struct text_writer *writer)
{
	fp_buf_free(&writer->chunk);
}

static int flush_chunk(struct text_writer *writer)
{
	int error;

	if (writer->chunk.error)
		return writer->chunk.error;
	if (writer->written + writer->chunk.len > writer->max_bytes)
		return -EFBIG;
	error = fp_write_all(writer->fd, writer->chunk.data, writer->chunk.len);
	writer->written += writer->chunk.len;
	fp_buf_clear(&writer->chunk);
	return error;
}

static int write_line(struct text_writer *writer, uint64_t offset, const char *name)
{
	size_t start;

	fp_buf_printf(&writer->chunk, "%lx ", (unsigned long)offset);
	start = writer->chunk.len;
	fp_buf_str(&writer->chunk, name);
	for (size_t i = start; !writer->chunk.error && i < writer->chunk.len; i++)
		if (writer->chunk.data[i] == '\n' || writer->chunk.data[i] == '\r')
			writer->chunk.data[i] = '?';
	fp_buf_byte(&writer->chunk, '\n');
	return writer->chunk.len < CHUNK_BYTES ? writer->chunk.error : flush_chunk(writer);
}

// The other way round than fp_symbol_table_address.
static bool offset_of(const struct fp_symbol_table *table, uint64_t address, uint64_t *ret_offset)
{
	for (uint32_t i = 0; i < table->segments_count; i++) {
		const struct fp_symbol_segment *segment = &table->segments[i];

		if (address >= segment->address && address - segment->address < segment->size) {
			*ret_offset = segment->offset + (address - segment->address);
			return true;
		}
	}
	return false;
}

static int write_functions(struct text_writer *writer, const struct fp_symbol_table *table)
{
	int error = 0;

	for (uint32_t i = 0; !error && i < table->count; i++) {
		uint64_t end = table->starts[i] + table->sizes[i], offset;

		if (!offset_of(table, table->starts[i], &offset))
			continue;
		error = write_line(writer, offset, fp_symbol_table_name(table, i));
		if (!error && (i + 1 == table->count || table->starts[i + 1] != end))
			error = write_line(writer, offset + table->sizes[i], FP_SYMBOL_TEXT_GAP);
	}
	return error ? error : flush_chunk(writer);
}

static int check_build(int fd, const struct fp_build *build)
{
	bool same = false;
	int error = fp_elf_is_build(fd, build, &same);

	return error || same ? error : -EBADMSG;
}

int fp_symbol_write_elf(int in_fd, const struct fp_build *build, int out_fd, uint64_t max_bytes,
			uint64_t *ret_bytes)
{
	FP_CLEANUP(text_writer_free)
	struct text_writer writer = { .fd = out_fd, .max_bytes = max_bytes };
	FP_AUTOSYMBOLTABLE struct fp_symbol_table *table = NULL;
	FP_AUTOELF struct fp_elf *elf = NULL;
	int error = check_build(in_fd, build);

	if (!error)
		error = fp_elf_open(in_fd, &elf);
	if (!error)
		error = fp_symbol_elf_table(elf, elf, &table);
	fp_elf_freep(&elf); // its sections are as large as the table
	if (error)
		return error == -ENOEXEC ? -EBADMSG : error;
	if (table->count == 0)
		return -ENODATA;
	error = write_functions(&writer, table);
	if (error)
		return error;
	*ret_bytes = writer.written;
	return 0;
}
