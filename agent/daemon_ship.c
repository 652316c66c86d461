// SPDX-License-Identifier: Apache-2.0
//
// The ship role as a child: started before the sampler's rights are given up, started again
// when it dies (the later starts need no rights: the sampler then has the role's uid), ended
// with patience.
#include "daemon_state.h"

#include "common/clock.h"
#include "common/log.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#define DELAY_FIRST_NS	FP_NS_PER_S
#define DELAY_MAX_NS	(60 * FP_NS_PER_S)
#define STEADY_NS	(60 * FP_NS_PER_S) // ran this long: the next failure is a first one
#define END_PATIENCE_MS 10000
#define LOOP_STALE_NS	(30 * FP_NS_PER_S) // /healthz: the longest a turn of ours may take

static bool is_wanted(const struct fp_daemon *daemon)
{
	return daemon->config.collector_url[0] || daemon->config.agent_listen[0];
}

static void schedule(struct fp_daemon *daemon)
{
	uint64_t lived_ns = fp_boottime_ns() - daemon->ship_started_ns;

	if (daemon->ship_delay_ns == 0 || lived_ns >= STEADY_NS)
		daemon->ship_delay_ns = DELAY_FIRST_NS;
	else if (daemon->ship_delay_ns < DELAY_MAX_NS)
		daemon->ship_delay_ns *= 2;
	fp_loop_set_timer(daemon->ship_timer, daemon->ship_delay_ns, 0);
}

void fp_daemon_ship_start(struct fp_daemon *daemon)
{
	const struct fp_agent_config *config = &daemon->config;
	struct fp_ship_config ship = {
		.collector_url = config->collector_url,
		.spool_directory = config->spool_directory,
		.limits = { .max_bytes = config->spool_max_size,
			    .max_age_ns = config->spool_max_age_ns,
			    .min_free_percent = config->spool_min_free_percent,
			    .min_free_bytes = config->spool_min_free },
		.user = daemon->role_user,
		.listen = config->agent_listen,
		.token_file = config->collector_token_file,
		.ca_file = config->collector_ca_file,
		.retry_max_ns = config->collector_retry_max_ns,
		.loop_stale_ns = LOOP_STALE_NS,
		.log_level = fp_daemon_log_level(config),
	};
	int pid;

	if (!is_wanted(daemon))
		return;
	daemon->ship_started_ns = fp_boottime_ns();
	pid = fp_ship_start(&ship, daemon->metrics_fd);
	if (pid < 0) {
		fp_error("the ship role could not be started, trying again: %s", strerror(-pid));
		if (daemon->ship_timer)
			schedule(daemon);
		return;
	}
	daemon->ship_pid = pid;
	daemon->ship_starts++;
	fp_metric_add(&daemon->metrics, FP_M_SHIP_STARTS, 1);
}

static void say_how(pid_t pid, int status, const char *next)
{
	if (WIFSIGNALED(status))
		fp_warn("the ship role (pid %d) was killed by signal %d (%s), %s", pid,
			WTERMSIG(status), strsignal(WTERMSIG(status)), next);
	else
		fp_warn("the ship role (pid %d) ended with exit code %d, %s", pid,
			WEXITSTATUS(status), next);
}

static int on_child(struct fp_loop_source *source, uint32_t events, void *context)
{
	struct fp_daemon *daemon = context;
	pid_t pid = daemon->ship_pid;
	int status;

	if (pid <= 0 || waitpid(pid, &status, WNOHANG) != pid)
		return 0;
	daemon->ship_pid = 0;
	say_how(pid, status, "starting it again; batches wait in the spool");
	schedule(daemon);
	return 0;
}

static int on_start_due(struct fp_loop_source *source, uint32_t events, void *context)
{
	struct fp_daemon *daemon = context;

	if (daemon->ship_pid == 0)
		fp_daemon_ship_start(daemon);
	return 0;
}

int fp_daemon_ship_watch(struct fp_daemon *daemon)
{
	int r = fp_loop_add_timer(daemon->loop, DELAY_MAX_NS, 0, on_start_due, daemon,
				  &daemon->ship_timer);

	return r == 0 ? fp_loop_add_signal(daemon->loop, SIGCHLD, on_child, daemon) : r;
}

static bool wait_for_end(pid_t pid, int patience_ms)
{
	const struct timespec pause = { .tv_nsec = 20 * 1000 * 1000 };

	for (int waited_ms = 0;; waited_ms += 20) {
		pid_t r = waitpid(pid, NULL, WNOHANG);

		if (r == pid || (r < 0 && errno == ECHILD))
			return true;
		if (waited_ms >= patience_ms)
			return false;
		nanosleep(&pause, NULL);
	}
}

static void end(struct fp_daemon *daemon, int patience_ms)
{
	pid_t pid = daemon->ship_pid;

	if (pid <= 0)
		return;
	daemon->ship_pid = 0;
	kill(pid, SIGTERM);
	if (wait_for_end(pid, patience_ms))
		return;
	fp_warn("the ship role (pid %d) did not end within %d s, killing it; its batches stay in "
		"the spool",
		pid, patience_ms / 1000);
	kill(pid, SIGKILL);
	wait_for_end(pid, 1000);
}

void fp_daemon_ship_restart(struct fp_daemon *daemon)
{
	// With new settings and nothing to lose (batches are acknowledged one by one), it need not
	// finish what it is doing: the loop must not stand still for long.
	end(daemon, 1000);
	daemon->ship_delay_ns = 0;
	fp_daemon_ship_start(daemon);
}

void fp_daemon_ship_end(struct fp_daemon *daemon)
{
	end(daemon, END_PATIENCE_MS);
}
