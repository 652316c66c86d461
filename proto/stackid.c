// SPDX-License-Identifier: Apache-2.0
// Streaming keeps the cost to one pass without an allocation: this runs once for every stack
// that an epoch announces.
#define XXH_STATIC_LINKING_ONLY // for XXH3_state_t as a local
#include "stackid.h"

#include <endian.h>
#include <string.h>
#include <xxhash.h>

static void add_u64(XXH3_state_t *state, uint64_t value)
{
	uint64_t little = htole64(value);

	XXH3_128bits_update(state, &little, sizeof(little));
}

static void add_string(XXH3_state_t *state, const struct fp_profile *profile, uint32_t string)
{
	uint32_t size = profile->strings.sizes[string];
	uint32_t little = htole32(size);

	XXH3_128bits_update(state, &little, sizeof(little));
	XXH3_128bits_update(state, fp_profile_str(profile, string), size);
}

static void add_build(XXH3_state_t *state, const struct fp_profile *profile,
		      const struct fp_build *build)
{
	uint8_t head[2] = { build->kind, build->id_len };

	XXH3_128bits_update(state, head, sizeof(head));
	XXH3_128bits_update(state, build->id, build->id_len);
	if (!build->id_len) // the path is all that tells two such builds apart
		add_string(state, profile, build->path);
}

void fp_stack_id(const struct fp_profile *profile, const uint32_t *frames, uint32_t count,
		 uint8_t ret_id[FP_STACK_ID_LEN])
{
	XXH128_canonical_t canonical;
	XXH3_state_t state;

	XXH3_128bits_reset(&state);
	for (uint32_t i = 0; i < count; i++) {
		const struct fp_frame *frame = profile->frames + frames[i];

		XXH3_128bits_update(&state, &frame->kind, 1);
		if (fp_frame_kind_has_build(frame->kind)) {
			add_build(&state, profile, profile->builds + frame->build);
			add_u64(&state, frame->offset);
		} else if (fp_frame_kind_has_name(frame->kind)) {
			add_string(&state, profile, frame->name);
		}
	}
	XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(&state));
	memcpy(ret_id, canonical.digest, FP_STACK_ID_LEN);
}
