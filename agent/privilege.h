// SPDX-License-Identifier: Apache-2.0
//
// privilege: what the sampler keeps once its programs run: an unprivileged uid and six
// capabilities (what each is for: docs/agent.md, measured), gone from the bounding set with
// all others, no_new_privs. Where the kernel wants CAP_SYS_ADMIN for perf_event_open
// (Debian and Ubuntu at perf_event_paranoid >= 3) it stays permitted, and effective only
// inside fp_privilege_admin(true) … (false).
// Threads: affects the calling thread; call while there is only one.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct fp_privilege {
	uid_t uid;
	gid_t gid;
	bool change_user;
	bool keep_admin;
};

// Name of a user → ids. "" leaves change_user false. -ENOENT: no such user.
int fp_privilege_user(const char *user, struct fp_privilege *ret);
bool fp_privilege_can_change_user(void); // CAP_SETUID and CAP_SETGID are effective
// Everything or an error; after an error the caller must end.
int fp_privilege_drop(const struct fp_privilege *privilege);
// Raises or lowers CAP_SYS_ADMIN in the effective set; no effect unless it is permitted.
int fp_privilege_admin(bool raise);

// The six, as rows: capability and what is lost without it.
struct fp_capability {
	int capability;	  // CAP_…
	const char *name; // "CAP_BPF"
	bool required;	  // no sampling at all without it
	const char *loss; // what does not work without it
};
#define FP_CAPABILITY_COUNT 6
extern const struct fp_capability fp_capabilities[FP_CAPABILITY_COUNT];
// Effective capabilities of the calling thread as a bit mask. 0 or -errno.
int fp_privilege_effective(uint64_t *ret_mask);
