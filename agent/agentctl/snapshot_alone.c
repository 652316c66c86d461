// SPDX-License-Identifier: Apache-2.0
#include "snapshot.h"

#include "agent/config.h"
#include "agent/control_access.h"
#include "agent/identity.h"
#include "agent/labels.h"
#include "agent/names.h"
#include "agent/preflight.h"
#include "agent/privilege.h"
#include "agent/session.h"
#include "agent/unwind.h"
#include "common/clock.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/syscall.h>

#define TURN_MS	 250
#define DRAIN_NS FP_NS_PER_S

static int check_host(const struct fp_snapshot_options *options,
		      const struct fp_agent_config *config, bool *ret_helper_walk)
{
	struct fp_preflight_facts facts;
	struct fp_preflight_row rows[FP_PREFLIGHT_ROWS_MAX];
	struct fp_preflight_options wanted = {
		.cpu_hz = fp_snapshot_records(options, FP_PROFILE_CPU) ? options->hz : 0,
		.off_cpu = fp_snapshot_records(options, FP_PROFILE_OFF_CPU),
		.kernel_deny = config->agent_kernel_deny,
		.kernel_warn = config->agent_kernel_warn,
		.kernel_no_user_read = config->agent_kernel_no_user_read,
	};
	size_t count;

	fp_preflight_gather(wanted.hook, &facts);
	count = fp_preflight_judge(&facts, &wanted, rows);
	for (size_t i = 0; i < count; i++)
		if (rows[i].status == FP_PREFLIGHT_FAIL)
			return fp_command_fail(FP_EXIT_UNSUPPORTED, "%s; %s", rows[i].finding,
					       rows[i].fix);
	*ret_helper_walk = fp_kernel_list_has(wanted.kernel_no_user_read, &facts.kernel);
	return 0;
}

// Who the symbols role becomes: the agent's account where it is installed, else one without
// rights that every system has.
static const char *role_user(const struct fp_agent_config *config)
{
	const char *const users[] = { config->agent_user, "nobody" };
	struct fp_privilege ids;

	for (size_t i = 0; i < FP_ARRAY_SIZE(users); i++)
		if (fp_privilege_user(users[i], &ids) == 0)
			return users[i];
	return "";
}

// Without it the snapshot lacks JIT names and some builds, and says so itself.
static struct fp_names *open_names(const struct fp_agent_config *config)
{
	const struct fp_names_options options = {
		.role_user = role_user(config),
		.deny_file_systems = config->symbols_deny_file_systems,
		.jit = config->symbols_jit_names,
		.request_deadline_ns = config->symbols_request_deadline_ns,
		.perf_map_max_bytes = config->symbols_perf_map_max_size,
	};
	struct fp_names *names = NULL;
	int r = fp_names_open(&options, &names);

	if (r < 0)
		fp_command_say("agentctl: cannot start the symbols role (%s), continuing without "
			       "names of JITed functions",
			       strerror(-r));
	return names;
}

// Without it stacks end where frame pointers do, and the snapshot says so itself.
static struct fp_unwind *open_unwinding(struct fp_names *names, bool helper_walk,
					const struct fp_agent_config *config)
{
	struct fp_unwind *unwind = NULL;
	int r = 0;

	if (names && config->unwind_tables && !helper_walk)
		r = fp_unwind_open(names, config->unwind_memory, &unwind);
	if (r < 0)
		fp_command_say("agentctl: cannot make maps for unwind tables (%s), continuing with "
			       "frame pointers alone",
			       strerror(-r));
	return unwind;
}

static int find_process(const struct fp_snapshot_options *options, int *ret_pidfd,
			struct fp_snapshot_result *ret)
{
	struct fp_process_facts process;
	int fd FP_AUTOCLOSE = -1;

	if (fp_process_facts_read(options->pid, &process) < 0)
		return fp_command_fail(FP_EXIT_FAILED, "no process %u", options->pid);
	fd = (int)syscall(SYS_pidfd_open, (pid_t)process.tgid, 0U);
	if (fd < 0 || fp_process_facts_read(options->pid, &process) < 0)
		return fp_command_fail(FP_EXIT_FAILED, "no process %u", options->pid);
	if (process.kernel_thread)
		return fp_command_fail(
		    FP_EXIT_FAILED,
		    "process %u ('%s') is a kernel thread, which has no user stacks; "
		    "the host's profile shows kernel threads",
		    process.tgid, process.comm);
	if (process.dead)
		return fp_command_fail(FP_EXIT_FAILED,
				       "process %u ('%s') has ended and only waits for its parent",
				       process.tgid, process.comm);
	ret->pid = process.tgid;
	memcpy(ret->comm, process.comm, sizeof(ret->comm));
	*ret_pidfd = fp_take_fd(&fd);
	return 0;
}

// Samples until one of the reasons to end; names it. fds_wanted: the process, and what the session
// is to be polled for besides (-1: nothing).
static const char *sample(const struct fp_snapshot_options *options, struct fp_session *session,
			  const int fds_wanted[2], uint64_t *ret_elapsed_ns)
{
	struct pollfd fds[] = { { .fd = fp_session_fd(session), .events = POLLIN },
				{ .fd = fds_wanted[0], .events = POLLIN },
				{ .fd = fds_wanted[1], .events = POLLIN } };
	uint64_t start_ns = fp_boottime_ns(), drained_ns = start_ns;

	for (;;) {
		uint64_t now_ns = fp_boottime_ns();
		uint64_t left_ms, elapsed_ns = now_ns - start_ns;

		*ret_elapsed_ns = elapsed_ns;
		if (fds[1].revents)
			return "process_ended";
		if (fp_snapshot_interrupted)
			return "stopped";
		if (elapsed_ns >= options->duration_ns)
			return "duration";
		if (now_ns - drained_ns >= DRAIN_NS) {
			struct fp_session_stats stats = { 0 };

			fp_session_drain(session);
			drained_ns = now_ns;
			fp_session_stats(session, &stats);
			fp_snapshot_progress(options, elapsed_ns, stats.samples[FP_SOURCE_CPU],
					     stats.samples[FP_SOURCE_OFFCPU]);
		}
		left_ms = (options->duration_ns - elapsed_ns) / FP_NS_PER_MS + 1;
		poll(fds, FP_ARRAY_SIZE(fds), left_ms < TURN_MS ? (int)left_ms : TURN_MS);
		fp_session_poll(session);
	}
}

static int stamp(struct fp_profile *profile)
{
	// Without a state directory: a snapshot is not stored, it needs no lasting identity.
	const struct fp_identity_source source = { .machine_id_file = "/etc/machine-id" };
	struct fp_identity identity;
	int r = fp_identity_read(&source, &identity);

	return r == 0 ? fp_identity_stamp(&identity, 0, profile) : r;
}

static int run_session(const struct fp_snapshot_options *options,
		       const struct fp_agent_config *settings, int pidfd, bool helper_walk,
		       struct fp_snapshot_result *ret)
{
	struct fp_names *names FP_CLEANUP(fp_names_freep) = open_names(settings);
	struct fp_unwind *unwind FP_CLEANUP(fp_unwind_freep) =
	    open_unwinding(names, helper_walk, settings);
	const struct fp_labeler_options labels = { .log_directory =
						       settings->labels_log_directory };
	const struct fp_session_config config = {
		.names = names,
		.unwind = unwind,
		.labels = &labels,
		.process_memory_bytes = settings->limits_process_memory,
		.sampler = { .cpu_hz =
				 fp_snapshot_records(options, FP_PROFILE_CPU) ? options->hz : 0,
			     .off_cpu = fp_snapshot_records(options, FP_PROFILE_OFF_CPU),
			     .run_queue = fp_snapshot_records(options, FP_PROFILE_RUN_QUEUE),
			     .waker = fp_snapshot_records(options, FP_PROFILE_WAKER),
			     .walk_budget = FP_SNAPSHOT_WALK_BUDGET,
			     .tgid = ret->pid,
			     .use_helper_walk = helper_walk },
		.drain_interval_ns = DRAIN_NS,
		.settle_budget_ns = settings->symbols_request_deadline_ns,
	};
	struct fp_session *session FP_CLEANUP(fp_session_freep) = NULL;
	const int fds[2] = { pidfd, names ? fp_names_fd(names) : -1 };
	struct fp_refusal refusal = { 0 };
	int r = fp_session_open(&config, &session, &refusal);

	if (r < 0)
		return fp_command_fail(FP_EXIT_UNSUPPORTED, "%s%s%s",
				       refusal.cause[0] ? refusal.cause : strerror(-r),
				       refusal.fix[0] ? "; " : "", refusal.fix);
	snprintf(ret->ended, sizeof(ret->ended), "%s",
		 sample(options, session, fds, &ret->elapsed_ns));
	fp_snapshot_progress(options, 0, 0, 0);
	r = fp_session_finish(session, &ret->profile);
	if (r == 0)
		r = stamp(ret->profile);
	if (r < 0)
		return fp_command_fail(FP_EXIT_FAILED, "the profile could not be completed: %s",
				       strerror(-r));
	return 0;
}

int fp_snapshot_alone(const struct fp_snapshot_options *options, struct fp_snapshot_result *ret)
{
	// On our own the defaults stand for the agent's settings.
	struct fp_agent_config config FP_AUTOCONFIG = { 0 };
	int pidfd FP_AUTOCLOSE = -1;
	bool helper_walk = false;
	int r = fp_settings_defaults(&fp_agent_settings, &config, NULL);

	if (r < 0)
		return fp_command_fail(FP_EXIT_FAILED, "%s", strerror(-r));
	r = find_process(options, &pidfd, ret);
	if (r == 0)
		r = check_host(options, &config, &helper_walk);
	return r == 0 ? run_session(options, &config, pidfd, helper_walk, ret) : r;
}
