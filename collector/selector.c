// SPDX-License-Identifier: Apache-2.0
#include "selector.h"

#include "common/regex.h"

#include <errno.h>
#include <string.h>

static const char *const op_texts[] = {
	[FP_MATCH_EQUAL] = "=",
	[FP_MATCH_NOT_EQUAL] = "!=",
	[FP_MATCH_REGEX] = "=~",
	[FP_MATCH_NOT_REGEX] = "!~",
};

struct parser {
	const char *text;
	size_t size;
	size_t at;
	struct fp_buf *error;
};

static void matcher_free(struct fp_matcher *matcher)
{
	free(matcher->name);
	free(matcher->value);
	fp_regex_free(matcher->regex);
	*matcher = (struct fp_matcher){ 0 };
}

void fp_selector_free(struct fp_selector *selector)
{
	for (size_t i = 0; i < selector->count; i++)
		matcher_free(&selector->matchers[i]);
	free(selector->matchers);
	*selector = (struct fp_selector){ 0 };
}

static int refuse(struct parser *parser, const char *cause)
{
	fp_buf_printf(parser->error, "selector, byte %zu: %s", parser->at + 1, cause);
	return -EINVAL;
}

static void skip_space(struct parser *parser)
{
	while (parser->at < parser->size && strchr(" \t\r\n", parser->text[parser->at]) &&
	       parser->text[parser->at])
		parser->at++;
}

static bool take(struct parser *parser, char c)
{
	skip_space(parser);
	if (parser->at >= parser->size || parser->text[parser->at] != c)
		return false;
	parser->at++;
	return true;
}

static bool is_name_byte(char c, bool first)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
	       (!first && ((c >= '0' && c <= '9') || c == '.' || c == '-'));
}

// Dots and dashes are allowed: labels such as service.name are shipped under that name.
static int parse_name(struct parser *parser, char **ret_name)
{
	size_t start;

	skip_space(parser);
	start = parser->at;
	while (parser->at < parser->size &&
	       is_name_byte(parser->text[parser->at], parser->at == start))
		parser->at++;
	if (parser->at == start)
		return refuse(parser, "a label name was expected");
	*ret_name = strndup(parser->text + start, parser->at - start);
	return *ret_name ? 0 : -ENOMEM;
}

static int parse_op(struct parser *parser, enum fp_match_op *ret_op)
{
	static const enum fp_match_op longest_first[] = { FP_MATCH_REGEX, FP_MATCH_NOT_REGEX,
							  FP_MATCH_NOT_EQUAL, FP_MATCH_EQUAL };

	skip_space(parser);
	for (size_t i = 0; i < FP_ARRAY_SIZE(longest_first); i++) {
		const char *op = op_texts[longest_first[i]];
		size_t size = strlen(op);

		if (parser->size - parser->at < size ||
		    memcmp(parser->text + parser->at, op, size) != 0)
			continue;
		parser->at += size;
		*ret_op = longest_first[i];
		return 0;
	}
	return refuse(parser, "one of = != =~ !~ was expected");
}

// The backslash escapes of Prometheus strings that matter here; `\d` and the like are
// refused, as there, so that a pattern reads the same in both.
static int parse_escape(struct parser *parser, struct fp_buf *value)
{
	static const char from[] = "\\\"'nrt", to[] = "\\\"'\n\r\t";
	const char *found;

	if (parser->at >= parser->size)
		return refuse(parser, "the string is not closed");
	found = parser->text[parser->at] ? strchr(from, parser->text[parser->at]) : NULL;
	if (!found)
		return refuse(parser, "unknown escape; write \\\\ for a backslash");
	parser->at++;
	return fp_buf_byte(value, (uint8_t)to[found - from]);
}

static int parse_string(struct parser *parser, struct fp_buf *value)
{
	char quote;
	int r;

	skip_space(parser);
	if (parser->at >= parser->size || !strchr("\"'`", parser->text[parser->at]) ||
	    !parser->text[parser->at])
		return refuse(parser, "a quoted value was expected");
	quote = parser->text[parser->at++];
	while (parser->at < parser->size && parser->text[parser->at] != quote) {
		char c = parser->text[parser->at++];

		if (c == '\\' && quote != '`')
			r = parse_escape(parser, value);
		else
			r = fp_buf_byte(value, (uint8_t)c);
		if (r < 0)
			return r;
	}
	if (!take(parser, quote))
		return refuse(parser, "the string is not closed");
	return fp_buf_byte(value, 0); // so that it is a C string as well
}

static int parse_matcher(struct parser *parser, struct fp_matcher *matcher)
{
	FP_AUTOBUF struct fp_buf value = { 0 };
	int r;

	r = parse_name(parser, &matcher->name);
	if (r == 0)
		r = parse_op(parser, &matcher->op);
	if (r == 0)
		r = parse_string(parser, &value);
	if (r < 0)
		return r;
	matcher->value_size = value.len - 1;
	matcher->value = fp_buf_take(&value);
	if (!matcher->value)
		return -ENOMEM;
	if (matcher->op != FP_MATCH_REGEX && matcher->op != FP_MATCH_NOT_REGEX)
		return 0;
	return fp_regex_new(matcher->value, matcher->value_size,
			    (struct fp_regex **)&matcher->regex, parser->error);
}

static int add_matcher(struct parser *parser, struct fp_selector *selector)
{
	struct fp_matcher *grown;
	int r;

	if (selector->count >= FP_SELECTOR_MAX_MATCHERS)
		return refuse(parser, "too many matchers");
	grown = reallocarray(selector->matchers, selector->count + 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	selector->matchers = grown;
	grown[selector->count] = (struct fp_matcher){ 0 };
	r = parse_matcher(parser, &grown[selector->count]);
	selector->count++; // also when half built: freed with the selector
	return r;
}

static int parse_braces(struct parser *parser, struct fp_selector *selector)
{
	int r;

	while (!take(parser, '}')) {
		r = add_matcher(parser, selector);
		if (r < 0)
			return r;
		if (take(parser, ','))
			continue;
		if (take(parser, '}'))
			return 0;
		return refuse(parser, "a comma or } was expected");
	}
	return 0;
}

int fp_selector_parse(const char *text, size_t size, struct fp_selector *ret_selector,
		      struct fp_buf *error)
{
	FP_AUTOSELECTOR struct fp_selector selector = { 0 };
	struct parser parser = { .text = text, .size = size, .error = error };
	int r = 0;

	if (size > FP_SELECTOR_MAX_BYTES)
		return refuse(&parser, "the selector is longer than 4096 bytes");
	skip_space(&parser);
	if (parser.at < size) {
		if (!take(&parser, '{'))
			return refuse(&parser, "{ was expected, as in {host=\"a\"}");
		r = parse_braces(&parser, &selector);
		if (r < 0)
			return r;
		skip_space(&parser);
		if (parser.at < size)
			return refuse(&parser, "nothing was expected after }");
	}
	*ret_selector = selector;
	selector = (struct fp_selector){ 0 };
	return 0;
}

int fp_matcher_test(const struct fp_matcher *matcher, const char *value, size_t size)
{
	bool negative = matcher->op == FP_MATCH_NOT_EQUAL || matcher->op == FP_MATCH_NOT_REGEX;
	int r;

	if (matcher->regex)
		r = fp_regex_match(matcher->regex, value, size);
	else
		r = size == matcher->value_size && memcmp(value, matcher->value, size) == 0;
	if (r < 0)
		return r;
	return negative ? !r : r;
}

int fp_selector_match(const struct fp_selector *selector, const struct fp_selector_label *labels,
		      size_t count)
{
	for (size_t i = 0; i < selector->count; i++) {
		const struct fp_matcher *matcher = &selector->matchers[i];
		const char *value = "";
		size_t value_size = 0;
		int r;

		for (size_t j = 0; j < count; j++) {
			if (strcmp(labels[j].name, matcher->name) != 0)
				continue;
			value = labels[j].value;
			value_size = labels[j].value_size;
			break;
		}
		r = fp_matcher_test(matcher, value, value_size);
		if (r <= 0)
			return r;
	}
	return 1;
}

static int print_value(const struct fp_matcher *matcher, struct fp_buf *text)
{
	fp_buf_byte(text, '"');
	for (size_t i = 0; i < matcher->value_size; i++) {
		char c = matcher->value[i];

		if (c == '"' || c == '\\')
			fp_buf_byte(text, '\\');
		if (c == '\n')
			fp_buf_str(text, "\\n");
		else
			fp_buf_byte(text, (uint8_t)c);
	}
	return fp_buf_byte(text, '"');
}

int fp_selector_print(const struct fp_selector *selector, struct fp_buf *text)
{
	fp_buf_byte(text, '{');
	for (size_t i = 0; i < selector->count; i++) {
		const struct fp_matcher *matcher = &selector->matchers[i];

		fp_buf_printf(text, "%s%s%s", i ? "," : "", matcher->name, op_texts[matcher->op]);
		print_value(matcher, text);
	}
	return fp_buf_byte(text, '}');
}
