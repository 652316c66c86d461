// SPDX-License-Identifier: Apache-2.0
#include "privilege.h"

#include "common/cleanup.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <sys/capability.h>
#include <sys/prctl.h>

// Debian 12's headers have them all; older ones lack the three of 5.8 and 5.9.
#ifndef CAP_PERFMON
#define CAP_PERFMON 38
#endif
#ifndef CAP_BPF
#define CAP_BPF 39
#endif
#ifndef CAP_CHECKPOINT_RESTORE
#define CAP_CHECKPOINT_RESTORE 40
#endif

const struct fp_capability fp_capabilities[FP_CAPABILITY_COUNT] = {
	{ CAP_BPF, "CAP_BPF", true, "no BPF program can be loaded" },
	{ CAP_PERFMON, "CAP_PERFMON", true, "no perf event can be opened" },
	{ CAP_SYS_PTRACE, "CAP_SYS_PTRACE", false,
	  "mappings of processes that ran before the agent cannot be read" },
	{ CAP_DAC_READ_SEARCH, "CAP_DAC_READ_SEARCH", false,
	  "mapped files of other users cannot be read" },
	{ CAP_CHECKPOINT_RESTORE, "CAP_CHECKPOINT_RESTORE", false,
	  "deleted and container files cannot be read through map_files" },
	{ CAP_SYSLOG, "CAP_SYSLOG", false, "kernel addresses are hidden: no kernel frames" },
};

static void free_caps(cap_t *caps)
{
	if (*caps)
		cap_free(*caps);
	*caps = NULL;
}

int fp_privilege_user(const char *user, struct fp_privilege *ret)
{
	struct passwd *entry;

	if (user[0] == '\0') {
		ret->change_user = false;
		return 0;
	}
	entry = getpwnam(user);
	if (!entry)
		return -ENOENT;
	ret->uid = entry->pw_uid;
	ret->gid = entry->pw_gid;
	ret->change_user = true;
	return 0;
}

bool fp_privilege_can_change_user(void)
{
	const uint64_t needed = 1ULL << CAP_SETUID | 1ULL << CAP_SETGID;
	uint64_t mask = 0;

	return fp_privilege_effective(&mask) == 0 && (mask & needed) == needed;
}

static int fill_caps(const struct fp_privilege *privilege, cap_t current, cap_t wanted)
{
	cap_value_t admin = CAP_SYS_ADMIN;
	cap_flag_value_t has;

	for (size_t i = 0; i < FP_CAPABILITY_COUNT; i++) {
		cap_value_t one = fp_capabilities[i].capability;

		// A container may have given us fewer; what is missing was warned of.
		if (cap_get_flag(current, one, CAP_PERMITTED, &has) < 0 || has != CAP_SET)
			continue;
		if (cap_set_flag(wanted, CAP_PERMITTED, 1, &one, CAP_SET) < 0 ||
		    cap_set_flag(wanted, CAP_EFFECTIVE, 1, &one, CAP_SET) < 0)
			return -errno;
	}
	if (privilege->keep_admin && cap_set_flag(wanted, CAP_PERMITTED, 1, &admin, CAP_SET) < 0)
		return -errno;
	return 0;
}

// Nothing outside `wanted` may come back through an exec. Needs CAP_SETPCAP; a service that
// was started without it had its bounding set cut by whoever started it.
static int cut_bounding_set(cap_t current, cap_t wanted)
{
	cap_flag_value_t may, keep;

	if (cap_get_flag(current, CAP_SETPCAP, CAP_EFFECTIVE, &may) < 0 || may != CAP_SET)
		return 0;
	for (cap_value_t one = 0; one < cap_max_bits(); one++) {
		if (cap_get_flag(wanted, one, CAP_PERMITTED, &keep) == 0 && keep == CAP_SET)
			continue;
		if (cap_get_bound(one) == 1 && cap_drop_bound(one) < 0)
			return -errno;
	}
	return 0;
}

static int become_user(const struct fp_privilege *privilege)
{
	if (prctl(PR_SET_KEEPCAPS, 1L, 0L, 0L, 0L) < 0)
		return -errno;
	if (setgroups(0, NULL) < 0 ||
	    setresgid(privilege->gid, privilege->gid, privilege->gid) < 0 ||
	    setresuid(privilege->uid, privilege->uid, privilege->uid) < 0)
		return -errno;
	// The change of uid hid our own /proc entries from ourselves. A role of the same uid
	// still cannot trace us: it lacks our capabilities.
	return prctl(PR_SET_DUMPABLE, 1L, 0L, 0L, 0L) < 0 ? -errno : 0;
}

int fp_privilege_drop(const struct fp_privilege *privilege)
{
	cap_t current FP_CLEANUP(free_caps) = cap_get_proc();
	cap_t wanted FP_CLEANUP(free_caps) = cap_init();
	int r;

	if (!current || !wanted)
		return -errno;
	r = fill_caps(privilege, current, wanted);
	if (r == 0)
		r = cut_bounding_set(current, wanted);
	if (r == 0 && privilege->change_user && geteuid() == 0)
		r = become_user(privilege);
	if (r < 0)
		return r;
	cap_reset_ambient();
	if (cap_set_proc(wanted) < 0)
		return -errno;
	return prctl(PR_SET_NO_NEW_PRIVS, 1L, 0L, 0L, 0L) < 0 ? -errno : 0;
}

int fp_privilege_admin(bool raise)
{
	cap_t caps FP_CLEANUP(free_caps) = cap_get_proc();
	cap_value_t admin = CAP_SYS_ADMIN;
	cap_flag_value_t has;

	if (!caps)
		return -errno;
	if (cap_get_flag(caps, admin, CAP_PERMITTED, &has) < 0 || has != CAP_SET)
		return 0;
	if (cap_set_flag(caps, CAP_EFFECTIVE, 1, &admin, raise ? CAP_SET : CAP_CLEAR) < 0)
		return -errno;
	return cap_set_proc(caps) < 0 ? -errno : 0;
}

int fp_privilege_effective(uint64_t *ret_mask)
{
	cap_t caps FP_CLEANUP(free_caps) = cap_get_proc();
	uint64_t mask = 0;

	if (!caps)
		return -errno;
	for (cap_value_t one = 0; one < 64; one++) {
		cap_flag_value_t has = CAP_CLEAR;

		if (cap_get_flag(caps, one, CAP_EFFECTIVE, &has) == 0 && has == CAP_SET)
			mask |= 1ULL << one;
	}
	*ret_mask = mask;
	return 0;
}
