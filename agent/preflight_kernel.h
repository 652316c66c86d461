// SPDX-License-Identifier: Apache-2.0
//
// preflight_kernel: kernel versions and lists of them. The lists are settings (data, not
// code), so that a fleet can be told of a bad kernel without a new release.
// List: `first-last` or `version`, separated by commas; a version with fewer numbers stands
// for all that begin with them (`6.2` is 6.2.0 to 6.2.∞, `6.16-6.17.7` ends with 6.17.7).
// Threads: no state.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct fp_kernel_version {
	uint32_t parts[3];
};

// The upstream version behind a kernel: distributions keep uname's release at 6.1.0 through
// all of 6.1.y and name the true one elsewhere (Debian in uname's version, Ubuntu in
// /proc/version_signature, passed here or NULL). -EINVAL: no version in it.
int fp_kernel_version_parse(const char *release, const char *version, const char *signature,
			    struct fp_kernel_version *ret);
// -EINVAL: not a list.
int fp_kernel_list_check(const char *list);
bool fp_kernel_list_has(const char *list, const struct fp_kernel_version *version);
