// SPDX-License-Identifier: Apache-2.0
//
// The host's sampling session on the loop: polled, drained, and replaced when its settings
// change.
#include "daemon_state.h"

#include "common/clock.h"
#include "common/file.h"
#include "common/log.h"
#include "epochmaps.h"
#include "outcomes.h"
#include "privilege.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>

#define TURN_NS (FP_NS_PER_S / 2) // the session asks to be polled once a second at least

static bool walk_by_helper(const struct fp_daemon *daemon)
{
	return fp_kernel_list_has(daemon->config.agent_kernel_no_user_read, &daemon->facts.kernel);
}

// Opening perf events is the one thing that may need CAP_SYS_ADMIN.
static int open_session(struct fp_daemon *daemon, const struct fp_session_config *config,
			struct fp_session **ret, struct fp_refusal *refusal)
{
	int r;

	if (daemon->needs_admin)
		fp_privilege_admin(true);
	r = fp_session_open(config, ret, refusal);
	if (daemon->needs_admin)
		fp_privilege_admin(false);
	return r;
}

// Borrowed from the configuration; nobody keeps them.
static struct fp_labeler_options labels_of(const struct fp_daemon *daemon)
{
	return (struct fp_labeler_options){
		.static_labels = daemon->config.labels_static,
		.relabel = daemon->config.labels_relabel,
		.log_directory = daemon->config.labels_log_directory,
		.hostname = daemon->identity.hostname,
	};
}

int fp_daemon_session_open(struct fp_daemon *daemon, struct fp_session **ret,
			   struct fp_refusal *refusal)
{
	const struct fp_labeler_options labels = labels_of(daemon);
	struct fp_session_config config = {
		.names = daemon->names,
		.unwind = fp_daemon_unwind(daemon),
		.labels = &labels,
		.process_memory_bytes = daemon->config.limits_process_memory,
		.drain_interval_ns = daemon->config.window_drain_interval_ns,
	};

	fp_agent_config_sampler(&daemon->config, walk_by_helper(daemon), &config.sampler);
	return open_session(daemon, &config, ret, refusal);
}

int fp_daemon_open_snapshot(const struct fp_session_config *config, struct fp_session **ret,
			    struct fp_refusal *refusal, void *context)
{
	struct fp_daemon *daemon = context;
	struct fp_session_config snapshot = *config;
	const struct fp_labeler_options labels = labels_of(daemon);
	struct fp_sampler_config host;

	fp_agent_config_sampler(&daemon->config, walk_by_helper(daemon), &host);
	snapshot.names = daemon->names;
	snapshot.unwind = fp_daemon_unwind(daemon);
	snapshot.labels = &labels;
	snapshot.process_memory_bytes = daemon->config.limits_process_memory;
	snapshot.sampler.hook = host.hook;
	snapshot.sampler.walk_budget = FP_SNAPSHOT_WALK_BUDGET;
	snapshot.sampler.max_user_frames = host.max_user_frames;
	snapshot.sampler.use_helper_walk = host.use_helper_walk;
	return open_session(daemon, &snapshot, ret, refusal);
}

// A snapshot is handed to its client and never shipped: it takes no sequence number.
int fp_daemon_stamp_snapshot(struct fp_profile *profile, void *context)
{
	const struct fp_daemon *daemon = context;

	return fp_identity_stamp(&daemon->identity, 0, profile);
}

static int on_session(struct fp_loop_source *source, uint32_t events, void *context)
{
	struct fp_daemon *daemon = context;
	int r = fp_session_poll(daemon->session);

	if (r < 0)
		fp_warn("reading new stacks failed, going on: %s", strerror(-r));
	return 0;
}

// True when CPUs have come or gone since the last look. Only asked where the session needs
// our help to open perf events for them.
static bool cpus_changed(struct fp_daemon *daemon)
{
	struct fp_buf text FP_AUTOBUF = { 0 };

	if (fp_file_read("/sys/devices/system/cpu/online", sizeof(daemon->online_cpus) - 1, &text) <
		0 ||
	    fp_buf_byte(&text, '\0') < 0 ||
	    strcmp(daemon->online_cpus, (const char *)text.data) == 0)
		return false;
	memcpy(daemon->online_cpus, text.data, text.len);
	return true;
}

static int on_turn(struct fp_loop_source *source, uint32_t events, void *context)
{
	struct fp_daemon *daemon = context;
	bool raise = daemon->needs_admin && cpus_changed(daemon);

	if (raise)
		fp_privilege_admin(true);
	on_session(source, events, context);
	if (raise)
		fp_privilege_admin(false);
	fp_daemon_names_watch(daemon);
	fp_daemon_symbols_turn(&daemon->symbols);
	fp_daemon_metrics_update(daemon);
	return 0;
}

static int on_drain(struct fp_loop_source *source, uint32_t events, void *context)
{
	struct fp_daemon *daemon = context;
	int r = fp_session_drain(daemon->session);

	if (r < 0)
		fp_warn("emptying the kernel's maps failed, trying again in %llu s: %s",
			(unsigned long long)(daemon->config.window_drain_interval_ns / FP_NS_PER_S),
			strerror(-r));
	else if (fp_session_window_bytes(daemon->session) > daemon->config.limits_window_memory) {
		fp_metric_add(&daemon->metrics, FP_M_WINDOWS_EARLY, 1);
		fp_daemon_window_close(daemon);
	}
	return 0;
}

static int on_window(struct fp_loop_source *source, uint32_t events, void *context)
{
	fp_daemon_window_close(context);
	return 0;
}

static int watch_session(struct fp_daemon *daemon)
{
	return fp_loop_add_fd(daemon->loop, fp_session_fd(daemon->session), EPOLLIN, on_session,
			      daemon, &daemon->session_source);
}

int fp_daemon_session_run(struct fp_daemon *daemon)
{
	uint64_t drain_ns = daemon->config.window_drain_interval_ns;
	int r = watch_session(daemon);

	if (r == 0)
		r = fp_loop_add_timer(daemon->loop, TURN_NS, TURN_NS, on_turn, daemon,
				      &daemon->turn_timer);
	if (r == 0)
		r = fp_loop_add_timer(daemon->loop, drain_ns, drain_ns, on_drain, daemon,
				      &daemon->drain_timer);
	if (r == 0)
		r = fp_loop_add_timer(daemon->loop, fp_daemon_first_window_ns(daemon),
				      daemon->config.window_length_ns, on_window, daemon,
				      &daemon->window_timer);
	return r;
}

void fp_daemon_session_set_timers(struct fp_daemon *daemon)
{
	const struct fp_agent_config *config = &daemon->config;

	fp_loop_set_timer(daemon->drain_timer, config->window_drain_interval_ns,
			  config->window_drain_interval_ns);
	fp_loop_set_timer(daemon->window_timer, config->window_length_ns, config->window_length_ns);
}

static void add_stats(struct fp_session_stats *sum, const struct fp_session_stats *one)
{
	for (int program = 0; program < FP_PROGRAM_COUNT; program++) {
		fp_totals_add(&sum->totals[program], &one->totals[program]);
		sum->bpf_run_ns[program] += one->bpf_run_ns[program];
		sum->bpf_runs[program] += one->bpf_runs[program];
	}
	for (int source = 0; source < FP_SOURCE_COUNT; source++) {
		sum->samples[source] += one->samples[source];
		sum->value[source] += one->value[source];
		sum->stacks_lost[source] += one->stacks_lost[source];
		sum->relabel_dropped[source] += one->relabel_dropped[source];
	}
	for (int row = 0; row < FP_DURATIONS_ROWS; row++)
		fp_durations_add(&sum->durations[row], &one->durations[row]);
	sum->cut_missed += one->cut_missed;
	sum->epochs += one->epochs;
	sum->sideband_events += one->sideband_events;
	sum->sideband_lost += one->sideband_lost;
	sum->process_reads += one->process_reads;
	sum->process_reads_failed += one->process_reads_failed;
	sum->address_lookups += one->address_lookups;
	sum->labels.cgroups_found += one->labels.cgroups_found;
	sum->labels.cgroups_gone += one->labels.cgroups_gone;
	sum->labels.processes_read += one->labels.processes_read;
	sum->labels.inherited += one->labels.inherited;
	sum->labels.unknown += one->labels.unknown;
	sum->labels.relabel_overruns += one->labels.relabel_overruns;
	sum->labels.log_entries_unread += one->labels.log_entries_unread;
	for (int what = 0; what < FP_EVICTED_COUNT; what++)
		sum->evicted[what] += one->evicted[what];
	sum->balance_errors += one->balance_errors;
}

void fp_daemon_session_stats(const struct fp_daemon *daemon, struct fp_session_stats *ret)
{
	fp_session_stats(daemon->session, ret);
	add_stats(ret, &daemon->ended);
}

// Hands out the last window of a session and forgets it.
static void finish_session(struct fp_daemon *daemon, struct fp_session *session)
{
	struct fp_profile *profile FP_AUTOPROFILE = NULL;
	struct fp_session_stats stats;
	int r = fp_session_finish(session, &profile);

	// Before the window is delivered, which updates the metrics: a counter never goes back.
	fp_session_stats(session, &stats);
	add_stats(&daemon->ended, &stats);
	if (r == 0)
		fp_daemon_window_deliver(daemon, profile);
	else
		fp_warn("the last window of the session is lost: %s", strerror(-r));
	fp_session_free(session);
}

int fp_daemon_session_reopen(struct fp_daemon *daemon)
{
	struct fp_session *old = daemon->session;
	struct fp_session *session = NULL;
	struct fp_refusal refusal = { 0 };
	int r = fp_daemon_session_open(daemon, &session, &refusal);

	if (r < 0)
		return fp_error_r(r, "cannot sample with the new settings, keeping the old: %s",
				  refusal.cause[0] ? refusal.cause : strerror(-r));
	fp_loop_remove(daemon->session_source);
	daemon->session_source = NULL;
	daemon->session = session;
	finish_session(daemon, old);
	fp_daemon_unwind_reload(daemon);
	return watch_session(daemon);
}

void fp_daemon_session_end(struct fp_daemon *daemon)
{
	struct fp_session *session = fp_take_ptr(daemon->session);

	if (!session)
		return;
	fp_loop_remove(daemon->session_source);
	fp_loop_remove(daemon->turn_timer);
	fp_loop_remove(daemon->drain_timer);
	fp_loop_remove(daemon->window_timer);
	fp_metric_set(&daemon->metrics, FP_M_ATTACHED, 0);
	finish_session(daemon, session);
}
