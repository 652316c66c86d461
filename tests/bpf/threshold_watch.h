// SPDX-License-Identifier: Apache-2.0
//
// threshold_watch: three samplers that watch the same program, and what each has of its places.
#pragma once

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include "agent/records.h"
#include "agent/sampler.h"
#include "chance.h"
#include "waits_program.h"

#define FAMILY_ERROR 1e-4
#define COMPARISONS  ((3 * STACKS * (ROUNDS + 1) + SAMPLERS) * (FP_HOOK_COUNT - 1))
#define ROUNDS	     20
#define STACKS	     9 // of tests/programs/waits
#define LEAVES	     256
#define STEAL_S	     2e-3   // what the host may take of the CPU between stamps, in a round
#define STAMP_S	     0.3e-6 // between the stamps of two programs of one hook
#define SWITCH_S     8e-6   // from sched_switch to sched_exit_tp: a virtual machine's page tables
#define WALK_S	     50e-6  // one walk, with cold caches

// Where each instruction is emulated (FP_TEST_EMULATED, tests/kernels): all that lies between
// stamps is so much longer, and two samplers see an interval differently by a stop of their CPU.
// What is left of the comparison of stacks is coarse, that of the totals is as sharp as ever.
#define EMULATED_SLOWER 50
#define EMULATED_ROUNDS 3
#define EMULATED_BUDGET 1000

enum { ONCE, TWICE, EXACT, SAMPLERS };

struct sum {
	uint64_t count, value;
};

struct leaf { // one place of a thread of the program
	char comm[FP_COMM_LEN];
	uint64_t address;
	struct sum of[SAMPLERS];
};

struct leaves {
	struct leaf rows[LEAVES];
	uint32_t count;
};

struct watcher {
	struct fp_sampler *sampler;
	struct fp_records records;
	uint32_t set, tgid;
	int role;
	struct leaves *leaves;
	struct fp_totals in; // of all rounds
	uint64_t weight;     // the greatest in this round
	// Of all rounds, the whole host: what it measured of all intervals, kept or not, and what
	// those kept come to.
	double measured, estimated;
	struct spread spread;
};

// What may be between a sampler's stamps and the exact one's, to both sides.
struct allowance {
	double below, above;
};

struct stack { // of one wait_<length>, over all rounds
	char name[FP_COMM_LEN];
	uint32_t rounds;
	double error[2], variance[2]; // of ONCE and TWICE
	double largest;
	uint64_t kept[2];
	struct allowance allowance[2]; // of the means
};

struct run {
	enum fp_offcpu_hook hook;
	uint64_t quantum_ns; // 0: a budget, and half of it
	uint32_t budget;
	double seconds;
	struct watcher watchers[SAMPLERS];
	struct leaves leaves;
	struct stack stacks[STACKS];
	uint32_t comparisons, beyond_three;
};

static bool is_set(const char *variable)
{
	const char *value = getenv(variable);

	return value && *value && strcmp(value, "0") != 0;
}

static bool is_full(void)
{
	return is_set("FP_TEST_FULL");
}

static bool is_emulated(void)
{
	return is_set("FP_TEST_EMULATED");
}

static uint32_t rounds(void)
{
	return is_emulated() ? EMULATED_ROUNDS : ROUNDS;
}

// --- the samplers --------------------------------------------------------------------------

static int take_record(const struct fp_stack_record *record, void *context)
{
	struct watcher *watcher = context;

	return fp_records_add(&watcher->records, record);
}

static struct leaf *find_leaf(struct leaves *leaves, const struct fp_stack_record *record)
{
	uint64_t address = record->user_len > 0 ? record->frames[record->kernel_len] : 0;
	struct leaf *leaf = leaves->rows;

	for (; leaf < leaves->rows + leaves->count; leaf++) {
		if (leaf->address == address && memcmp(leaf->comm, record->comm, FP_COMM_LEN) == 0)
			return leaf;
	}
	assert_true(leaves->count < LEAVES);
	leaves->count++;
	*leaf = (struct leaf){ .address = address };
	memcpy(leaf->comm, record->comm, FP_COMM_LEN);
	return leaf;
}

static int take_count(enum fp_source source, const struct fp_key *key, const struct fp_count *count,
		      void *context)
{
	struct watcher *watcher = context;
	const struct fp_stack_record *record;
	struct leaf *leaf;

	if (count->tgid != watcher->tgid || source != FP_SOURCE_OFFCPU || !count->value)
		return 0;
	record = fp_records_find(&watcher->records, watcher->set, key);
	assert_non_null(record);
	leaf = find_leaf(watcher->leaves, record);
	leaf->of[watcher->role].count += count->count;
	leaf->of[watcher->role].value += count->value;
	return 0;
}

static void drain(struct watcher *watcher)
{
	const struct fp_durations *durations;
	struct fp_epoch epoch;

	assert_int_equal(
	    fp_sampler_drain(watcher->sampler, take_record, take_count, watcher, &epoch), 0);
	assert_int_equal(fp_records_end_epoch(&watcher->records, watcher->set), 0);
	watcher->set ^= 1;
	if (epoch.weight_max > watcher->weight)
		watcher->weight = epoch.weight_max;
	durations = &epoch.durations[FP_DURATIONS_BLOCKED];
	for (int i = 0; i < FP_DURATION_BUCKETS; i++)
		watcher->measured += (double)durations->sum_ns[i] / 1e9;
	watcher->estimated += (double)epoch.drained_value[FP_SOURCE_OFFCPU] / 1e9;
	epoch_spread(&watcher->spread, durations, (double)epoch.quantum_max_ns / 1e9,
		     (double)epoch.weight_max);
	for (int outcome = 0; outcome < FP_OUTCOME_COUNT; outcome++) {
		watcher->in.outcomes[outcome] +=
		    epoch.totals[FP_PROGRAM_SWITCH_IN].outcomes[outcome];
	}
}

static bool attach(struct run *run, int role)
{
	struct watcher *watcher = &run->watchers[role];
	struct fp_sampler_config config = { .off_cpu = true, .hook = run->hook };
	struct fp_refusal refusal = { 0 };
	int error;

	if (role == EXACT) {
		config.hook = FP_HOOK_AUTO;
		config.quantum_ns = 1;
	} else {
		config.quantum_ns = role == TWICE ? 2 * run->quantum_ns : run->quantum_ns;
		config.walk_budget = role == TWICE ? run->budget / 2 : run->budget;
	}
	*watcher = (struct watcher){ .role = role, .leaves = &run->leaves };
	fp_records_init(&watcher->records, true);
	error = fp_sampler_open(&config, &watcher->sampler, &refusal);
	if (error)
		print_message("%s: %s\n", fp_offcpu_hook_name(run->hook), refusal.cause);
	return !error;
}

// Programs of one hook run in the order they were attached. At the return the one that keeps all
// is last: its walks would make every interval of those behind it longer. It is always of the
// kernel's best hook, so on the way out it is first: its stamp is before the others' walks, which
// are part of the time that a thread is not at its work.
static bool watch(struct run *run)
{
	static const int orders[][SAMPLERS] = { { ONCE, TWICE, EXACT }, { EXACT, ONCE, TWICE } };
	const int *order = orders[run->hook == FP_HOOK_WAY_OUT];
	bool attached = true;

	for (int i = 0; i < SAMPLERS && attached; i++)
		attached = attach(run, order[i]);
	return attached;
}

static void unwatch(struct run *run)
{
	for (int role = 0; role < SAMPLERS; role++) {
		fp_sampler_free(run->watchers[role].sampler);
		fp_records_free(&run->watchers[role].records);
	}
}

// --- the comparison ------------------------------------------------------------------------

// Where the thread waits: its leaf with the most time. It has others, at its start and end.
static const struct leaf *main_leaf(const struct leaves *leaves, const char *comm)
{
	const struct leaf *best = NULL;

	for (uint32_t i = 0; i < leaves->count; i++) {
		const struct leaf *leaf = &leaves->rows[i];

		if (strncmp(leaf->comm, comm, FP_COMM_LEN) == 0 &&
		    (!best || leaf->of[EXACT].value > best->of[EXACT].value))
			best = leaf;
	}
	assert_non_null(best);
	return best;
}
