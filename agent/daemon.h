// SPDX-License-Identifier: Apache-2.0
//
// daemon: fleetprof-agent from its command line to its exit code. Order of a start: options,
// configuration, lock, preflight, metrics page, spool, ship role, session, control socket,
// privileges dropped, READY=1, loop. Everything after that happens on one event loop; each
// of the daemon_* files is one thing that the loop does.
// Only these files log. Threads: one.
#pragma once

#include "config.h"

enum fp_daemon_mode {
	FP_DAEMON_RUN,
	FP_DAEMON_CHECK_CONFIG,
	FP_DAEMON_DUMP_CONFIG,
	FP_DAEMON_PRINT_DOCS,
	FP_DAEMON_VERSION,
	FP_DAEMON_HELP,
};

struct fp_daemon_options {
	enum fp_daemon_mode mode;
	const char *docs; // page of FP_DAEMON_PRINT_DOCS
	struct fp_agent_config_source source;
};

// argv is reordered: the settings' flags come to stand at its front, where source.flags
// points. Error: -EINVAL and one line.
int fp_daemon_options_parse(int argc, char **argv, struct fp_daemon_options *ret,
			    struct fp_buf *error);
// The whole program; returns the exit code (daemon_exit.h).
int fp_daemon_main(int argc, char **argv);
// Runs the agent with the configuration (owned by the daemon from here on).
int fp_daemon_run(const struct fp_agent_config_source *source, struct fp_agent_config *config);
