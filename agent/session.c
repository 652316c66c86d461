// SPDX-License-Identifier: Apache-2.0
#include "session.h"

#include "common/clock.h"
#include "outcomes.h"
#include "records.h"
#include "refusal.h"
#include "sideband.h"
#include "window.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#define HOTPLUG_INTERVAL_NS FP_NS_PER_S

struct drained { // one count-map entry, kept until the side-band has been read
	enum fp_source source;
	struct fp_key key;
	struct fp_count count;
};

struct fp_session {
	struct fp_session_config config;
	struct fp_sampler *sampler;
	struct fp_sideband *sideband;
	struct fp_process_table *processes;
	struct fp_kernel_map *kernel;
	struct fp_resolver resolver;
	struct fp_records records;
	struct fp_window window;
	struct drained *drained; // scratch of one drain
	size_t drained_count, drained_capacity;
	struct fp_epoch epoch; // the last one
	struct fp_session_stats stats;
	uint64_t hotplug_due_ns;
	int epoll_fd;
};

static int watch(struct fp_session *session, int fd)
{
	struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };

	return epoll_ctl(session->epoll_fd, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

// The side-band comes first: what starts between the two is then known, not read lazily.
static int open_parts(struct fp_session *session, struct fp_refusal *refusal)
{
	int error = fp_kernel_map_new(&session->kernel);

	if (!error)
		error = fp_process_table_new(NULL, &session->processes);
	if (error) {
		fp_refusal_explain(error, "reading the kernel's symbol table", refusal);
		return error;
	}
	error = fp_sideband_open(0, &session->sideband);
	if (error) {
		fp_refusal_explain(error, "opening the process-event stream", refusal);
		return error;
	}
	// One process: its mappings are read now, before it can exit unread.
	if (session->config.sampler.tgid) {
		error = fp_process_table_preload(session->processes, session->config.sampler.tgid);
		if (error && error != -ESRCH) {
			fp_refusal_explain(error, "reading the process's mappings", refusal);
			return error;
		}
	}
	error = fp_sampler_open(&session->config.sampler, &session->sampler, refusal);
	if (error)
		return error;
	error = fp_window_open(&session->window, session->config.sampler.tgid, NULL);
	if (!error)
		error = watch(session, fp_sampler_fd(session->sampler));
	if (!error)
		error = watch(session, fp_sideband_fd(session->sideband));
	if (error)
		fp_refusal_explain(error, "opening the first window", refusal);
	return error;
}

static int catch_up(void *context);

int fp_session_open(const struct fp_session_config *config, struct fp_session **ret,
		    struct fp_refusal *refusal)
{
	struct fp_session *session FP_CLEANUP(fp_session_freep) = calloc(1, sizeof(*session));
	int error;

	if (!session) {
		fp_refusal_explain(-ENOMEM, "opening the session", refusal);
		return -ENOMEM;
	}
	session->config = *config;
	session->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (session->epoll_fd < 0) {
		error = -errno;
		fp_refusal_explain(error, "opening the session", refusal);
		return error;
	}
	error = open_parts(session, refusal);
	if (error)
		return error;
	session->resolver = (struct fp_resolver){ .processes = session->processes,
						  .kernel = session->kernel,
						  .static_labels = config->static_labels };
	fp_process_table_set_catch_up(session->processes, catch_up, session);
	session->stats.map_bytes = fp_sampler_map_bytes(session->sampler);
	fp_records_init(&session->records,
			config->sampler.off_cpu &&
			    !strcmp(fp_sampler_hook(session->sampler, FP_SOURCE_OFFCPU),
				    fp_offcpu_hook_name(FP_HOOK_WAY_OUT)));
	*ret = fp_take_ptr(session);
	return 0;
}

void fp_session_free(struct fp_session *session)
{
	if (!session)
		return;
	fp_sampler_free(session->sampler);
	fp_sideband_free(session->sideband);
	fp_window_free(&session->window);
	fp_records_free(&session->records);
	fp_process_table_free(session->processes);
	fp_kernel_map_free(session->kernel);
	fp_close_fd(&session->epoll_fd);
	free(session->drained);
	free(session);
}

int fp_session_fd(const struct fp_session *session)
{
	return session->epoll_fd;
}

static int take_record(const struct fp_stack_record *record, void *context)
{
	struct fp_session *session = context;

	return fp_records_add(&session->records, record);
}

static int take_event(const struct fp_event *event, void *context)
{
	struct fp_session *session = context;

	session->stats.sideband_events++;
	return fp_process_table_event(session->processes, event);
}

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

static int read_events(struct fp_session *session)
{
	uint64_t lost = 0;
	int error = fp_sideband_read(session->sideband, take_event, session, &lost);

	if (!error && lost) {
		session->window.sideband_lost += lost;
		session->stats.sideband_lost += lost;
		fp_process_table_lost(session->processes);
	}
	return error;
}

static int catch_up(void *context)
{
	return read_events(context);
}

static int sync_cpus(struct fp_session *session)
{
	uint64_t now = fp_monotonic_ns();
	int result;

	if (now < session->hotplug_due_ns)
		return 0;
	session->hotplug_due_ns = now + HOTPLUG_INTERVAL_NS;
	result = fp_sampler_sync_cpus(session->sampler);
	if (result < 0)
		return result;
	session->stats.cpus = (uint32_t)result;
	result = fp_sideband_sync_cpus(session->sideband);
	return result < 0 ? result : 0;
}

int fp_session_poll(struct fp_session *session)
{
	int error = read_events(session);

	if (!error)
		error = fp_sampler_read_stacks(session->sampler, take_record, session);
	return error ? error : sync_cpus(session);
}

static bool epoch_balanced(const struct fp_epoch *epoch)
{
	const struct fp_totals *cpu = &epoch->totals[FP_PROGRAM_CPU];
	const struct fp_totals *in = &epoch->totals[FP_PROGRAM_SWITCH_IN];

	for (int program = 0; program < FP_PROGRAM_COUNT; program++) {
		if (!fp_totals_balanced(&epoch->totals[program]))
			return false;
	}
	return epoch->drained_count[FP_SOURCE_CPU] == cpu->outcomes[FP_OUTCOME_AGGREGATED] &&
	       epoch->drained_count[FP_SOURCE_OFFCPU] == in->outcomes[FP_OUTCOME_AGGREGATED] &&
	       epoch->drained_value[FP_SOURCE_OFFCPU] == in->value;
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
		if (epoch->entries[source] > stats->entries_peak)
			stats->entries_peak = epoch->entries[source];
	}
	// asked of the kernel once per epoch, since every map costs a look at /proc
	stats->map_bytes = fp_sampler_map_bytes(session->sampler);
	for (int program = 0; program < FP_PROGRAM_COUNT; program++)
		fp_sampler_run_time(session->sampler, program, &stats->bpf_run_ns[program],
				    &stats->bpf_runs[program]);
	stats->epochs++;
	stats->balance_errors += !epoch_balanced(epoch);
}

// Resolves what one epoch left in session->drained, with the process events up to its end.
static int fold_drained(struct fp_session *session)
{
	uint32_t set = session->epoch.index & 1;
	int error = read_events(session);

	for (size_t i = 0; i < session->drained_count && !error; i++) {
		const struct drained *entry = &session->drained[i];
		const struct fp_stack_record *record =
		    fp_records_find(&session->records, set, &entry->key);

		session->stats.stacks_lost[entry->source] += record ? 0 : entry->count.count;
		error = fp_window_count(&session->window, &session->resolver, entry->source,
					&entry->count, record);
	}
	if (!error)
		error = fp_records_end_epoch(&session->records, set);
	fp_process_table_retire(session->processes, session->epoch.start_monotonic_ns);
	return error;
}

int fp_session_drain(struct fp_session *session)
{
	int error;

	session->drained_count = 0;
	error =
	    fp_sampler_drain(session->sampler, take_record, take_count, session, &session->epoch);
	if (error)
		return error;
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
		.has_source = { sampler->cpu_hz > 0, sampler->off_cpu },
		.hook = { fp_sampler_hook(session->sampler, FP_SOURCE_CPU),
			  fp_sampler_hook(session->sampler, FP_SOURCE_OFFCPU) },
	};

	return fp_window_close(&session->window, &facts, ret_profile);
}

int fp_session_close_window(struct fp_session *session, struct fp_profile **ret_profile)
{
	struct fp_profile *profile FP_AUTOPROFILE = NULL;
	struct fp_moment end;
	int error;

	sync_cpus(session); // a CPU that cannot be opened is fp_session_poll's to report, not
			    // a reason to lose what the others have
	fp_window_end(&session->window);
	end = session->window.end;
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

	sync_cpus(session); // for the number of CPUs; see fp_session_close_window
	fp_window_end(&session->window);
	fp_sampler_stop(session->sampler);
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
	fp_process_table_stats(session->processes, &processes);
	ret->processes = processes.processes;
	ret->process_bytes = processes.bytes;
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
