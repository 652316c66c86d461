// SPDX-License-Identifier: Apache-2.0
//
// The cache of symbol tables: one entry per build ever asked for, with its table while that
// fits the bound, and its status for good.
#include "symbols.h"

#include "array.h"
#include "demangle.h"
#include "symbolsource.h"
#include "symboltext.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CACHE_BYTES_DEFAULT ((size_t)256 << 20)

struct build_key { // path counts only without an id
	uint8_t id[FP_BUILD_ID_MAX];
	uint32_t id_len, path;
};

struct build_entry {
	struct fp_symbol_table *table;
	size_t bytes;
	uint64_t last_used;
	enum fp_symbol_status status;
	bool asked; // the sources, since the table last left
	bool given; // through fp_symbolizer_add_table: stays
};

struct fp_symbolizer {
	struct fp_symbolizer_options options;
	struct fp_symbol_host host;
	struct fp_intern names;	 // readable names, alive as long as the symbolizer
	struct fp_intern paths;	 // of builds without an id
	struct fp_hashmap index; // build_key → entry number
	struct build_entry *entries;
	size_t entries_count, entries_capacity;
	size_t bytes; // of all tables
	uint64_t clock;
};

const char *fp_symbol_status_text(enum fp_symbol_status status)
{
	static const char *const texts[] = {
		[FP_SYMBOLS_FOUND] = "found",
		[FP_SYMBOLS_NO_FILE] = "no file with this build-ID was found",
		[FP_SYMBOLS_ID_MISMATCH] = "the file at the path is another build",
		[FP_SYMBOLS_NO_SYMBOLS] = "the file holds no symbols (stripped)",
		[FP_SYMBOLS_BAD_FILE] = "the file is malformed or too large",
		[FP_SYMBOLS_HIDDEN] =
		    "the kernel hides its addresses (kernel.kptr_restrict, or no CAP_SYSLOG)",
	};

	return status < FP_ARRAY_SIZE(texts) ? texts[status] : "unknown";
}

int fp_symbolizer_new(const struct fp_symbolizer_options *options, struct fp_symbolizer **ret)
{
	FP_CLEANUP(fp_symbolizer_freep)
	struct fp_symbolizer *symbolizer = calloc(1, sizeof(*symbolizer));
	int error;

	if (!symbolizer)
		return -ENOMEM;
	symbolizer->options = *options;
	if (!symbolizer->options.table_cache_bytes)
		symbolizer->options.table_cache_bytes = CACHE_BYTES_DEFAULT;
	symbolizer->index = FP_HASHMAP_INIT(struct build_key, uint32_t);
	error = fp_intern_init(&symbolizer->names);
	if (!error)
		error = fp_intern_init(&symbolizer->paths);
	if (error)
		return error;
	*ret = fp_take_ptr(symbolizer);
	return 0;
}

void fp_symbolizer_free(struct fp_symbolizer *symbolizer)
{
	if (!symbolizer)
		return;
	for (size_t i = 0; i < symbolizer->entries_count; i++)
		fp_symbol_table_free(symbolizer->entries[i].table);
	free(symbolizer->entries);
	fp_hashmap_free(&symbolizer->index);
	fp_intern_free(&symbolizer->names);
	fp_intern_free(&symbolizer->paths);
	fp_buf_free(&symbolizer->host.kallsyms);
	free(symbolizer);
}

static struct build_entry *symbolizer_entry(struct fp_symbolizer *symbolizer, const uint8_t *id,
					    size_t id_len, const char *path)
{
	struct build_key key = { .id_len = (uint32_t)id_len };
	bool inserted;
	uint32_t *number;

	if (id_len > 0)
		memcpy(key.id, id, id_len);
	else if (fp_intern_add(&symbolizer->paths, path, strlen(path), &key.path))
		return NULL;
	if (FP_ARRAY_ROOM(symbolizer, entries, 1))
		return NULL;
	number = fp_hashmap_put(&symbolizer->index, &key, &inserted);
	if (!number)
		return NULL;
	if (inserted) {
		*number = (uint32_t)symbolizer->entries_count++;
		symbolizer->entries[*number] = (struct build_entry){ .status = FP_SYMBOLS_NO_FILE };
	}
	return &symbolizer->entries[*number];
}

static void entry_drop(struct fp_symbolizer *symbolizer, struct build_entry *entry)
{
	symbolizer->bytes -= entry->bytes;
	fp_symbol_table_freep(&entry->table);
	*entry = (struct build_entry){ .status = FP_SYMBOLS_NO_FILE };
}

static void entry_set(struct fp_symbolizer *symbolizer, struct build_entry *entry,
		      struct fp_symbol_table *table)
{
	entry_drop(symbolizer, entry);
	entry->table = table;
	entry->bytes = table ? fp_symbol_table_bytes(table) : 0;
	entry->asked = true;
	symbolizer->bytes += entry->bytes;
}

// Least recently used tables leave; `kept`, the one being looked at, and given ones stay.
static void symbolizer_shrink(struct fp_symbolizer *symbolizer, const struct build_entry *kept)
{
	while (symbolizer->bytes > symbolizer->options.table_cache_bytes) {
		struct build_entry *oldest = NULL;

		for (size_t i = 0; i < symbolizer->entries_count; i++) {
			struct build_entry *entry = &symbolizer->entries[i];

			if (entry->table && !entry->given && entry != kept &&
			    (!oldest || entry->last_used < oldest->last_used))
				oldest = entry;
		}
		if (!oldest)
			return;
		entry_drop(symbolizer, oldest);
	}
}

int fp_symbolizer_add_table(struct fp_symbolizer *symbolizer, const uint8_t *id, size_t id_len,
			    const char *text, size_t size, uint64_t *ret_bad_lines)
{
	FP_AUTOSYMBOLS struct fp_symbol_builder builder = { 0 };
	FP_AUTOSYMBOLTABLE struct fp_symbol_table *table = NULL;
	struct build_entry *entry;
	uint64_t bad_lines = 0;
	int error;

	if (id_len == 0 || id_len > FP_BUILD_ID_MAX)
		return -EINVAL;
	error = fp_symbol_text(text, size, &builder, &bad_lines);
	if (!error)
		error = fp_symbol_builder_finish(&builder, &table);
	if (error)
		return error;
	entry = symbolizer_entry(symbolizer, id, id_len, "");
	if (!entry)
		return -ENOMEM;
	entry_set(symbolizer, entry, fp_take_ptr(table));
	entry->given = true;
	entry->status = entry->table->count ? FP_SYMBOLS_FOUND : FP_SYMBOLS_NO_SYMBOLS;
	symbolizer_shrink(symbolizer, entry);
	if (ret_bad_lines)
		*ret_bad_lines = bad_lines;
	return 0;
}

void fp_symbolizer_forget(struct fp_symbolizer *symbolizer, const uint8_t *id, size_t id_len)
{
	struct build_key key = { .id_len = (uint32_t)id_len };
	uint32_t *number;

	if (id_len == 0 || id_len > FP_BUILD_ID_MAX)
		return;
	memcpy(key.id, id, id_len);
	number = fp_hashmap_get(&symbolizer->index, &key);
	if (number)
		entry_drop(symbolizer, &symbolizer->entries[*number]);
}

static struct build_entry *symbolizer_load(struct fp_symbolizer *symbolizer,
					   const struct fp_symbol_request *request)
{
	const struct fp_build *build = request->build;
	struct build_entry *entry =
	    symbolizer_entry(symbolizer, build->id, build->id_len, request->path);
	struct fp_symbol_table *table;
	enum fp_symbol_status status;

	if (!entry)
		return NULL;
	entry->last_used = ++symbolizer->clock;
	if (entry->asked)
		return entry;
	fp_symbol_source_load(&symbolizer->options, &symbolizer->host, request, &table, &status);
	entry_set(symbolizer, entry, table);
	entry->status = status;
	entry->last_used = symbolizer->clock;
	symbolizer_shrink(symbolizer, entry);
	return entry;
}

// The readable name of a segment, made on first use.
static const char *readable_name(struct fp_symbolizer *symbolizer, struct fp_symbol_table *table,
				 uint32_t segment)
{
	FP_AUTOBUF struct fp_buf text = { 0 };

	if (table->shown[segment] == 0) {
		if (fp_demangle(fp_symbol_table_name(table, segment), &text) ||
		    fp_intern_add(&symbolizer->names, (const char *)text.data, text.len,
				  &table->shown[segment]))
			return NULL;
	}
	return fp_intern_get(&symbolizer->names, table->shown[segment]);
}

const char *fp_symbolizer_lookup(struct fp_symbolizer *symbolizer, const struct fp_build *build,
				 const char *path, enum fp_frame_kind kind, uint64_t offset,
				 bool is_leaf)
{
	struct fp_symbol_request request = { build, path, kind };
	struct build_entry *entry = symbolizer_load(symbolizer, &request);
	uint64_t address;
	uint32_t segment;

	if (!entry || !entry->table || entry->table->count == 0 || (!is_leaf && offset == 0))
		return NULL;
	if (!fp_symbol_table_address(entry->table, is_leaf ? offset : offset - 1, &address))
		return NULL;
	segment = fp_symbol_table_find(entry->table, address);
	return segment == UINT32_MAX ? NULL : readable_name(symbolizer, entry->table, segment);
}

enum fp_symbol_status fp_symbolizer_status(struct fp_symbolizer *symbolizer,
					   const struct fp_build *build, const char *path,
					   enum fp_frame_kind kind)
{
	struct fp_symbol_request request = { build, path, kind };
	struct build_entry *entry = symbolizer_load(symbolizer, &request);

	return entry ? entry->status : FP_SYMBOLS_BAD_FILE;
}
