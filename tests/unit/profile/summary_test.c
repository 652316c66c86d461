// SPDX-License-Identifier: Apache-2.0
#include "profiles.h"

#include "profile/summary.h"

#include <stdlib.h>

struct counter {
	enum fp_quality_counter index;
	uint64_t value;
};

#define STOPS 2

struct summary_case {
	const char *what;
	enum fp_profile_type type;
	struct counter counters[16];
	const char *hook;
	const char *named;
	uint64_t named_value;
	uint64_t stopped[8]; // per build of the sample profile
	struct stop {
		const char *reason;
		uint64_t count;
	} stops[8][STOPS]; // likewise
	const char *text, *line;
};

static const struct summary_case cases[] = {
	{
	    .what = "all well is short",
	    .type = FP_PROFILE_CPU,
	    .counters = { { FP_QUALITY_SAMPLES, 2970 },
			  { FP_QUALITY_EXPECTED_SAMPLES, 2974 },
			  { FP_QUALITY_HZ_REQUESTED, 99 },
			  { FP_QUALITY_HZ_ACTUAL, 99 },
			  { FP_QUALITY_CPUS, 2 },
			  { FP_QUALITY_USER_STACKS, 2000 },
			  { FP_QUALITY_USER_COMPLETE, 2000 },
			  { FP_QUALITY_FRAMES, 10000 } },
	    .text = "CPU: 2,970 samples of 2,974 expected (99.9 %) at 99 Hz on 2 CPUs; 0 lost, 0 "
		    "dropped.\n"
		    "User stacks: all complete.\n",
	    .line = "2,970 samples of 2,974 expected (99.9 %) at 99 Hz on 2 CPUs; 0 lost, "
		    "0 dropped; user stacks 100.0 % complete",
	},
	{
	    .what = "broken stacks name the builds, worst first",
	    .type = FP_PROFILE_CPU,
	    .counters = { { FP_QUALITY_SAMPLES, 1000 },
			  { FP_QUALITY_HZ_REQUESTED, 999 },
			  { FP_QUALITY_HZ_ACTUAL, 500 },
			  { FP_QUALITY_CPUS, 1 },
			  { FP_QUALITY_USER_STACKS, 1000 },
			  { FP_QUALITY_USER_COMPLETE, 412 },
			  { FP_QUALITY_USER_BROKEN, 580 },
			  { FP_QUALITY_USER_DEPTH, 8 } },
	    .stopped = { [LIBC] = 500, [APP] = 80, [ANONYMOUS_FILE] = 0 },
	    .text = "CPU: 1,000 samples at 500 Hz (999 Hz asked for) on 1 CPU; 0 lost, 0 dropped.\n"
		    "User stacks: 41.2 % complete, 58.0 % stopped in code without frame pointers, "
		    "0.8 % cut at the depth limit:\n"
		    "  libc.so.6 (build 020000000000): 500 stacks, 50.0 %\n"
		    "  app (build 010000000000): 80 stacks, 8.0 %\n"
		    "  To see whole stacks, rebuild with -fno-omit-frame-pointer.\n",
	    .line = "1,000 samples at 500 Hz (999 Hz asked for) on 1 CPU; 0 lost, 0 dropped; user "
		    "stacks 41.2 % complete, 58.0 % stopped in code without frame pointers, "
		    "0.8 % cut at the depth limit",
	},
	{
	    .what = "where walks stopped stands why, and what helps the worst that can be helped",
	    .type = FP_PROFILE_CPU,
	    .counters = { { FP_QUALITY_SAMPLES, 1000 },
			  { FP_QUALITY_USER_STACKS, 1000 },
			  { FP_QUALITY_USER_COMPLETE, 900 },
			  { FP_QUALITY_USER_NO_TABLE, 70 },
			  { FP_QUALITY_USER_CANNOT, 20 },
			  { FP_QUALITY_USER_JIT, 7 },
			  { FP_QUALITY_USER_STALE, 3 } },
	    .stopped = { [LIBC] = 50, [APP] = 43 },
	    .stops = { [LIBC] = { { "expression", 30 }, { "no_room", 20 } },
		       [APP] = { { "no_room", 3 }, { "no_entries", 40 } } },
	    .text =
		"CPU: 1,000 samples; 0 lost, 0 dropped.\n"
		"User stacks: 90.0 % complete, 7.0 % stopped in code without unwind table and "
		"frame pointers, 2.0 % stopped at an unwind entry that cannot be followed, "
		"0.7 % stopped in JITed code without frame pointers, "
		"0.3 % cut where code had just given way to other code:\n"
		"  libc.so.6 (build 020000000000): 50 stacks, 5.0 %: an entry is of a form that "
		"compilers do not emit\n"
		"  app (build 010000000000): 43 stacks, 4.3 %: it has neither call frame "
		"information nor frame pointers\n"
		"  To see whole stacks: build it with -fasynchronous-unwind-tables or with "
		"-fno-omit-frame-pointer.\n",
	    .line = "1,000 samples; 0 lost, 0 dropped; user stacks 90.0 % complete, 7.0 % stopped "
		    "in code without unwind table and frame pointers, 2.0 % stopped at an unwind "
		    "entry that cannot be followed, 0.7 % stopped in JITed code without frame "
		    "pointers, 0.3 % cut where code had just given way to other code",
	},
	{
	    .what = "a few ticks fewer than expected in a short profile are chance",
	    .type = FP_PROFILE_CPU,
	    .counters = { { FP_QUALITY_SAMPLES, 53 },
			  { FP_QUALITY_EXPECTED_SAMPLES, 57 },
			  { FP_QUALITY_HZ_ACTUAL, 99 } },
	    .text = "CPU: 53 samples of 57 expected (93.0 %) at 99 Hz; 0 lost, 0 dropped.\n",
	    .line = "53 samples of 57 expected (93.0 %) at 99 Hz; 0 lost, 0 dropped",
	},
	{
	    .what = "every loss has its line",
	    .type = FP_PROFILE_CPU,
	    .counters = { { FP_QUALITY_SAMPLES, 900 },
			  { FP_QUALITY_EXPECTED_SAMPLES, 1000 },
			  { FP_QUALITY_HZ_ACTUAL, 99 },
			  { FP_QUALITY_STACKS_LOST, 9 },
			  { FP_QUALITY_MAP_ENTRIES_PEAK, 64 },
			  { FP_QUALITY_MAP_CAPACITY, 64 },
			  { FP_QUALITY_FRAMES, 100 },
			  { FP_QUALITY_FRAMES_NO_BUILD_ID, 20 },
			  { FP_QUALITY_FRAMES_UNMAPPED, 5 },
			  { FP_QUALITY_PROCESSES_UNKNOWN, 1 },
			  { FP_QUALITY_SIDEBAND_LOST, 3 } },
	    .named = "cpu.dropped.map_full",
	    .named_value = 100,
	    .text =
		"CPU: 900 samples of 1,000 expected (90.0 %) at 99 Hz; 9 lost, 100 dropped.\n"
		"Missing: 10.0 % of the samples that busy CPU time predicts never came; what is "
		"drawn "
		"stands for less than the whole.\n"
		"Lost stacks: 9 (1.0 %) were counted, but their frames never reached user space; "
		"they stand under [stack lost].\n"
		"Dropped in the kernel: 100 (map full); these are missing from the picture.\n"
		"Map: 64 of 64 places for stacks were taken in one epoch; beyond that, samples are "
		"dropped.\n"
		"Frames that cannot be named: 20.0 % in files without a build-ID, 5.0 % at "
		"addresses "
		"that no mapping covers.\n"
		"Processes: 1 sample (0.1 %) came from processes whose mappings were never seen.\n"
		"Process events: the kernel lost 3; names of programs that started then may be "
		"missing.\n",
	    .line = "900 samples of 1,000 expected (90.0 %) at 99 Hz; 9 lost, 100 dropped",
	},
	{
	    .what = "off-CPU speaks of waits; what was filtered is no loss",
	    .type = FP_PROFILE_OFF_CPU,
	    .counters = { { FP_QUALITY_SAMPLES, 1 }, { FP_QUALITY_CPUS, 4 } },
	    .named = "switch_in.filtered.idle",
	    .named_value = 100,
	    .text = "Off-CPU: 1 wait, 1.00 ms blocked on 4 CPUs; 0 lost, 0 dropped.\n",
	    .line = "1 wait, 1.00 ms blocked on 4 CPUs; 0 lost, 0 dropped",
	},
	{
	    // The sample profile has 1 ms: sqrt(160 ns / 1 ms) = 1.26 %, and tenfold for 10 µs.
	    .what = "sampled intervals say what was measured and how coarse the picture is",
	    .type = FP_PROFILE_OFF_CPU,
	    .counters = { { FP_QUALITY_SAMPLES, 9000 },
			  { FP_QUALITY_INTERVALS, 10000 },
			  { FP_QUALITY_INTERVALS_NS, 980000 },
			  { FP_QUALITY_INTERVALS_CUT, 12 },
			  { FP_QUALITY_QUANTUM_MIN_NS, 40 },
			  { FP_QUALITY_QUANTUM_MAX_NS, 160 },
			  { FP_QUALITY_WEIGHT_MAX, 1 },
			  { FP_QUALITY_WALKS, 260 },
			  { FP_QUALITY_WALK_BUDGET, 500 } },
	    .hook = "sched_exit_tp",
	    .text =
		"Off-CPU: 9,000 waits, 1.00 ms blocked; 0 lost, 0 dropped.\n"
		"Measured: 10,000 intervals took 980 µs in all; the picture, an estimate, shows "
		"1.00 ms.\n"
		"Kept: every interval of 160 ns or more, shorter ones by chance in proportion to "
		"their length (quantum from 40 ns to 160 ns).\n"
		"By chance: about ±1.3 % of the total, ±13 % of a box that is 1 % of it.\n"
		"Walked: 260 stacks, for at most 2.6 % of the intervals; the budget is about 500 "
		"a second per host.\n"
		"Went on: 12 intervals had not ended when the window did; up to there they are "
		"counted, the rest is the next window's.\n"
		"Hook: sched_exit_tp: stacks are taken when a thread is back.\n",
	    .line = "9,000 waits, 1.00 ms blocked; 0 lost, 0 dropped; ±1.3 % by chance",
	},
	{
	    .what = "a profile with every interval says so",
	    .type = FP_PROFILE_OFF_CPU,
	    .counters = { { FP_QUALITY_SAMPLES, 3 },
			  { FP_QUALITY_INTERVALS, 3 },
			  { FP_QUALITY_INTERVALS_NS, 1000000 } },
	    .text = "Off-CPU: 3 waits, 1.00 ms blocked; 0 lost, 0 dropped.\n"
		    "Measured: 3 intervals took 1.00 ms in all.\n"
		    "Kept: every interval, at its own length.\n",
	    .line = "3 waits, 1.00 ms blocked; 0 lost, 0 dropped",
	},
	{
	    // sqrt(4 × 100 ns / 1 ms) = 2 %.
	    .what = "a weight makes chance greater",
	    .type = FP_PROFILE_OFF_CPU,
	    .counters = { { FP_QUALITY_SAMPLES, 4 },
			  { FP_QUALITY_INTERVALS, 1 },
			  { FP_QUALITY_INTERVALS_NS, 2000000 },
			  { FP_QUALITY_QUANTUM_MIN_NS, 100 },
			  { FP_QUALITY_QUANTUM_MAX_NS, 100 },
			  { FP_QUALITY_WEIGHT_MAX, 4 },
			  { FP_QUALITY_WALKS, 1 } },
	    .hook = "way_out",
	    .text = "Off-CPU: 4 waits, 1.00 ms blocked; 0 lost, 0 dropped.\n"
		    "Measured: 1 interval took 2.00 ms in all; the picture, an estimate, shows "
		    "1.00 ms.\n"
		    "Kept: every interval of 100 ns or more, shorter ones by chance in proportion "
		    "to their length, among those picked on the way out.\n"
		    "Picked on the way out: one departure stands for up to 4.\n"
		    "By chance: at least about ±2 % of the total, ±20 % of a box that is 1 % of "
		    "it.\n"
		    "Walked: 1 stack.\n"
		    "Hook: way_out: stacks are taken as a thread leaves the CPU.\n",
	    .line = "4 waits, 1.00 ms blocked; 0 lost, 0 dropped; ±2 % by chance",
	},
	{
	    .what = "each type has its words",
	    .type = FP_PROFILE_RUN_QUEUE,
	    .counters = { { FP_QUALITY_SAMPLES, 2 } },
	    .text = "Run queue: 2 waits, 0 ns ready to run; 0 lost, 0 dropped.\n",
	    .line = "2 waits, 0 ns ready to run; 0 lost, 0 dropped",
	},
	{
	    .what = "wakers too",
	    .type = FP_PROFILE_WAKER,
	    .counters = { { FP_QUALITY_SAMPLES, 1 },
			  { FP_QUALITY_INTERVALS, 3 },
			  { FP_QUALITY_INTERVALS_NS, 5000 },
			  { FP_QUALITY_INTERVALS_CUT, 2 } },
	    .text = "Wakers: 1 wake-up, 0 ns blocked before them; 0 lost, 0 dropped.\n"
		    "Measured: 3 intervals took 5.00 µs in all; the picture, an estimate, shows "
		    "0 ns that a wake-up ended.\n"
		    "Kept: every interval, at its own length.\n"
		    "Went on: 2 intervals had not ended when the window did; nobody had ended them "
		    "yet, so they are not in the picture.\n",
	    .line = "1 wake-up, 0 ns blocked before them; 0 lost, 0 dropped",
	},
};

static void fill(struct sample_profile *sample, const struct summary_case *c)
{
	struct fp_quality *quality = &sample->profile->quality[c->type];

	quality->present = true;
	for (size_t i = 0; i < FP_ARRAY_SIZE(c->counters); i++) {
		if (c->counters[i].value)
			quality->counters[c->counters[i].index] = c->counters[i].value;
	}
	if (c->hook)
		quality->hook = profile_string(sample->profile, c->hook);
	if (c->named)
		assert_int_equal(
		    fp_quality_set_named(sample->profile, c->type, c->named, c->named_value), 0);
	for (size_t i = 0; i < BUILDS; i++) {
		struct fp_build_quality *row;

		if (!c->stopped[i])
			continue;
		row = fp_quality_build(sample->profile, c->type, sample->builds[i]);
		assert_non_null(row);
		row->stacks = c->stopped[i] + 10;
		row->stopped = c->stopped[i];
		for (size_t j = 0; j < STOPS && c->stops[i][j].reason; j++)
			assert_int_equal(
			    fp_quality_stop(sample->profile, c->type, sample->builds[i],
					    profile_string(sample->profile, c->stops[i][j].reason),
					    c->stops[i][j].count),
			    0);
	}
}

static void test_summaries(void **state)
{
	for (size_t i = 0; i < FP_ARRAY_SIZE(cases); i++) {
		struct sample_profile sample = sample_profile_new();
		FP_AUTOPROFILE struct fp_profile *profile = sample.profile;
		FP_AUTOBUF struct fp_buf text = { 0 }, line = { 0 };

		fill(&sample, &cases[i]);
		assert_int_equal(fp_summary_text(profile, cases[i].type, &text), 0);
		assert_string_equal((const char *)text.data, cases[i].text);
		assert_int_equal(fp_summary_line(profile, cases[i].type, &line), 0);
		assert_string_equal((const char *)line.data, cases[i].line);
	}
}

static void test_many_builds(void **state)
{
	struct sample_profile sample = sample_profile_new();
	FP_AUTOPROFILE struct fp_profile *profile = sample.profile;
	FP_AUTOBUF struct fp_buf text = { 0 };
	const struct summary_case many = {
		.type = FP_PROFILE_CPU,
		.counters = { { FP_QUALITY_USER_STACKS, 100 }, { FP_QUALITY_USER_BROKEN, 100 } },
		.stopped = { 1, 2, 3, 4, 5, 6 },
	};

	fill(&sample, &many);
	assert_int_equal(fp_summary_text(profile, FP_PROFILE_CPU, &text), 0);
	assert_non_null(strstr((const char *)text.data, "  and 1 more build\n"));
	assert_null(strstr((const char *)text.data, ": 1 stack,"));
	assert_non_null(strstr((const char *)text.data, "  [vdso] (build 050000000000): 6 stacks"));
}

static void test_absent(void **state)
{
	struct sample_profile sample = sample_profile_new();
	FP_AUTOPROFILE struct fp_profile *profile = sample.profile;
	FP_AUTOBUF struct fp_buf text = { 0 };

	assert_int_equal(fp_summary_text(profile, FP_PROFILE_CPU, &text), 0);
	assert_int_equal(fp_summary_line(profile, FP_PROFILE_CPU, &text), 0);
	assert_int_equal(text.len, 0);
}

static void test_hostile_names(void **state)
{
	struct sample_profile sample = sample_profile_new();
	FP_AUTOPROFILE struct fp_profile *profile = sample.profile;
	FP_AUTOBUF struct fp_buf text = { 0 };
	uint32_t build = profile_build(profile, 9, "/opt/\x1b[31mred\nCPU: all well");
	struct fp_build_quality *row = fp_quality_build(profile, FP_PROFILE_CPU, build);

	assert_non_null(row);
	row->stopped = 5;
	profile->quality[FP_PROFILE_CPU].present = true;
	profile->quality[FP_PROFILE_CPU].counters[FP_QUALITY_USER_STACKS] = 10;
	profile->quality[FP_PROFILE_CPU].counters[FP_QUALITY_USER_BROKEN] = 5;
	assert_int_equal(fp_summary_text(profile, FP_PROFILE_CPU, &text), 0);
	assert_non_null(strstr((const char *)text.data, "  \\x1b[31mred\\x0aCPU: all well (build"));
	assert_null(strchr((const char *)text.data, '\x1b'));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		FP_CASE("good news is short and no loss is silent", test_summaries),
		FP_CASE("only the worst builds are listed", test_many_builds),
		FP_CASE("no record, no words", test_absent),
		FP_CASE("a file's name forges no line", test_hostile_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
