// SPDX-License-Identifier: Apache-2.0
#include "relabel_rule.h"

#include <errno.h>
#include <string.h>

static const char *const actions[] = {
	[FP_RELABEL_KEEP] = "keep",
	[FP_RELABEL_DROP] = "drop",
	[FP_RELABEL_REPLACE] = "replace",
};

void fp_relabel_rule_free(struct fp_relabel_rule *rule)
{
	for (uint32_t i = 0; i < rule->sources_count; i++)
		free(rule->sources[i]);
	fp_regex_free(rule->regex);
	free(rule->target);
	free(rule->replacement);
	*rule = (struct fp_relabel_rule){ 0 };
}

struct reading {
	const char *at;
	struct fp_relabel_rule *rule;
	struct fp_buf *cause;
};

static int fail(struct reading *reading, const char *cause)
{
	fp_buf_str(reading->cause, cause);
	return -EINVAL;
}

static void skip_spaces(struct reading *reading)
{
	reading->at += strspn(reading->at, " \t");
}

static bool take(struct reading *reading, const char *text)
{
	size_t size = strlen(text);

	skip_spaces(reading);
	if (strncmp(reading->at, text, size) != 0)
		return false;
	reading->at += size;
	return true;
}

static int read_action(struct reading *reading)
{
	size_t size;

	skip_spaces(reading);
	size = strcspn(reading->at, " \t");
	for (size_t i = 0; i < FP_ARRAY_SIZE(actions); i++) {
		if (strlen(actions[i]) == size && !memcmp(reading->at, actions[i], size)) {
			reading->rule->action = (enum fp_relabel_action)i;
			reading->at += size;
			return 0;
		}
	}
	return fail(reading, "the first word must be keep, drop or replace");
}

static int read_name(struct reading *reading, char **ret_name)
{
	static const char first[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_";
	static const char rest[] =
	    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789.";
	size_t size;

	skip_spaces(reading);
	size = strspn(reading->at, rest);
	if (size == 0 || !strchr(first, reading->at[0]))
		return fail(reading, "a label name is expected");
	if (size == 4 && memcmp(reading->at, "host", 4) == 0)
		return fail(reading,
			    "host is a label of the batch, which rules neither see nor set");
	*ret_name = strndup(reading->at, size);
	if (!*ret_name)
		return -ENOMEM;
	reading->at += size;
	return 0;
}

static int read_sources(struct reading *reading)
{
	struct fp_relabel_rule *rule = reading->rule;

	do {
		int r;

		if (rule->sources_count == FP_RELABEL_SOURCES_MAX)
			return fail(reading, "more than 8 label names");
		r = read_name(reading, &rule->sources[rule->sources_count]);
		if (r < 0)
			return r;
		rule->sources_count++;
	} while (take(reading, ","));
	if (take(reading, "=~"))
		return 0;
	rule->negated = take(reading, "!~");
	if (!rule->negated)
		return fail(reading, "=~ or !~ is expected behind the label names");
	if (rule->action == FP_RELABEL_REPLACE)
		return fail(reading, "replace needs a match, =~");
	return 0;
}

// "quoted", where \" is a quote and every other backslash itself, or up to the next space.
static int read_text(struct reading *reading, struct fp_buf *text)
{
	const char *at;

	skip_spaces(reading);
	at = reading->at;
	fp_buf_append(text, "", 0);
	if (*at != '"') {
		size_t size = strcspn(at, " \t");

		if (size == 0)
			return fail(reading, "the text behind the operator is missing");
		reading->at = at + size;
		return fp_buf_append(text, at, size);
	}
	for (at++; *at && *at != '"'; at++) {
		if (at[0] == '\\' && at[1] == '"')
			at++;
		fp_buf_byte(text, (uint8_t)*at);
	}
	if (!*at)
		return fail(reading, "the closing quote is missing");
	reading->at = at + 1;
	return text->error;
}

static int read_regex(struct reading *reading)
{
	FP_AUTOBUF struct fp_buf text = { 0 };
	int r = read_text(reading, &text);

	if (r < 0)
		return r;
	reading->rule->is_empty = text.len == 0;
	if (text.len == 0 && reading->rule->sources_count > 1)
		return fail(reading,
			    "an empty expression matches nothing where ; joins several values");
	return fp_regex_new((char *)text.data, text.len, &reading->rule->regex, reading->cause);
}

// $1, ${1}, $$; nothing else behind a dollar, rather than an empty text where one was meant.
static int check_replacement(struct reading *reading)
{
	uint32_t groups = fp_regex_groups(reading->rule->regex);

	for (const char *at = strchr(reading->rule->replacement, '$'); at; at = strchr(at, '$')) {
		bool braced = at[1] == '{';
		char digit = at[braced ? 2 : 1];

		if (!braced && digit == '$') {
			at += 2;
			continue;
		}
		if (digit < '0' || digit > '9' || (braced && at[3] != '}'))
			return fail(reading, "behind $ must stand a digit, {digit} or $");
		if ((uint32_t)(digit - '0') > groups)
			return fail(reading, "the expression has not that many groups");
		at += braced ? 4 : 2;
	}
	return 0;
}

static int read_replacement(struct reading *reading)
{
	FP_AUTOBUF struct fp_buf text = { 0 };
	int r;

	if (!take(reading, "->"))
		return fail(reading, "-> TARGET = REPLACEMENT is expected behind the expression");
	r = read_name(reading, &reading->rule->target);
	if (r < 0)
		return r;
	if (!take(reading, "="))
		return fail(reading, "= is expected behind the label to set");
	r = read_text(reading, &text);
	if (r < 0)
		return r;
	reading->rule->replacement = fp_buf_take(&text);
	return reading->rule->replacement ? check_replacement(reading) : -ENOMEM;
}

int fp_relabel_rule_parse(const char *line, struct fp_relabel_rule *ret, struct fp_buf *cause)
{
	struct fp_relabel_rule rule FP_CLEANUP(fp_relabel_rule_free) = { 0 };
	struct reading reading = { line, &rule, cause };
	int r = read_action(&reading);

	if (r == 0)
		r = read_sources(&reading);
	if (r == 0)
		r = read_regex(&reading);
	if (r == 0 && rule.action == FP_RELABEL_REPLACE)
		r = read_replacement(&reading);
	if (r < 0)
		return r;
	skip_spaces(&reading);
	if (*reading.at)
		return fail(&reading, "more text than a rule has; put quotes around spaces");
	*ret = rule;
	rule = (struct fp_relabel_rule){ 0 };
	return 0;
}
