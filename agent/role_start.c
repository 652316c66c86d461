// SPDX-License-Identifier: Apache-2.0
#include "role_start.h"

#include "common/log.h"

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

void fp_role_account_find(const char *role, const char *user, struct fp_role_account *ret)
{
	struct passwd *entry;

	*ret = (struct fp_role_account){ 0 };
	if (geteuid() != 0 || !user || !user[0])
		return;
	entry = getpwnam(user);
	if (!entry) {
		fp_warn("user '%s' does not exist, %s stays the agent's user", user, role);
		return;
	}
	*ret =
	    (struct fp_role_account){ .change = true, .uid = entry->pw_uid, .gid = entry->pw_gid };
}

static bool is_kept(const struct fp_role *role, cap_value_t cap)
{
	return cap < 64 && (role->keep & 1ULL << cap);
}

static int drop_bounding_set(const struct fp_role *role)
{
	// Needs CAP_SETPCAP. Without it nothing is lost: no_new_privs keeps an exec from
	// gaining anything, and the role's seccomp filter forbids the exec.
	for (cap_value_t cap = 0; cap < cap_max_bits(); cap++)
		if (!is_kept(role, cap) && cap_get_bound(cap) == 1 && cap_drop_bound(cap) < 0 &&
		    errno != EPERM)
			return -errno;
	return 0;
}

static void free_caps(cap_t *caps)
{
	if (*caps)
		cap_free(*caps);
}

// All three sets hold what is kept: inheritable too, without which none can be ambient.
static int keep_capabilities(const struct fp_role *role, cap_t wanted)
{
	static const cap_flag_t flags[] = { CAP_PERMITTED, CAP_EFFECTIVE, CAP_INHERITABLE };
	FP_CLEANUP(free_caps) cap_t current = cap_get_proc();

	if (!current)
		return -errno;
	for (cap_value_t cap = 0; cap < cap_max_bits(); cap++) {
		cap_flag_value_t has;

		if (!is_kept(role, cap) || cap_get_flag(current, cap, CAP_PERMITTED, &has) < 0 ||
		    has != CAP_SET)
			continue;
		for (size_t i = 0; i < FP_ARRAY_SIZE(flags); i++)
			if (cap_set_flag(wanted, flags[i], 1, &cap, CAP_SET) < 0)
				return -errno;
	}
	return 0;
}

static int cut_capabilities(const struct fp_role *role)
{
	FP_CLEANUP(free_caps) cap_t wanted = cap_init();
	int error;

	if (!wanted)
		return -ENOMEM;
	if (cap_reset_ambient() < 0 && errno != EINVAL) // EINVAL: kernel without ambient set
		return -errno;
	error = role->keep ? keep_capabilities(role, wanted) : 0;
	if (error)
		return error;
	return cap_set_proc(wanted) < 0 ? -errno : 0;
}

// What is kept must be ambient to pass the exec of a user that is not root.
static int make_ambient(const struct fp_role *role)
{
	for (cap_value_t cap = 0; cap < cap_max_bits(); cap++)
		if (is_kept(role, cap) && cap_set_ambient(cap, CAP_SET) < 0 && errno != EPERM)
			return -errno; // EPERM: the agent has not got it either
	return 0;
}

static int become(const struct fp_role *role)
{
	const struct fp_role_account *account = &role->account;
	int error = drop_bounding_set(role);

	if (error)
		return error;
	if (account->change && role->keep && prctl(PR_SET_KEEPCAPS, 1L, 0L, 0L, 0L) < 0)
		return -errno;
	if (account->change &&
	    (setgroups(0, NULL) < 0 || setresgid(account->gid, account->gid, account->gid) < 0 ||
	     setresuid(account->uid, account->uid, account->uid) < 0))
		return -errno;
	error = cut_capabilities(role);
	if (!error && role->keep)
		error = make_ambient(role);
	if (error)
		return error;
	return prctl(PR_SET_NO_NEW_PRIVS, 1L, 0L, 0L, 0L) < 0 ? -errno : 0;
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
static int tie_to_parent(const struct fp_role *role, pid_t parent)
{
	if (prctl(PR_SET_PDEATHSIG, (long)role->end_signal, 0L, 0L, 0L) < 0)
		return -errno;
	return getppid() == parent ? 0 : -ESRCH;
}

// Sampler descriptors (perf events, BPF maps, sockets) must not stay with a role.
int fp_role_give_up(const struct fp_role *role, pid_t parent, unsigned int first_closed)
{
	int error = reset_signals();

	if (!error && close_range(first_closed, ~0U, 0) < 0)
		error = -errno;
	if (!error)
		error = become(role);
	return error ? error : tie_to_parent(role, parent);
}

int fp_role_settle(const struct fp_role *role, pid_t parent)
{
	int error = cut_capabilities(role);

	if (!error && prctl(PR_SET_NO_NEW_PRIVS, 1L, 0L, 0L, 0L) < 0)
		error = -errno;
	return error ? error : tie_to_parent(role, parent);
}

static void release_filter(scmp_filter_ctx *filter)
{
	if (*filter)
		seccomp_release(*filter);
}

// The list names what would be worth having for an intruder; all else is left to the missing
// capabilities.
static const int forbidden[] = {
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

static int forbid(scmp_filter_ctx filter, const int *calls, size_t count)
{
	int error = 0;

	for (size_t i = 0; !error && i < count; i++)
		error = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), calls[i], 0);
	return error;
}

void fp_role_confine(const struct fp_role *role, const int *more, size_t more_count)
{
	FP_CLEANUP(release_filter) scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
	const struct rlimit no_core = { 0, 0 };
	int error = filter ? 0 : -ENOMEM;

	setrlimit(RLIMIT_CORE, &no_core); // a core would hold what others must not read
	prctl(PR_SET_NAME, role->name, 0L, 0L, 0L);
	if (!error)
		error = forbid(filter, forbidden, FP_ARRAY_SIZE(forbidden));
	if (!error && more_count)
		error = forbid(filter, more, more_count);
	if (!error)
		error = seccomp_load(filter);
	if (error)
		fp_warn("cannot load the seccomp filter of %s (%s), continuing without", role->name,
			strerror(-error));
}

void fp_role_fail(const struct fp_role *role, int error)
{
	fp_error("cannot give up the privileges of %s (%s)", role->name, strerror(-error));
	_exit(FP_ROLE_EXIT_LOST);
}

// The descriptors may stand in each other's places: first out of the way, then there. Behind
// them the program, to be executed by descriptor: the file may have been replaced by an
// upgrade, and its directory need not be open to the role's user.
static int place_descriptors(const struct fp_role *role, int *ret_program)
{
	int fds[FP_ROLE_FDS_MAX + 1];
	int count = (int)role->fds_count, end = FP_ROLE_FIRST_FD + count;

	memcpy(fds, role->fds, role->fds_count * sizeof(fds[0]));
	fds[count] = open("/proc/self/exe", O_PATH | O_CLOEXEC);
	for (int i = 0; i <= count; i++) {
		fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, end + 1);
		if (fds[i] < 0)
			return -errno;
	}
	for (int i = 0; i < count; i++)
		if (dup2(fds[i], FP_ROLE_FIRST_FD + i) < 0)
			return -errno;
	if (dup3(fds[count], end, O_CLOEXEC) < 0)
		return -errno;
	*ret_program = end;
	return 0;
}

static void execute(const struct fp_role *role, int program)
{
	char *name = strdup(role->name), *argument = strdup(role->argument);
	char *arguments[] = { name, argument, NULL };

	if (name && argument)
		execveat(program, "", arguments, environ, AT_EMPTY_PATH);
	fp_error("cannot execute this program as %s (%s); it must be executable by the role's user",
		 role->name, strerror(errno));
	_exit(FP_ROLE_EXIT_LOST);
}

int fp_role_start(const struct fp_role *role)
{
	pid_t parent = getpid(), pid = fork();
	int program = -1, error;

	if (pid < 0)
		return -errno;
	if (pid > 0)
		return pid;
	if (role->apart)
		setsid();
	error = place_descriptors(role, &program);
	if (!error)
		error = fp_role_give_up(role, parent, (unsigned int)program + 1);
	if (error)
		fp_role_fail(role, error);
	execute(role, program);
	return -ENOEXEC; // not reached
}
