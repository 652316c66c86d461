// SPDX-License-Identifier: Apache-2.0
#include "relabel.h"

#include "labels.h"
#include "relabel_rule.h"

#include <errno.h>
#include <string.h>

struct fp_relabel {
	struct fp_relabel_rule rules[FP_RELABEL_RULES_MAX];
	uint32_t count;
	uint64_t overruns;
	struct fp_buf subject, replacement; // scratch
};

void fp_relabel_free(struct fp_relabel *relabel)
{
	if (!relabel)
		return;
	for (uint32_t i = 0; i < relabel->count; i++)
		fp_relabel_rule_free(&relabel->rules[i]);
	fp_buf_free(&relabel->subject);
	fp_buf_free(&relabel->replacement);
	free(relabel);
}

// An empty expression asks whether a label is missing, which of these is never, unless a rule
// before could take it away.
static bool is_pointless(const struct fp_relabel *relabel, const struct fp_relabel_rule *rule)
{
	const char *name = rule->sources[0];

	if (!rule->is_empty ||
	    (strcmp(name, "executable") != 0 && strcmp(name, "service_name") != 0))
		return false;
	for (uint32_t i = 0; i < relabel->count; i++)
		if (relabel->rules[i].target && strcmp(relabel->rules[i].target, name) == 0)
			return false;
	return true;
}

static int accept(struct fp_relabel *relabel, const struct fp_relabel_rule *rule,
		  struct fp_buf *cause)
{
	if (is_pointless(relabel, rule)) {
		fp_buf_printf(cause, "%s is never missing, so an empty expression matches nothing",
			      rule->sources[0]);
		return cause->error ? cause->error : -EINVAL;
	}
	relabel->rules[relabel->count++] = *rule;
	return 0;
}

// line: one rule or nothing but spaces. number: for people, from 1.
static int add_rule(struct fp_relabel *relabel, const char *line, uint32_t number,
		    struct fp_buf *error)
{
	FP_AUTOBUF struct fp_buf cause = { 0 };
	struct fp_relabel_rule rule;
	int r;

	if (line[strspn(line, " \t")] == '\0')
		return 0;
	if (relabel->count == FP_RELABEL_RULES_MAX) {
		fp_buf_printf(error, "more than %d rules", FP_RELABEL_RULES_MAX);
		return -EINVAL;
	}
	r = fp_relabel_rule_parse(line, &rule, &cause);
	if (r == 0) {
		r = accept(relabel, &rule, &cause);
		if (r < 0)
			fp_relabel_rule_free(&rule);
	}
	if (r == -EINVAL)
		fp_buf_printf(error, "rule %u, '%s': %s", number, line, (char *)cause.data);
	return r;
}

// *number: of the line that is read, from 1.
static int read_rules(const char *rules, struct fp_relabel **ret, uint32_t *number,
		      struct fp_buf *error)
{
	struct fp_relabel *relabel FP_CLEANUP(fp_relabel_freep) = calloc(1, sizeof(*relabel));

	if (!relabel)
		return -ENOMEM;
	for (*number = 1; *rules; ++*number) {
		size_t size = strcspn(rules, "\n");
		char *line FP_AUTOFREE = strndup(rules, size);
		int r = line ? add_rule(relabel, line, *number, error) : -ENOMEM;

		if (r < 0)
			return r;
		rules += size + (rules[size] == '\n');
	}
	*ret = fp_take_ptr(relabel);
	return 0;
}

int fp_relabel_new(const char *rules, struct fp_relabel **ret, struct fp_buf *error)
{
	uint32_t number;

	return read_rules(rules, ret, &number, error);
}

uint32_t fp_relabel_count(const struct fp_relabel *relabel)
{
	return relabel->count;
}

uint64_t fp_relabel_overruns(const struct fp_relabel *relabel)
{
	return relabel->overruns;
}

static int join_sources(struct fp_relabel *relabel, const struct fp_relabel_rule *rule,
			const struct fp_label_set *set)
{
	fp_buf_clear(&relabel->subject);
	for (uint32_t i = 0; i < rule->sources_count; i++) {
		size_t size;
		const char *value =
		    fp_label_set_get(set, rule->sources[i], strlen(rule->sources[i]), &size);

		if (i > 0)
			fp_buf_byte(&relabel->subject, ';');
		fp_buf_append(&relabel->subject, value, size);
	}
	return relabel->subject.error;
}

static int expand(struct fp_relabel *relabel, const struct fp_relabel_rule *rule,
		  const struct fp_regex_span *spans)
{
	struct fp_buf *out = &relabel->replacement;
	const char *at = rule->replacement;

	fp_buf_clear(out);
	while (*at) {
		size_t size = strcspn(at, "$");
		const struct fp_regex_span *span;
		bool braced;

		fp_buf_append(out, at, size);
		at += size;
		if (!*at)
			break;
		if (at[1] == '$') {
			fp_buf_byte(out, '$');
			at += 2;
			continue;
		}
		braced = at[1] == '{'; // the rule has been checked
		span = &spans[at[braced ? 2 : 1] - '0'];
		fp_buf_append(out, relabel->subject.data + span->start, span->size);
		at += braced ? 4 : 2;
	}
	return out->error;
}

static int replace(struct fp_relabel *relabel, const struct fp_relabel_rule *rule,
		   const struct fp_regex_span *spans, struct fp_label_set *set)
{
	int r = expand(relabel, rule, spans);

	if (r < 0)
		return r;
	r = fp_label_set_put(set, rule->target, strlen(rule->target),
			     relabel->replacement.len ? (char *)relabel->replacement.data : "",
			     relabel->replacement.len);
	if (r != -ENOSPC)
		return r;
	relabel->overruns++; // as many labels as there may be, and the sample counts all the same
	return 0;
}

static int apply(struct fp_relabel *relabel, const struct fp_relabel_rule *rule,
		 struct fp_label_set *set, bool *ret_dropped)
{
	struct fp_regex_span spans[FP_RELABEL_GROUPS_MAX];
	bool matches;
	int r = join_sources(relabel, rule, set);

	if (r < 0)
		return r;
	r = fp_regex_capture(rule->regex, (char *)relabel->subject.data, relabel->subject.len,
			     spans, FP_ARRAY_SIZE(spans));
	if (r == -E2BIG) {
		relabel->overruns++;
		return 0;
	}
	if (r < 0)
		return r;
	matches = (r == 1) != rule->negated;
	if (rule->action == FP_RELABEL_REPLACE)
		return matches ? replace(relabel, rule, spans, set) : 0;
	*ret_dropped = matches == (rule->action == FP_RELABEL_DROP);
	return 0;
}

int fp_relabel_apply(struct fp_relabel *relabel, struct fp_label_set *set, bool *ret_dropped)
{
	bool dropped = false;

	for (uint32_t i = 0; i < relabel->count && !dropped; i++) {
		int r = apply(relabel, &relabel->rules[i], set, &dropped);

		if (r < 0)
			return r;
	}
	*ret_dropped = dropped;
	return 0;
}

int fp_relabel_check(const char *rules, uint32_t *ret_rule, struct fp_buf *error)
{
	struct fp_relabel *relabel FP_CLEANUP(fp_relabel_freep) = NULL;

	return read_rules(rules, &relabel, ret_rule, error);
}
