// SPDX-License-Identifier: Apache-2.0
//
// How walks of user stacks ended, in sentences: the share that is whole, and the builds in which
// the others stopped, each with the cause and the worst with its remedy.
#include "summaryparts.h"

#include "framename.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define WORST_BUILDS 5
#define ID_DIGITS    12 // of a build-ID, enough to tell builds apart

static uint64_t counter(const struct fp_summary *summary, enum fp_quality_counter index)
{
	return fp_summary_counter(summary, index);
}

static void say(const struct fp_summary *summary, const char *words)
{
	fp_buf_str(summary->text, words);
}

static void say_share(const struct fp_summary *summary, uint64_t part, uint64_t whole)
{
	fp_text_percent(part, whole, 1, summary->text);
}

static void say_foreign(const struct fp_summary *summary, const char *name)
{
	fp_text_name(name, strlen(name), SIZE_MAX, summary->text);
}

static const struct {
	enum fp_quality_counter counter;
	const char *text;
} walk_ends[] = {
	{ FP_QUALITY_USER_NO_TABLE, "stopped in code without unwind table and frame pointers" },
	{ FP_QUALITY_USER_BROKEN, "stopped in code without frame pointers" },
	{ FP_QUALITY_USER_CANNOT, "stopped at an unwind entry that cannot be followed" },
	{ FP_QUALITY_USER_JIT, "stopped in JITed code without frame pointers" },
	{ FP_QUALITY_USER_STALE, "cut where code had just given way to other code" },
	{ FP_QUALITY_USER_FAULT, "stopped at unreadable memory" },
	{ FP_QUALITY_USER_DEPTH, "cut at the depth limit" },
	{ FP_QUALITY_USER_UNKNOWN, "of unknown completeness" },
};

void fp_summary_walk_ends(const struct fp_summary *summary)
{
	uint64_t stacks = counter(summary, FP_QUALITY_USER_STACKS);

	say_share(summary, counter(summary, FP_QUALITY_USER_COMPLETE), stacks);
	say(summary, " complete");
	for (size_t i = 0; i < FP_ARRAY_SIZE(walk_ends); i++) {
		uint64_t ended = counter(summary, walk_ends[i].counter);

		if (ended == 0)
			continue;
		say(summary, ", ");
		say_share(summary, ended, stacks);
		fp_buf_printf(summary->text, " %s", walk_ends[i].text);
	}
}

static int compare_stopped(const void *a, const void *b)
{
	const struct fp_build_quality *x = a, *y = b;

	if (x->stopped != y->stopped)
		return x->stopped < y->stopped ? 1 : -1;
	return (x->build > y->build) - (x->build < y->build);
}

static void reason_words(const struct fp_summary *summary, uint32_t build)
{
	const char *reason = fp_quality_worst_stop(summary->profile, summary->type, build);

	if (!reason)
		return;
	say(summary, ": ");
	say_foreign(summary, fp_stop_text(reason)); // its own label when it is not known here
}

static void build_line(const struct fp_summary *summary, const struct fp_build_quality *row)
{
	const struct fp_build *build = &summary->profile->builds[row->build];
	const char *path = fp_profile_str(summary->profile, build->path);

	say(summary, "  ");
	say_foreign(summary, path[0] ? fp_path_basename(path) : "a file without a name");
	if (build->id_len > 0) {
		say(summary, " (build ");
		for (size_t i = 0; i < build->id_len && i < ID_DIGITS / 2; i++)
			fp_buf_printf(summary->text, "%02x", build->id[i]);
		say(summary, ")");
	}
	say(summary, ": ");
	fp_text_count(row->stopped, summary->text);
	say(summary, row->stopped == 1 ? " stack, " : " stacks, ");
	say_share(summary, row->stopped, counter(summary, FP_QUALITY_USER_STACKS));
	reason_words(summary, row->build);
	say(summary, "\n");
}

// What can be done about the worst of the builds that something can be done about.
static void fix_line(const struct fp_summary *summary, const struct fp_build_quality *rows,
		     uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		const char *reason =
		    fp_quality_worst_stop(summary->profile, summary->type, rows[i].build);

		if (reason && !fp_stop_fix(reason)[0])
			continue;
		// Agents before the unwind tables give no reason.
		fp_buf_printf(summary->text, "  To see whole stacks%s%s.\n", reason ? ": " : ", ",
			      reason ? fp_stop_fix(reason)
				     : "rebuild with -fno-omit-frame-pointer");
		return;
	}
}

static void build_lines(const struct fp_summary *summary)
{
	uint32_t count = summary->quality->builds_count, stopped = 0;
	FP_AUTOFREE struct fp_build_quality *rows = calloc((size_t)count + 1, sizeof(*rows));

	if (!rows)
		return;
	for (uint32_t i = 0; i < count; i++) {
		const struct fp_build_quality *row = &summary->quality->builds[i];

		if (row->stopped > 0 && row->build < summary->profile->builds_count)
			rows[stopped++] = *row;
	}
	qsort(rows, stopped, sizeof(*rows), compare_stopped);
	for (uint32_t i = 0; i < stopped && i < WORST_BUILDS; i++)
		build_line(summary, &rows[i]);
	if (stopped > WORST_BUILDS)
		fp_buf_printf(summary->text, "  and %" PRIu32 " more build%s\n",
			      stopped - WORST_BUILDS, stopped == WORST_BUILDS + 1 ? "" : "s");
	fix_line(summary, rows, stopped);
}

void fp_summary_walks(const struct fp_summary *summary)
{
	uint64_t stacks = counter(summary, FP_QUALITY_USER_STACKS);
	uint64_t stopped = counter(summary, FP_QUALITY_USER_BROKEN) +
			   counter(summary, FP_QUALITY_USER_NO_TABLE) +
			   counter(summary, FP_QUALITY_USER_CANNOT);

	if (stacks == 0)
		return;
	if (counter(summary, FP_QUALITY_USER_COMPLETE) == stacks) {
		say(summary, "User stacks: all complete.\n");
		return;
	}
	say(summary, "User stacks: ");
	fp_summary_walk_ends(summary);
	if (stopped == 0) {
		say(summary, ".\n");
	} else {
		say(summary, ":\n");
		build_lines(summary);
	}
}
