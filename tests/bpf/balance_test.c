// SPDX-License-Identifier: Apache-2.0
//
// The books balance on the live kernel under mixed load (a CPU-bound thread, a compile loop,
// a ping-pong through pipes): per program and epoch, runs = kept + filtered + dropped; the
// drained maps sum to the independent per-CPU totals; an entry is announced if and only if its
// frames arrived; no return is before its departure, on whatever CPUs. The same with maps of 64 entries and a ring of one page, where the losses
// must be there and carry the right reasons.
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/outcomes.h"
#include "agent/records.h"
#include "agent/session_state.h"
#include "common/clock.h"

struct books {
	struct fp_records records;
	uint32_t set;
	uint64_t entries, announced, frames_missing, frames_unasked, zero_tgid;
};

struct sums {
	struct fp_totals totals[FP_PROGRAM_COUNT];
	uint64_t drained[FP_SOURCE_COUNT], value, cut, cut_missed;
	uint64_t epochs, announced, unannounced;
};

static int take_record(const struct fp_stack_record *record, void *context)
{
	struct books *books = context;

	return fp_records_add(&books->records, record);
}

static int take_count(enum fp_source source, const struct fp_key *key, const struct fp_count *count,
		      void *context)
{
	struct books *books = context;
	bool arrived = fp_records_find(&books->records, books->set, key) != NULL;

	books->entries++;
	books->announced += count->announced;
	books->frames_missing += count->announced && !arrived;
	// an interrupt of the idle task wakes, too
	books->zero_tgid += count->tgid == 0 && source != FP_SOURCE_WAKER;
	return 0;
}

static pid_t start_load(double seconds)
{
	char text[32];
	pid_t pid;

	snprintf(text, sizeof(text), "%.0f", seconds);
	pid = fork();
	if (!pid) {
		setpgid(0, 0);
		if (!freopen("/dev/null", "w", stdout))
			_exit(127);
		execl("/bin/sh", "sh", FP_PROGRAMS_DIR "/mixed.sh", text, FP_PROGRAMS_DIR, NULL);
		_exit(127);
	}
	return pid;
}

static void end_load(pid_t pid)
{
	int status;

	kill(-pid, SIGTERM); // the whole group
	assert_int_equal(waitpid(pid, &status, 0), pid);
}

static void check_epoch(const struct fp_epoch *epoch, const struct books *books)
{
	for (int program = 0; program < FP_PROGRAM_COUNT; program++)
		assert_true(fp_totals_balanced(&epoch->totals[program]));
	assert_true(fp_epoch_balanced(epoch));
	assert_int_equal(books->frames_missing, 0);
	assert_int_equal(books->zero_tgid, 0);
}

static void add_epoch(struct sums *sums, const struct fp_epoch *epoch, const struct books *books)
{
	for (int program = 0; program < FP_PROGRAM_COUNT; program++)
		fp_totals_add(&sums->totals[program], &epoch->totals[program]);
	for (int source = 0; source < FP_SOURCE_COUNT; source++)
		sums->drained[source] += epoch->drained_count[source];
	sums->value += epoch->drained_value[FP_SOURCE_OFFCPU];
	sums->cut += epoch->totals[FP_PROGRAM_BLOCKED].runs;
	sums->cut_missed += epoch->cut_missed;
	sums->announced += books->announced;
	sums->unannounced += books->entries - books->announced;
	sums->epochs++;
}

static void print_sums(const struct sums *sums)
{
	for (int program = 0; program < FP_PROGRAM_COUNT; program++) {
		const struct fp_totals *totals = &sums->totals[program];

		print_message("  %-10s %9llu runs =", fp_program_names[program],
			      (unsigned long long)totals->runs);
		for (int outcome = 0; outcome < FP_OUTCOME_COUNT; outcome++) {
			if (totals->outcomes[outcome])
				print_message(" %llu %s",
					      (unsigned long long)totals->outcomes[outcome],
					      fp_outcome_rows[outcome].label);
		}
		print_message("\n");
	}
	print_message("  %llu epochs; drained %llu cpu, %llu off-cpu, %.3f s off CPU; "
		      "%llu entries announced, %llu not\n",
		      (unsigned long long)sums->epochs, (unsigned long long)sums->drained[0],
		      (unsigned long long)sums->drained[1], (double)sums->value / 1e9,
		      (unsigned long long)sums->announced, (unsigned long long)sums->unannounced);
}

// One epoch's time. With `reading`, the rings are emptied meanwhile, as the agent does; where
// they are to overflow, nobody reads.
static void let_run(struct fp_sampler *sampler, struct books *books, uint32_t epoch_ms,
		    bool reading)
{
	for (uint32_t ms = 0; ms < epoch_ms; ms += 50) {
		usleep(50 * 1000);
		if (reading)
			assert_int_equal(fp_sampler_read_stacks(sampler, take_record, books), 0);
	}
}

static struct sums run_epochs(const struct fp_sampler_config *config, uint32_t epochs,
			      uint32_t epoch_ms)
{
	struct books books = { 0 };
	struct fp_refusal refusal = { 0 };
	struct fp_sampler *sampler;
	struct sums sums = { 0 };
	pid_t load = start_load(epochs * epoch_ms / 1000.0 + 10);

	fp_records_init(&books.records, config->hook == FP_HOOK_WAY_OUT || config->waker);
	if (fp_sampler_open(config, &sampler, &refusal))
		fail_msg("%s; %s", refusal.cause, refusal.fix);
	for (uint32_t i = 0; i < epochs + FP_EPOCHS; i++) {
		struct fp_epoch epoch;

		if (i < epochs)
			let_run(sampler, &books, epoch_ms, config->ring_bytes == 0);
		else if (i == epochs)
			fp_sampler_stop(sampler); // and both sets once more
		if (i % 4 == 3 || i == epochs)
			fp_sampler_cut(sampler, fp_monotonic_ns());
		books.set = i & 1;
		books.entries = books.announced = books.frames_missing = books.zero_tgid = 0;
		assert_int_equal(fp_sampler_drain(sampler, take_record, take_count, &books, &epoch),
				 0);
		check_epoch(&epoch, &books);
		add_epoch(&sums, &epoch, &books);
		assert_int_equal(fp_records_end_epoch(&books.records, books.set), 0);
	}
	end_load(load);
	fp_sampler_free(sampler);
	fp_records_free(&books.records);
	print_sums(&sums);
	for (int program = 0; program < FP_PROGRAM_COUNT; program++)
		assert_int_equal(sums.totals[program].outcomes[FP_OUTCOME_CLOCK_BACKWARDS], 0);
	return sums;
}

static bool is_set(const char *variable)
{
	const char *text = getenv(variable);

	return text && *text && strcmp(text, "0") != 0;
}

// At least so many events that the books say something; an emulated load brings fewer.
static uint64_t least(uint64_t per_epoch, uint32_t epochs)
{
	return per_epoch * epochs / (is_set("FP_TEST_EMULATED") ? 10 : 1);
}

// Many epochs rather than long ones: each is a switch of sets under load. A minute with
// FP_TEST_FULL; a fifth with FP_TEST_EMULATED, on a machine where all takes so much longer.
static uint32_t epochs_of(uint32_t usual, uint32_t full)
{
	if (is_set("FP_TEST_FULL"))
		return full;
	return is_set("FP_TEST_EMULATED") ? usual / 5 : usual;
}

static void nothing_is_lost_silently_in_mixed_load(void **state)
{
	struct fp_sampler_config config = { .cpu_hz = 99, .off_cpu = true };
	uint32_t epochs = epochs_of(15, 60);
	struct sums sums = run_epochs(&config, epochs, 1000);

	assert_true(sums.totals[FP_PROGRAM_CPU].runs > least(50, epochs));
	assert_true(sums.totals[FP_PROGRAM_SWITCH_OUT].runs > least(100, epochs));
	assert_true(sums.value > 0);
	for (int program = 0; program < FP_PROGRAM_COUNT; program++)
		assert_int_equal(fp_totals_class(&sums.totals[program], FP_CLASS_DROPPED), 0);
	assert_int_equal(sums.unannounced, 0);
}

static void full_maps_and_a_tiny_ring_lose_with_the_right_reasons(void **state)
{
	struct fp_sampler_config config = {
		.cpu_hz = 999, .off_cpu = true, .count_entries = 64, .ring_bytes = 4096
	};
	struct sums sums = run_epochs(&config, epochs_of(10, 20), 500);
	const struct fp_totals *cpu = &sums.totals[FP_PROGRAM_CPU];
	const struct fp_totals *in = &sums.totals[FP_PROGRAM_SWITCH_IN];

	assert_true(cpu->outcomes[FP_OUTCOME_MAP_FULL] > 0);
	assert_int_equal(fp_totals_class(cpu, FP_CLASS_DROPPED),
			 cpu->outcomes[FP_OUTCOME_MAP_FULL]);
	assert_int_equal(fp_totals_class(in, FP_CLASS_DROPPED), in->outcomes[FP_OUTCOME_MAP_FULL]);
	assert_true(cpu->announce_failed > 0);
	assert_true(sums.unannounced > 0);
}

static void stacks_taken_on_the_way_out_balance_too(void **state)
{
	struct fp_sampler_config config = { .off_cpu = true, .hook = FP_HOOK_WAY_OUT };
	uint32_t epochs = epochs_of(20, 20);
	struct sums sums = run_epochs(&config, epochs, 250);

	assert_int_equal(sums.totals[FP_PROGRAM_SWITCH_OUT].runs,
			 sums.totals[FP_PROGRAM_SWITCH_IN].runs);
	assert_true(sums.drained[FP_SOURCE_OFFCPU] > least(50, epochs));
	assert_true(sums.cut > 0);
	assert_int_equal(sums.cut_missed, 0);
}

static void run_queue_and_wakers_balance_too(void **state)
{
	static const enum fp_offcpu_hook hooks[] = { FP_HOOK_AUTO, FP_HOOK_WAY_OUT };

	for (size_t i = 0; i < FP_ARRAY_SIZE(hooks); i++) {
		struct fp_sampler_config config = {
			.off_cpu = true, .hook = hooks[i], .run_queue = true, .waker = true
		};
		struct sums sums = run_epochs(&config, epochs_of(20, 20), 250);

		assert_true(sums.drained[FP_SOURCE_RUNQUEUE] > 0);
		assert_true(sums.drained[FP_SOURCE_WAKER] > 0);
		assert_true(sums.cut > 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_lost_silently_in_mixed_load),
		cmocka_unit_test(full_maps_and_a_tiny_ring_lose_with_the_right_reasons),
		cmocka_unit_test(stacks_taken_on_the_way_out_balance_too),
		cmocka_unit_test(run_queue_and_wakers_balance_too),
	};

	if (geteuid() != 0) {
		puts("skipped: sampling the host needs root");
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
