// SPDX-License-Identifier: Apache-2.0
//
// The names client on the loop: opened before the rights are given up, pumped when one of its
// children has answered, told when its settings change.
#include "daemon_state.h"

#include "common/log.h"
#include "names.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>

static struct fp_names_options options_of(const struct fp_daemon *daemon)
{
	const struct fp_agent_config *config = &daemon->config;

	return (struct fp_names_options){
		.role_user = daemon->role_user,
		.deny_file_systems = config->symbols_deny_file_systems,
		.jit = config->symbols_jit_names,
		.request_deadline_ns = config->symbols_request_deadline_ns,
		.perf_map_max_bytes = config->symbols_perf_map_max_size,
	};
}

static int on_names(struct fp_loop_source *source, uint32_t events, void *context)
{
	struct fp_daemon *daemon = context;
	int r = fp_names_pump(daemon->names);

	if (r < 0)
		fp_warn("reading the answers of the symbols role failed, going on: %s",
			strerror(-r));
	return 0;
}

// Without it frames are attributed by what the kernel tells, and profiles say what is missing.
void fp_daemon_names_start(struct fp_daemon *daemon)
{
	const struct fp_names_options options = options_of(daemon);
	int r = fp_names_open(&options, &daemon->names);

	if (r == 0)
		r = fp_loop_add_fd(daemon->loop, fp_names_fd(daemon->names), EPOLLIN, on_names,
				   daemon, NULL);
	if (r < 0)
		fp_error("the symbols role could not be started, continuing without JIT names and "
			 "with the kernel's build-IDs only: %s",
			 strerror(-r));
}

void fp_daemon_names_reload(struct fp_daemon *daemon)
{
	const struct fp_names_options options = options_of(daemon);
	int r = daemon->names ? fp_names_set_options(daemon->names, &options) : 0;

	if (r < 0)
		fp_error("the settings of [symbols] were not taken over: %s", strerror(-r));
}

// What is worth a line: a child that does not stay, files that hang whoever opens them.
void fp_daemon_names_watch(struct fp_daemon *daemon)
{
	struct fp_names_stats stats, *said = &daemon->names_said;

	if (!daemon->names)
		return;
	fp_names_stats(daemon->names, &stats);
	if (stats.timeouts > said->timeouts)
		fp_warn("%llu files could not be opened or read in time "
			"(symbols.request_deadline), giving them up",
			(unsigned long long)(stats.timeouts - said->timeouts));
	if (said->role_starts && stats.role_starts > said->role_starts)
		fp_warn("the symbols role has died and was started again");
	*said = stats;
}
