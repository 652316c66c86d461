// SPDX-License-Identifier: Apache-2.0
//
// daemon_state: the running agent, as the daemon_* files share it. Each of them owns the
// members under its heading; nobody else includes this header.
// Threads: the loop's.
#pragma once

#include "agentmetrics.h"
#include "common/log.h"
#include "common/loop.h"
#include "config.h"
#include "control.h"
#include "daemon_symbols.h"
#include "identity.h"
#include "labels.h"
#include "names.h"
#include "preflight.h"
#include "session.h"
#include "ship.h"
#include "spool.h"
#include "unwind.h"

#define FP_STOPPED_BUILDS_MAX 10

struct fp_stopped_build { // of the last window, worst first; for `status` and the doctor
	char path[256];
	char reason[32]; // a label of FP_STOPS, "" when none is known
	uint64_t stacks, stopped;
};

struct fp_daemon {
	struct fp_agent_config config;
	const struct fp_agent_config_source *source;
	struct fp_identity identity;
	struct fp_preflight_facts facts;
	struct fp_preflight_row checks[FP_PREFLIGHT_ROWS_MAX];
	size_t checks_count;
	bool needs_admin;      // perf events want CAP_SYS_ADMIN here
	const char *role_user; // config.agent_user, or "" when we cannot change users
	uid_t role_uid;
	gid_t role_gid;
	bool changes_user;
	uint64_t start_boottime_ns;

	struct fp_loop *loop;
	struct fp_metrics metrics;
	int metrics_fd; // for the ship role to map
	int lock_fd;

	// daemon_session
	struct fp_session *session;
	struct fp_loop_source *session_source, *turn_timer, *drain_timer, *window_timer;
	struct fp_session_stats ended; // sums of the sessions before this one
	char online_cpus[128];	       // as last seen, when CAP_SYS_ADMIN is needed to follow

	// daemon_window
	struct fp_spool *spool;
	struct fp_spool_stats spool_counted; // drops already added to the metrics
	uint64_t windows, last_window_realtime_ns;
	uint64_t last_samples[FP_PROFILE_TYPES];
	struct fp_stopped_build stopped_builds[FP_STOPPED_BUILDS_MAX];
	size_t stopped_builds_count;
	bool spool_failing;

	// daemon_ship
	pid_t ship_pid; // 0: not running
	struct fp_loop_source *ship_timer;
	uint64_t ship_started_ns, ship_delay_ns; // boottime; back-off of the next start
	uint64_t ship_starts;

	// daemon_names
	struct fp_names *names;		  // NULL: without
	struct fp_names_stats names_said; // of which the log has told

	// daemon_symbols
	struct fp_daemon_symbols symbols;

	// daemon_unwind
	struct fp_unwind *unwind; // NULL: never wanted, or not to be had

	struct fp_control *control;
	bool reload_failed;
};

// daemon
enum fp_log_level fp_daemon_log_level(const struct fp_agent_config *config);
void fp_daemon_set_log_level(const struct fp_agent_config *config);

// daemon_lock. Returns 0; -EWOULDBLOCK with the holder's pid (0: not known); or -errno.
int fp_daemon_lock(const char *path, int *ret_fd, pid_t *ret_holder);
// Gives the spool's directories and files to the role's user, without following links.
int fp_daemon_give_spool(const struct fp_daemon *daemon);
// The path's parent directory, created with mode 0755 and, when we created it, given to the
// role's user.
int fp_daemon_make_parent(const struct fp_daemon *daemon, const char *path);

// daemon_session
int fp_daemon_session_open(struct fp_daemon *daemon, struct fp_session **ret,
			   struct fp_refusal *refusal);
int fp_daemon_session_run(struct fp_daemon *daemon); // timers and descriptors onto the loop
// Opens a second session with the configuration in force, hands over without a gap, and
// delivers the old one's window. On failure the old session goes on.
int fp_daemon_session_reopen(struct fp_daemon *daemon);
void fp_daemon_session_set_timers(struct fp_daemon *daemon);
void fp_daemon_session_end(struct fp_daemon *daemon); // last window, then gone
// The running sums of all sessions.
void fp_daemon_session_stats(const struct fp_daemon *daemon, struct fp_session_stats *ret);
int fp_daemon_open_snapshot(const struct fp_session_config *config, struct fp_session **ret,
			    struct fp_refusal *refusal, void *context);
int fp_daemon_stamp_snapshot(struct fp_profile *profile, void *context);

// daemon_window
void fp_daemon_window_close(struct fp_daemon *daemon);
void fp_daemon_window_deliver(struct fp_daemon *daemon, struct fp_profile *profile);
uint64_t fp_daemon_first_window_ns(const struct fp_daemon *daemon);
void fp_daemon_spool_kernel_tables(struct fp_daemon *daemon);

// daemon_metrics
void fp_daemon_metrics_update(struct fp_daemon *daemon);

// daemon_ship
void fp_daemon_ship_start(struct fp_daemon *daemon);
int fp_daemon_ship_watch(struct fp_daemon *daemon); // SIGCHLD and the restart timer
void fp_daemon_ship_restart(struct fp_daemon *daemon);
void fp_daemon_ship_end(struct fp_daemon *daemon); // SIGTERM, 10 s, SIGKILL

// daemon_names
void fp_daemon_names_start(struct fp_daemon *daemon);
void fp_daemon_names_reload(struct fp_daemon *daemon);
void fp_daemon_names_watch(struct fp_daemon *daemon); // says what has gone wrong since

// daemon_unwind
// Why walks do not go by tables, as a sentence; NULL: they do.
const char *fp_daemon_unwind_off(const struct fp_daemon *daemon);
// What a new session is to have: made when wanted for the first time; NULL: none.
struct fp_unwind *fp_daemon_unwind(struct fp_daemon *daemon);
void fp_daemon_unwind_reload(struct fp_daemon *daemon); // the sessions that it is for have begun
void fp_daemon_unwind_status(const struct fp_daemon *daemon, struct fp_buf *json);
void fp_daemon_unwind_metrics(struct fp_daemon *daemon);

// daemon_reload
void fp_daemon_reload(struct fp_daemon *daemon);

// daemon_status
int fp_daemon_status(bool trusted, struct fp_buf *json, void *context);
