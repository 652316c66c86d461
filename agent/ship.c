// SPDX-License-Identifier: Apache-2.0
// The role's loop. Requests block it, which is why it answers nothing else: the HTTP endpoint
// has a thread of its own, and a request that runs is told to stop through should_stop.
#include "ship.h"
#include "observe.h"
#include "ship_deliver.h"

#include "common/clock.h"
#include "common/log.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/signalfd.h>

#define POLL_NS	     (30 * FP_NS_PER_S) // gauges, symbol tables, and what inotify missed
#define LAST_PASS_NS (5 * FP_NS_PER_S)	// to send what is left when the agent ends

struct role {
	const struct fp_ship_config *config;
	struct fp_metrics *metrics;
	struct fp_ship ship;
	struct fp_observe *observe;
	int signal_fd, inotify_fd;
	uint64_t stop_ns; // boottime by which to be gone; 0: nobody asked
};

static const int stop_signals[] = { SIGTERM, SIGINT };

static void role_close(struct role *role)
{
	fp_ship_close(&role->ship);
	fp_observe_freep(&role->observe);
	fp_close_fd(&role->signal_fd);
	fp_close_fd(&role->inotify_fd);
}

static bool asked_to_stop(void)
{
	sigset_t pending;

	if (sigpending(&pending) < 0)
		return false;
	for (size_t i = 0; i < FP_ARRAY_SIZE(stop_signals); i++)
		if (sigismember(&pending, stop_signals[i]) == 1)
			return true;
	return false;
}

// The signals stay pending (the loop only polls for them), so that this sees them too.
static bool should_stop(void *context)
{
	struct role *role = context;

	if (!role->stop_ns && asked_to_stop())
		role->stop_ns = fp_boottime_ns() + LAST_PASS_NS;
	return role->stop_ns && fp_boottime_ns() >= role->stop_ns;
}

static int open_signals(struct role *role)
{
	sigset_t signals;

	sigemptyset(&signals);
	for (size_t i = 0; i < FP_ARRAY_SIZE(stop_signals); i++)
		sigaddset(&signals, stop_signals[i]);
	if (sigprocmask(SIG_SETMASK, &signals, NULL) < 0)
		return -errno;
	signal(SIGPIPE, SIG_IGN);
	signal(SIGHUP, SIG_IGN); // a reload is the sampler's affair, which starts us anew
	role->signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
	return role->signal_fd < 0 ? -errno : 0;
}

static int watch(const struct role *role, const char *below)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s%s", role->config->spool_directory, below);
	return inotify_add_watch(role->inotify_fd, path, IN_MOVED_TO) < 0 ? -errno : 0;
}

// A new file comes by rename. Without inotify (no watches left) the poll finds it.
static void open_watches(struct role *role)
{
	int error;

	role->inotify_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	error = role->inotify_fd < 0 ? -errno : watch(role, "");
	if (!error)
		error = watch(role, "/symbols");
	if (error)
		fp_warn("cannot watch spool '%s' (%s), looking every 30 s",
			role->config->spool_directory, strerror(-error));
}

static void drain_events(int fd)
{
	char events[4096];

	while (read(fd, events, sizeof(events)) > 0)
		;
}

static bool open_delivery(struct role *role)
{
	int error;

	if (role->ship.spool)
		return true;
	role->ship.should_stop = should_stop;
	role->ship.stop_context = role;
	error = fp_ship_open(role->config, role->metrics, &role->ship);
	fp_metric_set(role->metrics, FP_M_SHIP_BACKOFF, error ? POLL_NS : 0);
	if (!error) {
		open_watches(role);
		return true;
	}
	fp_ship_close(&role->ship);
	fp_error("cannot open spool '%s' (%s), trying again in 30 s", role->config->spool_directory,
		 strerror(-error));
	return false;
}

// The port may still be held by the role of an agent that is ending: tried at every turn.
static void open_observe(struct role *role)
{
	struct fp_observe_config config = { .listen = role->config->listen,
					    .metrics = role->metrics,
					    .loop_stale_ns = role->config->loop_stale_ns,
					    .sampler_pid = getppid() };
	int error;

	if (role->observe || !role->config->listen || !role->config->listen[0])
		return;
	error = fp_observe_start(&config, &role->observe);
	if (error)
		fp_error("cannot listen on '%s' (%s), trying again in 30 s", role->config->listen,
			 strerror(-error));
}

static void wait_for_work(struct role *role, pid_t parent)
{
	struct pollfd fds[] = { { .fd = role->signal_fd, .events = POLLIN },
				{ .fd = role->inotify_fd, .events = POLLIN } };
	uint64_t now = fp_boottime_ns(), due = role->ship.spool ? fp_ship_due_ns(&role->ship) : 0;
	uint64_t wait_ns = POLL_NS;

	if (due)
		wait_ns = due <= now ? 0 : due - now < POLL_NS ? due - now : POLL_NS;
	poll(fds, FP_ARRAY_SIZE(fds), (int)(wait_ns / FP_NS_PER_MS) + 1);
	if (fds[1].revents)
		drain_events(role->inotify_fd);
	should_stop(role);
	if (!role->stop_ns && getppid() != parent)
		role->stop_ns = fp_boottime_ns() + LAST_PASS_NS;
}

int fp_ship_main(const struct fp_ship_config *config, struct fp_metrics *metrics)
{
	FP_CLEANUP(role_close)
	struct role role = {
		.config = config, .metrics = metrics, .signal_fd = -1, .inotify_fd = -1
	};
	pid_t parent = getppid();
	int error = open_signals(&role);

	if (error) {
		fp_error("cannot watch for signals (%s)", strerror(-error));
		return 1;
	}
	for (;;) {
		bool last = role.stop_ns != 0;

		if (!last)
			open_observe(&role);
		if (open_delivery(&role))
			fp_ship_pass(&role.ship);
		if (last)
			return 0;
		wait_for_work(&role, parent);
	}
}
