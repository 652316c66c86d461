// SPDX-License-Identifier: Apache-2.0
//
// A file's sections → rows. Each section gives a list of its own; what .eh_frame leaves open
// .debug_frame may fill, and code that is known by itself what both do. unwindtable_bytes.c makes the table of them.
#include "unwindtable_private.h"

#include "common/file.h"
#include "profile/elfframes.h"
#include "profile/elfident.h"
#include "unwindcfi.h"

#include <errno.h>

struct span {		      // the code of one entry
	uint32_t start, size; // file offsets
	uint32_t at;	      // the entry in its section
};

struct layer {
	const struct fp_unwind_sources *sources;
	struct fp_unwind_rules *rules;
	struct fp_cfi_reader reader;
	struct span *spans;
	size_t spans_count, spans_capacity;
	struct fp_unwind_rows rows;
	// Of the entry that is being run:
	struct fp_cfi_entry entry;
	uint32_t start, end; // file offsets
};

static void layer_free(struct layer **layer)
{
	if (!*layer)
		return;
	fp_free_ptr(&(*layer)->spans);
	fp_unwind_rows_free(&(*layer)->rows);
	fp_free_ptr(layer);
}

// False: the code is not in the file, or not to be run.
static bool locate(const struct fp_unwind_sources *sources, const struct fp_cfi_entry *entry,
		   struct span *ret)
{
	if (entry->start == 0 || entry->size == 0)
		return false;
	for (uint32_t i = 0; i < sources->segments_count; i++) {
		const struct fp_symbol_segment *segment = &sources->segments[i];
		uint64_t before = entry->start - segment->address, size;

		if (entry->start < segment->address || before >= segment->size)
			continue;
		size = segment->size - before;
		*ret = (struct span){ .start = (uint32_t)(segment->offset + before),
				      .size = (uint32_t)(entry->size < size ? entry->size : size),
				      .at = entry->at };
		return true;
	}
	return false;
}

static int add_span(struct layer *layer, const struct span *span)
{
	if (layer->spans_count == layer->spans_capacity) {
		size_t capacity = layer->spans_capacity ? 2 * layer->spans_capacity : 1024;
		void *grown = reallocarray(layer->spans, capacity, sizeof(*span));

		if (!grown)
			return -ENOMEM;
		layer->spans = grown;
		layer->spans_capacity = capacity;
	}
	layer->spans[layer->spans_count++] = *span;
	return 0;
}

static int compare_spans(const void *a, const void *b)
{
	const struct span *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	if (x->size != y->size)
		return x->size < y->size ? -1 : 1;
	return x->at < y->at ? -1 : x->at > y->at;
}

// By address; linkers leave them nearly in that order, assemblers' groups apart.
static void sort_spans(struct layer *layer)
{
	for (size_t i = 1; i < layer->spans_count; i++)
		if (compare_spans(&layer->spans[i - 1], &layer->spans[i]) > 0) {
			qsort(layer->spans, layer->spans_count, sizeof(*layer->spans),
			      compare_spans);
			return;
		}
}

static int collect(struct layer *layer)
{
	struct fp_cfi_entry entry;
	struct span span;
	int r = 0;

	while (r == 0 && fp_cfi_next(&layer->reader, &entry))
		if (locate(layer->sources, &entry, &span))
			r = add_span(layer, &span);
	return r;
}

// Go keeps frame pointers, but does not say where: by its entries rbp is untouched. That is true,
// and what they say of the CFA of use, where a function has no frame, as leaves have none. Where
// it has one the frame pointer is followed, also because that leads from one stack to the other
// where the runtime switches them, of which the entries know nothing.
static bool is_go_rule(const struct fp_unwind_rule *rule)
{
	return rule->cfa == FP_UNWIND_END || (rule->cfa == FP_UNWIND_RSP && rule->offset == 8);
}

static int take_state(void *context, uint64_t address, const struct fp_cfi_state *state)
{
	struct layer *layer = context;
	uint64_t offset = layer->start + (address - layer->entry.start);
	struct fp_unwind_rule rule;
	uint16_t number;
	int r;

	if (offset >= layer->end)
		return 1; // the next entry has begun
	rule = fp_unwind_rule_of(state, layer->entry.common->is_signal);
	if (layer->reader.section->is_debug && layer->sources->is_go && !is_go_rule(&rule))
		rule = (struct fp_unwind_rule){ .cfa = FP_UNWIND_GAP };
	r = fp_unwind_rules_number(layer->rules, &rule, &number);
	return r < 0 ? r : fp_unwind_rows_add(&layer->rows, (uint32_t)offset, number);
}

static int run_span(struct layer *layer, const struct span *span, uint32_t next)
{
	int r;

	if (!fp_cfi_read(&layer->reader, span->at, &layer->entry))
		return -EBADMSG;
	layer->start = span->start;
	layer->end = span->size < next - span->start ? span->start + span->size : next;
	r = fp_cfi_run(&layer->reader, &layer->entry, take_state, layer);
	return r < 0 ? r : fp_unwind_rows_add(&layer->rows, layer->end, 0);
}

static int run_spans(struct layer *layer)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < layer->spans_count; i++) {
		bool is_last = i + 1 == layer->spans_count;
		uint32_t next = is_last ? UINT32_MAX : layer->spans[i + 1].start;

		if (next > layer->spans[i].start) // else a longer one begins there too
			r = run_span(layer, &layer->spans[i], next);
	}
	return r;
}

static int make_layer(const struct fp_unwind_sources *sources, const struct fp_cfi_section *section,
		      struct fp_unwind_made *made, struct fp_unwind_rows *ret)
{
	FP_CLEANUP(layer_free) struct layer *layer = calloc(1, sizeof(*layer));
	int r;

	if (!layer)
		return -ENOMEM;
	layer->sources = sources;
	layer->rules = &made->rules;
	layer->reader.section = section;
	r = collect(layer);
	if (r == 0) {
		sort_spans(layer);
		r = run_spans(layer);
	}
	if (r < 0)
		return r;
	made->entries += layer->reader.entries;
	made->rejected += layer->reader.rejected;
	*ret = layer->rows;
	layer->rows = (struct fp_unwind_rows){ 0 };
	return 0;
}

static void made_free(struct fp_unwind_made *made)
{
	fp_unwind_rules_free(&made->rules);
	fp_unwind_rows_free(&made->rows);
}

// Beneath what is there already. Both are lists of their own until then.
static int lay(struct fp_unwind_made *made, struct fp_unwind_rows *below)
{
	struct fp_unwind_rows above = made->rows;

	made->rows = (struct fp_unwind_rows){ 0 };
	return fp_unwind_rows_lay(&above, below, &made->rows);
}

static int lay_section(const struct fp_unwind_sources *sources,
		       const struct fp_cfi_section *section, struct fp_unwind_made *made)
{
	struct fp_unwind_rows rows = { 0 };
	int r = make_layer(sources, section, made, &rows);

	return r < 0 ? r : lay(made, &rows);
}

static int lay_code(const struct fp_unwind_code *code, struct fp_unwind_made *made,
		    int (*make)(const struct fp_unwind_code *code, struct fp_unwind_rules *rules,
				struct fp_unwind_rows *rows))
{
	FP_AUTOUNWINDROWS struct fp_unwind_rows rows = { 0 };
	int r = make(code, &made->rules, &rows);

	return r < 0 ? r : lay(made, &rows);
}

// As far as nobody tells of it.
static struct fp_unwind_code unknown_part(const struct fp_unwind_made *made,
					  const struct fp_unwind_code *code)
{
	struct fp_unwind_code part = *code;
	uint32_t gap = fp_unwind_rows_gap(&made->rows, code->offset);

	if (gap < part.size)
		part.size = gap;
	return part;
}

static int compare_code(const void *a, const void *b)
{
	const struct fp_unwind_code *x = a, *y = b;

	return x->offset < y->offset ? -1 : x->offset > y->offset;
}

// In one list: laying takes a look at all rows.
static int lay_crt(const struct fp_unwind_sources *sources, struct fp_unwind_made *made)
{
	FP_AUTOUNWINDROWS struct fp_unwind_rows rows = { 0 };
	struct fp_unwind_code parts[FP_UNWIND_CRT_FUNCTIONS];
	int r = 0;

	for (size_t i = 0; i < FP_UNWIND_CRT_FUNCTIONS; i++)
		parts[i] = unknown_part(made, &sources->crt[i]);
	qsort(parts, FP_UNWIND_CRT_FUNCTIONS, sizeof(parts[0]), compare_code);
	for (size_t i = 0; r == 0 && i < FP_UNWIND_CRT_FUNCTIONS; i++)
		if (rows.count == 0 || parts[i].offset >= rows.offsets[rows.count - 1])
			r = fp_unwind_crt_rows(&parts[i], &made->rules, &rows);
	return r < 0 ? r : lay(made, &rows);
}

int fp_unwind_table_of(const struct fp_unwind_sources *sources, struct fp_buf *ret)
{
	FP_CLEANUP(made_free) struct fp_unwind_made made = { 0 };
	struct fp_unwind_code entry;
	int r = fp_unwind_rules_init(&made.rules);

	if (r == 0)
		r = lay_section(sources, &sources->eh, &made);
	if (r == 0)
		r = lay_section(sources, &sources->debug, &made);
	if (r == 0 && made.rows.count == 0)
		r = -ENODATA; // code that is known without it does not make a table
	if (r == 0)
		r = lay_code(&sources->plt, &made, fp_unwind_plt_rows);
	entry = unknown_part(&made, &sources->entry);
	if (r == 0)
		r = lay_code(&entry, &made, fp_unwind_entry_rows);
	if (r == 0)
		r = lay_crt(sources, &made);
	return r < 0 ? r : fp_unwind_table_put(&made, ret);
}

// ---- files ----

static struct fp_cfi_section section_of(const struct fp_elf_frames *frames, bool is_debug)
{
	return (struct fp_cfi_section){ .bytes = frames->bytes,
					.size = frames->size,
					.address = frames->address,
					.is_debug = is_debug,
					.ends_at_zero = frames->ends_at_zero };
}

// Offsets have 32 bits.
static int check_segments(const struct fp_unwind_sources *sources)
{
	for (uint32_t i = 0; i < sources->segments_count; i++) {
		const struct fp_symbol_segment *segment = &sources->segments[i];

		if (segment->size > UINT32_MAX || segment->offset > UINT32_MAX - segment->size)
			return -EFBIG;
	}
	return 0;
}

// What lies at an address, with its place in the file; size 0 when that is not code.
static struct fp_unwind_code code_of(const struct fp_unwind_sources *sources,
				     const struct fp_elf_frames *code)
{
	const struct fp_cfi_entry entry = { .start = code->address, .size = code->size };
	struct span span;

	if (!locate(sources, &entry, &span) || span.size != code->size)
		return (struct fp_unwind_code){ 0 };
	return (struct fp_unwind_code){ code->bytes, code->size, span.start };
}

static void find_code(const struct fp_elf *elf, struct fp_unwind_sources *sources)
{
	static const enum fp_elf_crt crt[FP_UNWIND_CRT_FUNCTIONS] = {
		FP_ELF_CRT_INIT, FP_ELF_CRT_FINI, FP_ELF_CRT_INIT_ARRAY, FP_ELF_CRT_FINI_ARRAY
	};
	struct fp_elf_frames code;

	if (fp_elf_plt_code(elf, &code) == 0 && code.address % 16 == 0)
		sources->plt = code_of(sources, &code);
	if (fp_elf_entry_code(elf, FP_UNWIND_ENTRY_MAX, &code) == 0)
		sources->entry = code_of(sources, &code);
	for (size_t i = 0; i < FP_UNWIND_CRT_FUNCTIONS; i++)
		if (fp_elf_crt_code(elf, crt[i], FP_UNWIND_CRT_BYTES, &code) == 0)
			sources->crt[i] = code_of(sources, &code);
}

static int make_of_elf(const struct fp_elf *elf, struct fp_buf *ret)
{
	FP_AUTOFREE struct fp_symbol_segment *segments = NULL;
	struct fp_unwind_sources sources = { 0 };
	struct fp_elf_frames eh, debug;
	int r;

	if (!fp_elf_is_x86_64(elf))
		return -ENOTSUP;
	r = fp_elf_eh_frame(elf, &eh);
	// Debug information is not worth failing for: what runs can do without.
	if (r == 0 && fp_elf_debug_frame(elf, &debug) < 0)
		debug = (struct fp_elf_frames){ 0 };
	if (r == 0)
		r = fp_elf_segments(elf, &segments, &sources.segments_count);
	if (r < 0)
		return r == -E2BIG ? -EFBIG : r;
	sources.segments = segments;
	sources.eh = section_of(&eh, false);
	sources.debug = section_of(&debug, true);
	r = check_segments(&sources);
	if (r < 0)
		return r;
	sources.is_go = fp_elf_is_go(elf);
	find_code(elf, &sources);
	return fp_unwind_table_of(&sources, ret);
}

static int check_build(int fd, const struct fp_build *build)
{
	bool same = true;
	int r = build ? fp_elf_is_build(fd, build, &same) : 0;

	return r < 0 || same ? r : -ENOENT;
}

int fp_unwind_table_make(int fd, const struct fp_build *build, struct fp_buf *ret)
{
	FP_AUTOELF struct fp_elf *elf = NULL;
	int r = check_build(fd, build);

	if (r == 0)
		r = fp_elf_open(fd, &elf);
	if (r == 0)
		r = make_of_elf(elf, ret);
	return r == -ENOEXEC ? -EBADMSG : r;
}

int fp_unwind_table_write(int in_fd, const struct fp_build *build, int out_fd, uint64_t *ret_bytes)
{
	FP_AUTOBUF struct fp_buf table = { 0 };
	int r = fp_unwind_table_make(in_fd, build, &table);

	if (r == 0)
		r = fp_write_all(out_fd, table.data, table.len);
	if (r == 0)
		*ret_bytes = table.len;
	return r;
}
