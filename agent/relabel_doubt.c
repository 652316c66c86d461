// SPDX-License-Identifier: Apache-2.0
//
// relabel_doubt: rules that are none to refuse, but look like a mistake: they ask for a label that
// nothing sets, which is empty then.
#include "labels.h"
#include "labels_static.h"
#include "relabel_rule.h"

#include <errno.h>
#include <string.h>

struct doubting {
	struct fp_relabel_rule rules[FP_RELABEL_RULES_MAX];
	uint32_t count, number; // number: of the line, from 1
	struct fp_label_set statics;
	fp_relabel_doubt_fn tell;
	void *context;
};

static void doubting_free(struct doubting *doubting)
{
	for (uint32_t i = 0; i < doubting->count; i++)
		fp_relabel_rule_free(&doubting->rules[i]);
	fp_label_set_free(&doubting->statics);
}

static bool is_set_before(const struct doubting *doubting, const char *name)
{
	for (uint32_t i = 0; i < doubting->count; i++) {
		const struct fp_relabel_rule *rule = &doubting->rules[i];

		if (rule->target && rule->replacement[0] && strcmp(rule->target, name) == 0)
			return true;
	}
	return false;
}

static bool is_known(const struct doubting *doubting, const char *name)
{
	size_t size;

	fp_label_set_get(&doubting->statics, name, strlen(name), &size);
	return size > 0 || fp_label_is_ours(name) || is_set_before(doubting, name);
}

static void doubt_rule(const struct doubting *doubting, const struct fp_relabel_rule *rule)
{
	for (uint32_t i = 0; i < rule->sources_count; i++) {
		FP_AUTOBUF struct fp_buf sentence = { 0 };

		if (is_known(doubting, rule->sources[i]))
			continue;
		fp_buf_printf(
		    &sentence,
		    "rule %u: no sample has a label '%s': it is neither one of ours nor in "
		    "labels.static, and no rule before sets it",
		    doubting->number, rule->sources[i]);
		if (!sentence.error)
			doubting->tell(doubting->number, (char *)sentence.data, doubting->context);
	}
}

static int doubt_line(struct doubting *doubting, const char *line)
{
	FP_AUTOBUF struct fp_buf cause = { 0 };
	struct fp_relabel_rule rule;
	int r;

	if (line[strspn(line, " \t")] == '\0')
		return 0;
	if (doubting->count == FP_RELABEL_RULES_MAX)
		return -EINVAL;
	r = fp_relabel_rule_parse(line, &rule, &cause);
	if (r < 0)
		return r;
	doubt_rule(doubting, &rule);
	doubting->rules[doubting->count++] = rule;
	return 0;
}

int fp_relabel_doubt(const char *rules, const char *static_labels, fp_relabel_doubt_fn tell,
		     void *context)
{
	struct doubting doubting FP_CLEANUP(doubting_free) = { .tell = tell, .context = context };
	int r = fp_label_set_read(&doubting.statics, static_labels);

	while (r == 0 && *rules) {
		size_t size = strcspn(rules, "\n");
		char *line FP_AUTOFREE = strndup(rules, size);

		doubting.number++;
		r = line ? doubt_line(&doubting, line) : -ENOMEM;
		rules += size + (rules[size] == '\n');
	}
	return r;
}
