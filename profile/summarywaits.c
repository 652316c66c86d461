// SPDX-License-Identifier: Apache-2.0
//
// Off-CPU time in sentences. Intervals are sampled by their length (bpf/offcpu.bpf.c): one of
// d ≥ T counts for d, a shorter one with probability d/T for T. What is drawn is therefore an
// estimate, and beside it stands what the kernel measured of all intervals together.
#include "summaryparts.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define SMALL_BOX 100 // a box of one hundredth of the total is the example of a small one

static void say(const struct fp_summary *summary, const char *words)
{
	fp_buf_str(summary->text, words);
}

static void say_time(const struct fp_summary *summary, uint64_t ns)
{
	fp_text_duration(ns, summary->text);
}

static void say_intervals(const struct fp_summary *summary, uint64_t count)
{
	fp_text_count(count, summary->text);
	say(summary, count == 1 ? " interval" : " intervals");
}

static bool is_sampled(const struct fp_summary *summary)
{
	return fp_summary_counter(summary, FP_QUALITY_QUANTUM_MAX_NS) > 0 ||
	       fp_summary_counter(summary, FP_QUALITY_WEIGHT_MAX) > 1;
}

// What was measured is of whole hosts; a selection shows a part of it.
static void measured_line(const struct fp_summary *summary)
{
	say(summary, "Measured: ");
	say_intervals(summary, fp_summary_counter(summary, FP_QUALITY_INTERVALS));
	say(summary, " took ");
	say_time(summary, fp_summary_counter(summary, FP_QUALITY_INTERVALS_NS));
	say(summary, " in all");
	if (is_sampled(summary) || summary->type == FP_PROFILE_WAKER) {
		say(summary, "; the picture, an estimate, shows ");
		say_time(summary, fp_summary_ns(summary));
	}
	if (summary->type == FP_PROFILE_WAKER)
		say(summary, " that a wake-up ended");
	say(summary, ".\n");
}

static void kept_line(const struct fp_summary *summary)
{
	uint64_t least = fp_summary_counter(summary, FP_QUALITY_QUANTUM_MIN_NS);
	uint64_t most = fp_summary_counter(summary, FP_QUALITY_QUANTUM_MAX_NS);
	uint64_t weight = fp_summary_counter(summary, FP_QUALITY_WEIGHT_MAX);

	if (most == 0) {
		say(summary, weight > 1 ? "Kept: intervals of any length, but not all of them.\n"
					: "Kept: every interval, at its own length.\n");
	} else {
		say(summary, "Kept: every interval of ");
		say_time(summary, most);
		say(summary, " or more, shorter ones by chance in proportion to their length");
		if (least > 0 && least < most) {
			say(summary, " (quantum from ");
			say_time(summary, least);
			say(summary, " to ");
			say_time(summary, most);
			say(summary, ")");
		}
		say(summary, weight > 1 ? ", among those picked on the way out.\n" : ".\n");
	}
	if (weight > 1) {
		say(summary, "Picked on the way out: one departure stands for up to ");
		fp_text_count(weight, summary->text);
		say(summary, ".\n");
	}
}

// The variance of a kept interval is at most d·T, with a weight w·d·T, so that of the sum is at
// most w·T × the total. Long intervals picked with a weight vary more: then it is a lower bound.
static double chance(const struct fp_summary *summary, double share)
{
	double quantum = (double)fp_summary_counter(summary, FP_QUALITY_QUANTUM_MAX_NS);
	double weight = (double)fp_summary_counter(summary, FP_QUALITY_WEIGHT_MAX);
	double total = (double)fp_summary_ns(summary) * share;

	return total > 0 ? sqrt(quantum * (weight > 1 ? weight : 1) / total) : 0;
}

static void say_chance(const struct fp_summary *summary, double error)
{
	if (error >= 0.995)
		say(summary, "±100 % or more");
	else
		fp_buf_printf(summary->text, "±%.2g %%", error * 100);
}

void fp_summary_chance(const struct fp_summary *summary, const char *before, const char *behind)
{
	double error = summary->type == FP_PROFILE_CPU ? 0 : chance(summary, 1);

	if (error <= 0)
		return;
	say(summary, before);
	say_chance(summary, error);
	say(summary, behind);
}

static void chance_line(const struct fp_summary *summary)
{
	bool least = fp_summary_counter(summary, FP_QUALITY_WEIGHT_MAX) > 1;

	if (chance(summary, 1) <= 0)
		return;
	say(summary, least ? "By chance: at least about " : "By chance: about ");
	say_chance(summary, chance(summary, 1));
	say(summary, " of the total, ");
	say_chance(summary, chance(summary, 1.0 / SMALL_BOX));
	say(summary, " of a box that is 1 % of it.\n");
}

// Where run-queue time is recorded one walk serves both parts of an interval, and this type does
// not know of the other: so the share is an upper bound.
static void walked_line(const struct fp_summary *summary)
{
	uint64_t walks = fp_summary_counter(summary, FP_QUALITY_WALKS);
	uint64_t intervals = fp_summary_counter(summary, FP_QUALITY_INTERVALS);
	uint64_t budget = fp_summary_counter(summary, FP_QUALITY_WALK_BUDGET);

	if (walks == 0)
		return;
	say(summary, "Walked: ");
	fp_text_count(walks, summary->text);
	say(summary, walks == 1 ? " stack" : " stacks");
	if (walks < intervals) {
		say(summary, ", for at most ");
		fp_text_percent(walks, intervals, 1, summary->text);
		say(summary, " of the intervals");
	}
	if (budget > 0) {
		say(summary, "; the budget is about ");
		fp_text_count(budget, summary->text);
		say(summary, " a second per host");
	}
	say(summary, ".\n");
}

static void cut_line(const struct fp_summary *summary)
{
	uint64_t cut = fp_summary_counter(summary, FP_QUALITY_INTERVALS_CUT);

	if (cut == 0)
		return;
	say(summary, "Went on: ");
	say_intervals(summary, cut);
	say(summary, " had not ended when the window did; ");
	say(summary, summary->type == FP_PROFILE_WAKER
			 ? "nobody had ended them yet, so they are not in the picture.\n"
			 : "up to there they are counted, the rest is the next window's.\n");
}

static const struct {
	const char *hook, *text;
} hooks[] = {
	{ "irq_work", ": stacks are taken when a thread is back" },
	{ "sched_exit_tp", ": stacks are taken when a thread is back" },
	{ "fexit", ": stacks are taken when a thread is back" },
	{ "way_out", ": stacks are taken as a thread leaves the CPU" },
};

static void hook_line(const struct fp_summary *summary)
{
	const char *hook = fp_profile_str(summary->profile, summary->quality->hook);

	if (!hook[0])
		return;
	say(summary, "Hook: ");
	fp_text_name(hook, strlen(hook), SIZE_MAX, summary->text);
	for (size_t i = 0; i < FP_ARRAY_SIZE(hooks); i++)
		if (strcmp(hooks[i].hook, hook) == 0)
			say(summary, hooks[i].text);
	say(summary, ".\n");
}

void fp_summary_waits(const struct fp_summary *summary)
{
	if (summary->type == FP_PROFILE_CPU)
		return;
	if (fp_summary_counter(summary, FP_QUALITY_INTERVALS) > 0) {
		measured_line(summary);
		kept_line(summary);
		chance_line(summary);
		walked_line(summary);
		cut_line(summary);
	}
	hook_line(summary);
}
