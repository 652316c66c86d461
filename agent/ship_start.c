// SPDX-License-Identifier: Apache-2.0
// From the agent's process to the ship role: everything that the role must not have is given
// up here, in an order in which each step is still allowed, before a byte of the network is
// read. What cannot be given up ends the child.
#include "ship.h"

#include "agentmetrics.h"
#include "common/log.h"
#include "ship_pass.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <seccomp.h>
#include <signal.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define EXIT_SETUP 1

// Where the executed role finds what it is given; all behind them is closed.
enum { FD_CONFIG = STDERR_FILENO + 1, FD_METRICS, FD_PROGRAM, FD_NONE };

struct account {
	bool change; // we are root and a user is configured
	uid_t uid;
	gid_t gid;
};

static int find_account(const char *user, struct account *ret)
{
	struct passwd *entry;

	*ret = (struct account){ 0 };
	if (geteuid() != 0 || !user || !user[0])
		return 0;
	errno = 0;
	entry = getpwnam(user);
	if (!entry) {
		fp_warn("user '%s' does not exist, the ship role stays the agent's user", user);
		return 0;
	}
	*ret = (struct account){ .change = true, .uid = entry->pw_uid, .gid = entry->pw_gid };
	return 0;
}

static int drop_bounding_set(void)
{
	// Needs CAP_SETPCAP. Without it nothing is lost: no_new_privs keeps an exec from
	// gaining anything, and the role's seccomp filter forbids the exec.
	for (cap_value_t cap = 0; cap < cap_max_bits(); cap++)
		if (cap_get_bound(cap) == 1 && cap_drop_bound(cap) < 0 && errno != EPERM)
			return -errno;
	return 0;
}

static void free_caps(cap_t *caps)
{
	if (*caps)
		cap_free(*caps);
}

static int clear_capabilities(void)
{
	FP_CLEANUP(free_caps) cap_t none = cap_init();

	if (!none)
		return -ENOMEM;
	if (cap_reset_ambient() < 0 && errno != EINVAL) // EINVAL: kernel without ambient set
		return -errno;
	return cap_set_proc(none) < 0 ? -errno : 0;
}

static int become(const struct account *account)
{
	int error = drop_bounding_set();

	if (error)
		return error;
	if (account->change &&
	    (setgroups(0, NULL) < 0 || setresgid(account->gid, account->gid, account->gid) < 0 ||
	     setresuid(account->uid, account->uid, account->uid) < 0))
		return -errno;
	error = clear_capabilities();
	if (error)
		return error;
	return prctl(PR_SET_NO_NEW_PRIVS, 1L, 0L, 0L, 0L) < 0 ? -errno : 0;
}

static void release_filter(scmp_filter_ctx *filter)
{
	if (*filter)
		seccomp_release(*filter);
}

// What a process that only talks HTTP and reads one directory never needs. The list names
// what would be worth having for an intruder; all else is left to the missing capabilities.
static int forbid_system_calls(void)
{
	static const int calls[] = {
		SCMP_SYS(execve),
		SCMP_SYS(execveat),
		SCMP_SYS(ptrace),
		SCMP_SYS(process_vm_readv),
		SCMP_SYS(process_vm_writev),
		SCMP_SYS(pidfd_getfd),
		SCMP_SYS(bpf),
		SCMP_SYS(perf_event_open),
		SCMP_SYS(userfaultfd),
		SCMP_SYS(io_uring_setup),
		SCMP_SYS(mount),
		SCMP_SYS(umount2),
		SCMP_SYS(pivot_root),
		SCMP_SYS(chroot),
		SCMP_SYS(setns),
		SCMP_SYS(unshare),
		SCMP_SYS(init_module),
		SCMP_SYS(finit_module),
		SCMP_SYS(kexec_load),
		SCMP_SYS(kexec_file_load),
		SCMP_SYS(add_key),
		SCMP_SYS(request_key),
		SCMP_SYS(keyctl),
		SCMP_SYS(open_by_handle_at),
	};
	FP_CLEANUP(release_filter) scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
	int error = filter ? 0 : -ENOMEM;

	for (size_t i = 0; !error && i < FP_ARRAY_SIZE(calls); i++)
		error = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), calls[i], 0);
	return error ? error : seccomp_load(filter);
}

static int reset_signals(void)
{
	sigset_t none;

	for (int number = 1; number < NSIG; number++)
		signal(number, SIG_DFL); // KILL, STOP and the C library's refuse: as they should
	sigemptyset(&none);
	return sigprocmask(SIG_SETMASK, &none, NULL) < 0 ? -errno : 0;
}

// After the last change of credentials, which clears the setting; and the parent may have
// died before it was made.
static int tie_to_parent(pid_t parent)
{
	if (prctl(PR_SET_PDEATHSIG, (long)SIGTERM, 0L, 0L, 0L) < 0)
		return -errno;
	return getppid() == parent ? 0 : -ESRCH;
}

// In the child. Sampler descriptors (perf events, BPF maps, sockets) must not stay with the
// process that talks to the network.
static int give_up(const struct account *account, pid_t parent, unsigned int first_closed)
{
	int error = reset_signals();

	if (!error && close_range(first_closed, ~0U, 0) < 0)
		error = -errno;
	if (!error)
		error = become(account);
	return error ? error : tie_to_parent(parent);
}

// After the exec, which the filter forbids.
static void confine(void)
{
	const struct rlimit no_core = { 0, 0 };
	int error;

	setrlimit(RLIMIT_CORE, &no_core); // a core would hold the token
	prctl(PR_SET_NAME, "fleetprof-ship", 0L, 0L, 0L);
	error = forbid_system_calls();
	if (error)
		fp_warn("cannot load the ship role's seccomp filter (%s), continuing without",
			strerror(-error));
}

// A spool that belongs to the role's user is open to it already.
static int open_spool_to(const struct account *account, const char *directory)
{
	struct stat info;

	if (!account->change)
		return 0;
	if (stat(directory, &info) < 0)
		return -errno;
	return info.st_uid == account->uid ? 0 : fp_spool_share(directory, account->gid);
}

static int prepare(const struct fp_ship_config *config, struct account *account)
{
	int error = find_account(config->user, account);

	return error ? error : open_spool_to(account, config->spool_directory);
}

static void fail_setup(int error)
{
	fp_error("cannot give up the ship role's privileges (%s)", strerror(-error));
	_exit(EXIT_SETUP);
}

int fp_ship_fork(const struct fp_ship_config *config, struct fp_metrics *metrics)
{
	struct account account;
	pid_t parent = getpid(), pid;
	int error = prepare(config, &account);

	if (error)
		return error;
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid > 0)
		return pid;
	error = give_up(&account, parent, STDERR_FILENO + 1);
	if (error)
		fail_setup(error);
	confine();
	_exit(fp_ship_main(config, metrics));
}

// The three descriptors may stand in each other's places: first out of the way, then there.
static int place_descriptors(int config_fd, int metrics_fd)
{
	int fds[] = { config_fd, metrics_fd, open("/proc/self/exe", O_PATH | O_CLOEXEC) };

	for (size_t i = 0; i < FP_ARRAY_SIZE(fds); i++) {
		fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, FD_NONE);
		if (fds[i] < 0)
			return -errno;
	}
	if (dup2(fds[0], FD_CONFIG) < 0 || dup2(fds[1], FD_METRICS) < 0 ||
	    dup3(fds[2], FD_PROGRAM, O_CLOEXEC) < 0)
		return -errno;
	return 0;
}

// By descriptor, because the file may have been replaced by an upgrade, and its directory need
// not be open to the role's user.
static void execute(void)
{
	char name[] = "fleetprof-ship", role[] = FP_SHIP_ROLE_ARGUMENT;
	char *arguments[] = { name, role, NULL };

	execveat(FD_PROGRAM, "", arguments, environ, AT_EMPTY_PATH);
	fp_error("cannot execute fleetprof-agent as the ship role (%s); it must be executable by "
		 "the role's user",
		 strerror(errno));
	_exit(EXIT_SETUP);
}

int fp_ship_start(const struct fp_ship_config *config, int metrics_fd)
{
	FP_AUTOCLOSE int config_fd = -1;
	struct account account;
	pid_t parent = getpid(), pid;
	int error = prepare(config, &account);

	if (!error)
		error = fp_ship_pass_write(config, parent, &config_fd);
	if (error)
		return error;
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid > 0)
		return pid;
	error = place_descriptors(config_fd, metrics_fd);
	if (!error)
		error = give_up(&account, parent, FD_NONE);
	if (error)
		fail_setup(error);
	execute();
	return -ENOEXEC; // not reached
}

// An exec may have cleared the tie to the parent; the rights were gone before it, and are
// taken away once more so that they do not depend on how the binary was installed.
static int settle_again(pid_t parent)
{
	int error = clear_capabilities();

	if (!error && prctl(PR_SET_NO_NEW_PRIVS, 1L, 0L, 0L, 0L) < 0)
		error = -errno;
	return error ? error : tie_to_parent(parent);
}

int fp_ship_role_main(void)
{
	FP_AUTOBUF struct fp_buf text = { 0 };
	struct fp_ship_config config;
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
		return EXIT_SETUP;
	}
	close_range(FD_CONFIG, ~0U, 0);
	error = settle_again(parent);
	if (error)
		fail_setup(error);
	confine();
	error = fp_ship_main(&config, &metrics);
	fp_metrics_unmap(&metrics);
	return error;
}
