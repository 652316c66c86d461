// SPDX-License-Identifier: Apache-2.0
//
// Reading folded text. The stack is everything before the last blank of the line, as in the
// original tools, so a name may hold blanks, also at its end.
#include "folded.h"

#include "foldedname.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct line_parser {
	struct fp_tree *tree;
	struct fp_tree_frame *frames;
	size_t capacity;
	struct fp_buf names; // unescaped names of one line; reserved up front, so never moves
};

static void parser_free(struct line_parser *parser)
{
	free(parser->frames);
	fp_buf_free(&parser->names);
}
#define AUTOPARSER FP_CLEANUP(parser_free)

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

// The digits at the end of a line: their number, 0 when there are none.
static size_t digits_at_end(const char *text, size_t size)
{
	size_t digits = 0;

	while (digits < size && is_digit(text[size - digits - 1]))
		digits++;
	return digits;
}

static const char *parse_value(const char *digits, size_t count, uint64_t *ret_value)
{
	uint64_t value = 0;

	for (size_t i = 0; i < count; i++) {
		if (__builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(value, (uint64_t)(digits[i] - '0'), &value))
			return "the value is larger than 64 bits";
	}
	*ret_value = value;
	return NULL;
}

// Splits `stack value`; yields the reason why the line is none, or NULL.
static const char *split_line(const char *line, size_t size, size_t *ret_stack, uint64_t *ret_value)
{
	size_t digits = digits_at_end(line, size);
	size_t stack = size - digits;

	if (digits == 0)
		return "the line does not end in a number";
	if (stack > 0 && line[stack - 1] == '.' && digits_at_end(line, stack - 1) > 0)
		return "the value is not a whole number";
	if (stack == 0 || (line[stack - 1] != ' ' && line[stack - 1] != '\t'))
		return "no blank stands between the stack and the value";
	stack--;
	digits = digits_at_end(line, stack);
	if (digits > 0 && digits < stack &&
	    (line[stack - digits - 1] == ' ' || line[stack - digits - 1] == '\t'))
		return "two numbers end the line: this is a comparison of two profiles";
	*ret_stack = stack;
	return parse_value(line + size - digits_at_end(line, size), digits_at_end(line, size),
			   ret_value);
}

static int parser_frame(struct line_parser *parser, size_t index, const char *text, size_t size)
{
	struct fp_tree_frame *frame;
	size_t start = parser->names.len;

	if (index == parser->capacity) {
		size_t capacity = parser->capacity ? parser->capacity * 2 : 64;
		struct fp_tree_frame *frames =
		    reallocarray(parser->frames, capacity, sizeof(*frames));

		if (!frames)
			return -ENOMEM;
		parser->frames = frames;
		parser->capacity = capacity;
	}
	frame = &parser->frames[index];
	frame->kind = fp_folded_name_kind(text, &size);
	fp_folded_name_decode(text, size, &parser->names);
	frame->name = (const char *)parser->names.data + start;
	frame->name_size = parser->names.len - start;
	frame->module = NULL;
	return parser->names.error;
}

static int parser_stack(struct line_parser *parser, const char *stack, size_t size, uint64_t value)
{
	size_t count = 0, start = 0;

	fp_buf_clear(&parser->names);
	for (size_t i = 0; size > 0 && i <= size; i++) {
		int error;

		if (i < size && stack[i] != ';')
			continue;
		error = parser_frame(parser, count, stack + start, i - start);
		if (error)
			return error;
		count++;
		start = i + 1;
	}
	return fp_tree_add(parser->tree, parser->frames, count, value);
}

static int parser_line(struct line_parser *parser, const char *line, size_t size,
		       const char **ret_reason)
{
	size_t stack_size = 0;
	uint64_t value = 0;
	int error;

	*ret_reason = split_line(line, size, &stack_size, &value);
	if (*ret_reason)
		return 0;
	error = parser_stack(parser, line, stack_size, value);
	if (error != -EOVERFLOW)
		return error;
	*ret_reason = "the sum of all values is larger than 64 bits";
	return 0;
}

static void result_bad(struct fp_folded_result *result, uint64_t number, const char *reason)
{
	if (result->bad_lines++ > 0)
		return;
	result->first_bad = number;
	result->first_bad_reason = reason;
}

int fp_folded_parse(const char *text, size_t size, struct fp_tree *tree,
		    struct fp_folded_result *ret_result)
{
	AUTOPARSER struct line_parser parser = { .tree = tree };
	struct fp_folded_result result = { 0 };
	uint64_t number = 0;
	int error = fp_buf_reserve(&parser.names, size);

	for (size_t start = 0; !error && start < size; number++) {
		const char *line = text + start;
		const char *end = memchr(line, '\n', size - start);
		size_t line_size = end ? (size_t)(end - line) : size - start;
		const char *reason = NULL;

		start += line_size + 1;
		if (line_size > 0 && line[line_size - 1] == '\r')
			line_size--;
		if (line_size == 0)
			continue;
		error = parser_line(&parser, line, line_size, &reason);
		if (reason)
			result_bad(&result, number + 1, reason);
		else
			result.lines++;
	}
	if (error)
		return error;
	*ret_result = result;
	return 0;
}
