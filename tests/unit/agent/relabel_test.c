// SPDX-License-Identifier: Apache-2.0
#include "../cases.h"

#include "agent/labels.h"
#include "agent/relabel.h"

#include <errno.h>
#include <string.h>

// Sets are written as `name=value|name=value`, sorted by name.
static void set_from(const char *text, struct fp_label_set *set)
{
	while (*text) {
		size_t size = strcspn(text, "|"), name = strcspn(text, "=");

		assert_int_equal(
		    fp_label_set_put(set, text, name, text + name + 1, size - name - 1), 0);
		text += size + (text[size] == '|');
	}
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static char *text_of(const struct fp_label_set *set)
{
	struct fp_buf text = { 0 };
	char *pairs[FP_LABELS_MAX];

	for (uint32_t i = 0; i < set->count; i++) {
		const struct fp_label_text *row = &set->rows[i];

		assert_true(asprintf(&pairs[i], "%.*s=%.*s", (int)row->name_size,
				     (char *)set->text.data + row->name, (int)row->value_size,
				     (char *)set->text.data + row->value) > 0);
	}
	qsort(pairs, set->count, sizeof(pairs[0]), by_text);
	fp_buf_append(&text, "", 0);
	for (uint32_t i = 0; i < set->count; i++) {
		fp_buf_printf(&text, "%s%s", i ? "|" : "", pairs[i]);
		free(pairs[i]);
	}
	return fp_buf_take(&text);
}

#define DROPPED NULL

static const struct {
	const char *sentence, *rules, *before, *after; // after NULL: dropped
} cases[] = {
	{ "no rule changes nothing", "", "a=1|b=2", "a=1|b=2" },
	{ "blank lines are no rules", "\n  \n", "a=1", "a=1" },
	{ "keep lets a match stay", "keep a =~ 1|2", "a=2", "a=2" },
	{ "keep drops what does not match", "keep a =~ 1|2", "a=3", DROPPED },
	{ "an expression matches the whole value", "keep a =~ 1", "a=11", DROPPED },
	{ "alternatives are anchored as a whole", "keep a =~ 1|2", "a=12", DROPPED },
	{ "drop drops a match", "drop a =~ \"x.*\"", "a=xyz", DROPPED },
	{ "drop lets others stay", "drop a =~ \"x.*\"", "a=yz", "a=yz" },
	{ "a label that is missing is empty", "drop a =~ \"\"", "b=1", DROPPED },
	{ "keep with !~", "keep a !~ 1", "a=1", DROPPED },
	{ "drop with !~ wants a match", "drop a !~ \"1.*\"", "a=11", "a=11" },
	{ "several values are joined by ;", "keep a, b,c =~ \"1;2;\"", "a=1|b=2", "a=1|b=2" },
	{ "values of several rules in order",
	  "replace a =~ (.*) -> a = x$1\nreplace a =~ (.*) -> a = y$1\nkeep a =~ yx1", "a=1",
	  "a=yx1" },
	{ "replace sets another label", "replace pod =~ \"(.+)-[0-9]+\" -> service_name = $1",
	  "pod=db-0", "pod=db-0|service_name=db" },
	{ "replace leaves alone what does not match",
	  "replace pod =~ \"(.+)-[0-9]+\" -> service_name = $1", "pod=db|service_name=x",
	  "pod=db|service_name=x" },
	{ "replace replaces", "replace a =~ .* -> b = new", "a=1|b=old", "a=1|b=new" },
	{ "an empty replacement removes", "replace a =~ .* -> b = \"\"", "a=1|b=old", "a=1" },
	{ "a group that took no part is empty", "replace a =~ (1)|(2) -> b = \"$1-${2}\"", "a=2",
	  "a=2|b=-2" },
	{ "braces end a group's number, $0 is the whole, $$ a dollar",
	  "replace a =~ (.)(.) -> b = ${2}1$1/$0/$$", "a=xy", "a=xy|b=y1x/xy/$" },
	{ "quotes hold spaces and quotes, and backslashes stay",
	  "replace a =~ \"(\\\"\\w+\\\") (\\d)\" -> b = \"$2 $1\"", "a=\"q\" 7",
	  "a=\"q\" 7|b=7 \"q\"" },
	{ "names with dots, no spaces", "replace k8s.pod,a=~(.*);1 ->b=$1", "k8s.pod=p|a=1",
	  "a=1|b=p|k8s.pod=p" },
	{ "bytes that are not UTF-8 match a dot each", "replace a =~ (..) -> b = $1", "a=\xff\xfe",
	  "a=\xff\xfe|b=\xff\xfe" },
	{ "a label of every sample may be missing once a rule took it",
	  "replace a =~ 1 -> executable = \"\"\ndrop executable =~ \"\"", "a=1|executable=x",
	  DROPPED },
	{ "a dropped sample ends the rules", "drop a =~ 1\nkeep a =~ 2", "a=1", DROPPED },
};

static void test_apply(void **state)
{
	for (size_t i = 0; i < FP_ARRAY_SIZE(cases); i++) {
		struct fp_relabel *relabel FP_CLEANUP(fp_relabel_freep) = NULL;
		struct fp_label_set set FP_AUTOLABELS = { 0 };
		FP_AUTOBUF struct fp_buf error = { 0 };
		FP_AUTOFREE char *after = NULL;
		bool dropped = false;

		print_message("  %s\n", cases[i].sentence);
		assert_int_equal(fp_relabel_new(cases[i].rules, &relabel, &error), 0);
		set_from(cases[i].before, &set);
		assert_int_equal(fp_relabel_apply(relabel, &set, &dropped), 0);
		assert_int_equal(dropped, cases[i].after == DROPPED);
		after = text_of(&set);
		if (!dropped)
			assert_string_equal(after, cases[i].after);
	}
}

static const struct {
	const char *rules, *error;
} wrong[] = {
	{ "keep a =~ 1\nforget b =~ 2",
	  "rule 2, 'forget b =~ 2': the first word must be keep, drop or replace" },
	{ "keep", "rule 1, 'keep': a label name is expected" },
	{ "keep 1a =~ b", "rule 1, 'keep 1a =~ b': a label name is expected" },
	{ "keep a, =~ b", "rule 1, 'keep a, =~ b': a label name is expected" },
	{ "keep a = b", "rule 1, 'keep a = b': =~ or !~ is expected behind the label names" },
	{ "keep a b =~ c", "rule 1, 'keep a b =~ c': =~ or !~ is expected behind the label names" },
	{ "drop a =~", "rule 1, 'drop a =~': the text behind the operator is missing" },
	{ "drop a =~ \"b", "rule 1, 'drop a =~ \"b': the closing quote is missing" },
	{ "drop a =~ b c",
	  "rule 1, 'drop a =~ b c': more text than a rule has; put quotes around spaces" },
	{ "drop a =~ (b", "rule 1, 'drop a =~ (b': regular expression, byte 3: missing closing "
			  "parenthesis" },
	{ "replace a !~ b -> c = d",
	  "rule 1, 'replace a !~ b -> c = d': replace needs a match, =~" },
	{ "replace a =~ b", "rule 1, 'replace a =~ b': -> TARGET = REPLACEMENT is expected behind "
			    "the expression" },
	{ "replace a =~ b -> c", "rule 1, 'replace a =~ b -> c': = is expected behind the label to "
				 "set" },
	{ "replace a =~ b -> c =",
	  "rule 1, 'replace a =~ b -> c =': the text behind the operator is missing" },
	{ "replace a =~ b -> c = $1",
	  "rule 1, 'replace a =~ b -> c = $1': the expression has not that many groups" },
	{ "replace a =~ b -> c = $x",
	  "rule 1, 'replace a =~ b -> c = $x': behind $ must stand a digit, {digit} or $" },
	{ "replace a =~ b -> c = 1$",
	  "rule 1, 'replace a =~ b -> c = 1$': behind $ must stand a digit, {digit} or $" },
	{ "replace a =~ (b) -> c = ${1",
	  "rule 1, 'replace a =~ (b) -> c = ${1': behind $ must stand a digit, {digit} or $" },
	{ "drop host =~ web-1", "rule 1, 'drop host =~ web-1': host is a label of the batch, which "
				"rules neither see nor set" },
	{ "keep a, host =~ b", "rule 1, 'keep a, host =~ b': host is a label of the batch, which "
			       "rules neither see nor set" },
	{ "replace a =~ b -> host = c", "rule 1, 'replace a =~ b -> host = c': host is a label of "
					"the batch, which rules neither see nor set" },
	{ "drop a, b =~ \"\"", "rule 1, 'drop a, b =~ \"\"': an empty expression matches nothing "
			       "where ; joins several values" },
	{ "keep a, b !~ \"\"", "rule 1, 'keep a, b !~ \"\"': an empty expression matches nothing "
			       "where ; joins several values" },
	{ "drop executable =~ \"\"",
	  "rule 1, 'drop executable =~ \"\"': executable is never missing, "
	  "so an empty expression matches nothing" },
	{ "drop a =~ \"\"\nkeep service_name !~ \"\"",
	  "rule 2, 'keep service_name !~ \"\"': service_name is never missing, so an empty "
	  "expression matches nothing" },
	{ "keep a,b,c,d,e,f,g,h,i =~ x",
	  "rule 1, 'keep a,b,c,d,e,f,g,h,i =~ x': more than 8 label names" },
};

static void test_wrong(void **state)
{
	for (size_t i = 0; i < FP_ARRAY_SIZE(wrong); i++) {
		FP_AUTOBUF struct fp_buf error = { 0 };
		uint32_t rule = 0;

		print_message("  %s\n", wrong[i].rules);
		assert_int_equal(fp_relabel_check(wrong[i].rules, &rule, &error), -EINVAL);
		assert_int_equal(rule, strchr(wrong[i].rules, '\n') ? 2 : 1);
		assert_string_equal((char *)error.data, wrong[i].error);
	}
}

static const struct {
	const char *sentence, *rules, *statics;
	const char *doubts; // `rule:label|…`
} doubtful[] = {
	{ "no rule", "", "", "" },
	{ "a name that is misspelled", "keep executabel =~ nginx", "", "1:executabel" },
	{ "every label of ours",
	  "keep executable,thread,state,service_name =~ a\n"
	  "keep container_id,container_runtime,pod_uid =~ a\n"
	  "keep namespace,pod,container,systemd_unit,systemd_slice =~ a",
	  "", "" },
	{ "a static label", "keep zone =~ a\nkeep rack =~ b", "zone=eu-1", "2:rack" },
	{ "what a rule before sets, not one behind",
	  "keep team =~ a\nreplace pod =~ (.*) -> team = $1\nkeep team =~ b", "", "1:team" },
	{ "what a rule before only takes away", "replace pod =~ .* -> team = \"\"\nkeep team =~ b",
	  "", "2:team" },
	{ "each of several, blank lines counted", "\ndrop pot, pod, nmespace =~ a;b;c", "",
	  "2:pot|2:nmespace" },
	{ "names that begin like ours", "drop hostname, hos, threads =~ a", "",
	  "1:hostname|1:hos|1:threads" },
};

static void keep_doubt(uint32_t rule, const char *sentence, void *context)
{
	const char *name = strchr(sentence, '\'');
	struct fp_buf *doubts = context;

	assert_non_null(name);
	assert_null(strchr(sentence, '\n'));
	fp_buf_printf(doubts, "%s%u:%.*s", doubts->len ? "|" : "", rule,
		      (int)strcspn(name + 1, "'"), name + 1);
}

static void test_doubts(void **state)
{
	for (size_t i = 0; i < FP_ARRAY_SIZE(doubtful); i++) {
		FP_AUTOBUF struct fp_buf doubts = { 0 };

		print_message("  %s\n", doubtful[i].sentence);
		assert_int_equal(
		    fp_relabel_doubt(doubtful[i].rules, doubtful[i].statics, keep_doubt, &doubts),
		    0);
		assert_string_equal(doubts.len ? (char *)doubts.data : "", doubtful[i].doubts);
	}
}

static void test_many(void **state)
{
	FP_AUTOBUF struct fp_buf rules = { 0 }, error = { 0 };
	uint32_t rule = 0;

	for (int i = 0; i < 129; i++)
		fp_buf_str(&rules, "keep a =~ 1\n");
	assert_int_equal(fp_relabel_check((char *)rules.data, &rule, &error), -EINVAL);
	assert_int_equal(rule, 129);
	assert_string_equal((char *)error.data, "more than 128 rules");
}

static void test_overrun(void **state)
{
	struct fp_relabel *relabel FP_CLEANUP(fp_relabel_freep) = NULL;
	struct fp_label_set set FP_AUTOLABELS = { 0 };
	FP_AUTOBUF struct fp_buf error = { 0 };
	bool dropped = false;
	char name[16];

	assert_int_equal(
	    fp_relabel_new("drop a =~ (x+x+)+[yz]\nreplace a =~ .* -> new = 1", &relabel, &error),
	    0);
	for (int i = 0; i < FP_LABELS_MAX - 1; i++) {
		int size = snprintf(name, sizeof(name), "l%d", i);

		assert_int_equal(fp_label_set_put(&set, name, (size_t)size, "v", 1), 0);
	}
	set_from("a=xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", &set);
	assert_int_equal(fp_label_set_put(&set, "more", 4, "v", 1), -ENOSPC);
	assert_int_equal(fp_relabel_apply(relabel, &set, &dropped), 0);
	assert_false(dropped);
	assert_int_equal(fp_relabel_overruns(relabel), 2); // endless backtracking; no room for new
	assert_int_equal(set.count, FP_LABELS_MAX);
}

static void test_long_value(void **state)
{
	struct fp_label_set set FP_AUTOLABELS = { 0 };
	char value[2 * FP_LABEL_VALUE_MAX];
	size_t size;

	memset(value, 'v', sizeof(value));
	assert_int_equal(fp_label_set_put(&set, "a", 1, value, sizeof(value)), 0);
	fp_label_set_get(&set, "a", 1, &size);
	assert_int_equal(size, FP_LABEL_VALUE_MAX);
	assert_int_equal(fp_label_set_put(&set, "a", 1, "", 0), 0);
	assert_int_equal(set.count, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FP_CASE("rules keep, drop and replace as Prometheus' do", test_apply),
		FP_CASE("a wrong rule is named with its cause", test_wrong),
		FP_CASE("a rule that asks for what nothing sets is told of", test_doubts),
		FP_CASE("there is an end to the number of rules", test_many),
		FP_CASE("what cannot be applied is counted and the sample stays", test_overrun),
		FP_CASE("long values are cut, empty ones are none", test_long_value),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
