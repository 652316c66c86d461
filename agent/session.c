// SPDX-License-Identifier: Apache-2.0
#include "session_state.h"

#include "common/clock.h"
#include "names.h"
#include "procfs.h"
#include "refusal.h"
#include "sideband.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>

#define HOTPLUG_INTERVAL_NS FP_NS_PER_S
// An ended process that no stack was asked about is kept this long, and for one poll: one of its
// stacks may wait behind another that is just being written.
#define LINGER_NS FP_NS_PER_S
// Code that is mapped is to have its ranges before its first sample: the event of one mapping, 130
// bytes or more, wakes us. But not more often than that: what starts in a loop costs us 125 looks a
// second at most, of 50 to 200 us each.
#define WAKE_BYTES	 128u
#define WAKE_INTERVAL_MS 8
#define PRELOAD_NS	 (5 * FP_NS_PER_S)
// Rings of process events take of the memory that a user without CAP_IPC_LOCK may lock, 516 KiB per
// CPU and then RLIMIT_MEMLOCK: those beside the daemon's are small.
#define SNAPSHOT_RING_BYTES (128u * 1024)

static uint32_t event_ring_bytes(const struct fp_session *session)
{
	uint32_t bytes = fp_sideband_default_ring_bytes();

	return session->config.sampler.tgid && bytes > SNAPSHOT_RING_BYTES ? SNAPSHOT_RING_BYTES
									   : bytes;
}

static int watch(struct fp_session *session, int fd)
{
	struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };

	return epoll_ctl(session->epoll_fd, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

static int watch_events(struct fp_session *session)
{
	int error;

	if (session->unwind.unwind) {
		session->wake_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
		error = session->wake_fd < 0 ? -errno : watch(session, session->wake_fd);
		if (error)
			return error;
	}
	return watch(session, fp_sideband_fd(session->sideband));
}

// Whether process events may wake us.
static int let_events_wake(struct fp_session *session, bool may)
{
	static const struct itimerspec soon = { .it_value.tv_nsec =
						    WAKE_INTERVAL_MS * FP_NS_PER_MS };
	int fd = fp_sideband_fd(session->sideband);
	struct epoll_event event = { .events = may ? EPOLLIN : 0, .data.fd = fd };

	session->events_wait = !may;
	if (!may && timerfd_settime(session->wake_fd, 0, &soon, NULL))
		return -errno;
	return epoll_ctl(session->epoll_fd, EPOLL_CTL_MOD, fd, &event) ? -errno : 0;
}

// After events the next ones wait for the timer, which comes soon: a program that has begun is about
// to map its libraries. When it finds none, the next wake again.
static int pace_events(struct fp_session *session, bool any)
{
	uint64_t times;

	if (session->wake_fd < 0)
		return 0;
	if (session->events_wait && read(session->wake_fd, &times, sizeof(times)) != sizeof(times))
		return 0; // it is not yet time
	if (any || session->events_wait)
		return let_events_wake(session, !any);
	return 0;
}

// A snapshot begins with the tables of its process, unless they take too long: then what is missing
// comes while it runs.
static void preload_tables(struct fp_session *session)
{
	struct fp_names *names = session->config.names;
	uint32_t tgid = session->config.sampler.tgid;
	uint64_t end_ns = fp_monotonic_ns() + PRELOAD_NS, now_ns;
	bool more = fp_unwind_preload(&session->unwind, tgid);

	while (names && (now_ns = fp_monotonic_ns()) < end_ns &&
	       (more || fp_unwind_preloading(&session->unwind))) {
		struct pollfd fd = { .fd = fp_names_fd(names), .events = POLLIN };

		if (fp_names_pump(names) < 0)
			return;
		if (more)
			more = fp_unwind_preload(&session->unwind, tgid);
		if (more || fp_unwind_preloading(&session->unwind))
			poll(&fd, 1, (int)((end_ns - now_ns) / FP_NS_PER_MS) + 1);
	}
}

static void begin_unwinding(struct fp_session *session)
{
	struct fp_sampler_config *sampler = &session->config.sampler;

	if (!session->config.unwind || sampler->use_helper_walk)
		return;
	session->unwind = (struct fp_unwind_source){ .unwind = session->config.unwind,
						     .processes = session->processes,
						     .tgid = sampler->tgid };
	session->questions.unwind = &session->unwind;
	sampler->unwind_tables = true;
	sampler->unwind_maps = fp_unwind_maps(session->config.unwind);
	if (sampler->tgid)
		preload_tables(session);
}

// The side-band comes first: what starts between the two is then known, not read lazily.
static int open_parts(struct fp_session *session, struct fp_refusal *refusal)
{
	struct fp_process_limits limits = { .bytes = session->config.process_memory_bytes };
	int error = fp_kernel_map_new(&session->kernel);

	if (!error)
		error = fp_process_table_new(&limits, &session->processes);
	if (error) {
		fp_refusal_explain(error, "reading the kernel's symbol table", refusal);
		return error;
	}
	error = fp_sideband_open_waking(
	    event_ring_bytes(session), session->config.unwind ? WAKE_BYTES : 0, &session->sideband);
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
	begin_unwinding(session);
	error = fp_sampler_open(&session->config.sampler, &session->sampler, refusal);
	if (error)
		return error;
	error = fp_window_open(&session->window, session->config.sampler.tgid, NULL);
	if (!error && session->config.sampler.off_cpu)
		fp_window_begun(&session->window, session->window.start.monotonic_ns -
						      fp_sampler_begun(session->sampler));
	if (!error)
		error = watch(session, fp_sampler_fd(session->sampler));
	if (!error)
		error = watch_events(session);
	if (error)
		fp_refusal_explain(error, "opening the first window", refusal);
	return error;
}

static int open_labeler(struct fp_session *session, struct fp_refusal *refusal)
{
	struct fp_labeler_options options = { .static_labels = session->config.static_labels,
					      .log_directory = "/var/log" };
	int error;

	if (session->config.labels)
		options = *session->config.labels;
	options.cgroup_subsystem = fp_sampler_cgroup_subsystem(session->sampler);
	error = fp_labeler_new(&options, &session->labeler);
	session->config.labels = NULL; // not ours any longer
	if (error)
		fp_refusal_explain(error, "reading the labels and their rules", refusal);
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
	session->wake_fd = -1;
	session->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (session->epoll_fd < 0) {
		error = -errno;
		fp_refusal_explain(error, "opening the session", refusal);
		return error;
	}
	if (config->names)
		fp_names_add_reader(config->names, &session->reader);
	error = open_parts(session, refusal);
	if (!error)
		error = open_labeler(session, refusal);
	if (error)
		return error;
	session->resolver = (struct fp_resolver){ .processes = session->processes,
						  .kernel = session->kernel,
						  .labeler = session->labeler,
						  .names = config->names,
						  .by_table = session->unwind.unwind != NULL };
	fp_process_table_set_catch_up(session->processes, catch_up, session);
	session->stats.map_bytes = fp_sampler_map_bytes(session->sampler);
	fp_records_init(&session->records,
			config->sampler.waker ||
			    (config->sampler.off_cpu &&
			     !strcmp(fp_sampler_hook(session->sampler, FP_SOURCE_OFFCPU),
				     fp_offcpu_hook_name(FP_HOOK_WAY_OUT))));
	*ret = fp_take_ptr(session);
	return 0;
}

void fp_session_free(struct fp_session *session)
{
	if (!session)
		return;
	if (session->config.names)
		fp_names_remove_reader(session->config.names, &session->reader);
	fp_sampler_free(session->sampler);
	fp_sideband_free(session->sideband);
	fp_window_free(&session->window);
	fp_records_free(&session->records);
	fp_questions_free(&session->questions);
	fp_labeler_free(session->labeler);
	fp_unwind_source_end(&session->unwind);
	fp_process_table_free(session->processes);
	fp_kernel_map_free(session->kernel);
	fp_close_fd(&session->wake_fd);
	fp_close_fd(&session->epoll_fd);
	free(session->drained);
	free(session);
}

int fp_session_fd(const struct fp_session *session)
{
	return session->epoll_fd;
}

int fp_session_take_record(const struct fp_stack_record *record, void *context)
{
	struct fp_session *session = context;
	int error = fp_records_add(&session->records, record);

	if (fp_record_is_pair(record))
		return error; // it has no frames of its own to ask about
	if (session->labeler) // a control group may be gone when the record is resolved
		fp_labeler_see(session->labeler, record);
	return error ? error : fp_questions_note(&session->questions, record);
}

static int take_event(const struct fp_event *event, void *context)
{
	struct fp_session *session = context;
	int error = fp_process_table_event(session->processes, event);

	session->stats.sideband_events++;
	fp_questions_event(&session->resolver, event);
	fp_unwind_event(&session->unwind, event);
	return error;
}

int fp_session_read_events(struct fp_session *session)
{
	uint64_t lost = 0;
	int error;

	session->read_ns = fp_monotonic_ns();
	error = fp_sideband_read(session->sideband, take_event, session, &lost);

	if (!error && lost) {
		session->window.sideband_lost += lost;
		session->stats.sideband_lost += lost;
		fp_process_table_lost(session->processes);
	}
	if (!error)
		fp_process_table_settle(session->processes,
					fp_sideband_sure_until(session->sideband));
	return error;
}

int fp_session_keep_up(struct fp_session *session)
{
	uint64_t due_ns = session->read_ns + WAKE_INTERVAL_MS * FP_NS_PER_MS;

	return fp_monotonic_ns() < due_ns ? 0 : fp_session_read_events(session);
}

static int catch_up(void *context)
{
	return fp_session_read_events(context);
}

int fp_session_sync_cpus(struct fp_session *session)
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

// No stack is still on its way of what ended before the poll before this one.
static void retire_unwanted(struct fp_session *session, uint64_t now_ns)
{
	uint64_t before_ns = session->polled_ns;

	session->polled_ns = now_ns;
	if (before_ns > now_ns - LINGER_NS)
		before_ns = now_ns - LINGER_NS;
	fp_process_table_retire_unwanted(session->processes, before_ns);
}

// Stacks first: the events read after them go beyond their times.
int fp_session_poll(struct fp_session *session)
{
	uint64_t now_ns = fp_procfs_monotonic_ns();
	uint64_t events = session->stats.sideband_events;
	int error = fp_sampler_read_stacks(session->sampler, fp_session_take_record, session);

	if (!error)
		error = fp_session_read_events(session);
	if (!error)
		error = pace_events(session, session->stats.sideband_events != events);
	if (!error)
		error = fp_questions_ask_early(&session->questions, &session->resolver,
					       &session->records);
	if (!error)
		fp_unwind_turn(&session->unwind, fp_sideband_sure_until(session->sideband));
	if (!error && session->config.names)
		error = fp_names_pump(session->config.names);
	if (!error)
		retire_unwanted(session, now_ns);
	return error ? error : fp_session_sync_cpus(session);
}
