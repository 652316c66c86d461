// SPDX-License-Identifier: Apache-2.0
//
// identity: which host and which boot a profile is from. The host id is the machine-id; a
// host without one gets a random id that is kept in the state directory. The boot id is the
// kernel's. Together with a sequence number they make a batch's identity (docs/wire.md).
// Input: /etc/machine-id, /proc/sys/kernel/random/boot_id, uname(2); trusted.
// Threads: no state.
#pragma once

#include "proto/profile.h"

struct fp_identity {
	uint8_t host_id[16];
	uint8_t boot_id[16];
	char hostname[65];
	char kernel_release[65];
	char machine[65];
	bool host_id_made; // random, not the machine's
};

struct fp_identity_source {
	const char *machine_id_file;
	const char *state_directory; // where a made id is kept, as `host-id`; NULL: all zero
	const char *hostname;	     // "" or NULL: the kernel's
};

// Errors: -errno of reading the boot id, or of keeping a made host id.
int fp_identity_read(const struct fp_identity_source *source, struct fp_identity *ret);
// Fills the profile's host, boot and sequence fields.
int fp_identity_stamp(const struct fp_identity *identity, uint64_t sequence,
		      struct fp_profile *profile);
// 32 hexadecimal digits, dashes allowed, not all zero. -EINVAL otherwise.
int fp_identity_parse(const char *text, size_t size, uint8_t ret_id[16]);
