// SPDX-License-Identifier: Apache-2.0
// From the agent's process to the ship role: what it is given, and to whom the spool belongs.
// Everything that it must not have is given up before a byte of the network is read.
#include "ship.h"

#include "agentmetrics.h"
#include "common/log.h"
#include "role_start.h"
#include "ship_pass.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>

// Where the executed role finds what it is given.
enum { FD_CONFIG = FP_ROLE_FIRST_FD, FD_METRICS };

static struct fp_role role_of(const struct fp_ship_config *config)
{
	struct fp_role role = {
		.name = "fleetprof-ship",
		.argument = FP_SHIP_ROLE_ARGUMENT,
		.end_signal = SIGTERM,
	};

	if (config)
		fp_role_account_find("the ship role", config->user, &role.account);
	return role;
}

// A spool that belongs to the role's user is open to it already.
static int open_spool_to(const struct fp_role_account *account, const char *directory)
{
	struct stat info;

	if (!account->change)
		return 0;
	if (stat(directory, &info) < 0)
		return -errno;
	return info.st_uid == account->uid ? 0 : fp_spool_share(directory, account->gid);
}

int fp_ship_fork(const struct fp_ship_config *config, struct fp_metrics *metrics)
{
	struct fp_role role = role_of(config);
	pid_t parent = getpid(), pid;
	int error = open_spool_to(&role.account, config->spool_directory);

	if (error)
		return error;
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid > 0)
		return pid;
	error = fp_role_give_up(&role, parent, FP_ROLE_FIRST_FD);
	if (error)
		fp_role_fail(&role, error);
	fp_role_confine(&role, NULL, 0);
	_exit(fp_ship_main(config, metrics));
}

int fp_ship_start(const struct fp_ship_config *config, int metrics_fd)
{
	FP_AUTOCLOSE int config_fd = -1;
	struct fp_role role = role_of(config);
	int error = open_spool_to(&role.account, config->spool_directory);

	if (!error)
		error = fp_ship_pass_write(config, getpid(), &config_fd);
	if (error)
		return error;
	role.fds[FD_CONFIG - FP_ROLE_FIRST_FD] = config_fd;
	role.fds[FD_METRICS - FP_ROLE_FIRST_FD] = metrics_fd;
	role.fds_count = 2;
	return fp_role_start(&role);
}

int fp_ship_role_main(void)
{
	FP_AUTOBUF struct fp_buf text = { 0 };
	struct fp_ship_config config;
	struct fp_role role = role_of(NULL);
	struct fp_metrics metrics;
	pid_t parent;
	int error = fp_ship_pass_read(FD_CONFIG, &text, &config, &parent);

	if (!error) {
		fp_log_set_level(config.log_level);
		fp_agent_metrics_init();
		error = fp_metrics_map(fp_agent_metrics, FP_M_COUNT, FD_METRICS, &metrics);
	}
	if (error) {
		fp_error("this is the agent's own way to start its ship role (%s)",
			 strerror(-error));
		return FP_ROLE_EXIT_LOST;
	}
	close_range(FD_CONFIG, ~0U, 0);
	error = fp_role_settle(&role, parent);
	if (error)
		fp_role_fail(&role, error);
	fp_role_confine(&role, NULL, 0); // after the exec, which the filter forbids
	error = fp_ship_main(&config, &metrics);
	fp_metrics_unmap(&metrics);
	return error;
}
