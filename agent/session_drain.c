// SPDX-License-Identifier: Apache-2.0
//
// From the kernel's maps to a window: what one epoch held is resolved and counted.
#include "session_state.h"

#include "common/clock.h"
#include "epochmaps.h"
#include "names.h"
#include "outcomes.h"
#include "sideband.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SETTLE_BUDGET_NS (FP_NS_PER_S / 4)

static int take_count(enum fp_source source, const struct fp_key *key, const struct fp_count *count,
		      void *context)
{
	struct fp_session *session = context;

	if (session->drained_count == session->drained_capacity) {
		size_t capacity = session->drained_capacity ? session->drained_capacity * 2 : 1024;
		struct drained *more = realloc(session->drained, capacity * sizeof(*more));

		if (!more)
			return -ENOMEM;
		session->drained = more;
		session->drained_capacity = capacity;
	}
	session->drained[session->drained_count++] =
	    (struct drained){ .source = source, .key = *key, .count = *count };
	return 0;
}

// Aggregated runs and nanoseconds of the programs that count what the scheduler tells.
static void sum_scheduler(const struct fp_epoch *epoch, uint64_t *ret_count, uint64_t *ret_value)
{
	static const enum fp_program programs[] = { FP_PROGRAM_SWITCH_IN, FP_PROGRAM_RUN_QUEUE,
						    FP_PROGRAM_BLOCKED };

	for (size_t i = 0; i < FP_ARRAY_SIZE(programs); i++) {
		*ret_count += epoch->totals[programs[i]].outcomes[FP_OUTCOME_AGGREGATED];
		*ret_value += epoch->totals[programs[i]].value;
	}
}

bool fp_epoch_balanced(const struct fp_epoch *epoch)
{
	const struct fp_totals *waker = &epoch->totals[FP_PROGRAM_WAKER];
	const uint64_t *count = epoch->drained_count, *value = epoch->drained_value;
	uint64_t away_count = 0, away_value = 0;

	for (int program = 0; program < FP_PROGRAM_COUNT; program++) {
		if (!fp_totals_balanced(&epoch->totals[program]))
			return false;
	}
	sum_scheduler(epoch, &away_count, &away_value);
	return count[FP_SOURCE_CPU] ==
		   epoch->totals[FP_PROGRAM_CPU].outcomes[FP_OUTCOME_AGGREGATED] &&
	       count[FP_SOURCE_OFFCPU] + count[FP_SOURCE_RUNQUEUE] == away_count &&
	       value[FP_SOURCE_OFFCPU] + value[FP_SOURCE_RUNQUEUE] == away_value &&
	       count[FP_SOURCE_WAKER] == waker->outcomes[FP_OUTCOME_AGGREGATED] &&
	       value[FP_SOURCE_WAKER] == waker->value;
}

static void keep_books(struct fp_session *session, const struct fp_epoch *epoch)
{
	struct fp_session_stats *stats = &session->stats;

	fp_window_epoch(&session->window, epoch);
	for (int program = 0; program < FP_PROGRAM_COUNT; program++)
		fp_totals_add(&stats->totals[program], &epoch->totals[program]);
	for (int source = 0; source < FP_SOURCE_COUNT; source++) {
		stats->samples[source] += epoch->drained_count[source];
		stats->value[source] += epoch->drained_value[source];
	}
	if (fp_epoch_entries(epoch) > stats->entries_peak)
		stats->entries_peak = fp_epoch_entries(epoch);
	for (int row = 0; row < FP_DURATIONS_ROWS; row++)
		fp_durations_add(&stats->durations[row], &epoch->durations[row]);
	stats->cut_missed += epoch->cut_missed;
	// asked of the kernel once per epoch, since every map costs a look at /proc
	stats->map_bytes = fp_sampler_map_bytes(session->sampler);
	for (int program = 0; program < FP_PROGRAM_COUNT; program++)
		fp_sampler_run_time(session->sampler, program, &stats->bpf_run_ns[program],
				    &stats->bpf_runs[program]);
	stats->epochs++;
	stats->balance_errors += !fp_epoch_balanced(epoch);
}

// Asks what resolving will want to know, and waits for the answers, but not for long.
static int ask_about_drained(struct fp_session *session, uint32_t set)
{
	uint64_t budget_ns =
	    session->config.settle_budget_ns ? session->config.settle_budget_ns : SETTLE_BUDGET_NS;
	int error = 0;

	if (!session->config.names)
		return 0;
	for (size_t i = 0; i < session->drained_count && !error; i++) {
		const struct fp_stack_record *record =
		    fp_records_find(&session->records, set, &session->drained[i].key);

		if (record && !fp_record_is_pair(record) &&
		    !fp_window_knows(&session->window, record))
			error = fp_questions_ask(&session->resolver, record);
		if (!error)
			error = fp_session_keep_up(session);
	}
	if (!error)
		fp_names_settle(session->config.names, budget_ns);
	return error;
}

// The two stacks that a pair is of.
static int count_pair(struct fp_session *session, uint32_t set, const struct drained *entry,
		      const struct fp_stack_record *pair)
{
	struct fp_window_pair both = { .pair = pair };
	int error = fp_window_pair_resolve(
	    &session->window, &session->resolver,
	    fp_records_find(&session->records, set, fp_pair_key(pair, FP_PAIR_SLEEPER)),
	    &both.sleeper);

	if (!error)
		error = fp_window_pair_resolve(
		    &session->window, &session->resolver,
		    fp_records_find(&session->records, set, fp_pair_key(pair, FP_PAIR_WAKER)),
		    &both.waker);
	if (error)
		return error;
	session->stats.stacks_lost[FP_SOURCE_WAKER] +=
	    both.sleeper.known && both.waker.known ? 0 : entry->count.count;
	return fp_window_count_pair(&session->window, &entry->count, &both);
}

static int count_stack(struct fp_session *session, const struct drained *entry,
		       const struct fp_stack_record *record)
{
	session->stats.stacks_lost[entry->source] += record ? 0 : entry->count.count;
	return fp_window_count(&session->window, &session->resolver, entry->source, &entry->count,
			       record);
}

static int resolve_drained(struct fp_session *session, uint32_t set)
{
	int error = 0;

	for (size_t i = 0; i < session->drained_count && !error; i++) {
		const struct drained *entry = &session->drained[i];
		const struct fp_stack_record *record =
		    fp_records_find(&session->records, set, &entry->key);

		if (record && fp_record_is_pair(record))
			error = count_pair(session, set, entry, record);
		else
			error = count_stack(session, entry, record);
		if (!error)
			error = fp_session_keep_up(session);
	}
	return error;
}

// Resolves what one epoch left in session->drained, with the process events up to its end.
static int fold_drained(struct fp_session *session)
{
	uint32_t set = session->epoch.index & 1;
	uint64_t unwanted[FP_SOURCE_COUNT];
	int error = fp_session_read_events(session);

	// Those that came with the epoch's end.
	if (!error)
		error = fp_questions_ask_early(&session->questions, &session->resolver,
					       &session->records);
	memcpy(unwanted, session->window.relabel_dropped, sizeof(unwanted));
	if (!error)
		error = ask_about_drained(session, set);
	if (!error)
		error = resolve_drained(session, set);
	for (int source = 0; source < FP_SOURCE_COUNT; source++)
		session->stats.relabel_dropped[source] +=
		    session->window.relabel_dropped[source] - unwanted[source];
	if (!error)
		error = fp_records_end_epoch(&session->records, set);
	if (session->config.names)
		fp_names_end_epoch(session->config.names, &session->reader,
				   session->epoch.start_monotonic_ns);
	fp_process_table_retire(session->processes, session->epoch.start_monotonic_ns);
	return error;
}

int fp_session_drain(struct fp_session *session)
{
	int error;

	session->drained_count = 0;
	if (session->unwind.unwind)
		fp_unwind_make_room(session->unwind.unwind);
	error = fp_sampler_drain(session->sampler, fp_session_take_record, take_count, session,
				 &session->epoch);
	if (error)
		return error;
	// The switch has waited for all runs, but a visit that hangs may go on reading.
	if (session->unwind.unwind && !fp_sampler_visit_hangs(session->sampler))
		fp_unwind_take_room(session->unwind.unwind);
	keep_books(session, &session->epoch);
	return fold_drained(session);
}

static int hand_out_window(struct fp_session *session, struct fp_profile **ret_profile)
{
	const struct fp_sampler_config *sampler = &session->config.sampler;
	struct fp_window_facts facts = {
		.hz_requested = sampler->cpu_hz,
		.hz_actual = fp_sampler_hz(session->sampler),
		.cpus = session->stats.cpus,
		.capacity = fp_sampler_capacity(session->sampler),
		.walk_budget = sampler->walk_budget ? sampler->walk_budget : FP_WALK_BUDGET,
		.quantum_fixed = sampler->quantum_ns > 0,
		.has_source = { sampler->cpu_hz > 0, sampler->off_cpu,
				sampler->off_cpu && sampler->run_queue,
				sampler->off_cpu && sampler->waker },
	};

	for (int source = 0; source < FP_SOURCE_COUNT; source++)
		facts.hook[source] = fp_sampler_hook(session->sampler, (enum fp_source)source);

	return fp_window_close(&session->window, &facts, ret_profile);
}

int fp_session_close_window(struct fp_session *session, struct fp_profile **ret_profile)
{
	struct fp_profile *profile FP_AUTOPROFILE = NULL;
	struct fp_moment end;
	int error;

	fp_session_sync_cpus(
	    session); // a CPU that cannot be opened is fp_session_poll's to report, not
		      // a reason to lose what the others have
	fp_window_end(&session->window);
	end = session->window.end;
	fp_sampler_cut(session->sampler, end.monotonic_ns);
	error = fp_session_drain(session);
	if (!error)
		error = hand_out_window(session, &profile);
	if (!error)
		error = fp_window_open(&session->window, session->config.sampler.tgid, &end);
	if (!error)
		*ret_profile = fp_take_ptr(profile);
	return error;
}

int fp_session_finish(struct fp_session *session, struct fp_profile **ret_profile)
{
	int error = 0;

	fp_session_sync_cpus(session); // for the number of CPUs; see fp_session_close_window
	fp_sampler_stop_off_cpu(session->sampler); // takes a while, in which intervals end
	fp_window_end(&session->window);
	fp_sampler_stop(session->sampler);
	fp_sampler_cut(session->sampler, session->window.end.monotonic_ns);
	// Nothing runs any more, but the epoch before the last switch was drained and the one
	// after it is open; each drain empties one set.
	for (int set = 0; set < FP_EPOCHS && !error; set++)
		error = fp_session_drain(session);
	return error ? error : hand_out_window(session, ret_profile);
}

uint64_t fp_session_window_bytes(const struct fp_session *session)
{
	const struct fp_window *window = &session->window;

	return fp_profile_bytes(window->profile) + fp_hashmap_bytes(&window->resolved);
}

void fp_session_stats(const struct fp_session *session, struct fp_session_stats *ret)
{
	struct fp_process_stats processes;

	*ret = session->stats;
	ret->quantum_ns = fp_sampler_quantum(session->sampler, &ret->weight);
	fp_process_table_stats(session->processes, &processes);
	ret->processes = processes.processes;
	fp_labeler_stats(session->labeler, &ret->labels);
	ret->process_bytes = processes.bytes + ret->labels.bytes;
	memcpy(ret->evicted, processes.evicted, sizeof(ret->evicted));
	ret->process_reads = processes.lazy_reads;
	ret->process_reads_failed = processes.lazy_failed;
	ret->address_lookups = processes.lookups;
	ret->sideband_ring_bytes = fp_sideband_ring_bytes(session->sideband);
	ret->capacity = fp_sampler_capacity(session->sampler);
	ret->hz = fp_sampler_hz(session->sampler);
	for (int source = 0; source < FP_SOURCE_COUNT; source++)
		ret->hook[source] = fp_sampler_hook(session->sampler, source);
}

const struct fp_epoch *fp_session_last_epoch(const struct fp_session *session)
{
	return &session->epoch;
}

struct fp_kernel_map *fp_session_kernel_map(const struct fp_session *session)
{
	return session->kernel;
}
