// SPDX-License-Identifier: Apache-2.0
#include "batch.h"

#include <endian.h>
#include <string.h>
#include <xxhash.h>

const struct fp_batch_limits fp_batch_default_limits = {
	.compressed_bytes = 16u << 20,
	.message_bytes = 64u << 20,
	.strings = 1u << 20,
	.builds = 1u << 16,
	.frames = 1u << 21,
	.stacks = 1u << 20,
	.labels = 1u << 18,
	.samples = 1u << 20,
	.stack_frames = 1u << 24,
	.label_pool = 1u << 21,
	.stack_depth = 2048,
	.string_bytes = FP_STRING_MAX,
	.counters = 1024,
	.stops = 1u << 18,
};

void fp_batch_id(const struct fp_profile *profile, uint8_t ret_id[FP_BATCH_ID_LEN])
{
	struct {
		uint8_t host_id[16], boot_id[16];
		uint64_t sequence;
	} identity;
	XXH128_canonical_t canonical;

	memcpy(identity.host_id, profile->host_id, sizeof(identity.host_id));
	memcpy(identity.boot_id, profile->boot_id, sizeof(identity.boot_id));
	identity.sequence = htole64(profile->sequence);
	XXH128_canonicalFromHash(&canonical, XXH3_128bits(&identity, sizeof(identity)));
	memcpy(ret_id, canonical.digest, FP_BATCH_ID_LEN);
}
