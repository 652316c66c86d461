// SPDX-License-Identifier: Apache-2.0
#include "daemon.h"

#include "daemon_exit.h"
#include "daemon_state.h"
#include "privilege.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/notify.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

#define KERNEL_TABLES_AFTER_NS (2 * FP_NS_PER_S) // they take a moment: be ready first

enum fp_log_level fp_daemon_log_level(const struct fp_agent_config *config)
{
	static const enum fp_log_level levels[] = { FP_LOG_ERROR, FP_LOG_WARNING, FP_LOG_INFO,
						    FP_LOG_DEBUG };

	return levels[config->agent_log_level];
}

void fp_daemon_set_log_level(const struct fp_agent_config *config)
{
	fp_log_set_level(fp_daemon_log_level(config));
}

static int take_lock(struct fp_daemon *daemon)
{
	const char *path = daemon->config.agent_lock_file;
	pid_t holder = 0;
	int r = fp_daemon_make_parent(daemon, path);

	if (r == 0)
		r = fp_daemon_lock(path, &daemon->lock_fd, &holder);
	if (r == 0)
		return FP_EXIT_OK;
	if (r == -EWOULDBLOCK) {
		fp_error(
		    "another agent runs on this host with pid %d ('%s' is locked); stop it first",
		    holder, path);
		return FP_EXIT_RUNNING;
	}
	fp_error("cannot lock '%s': %s; run as root, or set agent.lock_file", path, strerror(-r));
	return r == -EACCES || r == -EPERM ? FP_EXIT_PERMISSION : FP_EXIT_FAILED;
}

// Refuses what cannot work, in one line, and says what will be missing.
static int check_host(struct fp_daemon *daemon)
{
	const struct fp_agent_config *config = &daemon->config;
	struct fp_preflight_options options = {
		.cpu_hz = config->cpu_enabled ? config->cpu_hz : 0,
		.off_cpu = config->off_cpu_enabled,
		.hook = (enum fp_offcpu_hook)config->off_cpu_hook,
		.allow_unsafe_kernel = config->agent_allow_unsafe_kernel,
		.kernel_deny = config->agent_kernel_deny,
		.kernel_warn = config->agent_kernel_warn,
		.kernel_no_user_read = config->agent_kernel_no_user_read,
	};

	fp_preflight_gather(options.hook, &daemon->facts);
	daemon->needs_admin = fp_preflight_needs_admin(&daemon->facts);
	daemon->checks_count = fp_preflight_judge(&daemon->facts, &options, daemon->checks);
	for (size_t i = 0; i < daemon->checks_count; i++) {
		const struct fp_preflight_row *row = &daemon->checks[i];

		if (row->status == FP_PREFLIGHT_FAIL) {
			fp_error("%s; %s", row->finding, row->fix);
			return FP_EXIT_UNSUPPORTED;
		}
	}
	for (size_t i = 0; i < daemon->checks_count; i++) {
		const struct fp_preflight_row *row = &daemon->checks[i];

		if (row->status == FP_PREFLIGHT_WARN)
			fp_warn("%s; %s", row->finding, row->fix);
	}
	return FP_EXIT_OK;
}

// Which user the agent will be. Started without the right to change users (a service with
// User=, a container with the six capabilities alone) it stays what it is.
static int find_role(struct fp_daemon *daemon)
{
	const char *user = daemon->config.agent_user;
	struct fp_privilege role = { .uid = geteuid(), .gid = getegid() };
	int r;

	daemon->role_user = "";
	if (geteuid() == 0 && user[0] && fp_privilege_can_change_user()) {
		r = fp_privilege_user(user, &role);
		if (r < 0) {
			fp_error(
			    "agent.user: there is no user '%s'; create it (systemd-sysusers) or "
			    "set agent.user to another, or to nothing to stay root",
			    user);
			return FP_EXIT_USAGE;
		}
		daemon->role_user = user;
	} else if (geteuid() == 0 && user[0]) {
		fp_info("staying root with the capabilities given: CAP_SETUID and CAP_SETGID to "
			"become '%s' are not among them",
			user);
	}
	daemon->changes_user = role.change_user && role.uid != 0;
	daemon->role_uid = role.uid;
	daemon->role_gid = role.gid;
	return FP_EXIT_OK;
}

static int open_spool(struct fp_daemon *daemon)
{
	const struct fp_agent_config *config = &daemon->config;
	struct fp_spool_limits limits = {
		.max_bytes = config->spool_max_size,
		.max_age_ns = config->spool_max_age_ns,
		.min_free_percent = config->spool_min_free_percent,
		.min_free_bytes = config->spool_min_free,
	};
	int r = fp_spool_open(config->spool_directory, &limits, &daemon->spool);

	if (r == 0)
		r = fp_daemon_give_spool(daemon);
	if (r < 0) {
		fp_error(
		    "cannot use '%s' as the spool: %s; set spool.directory to one that '%s' may "
		    "write",
		    config->spool_directory, strerror(-r), daemon->role_user);
		return FP_EXIT_FAILED;
	}
	fp_metric_set(&daemon->metrics, FP_M_SPOOL_WRITABLE, 1);
	return FP_EXIT_OK;
}

static int open_metrics(struct fp_daemon *daemon)
{
	int r;

	fp_agent_metrics_init();
	r = fp_metrics_share(fp_agent_metrics, FP_M_COUNT, &daemon->metrics, &daemon->metrics_fd);
	if (r < 0) {
		fp_error("cannot make the metrics page: %s", strerror(-r));
		return FP_EXIT_FAILED;
	}
	fp_metric_set(&daemon->metrics, FP_M_BUILD_INFO, 1);
	fp_metric_set(&daemon->metrics, FP_M_CONFIG_RELOAD_OK, 1);
	fp_metric_set(&daemon->metrics, FP_M_CONFIG_RELOAD_TIME, fp_realtime_ns());
	fp_metric_set(&daemon->metrics, FP_M_LOOP_TICK, fp_boottime_ns());
	return FP_EXIT_OK;
}

static int read_identity(struct fp_daemon *daemon)
{
	const struct fp_identity_source source = {
		.machine_id_file = daemon->config.agent_machine_id_file,
		.state_directory = daemon->config.agent_state_directory,
		.hostname = daemon->config.agent_hostname,
	};
	int r = fp_identity_read(&source, &daemon->identity);

	if (r < 0) {
		fp_error("this host has no identity in '%s', and none could be kept in '%s': %s",
			 source.machine_id_file, source.state_directory, strerror(-r));
		return FP_EXIT_FAILED;
	}
	if (daemon->identity.host_id_made)
		fp_warn("'%s' holds no machine-id, using the random one kept in '%s'",
			source.machine_id_file, source.state_directory);
	return FP_EXIT_OK;
}

// Goes on without when it cannot be had.
static int start_names(struct fp_daemon *daemon)
{
	fp_daemon_names_start(daemon);
	return FP_EXIT_OK;
}

static int start_sampling(struct fp_daemon *daemon)
{
	struct fp_refusal refusal = { 0 };
	int r = fp_daemon_session_open(daemon, &daemon->session, &refusal);

	if (r == 0)
		return FP_EXIT_OK;
	fp_error("cannot sample: %s%s%s", refusal.cause[0] ? refusal.cause : strerror(-r),
		 refusal.fix[0] ? "; " : "", refusal.fix);
	return FP_EXIT_UNSUPPORTED;
}

static int open_control(struct fp_daemon *daemon)
{
	const struct fp_control_handlers handlers = {
		.open_snapshot = fp_daemon_open_snapshot,
		.stamp = fp_daemon_stamp_snapshot,
		.status = fp_daemon_status,
		.context = daemon,
	};
	const struct fp_control_config config = {
		.path = daemon->config.agent_control_socket,
		.group = daemon->config.agent_control_group,
		.role_uid = daemon->role_uid,
		.has_role_uid = true,
	};
	int r;

	if (!config.path[0])
		return FP_EXIT_OK;
	r = fp_daemon_make_parent(daemon, config.path);
	if (r == 0)
		r = fp_control_open(daemon->loop, &config, &handlers, &daemon->control);
	if (r < 0) {
		fp_error("cannot listen on '%s': %s; set agent.control_socket, to nothing for none",
			 config.path, strerror(-r));
		return FP_EXIT_FAILED;
	}
	return FP_EXIT_OK;
}

static int drop_privileges(struct fp_daemon *daemon)
{
	const struct fp_privilege privilege = {
		.uid = daemon->role_uid,
		.gid = daemon->role_gid,
		.change_user = daemon->changes_user,
		.keep_admin = daemon->needs_admin,
	};
	int r = fp_privilege_drop(&privilege);

	if (r < 0) {
		fp_error("cannot give up privileges: %s", strerror(-r));
		return FP_EXIT_FAILED;
	}
	return FP_EXIT_OK;
}

static int on_signal(struct fp_loop_source *source, uint32_t events, void *context)
{
	struct fp_daemon *daemon = context;
	int number = fp_loop_signal(source);

	if (number == SIGHUP) {
		fp_daemon_reload(daemon);
		return 0;
	}
	fp_info("%s: finishing the last window", strsignal(number));
	fp_loop_stop(daemon->loop);
	return 0;
}

static int on_watchdog(struct fp_loop_source *source, uint32_t events, void *context)
{
	fp_notify("WATCHDOG=1");
	return 0;
}

static int on_kernel_tables(struct fp_loop_source *source, uint32_t events, void *context)
{
	fp_daemon_spool_kernel_tables(context);
	fp_loop_remove(source);
	return 0;
}

static int set_up_loop(struct fp_daemon *daemon)
{
	uint64_t watchdog_ns = fp_notify_watchdog_ns();
	int r = fp_daemon_session_run(daemon);

	if (r == 0)
		r = fp_loop_add_signal(daemon->loop, SIGTERM, on_signal, daemon);
	if (r == 0)
		r = fp_loop_add_signal(daemon->loop, SIGINT, on_signal, daemon);
	if (r == 0)
		r = fp_loop_add_signal(daemon->loop, SIGHUP, on_signal, daemon);
	if (r == 0)
		r = fp_loop_add_timer(daemon->loop, KERNEL_TABLES_AFTER_NS, 0, on_kernel_tables,
				      daemon, NULL);
	if (r == 0 && watchdog_ns)
		r = fp_loop_add_timer(daemon->loop, watchdog_ns, watchdog_ns, on_watchdog, daemon,
				      NULL);
	if (r < 0) {
		fp_error("cannot set up the event loop: %s", strerror(-r));
		return FP_EXIT_FAILED;
	}
	return FP_EXIT_OK;
}

static int start_ship(struct fp_daemon *daemon)
{
	int r = fp_loop_new(&daemon->loop);

	if (r == 0)
		r = fp_daemon_ship_watch(daemon);
	if (r < 0) {
		fp_error("cannot set up the event loop: %s", strerror(-r));
		return FP_EXIT_FAILED;
	}
	fp_daemon_ship_start(daemon);
	return FP_EXIT_OK;
}

// In this order, each for a reason.
static int (*const steps[])(struct fp_daemon *daemon) = {
	find_role,	 // nothing is created before it is known whose it shall be
	check_host,	 // a user without rights hears of them first
	take_lock,	 // no second agent touches what is below
	open_metrics,	 // the ship role maps the page
	read_identity,	 // may write to the state directory
	open_spool,	 // the ship role reads it
	start_ship,	 // we may still become its user
	start_names,	 // likewise, and before there is memory that a fork would copy
	start_sampling,	 // loads the programs
	open_control,	 // the runtime directory may be root's
	drop_privileges, // everything below runs with what is left
	set_up_loop,
};

static int start(struct fp_daemon *daemon)
{
	for (size_t i = 0; i < FP_ARRAY_SIZE(steps); i++) {
		int code = steps[i](daemon);

		if (code != FP_EXIT_OK)
			return code;
	}
	return FP_EXIT_OK;
}

static void say_ready(struct fp_daemon *daemon)
{
	struct fp_session_stats stats = { 0 };
	const char *off_cpu;

	fp_session_poll(daemon->session); // so that the first numbers are there
	fp_metric_set(&daemon->metrics, FP_M_ATTACHED, 1);
	fp_daemon_metrics_update(daemon);
	fp_session_stats(daemon->session, &stats);
	off_cpu = stats.hook[FP_SOURCE_OFFCPU];
	fp_info("fleetprof-agent " FP_VERSION " samples %u CPUs at %u Hz, off-CPU: %s", stats.cpus,
		stats.hz, off_cpu && off_cpu[0] ? off_cpu : "off");
	fp_notify("READY=1");
}

static int run_loop(struct fp_daemon *daemon)
{
	int r;

	say_ready(daemon);
	r = fp_loop_run(daemon->loop);
	if (r < 0)
		fp_error("the event loop ended: %s", strerror(-r));
	fp_notify("STOPPING=1");
	fp_daemon_session_end(daemon);
	return r < 0 ? FP_EXIT_FAILED : FP_EXIT_OK;
}

static void release(struct fp_daemon *daemon)
{
	fp_control_freep(&daemon->control);
	fp_session_freep(&daemon->session);
	fp_unwind_freep(&daemon->unwind);
	fp_names_freep(&daemon->names);
	fp_daemon_symbols_free(&daemon->symbols);
	fp_daemon_ship_end(daemon);
	fp_spool_freep(&daemon->spool);
	fp_loop_freep(&daemon->loop);
	fp_metrics_unmap(&daemon->metrics);
	fp_close_fd(&daemon->metrics_fd);
	fp_close_fd(&daemon->lock_fd);
	fp_agent_config_free(&daemon->config);
	free(daemon);
}

int fp_daemon_run(const struct fp_agent_config_source *source, struct fp_agent_config *config)
{
	struct fp_daemon *daemon = calloc(1, sizeof(*daemon));
	int code;

	if (!daemon) {
		fp_agent_config_free(config);
		return FP_EXIT_FAILED;
	}
	daemon->config = *config;
	daemon->source = source;
	daemon->lock_fd = daemon->metrics_fd = -1;
	daemon->start_boottime_ns = fp_boottime_ns();
	fp_daemon_symbols_init(&daemon->symbols, daemon);
	fp_daemon_set_log_level(&daemon->config);
	code = start(daemon);
	if (code == FP_EXIT_OK)
		code = run_loop(daemon);
	release(daemon);
	return code;
}
