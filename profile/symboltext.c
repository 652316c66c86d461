// SPDX-License-Identifier: Apache-2.0
#include "symboltext.h"

#include <errno.h>
#include <string.h>

// Tables of starts do not say where the last function ends; a page is a generous guess.
#define LAST_FUNCTION_SIZE 4096

struct words { // a line as blank-separated words
	const char *start[8];
	size_t size[8];
	size_t count;
};

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

static void split_words(const char *line, size_t size, struct words *ret_words)
{
	size_t i = 0;

	ret_words->count = 0;
	while (ret_words->count < FP_ARRAY_SIZE(ret_words->start)) {
		size_t start;

		while (i < size && is_blank(line[i]))
			i++;
		if (i == size)
			return;
		start = i;
		while (i < size && !is_blank(line[i]))
			i++;
		ret_words->start[ret_words->count] = line + start;
		ret_words->size[ret_words->count++] = i - start;
	}
}

static bool word_is(const struct words *words, size_t index, const char *text)
{
	return index < words->count && words->size[index] == strlen(text) &&
	       memcmp(words->start[index], text, words->size[index]) == 0;
}

static bool parse_hex(const char *text, size_t size, uint64_t *ret_value)
{
	uint64_t value = 0;

	if (size > 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X')) {
		text += 2;
		size -= 2;
	}
	if (size == 0 || size > 16)
		return false;
	for (size_t i = 0; i < size; i++) {
		char c = text[i];
		int digit = c >= '0' && c <= '9'   ? c - '0'
			    : c >= 'a' && c <= 'f' ? c - 'a' + 10
			    : c >= 'A' && c <= 'F' ? c - 'A' + 10
						   : -1;

		if (digit < 0)
			return false;
		value = value << 4 | (uint64_t)digit;
	}
	*ret_value = value;
	return true;
}

static bool next_line(const char *text, size_t size, size_t *position, const char **ret_line,
		      size_t *ret_size)
{
	const char *end;

	if (*position >= size)
		return false;
	*ret_line = text + *position;
	end = memchr(*ret_line, '\n', size - *position);
	*ret_size = end ? (size_t)(end - *ret_line) : size - *position;
	*position += *ret_size + 1;
	return true;
}

static uint64_t limit_after(uint64_t address)
{
	return address > UINT64_MAX - LAST_FUNCTION_SIZE ? UINT64_MAX
							 : address + LAST_FUNCTION_SIZE;
}

static bool name_is(const char *name, size_t size, const char *text)
{
	return size == strlen(text) && memcmp(name, text, size) == 0;
}

// The end of the kernel's text, and a gap, bound the function before them and name nothing.
static bool is_end_mark(const char *name, size_t size)
{
	return name_is(name, size, "_etext") || name_is(name, size, FP_SYMBOL_TEXT_GAP);
}

static int add_start(struct fp_symbol_builder *builder, uint64_t address, const char *name,
		     size_t size)
{
	struct fp_symbol symbol = { .address = address,
				    .limit = is_end_mark(name, size) ? address : UINT64_MAX,
				    .name = name,
				    .name_size = size };

	return fp_symbol_builder_add(builder, &symbol);
}

// Closes the table with a bound behind the last function.
static int add_end(struct fp_symbol_builder *builder, uint64_t last, bool any)
{
	struct fp_symbol end = { .address = limit_after(last),
				 .limit = limit_after(last),
				 .name = "(end)",
				 .name_size = strlen("(end)") };

	return any ? fp_symbol_builder_add(builder, &end) : 0;
}

int fp_symbol_text(const char *text, size_t size, struct fp_symbol_builder *builder,
		   uint64_t *ret_bad_lines)
{
	uint64_t bad = 0, last = 0, address;
	size_t position = 0, line_size;
	const char *line;
	bool any = false;
	int error = 0;

	while (!error && next_line(text, size, &position, &line, &line_size)) {
		const char *blank = memchr(line, ' ', line_size);
		size_t digits = blank ? (size_t)(blank - line) : 0;
		size_t name_size = blank ? line_size - digits - 1 : 0;

		if (name_size > 0 && line[line_size - 1] == '\r')
			name_size--;
		if (line_size == 0)
			continue;
		if (name_size == 0 || name_size > FP_SYMBOL_NAME_MAX ||
		    memchr(blank + 1, 0, name_size) || !parse_hex(line, digits, &address)) {
			bad++;
			continue;
		}
		error = add_start(builder, address, blank + 1, name_size);
		last = !any || address > last ? address : last;
		any = true;
	}
	if (!error)
		error = add_end(builder, last, any);
	if (!error)
		*ret_bad_lines = bad;
	return error;
}

static bool is_text_symbol(const struct words *words)
{
	const char *type;

	if (words->count < 3 || words->size[1] != 1)
		return false;
	type = words->start[1];
	return *type == 'T' || *type == 't' || *type == 'W' || *type == 'w';
}

static int find_stext(const char *text, size_t size, uint64_t *ret_stext)
{
	size_t position = 0, line_size;
	const char *line;

	while (next_line(text, size, &position, &line, &line_size)) {
		struct words words;

		split_words(line, line_size, &words);
		if (words.count != 3 || !word_is(&words, 2, "_stext") ||
		    !parse_hex(words.start[0], words.size[0], ret_stext))
			continue;
		return *ret_stext ? 0 : -EACCES;
	}
	return -ENOENT;
}

// module: "[name]" as the fourth word, NULL for the kernel image, whose lines have three.
static int add_kallsyms(const char *text, size_t size, const char *module, uint64_t base,
			struct fp_symbol_builder *builder)
{
	size_t position = 0, line_size;
	uint64_t last = 0, address;
	const char *line;
	bool any = false;
	int error = 0;

	while (!error && next_line(text, size, &position, &line, &line_size)) {
		struct words words;

		split_words(line, line_size, &words);
		if (!is_text_symbol(&words) ||
		    (module ? !word_is(&words, 3, module) : words.count != 3) ||
		    !parse_hex(words.start[0], words.size[0], &address) || address < base)
			continue;
		error = add_start(builder, address - base, words.start[2], words.size[2]);
		last = address - base > last ? address - base : last;
		any = true;
	}
	return error ? error : add_end(builder, last, any);
}

int fp_kallsyms_kernel(const char *text, size_t size, struct fp_symbol_builder *builder)
{
	uint64_t stext;
	int error = find_stext(text, size, &stext);

	return error ? error : add_kallsyms(text, size, NULL, stext, builder);
}

int fp_kallsyms_module(const char *text, size_t size, const char *module, uint64_t base,
		       struct fp_symbol_builder *builder)
{
	FP_AUTOBUF struct fp_buf marked = { 0 };

	if (fp_buf_printf(&marked, "[%s]", module))
		return -ENOMEM;
	return add_kallsyms(text, size, (const char *)marked.data, base, builder);
}

int fp_modules_base(const char *text, size_t size, const char *module, uint64_t *ret_base)
{
	size_t position = 0, line_size;
	const char *line;

	while (next_line(text, size, &position, &line, &line_size)) {
		struct words words; // name size uses users state address
		uint64_t base;

		split_words(line, line_size, &words);
		if (words.count < 6 || !word_is(&words, 0, module))
			continue;
		if (!parse_hex(words.start[5], words.size[5], &base))
			return -ENOENT;
		if (base == 0)
			return -EACCES;
		*ret_base = base;
		return 0;
	}
	return -ENOENT;
}
