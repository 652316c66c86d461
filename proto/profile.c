// SPDX-License-Identifier: Apache-2.0
#include "profile.h"
#include "array.h"
#include "stackid.h"

#include <errno.h>
#include <string.h>
#include <xxhash.h>

struct labels_key { // 128 bits over the (name, value) id pairs of a sorted label set
	XXH128_hash_t hash;
};

struct sample_key {
	uint32_t type, labels, stack;
};

int fp_profile_new(struct fp_profile **ret_profile)
{
	FP_AUTOPROFILE struct fp_profile *profile = calloc(1, sizeof(*profile));
	int error;

	if (!profile)
		return -ENOMEM;
	profile->build_index = FP_HASHMAP_INIT(struct fp_build, uint32_t);
	profile->frame_index = FP_HASHMAP_INIT(struct fp_frame, uint32_t);
	profile->stack_index =
	    (struct fp_hashmap){ .key_size = FP_STACK_ID_LEN, .value_size = sizeof(uint32_t) };
	profile->labels_index = FP_HASHMAP_INIT(struct labels_key, uint32_t);
	profile->sample_index = FP_HASHMAP_INIT(struct sample_key, uint32_t);
	error = fp_intern_init(&profile->strings);
	if (error)
		return error;
	*ret_profile = fp_take_ptr(profile);
	return 0;
}

void fp_profile_free(struct fp_profile *profile)
{
	if (!profile)
		return;
	for (size_t type = 0; type < FP_PROFILE_TYPES; type++) {
		free(profile->quality[type].named);
		free(profile->quality[type].builds);
		free(profile->quality[type].stops);
		fp_hashmap_free(&profile->quality[type].build_rows);
		fp_hashmap_free(&profile->quality[type].stop_rows);
	}
	fp_hashmap_free(&profile->build_index);
	fp_hashmap_free(&profile->frame_index);
	fp_hashmap_free(&profile->stack_index);
	fp_hashmap_free(&profile->labels_index);
	fp_hashmap_free(&profile->sample_index);
	fp_intern_free(&profile->strings);
	free(profile->builds);
	free(profile->frames);
	free(profile->stacks);
	free(profile->stack_frames);
	free(profile->label_pool);
	free(profile->labels);
	free(profile->samples);
	free(profile);
}

int fp_profile_string(struct fp_profile *profile, const char *string, size_t size, uint32_t *ret_id)
{
	return fp_intern_add(&profile->strings, string, size < FP_STRING_MAX ? size : FP_STRING_MAX,
			     ret_id);
}

int fp_profile_cstring(struct fp_profile *profile, const char *string, uint32_t *ret_id)
{
	return fp_profile_string(profile, string, strlen(string), ret_id);
}

// The id of key in the index; a new key gets the id next_id. The caller has made room for
// the entry beforehand, so that an index never points past its table.
static int index_put(struct fp_hashmap *index, const void *key, uint32_t next_id, bool *ret_new,
		     uint32_t *ret_id)
{
	uint32_t *id = fp_hashmap_put(index, key, ret_new);

	if (!id)
		return -ENOMEM;
	if (*ret_new)
		*id = next_id;
	*ret_id = *id;
	return 0;
}

int fp_profile_build(struct fp_profile *profile, const struct fp_build *build, uint32_t *ret_id)
{
	struct fp_build key;
	bool is_new;
	int error;

	if (build->id_len > FP_BUILD_ID_MAX || build->path >= profile->strings.count)
		return -EINVAL;
	memset(&key, 0, sizeof(key)); // padding and unused id bytes take part in the comparison
	key.kind = build->kind;
	key.id_len = build->id_len;
	memcpy(key.id, build->id, build->id_len);
	key.path = build->path;
	error =
	    fp_array_grow(&profile->builds, &profile->builds_capacity, profile->builds_count, 1);
	if (error)
		return error;
	error = index_put(&profile->build_index, &key, profile->builds_count, &is_new, ret_id);
	if (!error && is_new)
		profile->builds[profile->builds_count++] = key;
	return error;
}

bool fp_frame_kind_has_build(enum fp_frame_kind kind)
{
	return kind >= FP_FRAME_FILE && kind <= FP_FRAME_VDSO;
}

bool fp_frame_kind_has_name(enum fp_frame_kind kind)
{
	return kind == FP_FRAME_NAMED || kind == FP_FRAME_ERROR;
}

// Fields that mean nothing for the kind are set to their neutral value, so that equal frames
// have one id. -EINVAL: a field that the kind needs is out of range.
static int frame_key(const struct fp_profile *profile, const struct fp_frame *frame,
		     struct fp_frame *ret_key)
{
	memset(ret_key, 0, sizeof(*ret_key));
	ret_key->kind = frame->kind;
	ret_key->build = FP_NO_BUILD;
	if (fp_frame_kind_has_build(frame->kind)) {
		ret_key->build = frame->build;
		ret_key->offset = frame->offset;
		return frame->build < profile->builds_count ? 0 : -EINVAL;
	}
	if (fp_frame_kind_has_name(frame->kind)) {
		ret_key->name = frame->name;
		return frame->name < profile->strings.count ? 0 : -EINVAL;
	}
	return frame->kind == FP_FRAME_ANON ? 0 : -EINVAL;
}

int fp_profile_frame(struct fp_profile *profile, const struct fp_frame *frame, uint32_t *ret_id)
{
	struct fp_frame key;
	bool is_new;
	int error = frame_key(profile, frame, &key);

	if (error)
		return error;
	error =
	    fp_array_grow(&profile->frames, &profile->frames_capacity, profile->frames_count, 1);
	if (error)
		return error;
	error = index_put(&profile->frame_index, &key, profile->frames_count, &is_new, ret_id);
	if (!error && is_new)
		profile->frames[profile->frames_count++] = key;
	return error;
}

int fp_profile_stack(struct fp_profile *profile, const uint32_t *frames, uint32_t count,
		     uint32_t *ret_id)
{
	struct fp_stack stack = { .first = profile->stack_frames_count, .count = count };
	bool is_new;
	int error;

	for (uint32_t i = 0; i < count; i++)
		if (frames[i] >= profile->frames_count)
			return -EINVAL;
	error =
	    fp_array_grow(&profile->stacks, &profile->stacks_capacity, profile->stacks_count, 1);
	if (!error)
		error = fp_array_grow(&profile->stack_frames, &profile->stack_frames_capacity,
				      profile->stack_frames_count, count);
	if (error)
		return error;
	fp_stack_id(profile, frames, count, stack.id);
	error = index_put(&profile->stack_index, stack.id, profile->stacks_count, &is_new, ret_id);
	if (error || !is_new)
		return error;
	if (count)
		memcpy(profile->stack_frames + stack.first, frames, count * sizeof(*frames));
	profile->stack_frames_count += count;
	profile->stacks[profile->stacks_count++] = stack;
	return 0;
}

static int compare_names(const struct fp_profile *profile, uint32_t a, uint32_t b)
{
	uint32_t a_size = profile->strings.sizes[a], b_size = profile->strings.sizes[b];
	int order = memcmp(fp_profile_str(profile, a), fp_profile_str(profile, b),
			   a_size < b_size ? a_size : b_size);

	return order ? order : (a_size > b_size) - (a_size < b_size);
}

// Insertion sort: label sets are short, and it keeps the order of equal names, of which
// the last wins. Returns the number of labels left.
static uint32_t sort_labels(const struct fp_profile *profile, struct fp_label *labels,
			    uint32_t count)
{
	uint32_t kept = 0;

	for (uint32_t i = 1; i < count; i++) {
		struct fp_label label = labels[i];
		uint32_t at = i;

		for (; at && compare_names(profile, labels[at - 1].name, label.name) > 0; at--)
			labels[at] = labels[at - 1];
		labels[at] = label;
	}
	for (uint32_t i = 0; i < count; i++) {
		if (kept && labels[kept - 1].name == labels[i].name)
			kept--;
		labels[kept++] = labels[i];
	}
	return kept;
}

int fp_profile_labels(struct fp_profile *profile, struct fp_label *labels, uint32_t count,
		      uint32_t *ret_id)
{
	struct fp_labels set = { .first = profile->label_pool_count };
	struct labels_key key;
	bool is_new;
	int error;

	for (uint32_t i = 0; i < count; i++)
		if (labels[i].name >= profile->strings.count ||
		    labels[i].value >= profile->strings.count)
			return -EINVAL;
	set.count = sort_labels(profile, labels, count);
	key.hash = XXH3_128bits(labels, set.count * sizeof(*labels));
	error =
	    fp_array_grow(&profile->labels, &profile->labels_capacity, profile->labels_count, 1);
	if (!error)
		error = fp_array_grow(&profile->label_pool, &profile->label_pool_capacity,
				      profile->label_pool_count, set.count);
	if (!error)
		error =
		    index_put(&profile->labels_index, &key, profile->labels_count, &is_new, ret_id);
	if (error || !is_new)
		return error;
	if (set.count)
		memcpy(profile->label_pool + set.first, labels, set.count * sizeof(*labels));
	profile->label_pool_count += set.count;
	profile->labels[profile->labels_count++] = set;
	return 0;
}

int fp_profile_sample(struct fp_profile *profile, const struct fp_sample *sample)
{
	struct sample_key key = { sample->type, sample->labels, sample->stack };
	struct fp_sample *row;
	uint32_t id;
	bool is_new;
	int error;

	if (!sample->type || sample->type >= FP_PROFILE_TYPES ||
	    sample->labels >= profile->labels_count || sample->stack >= profile->stacks_count)
		return -EINVAL;
	error =
	    fp_array_grow(&profile->samples, &profile->samples_capacity, profile->samples_count, 1);
	if (!error)
		error =
		    index_put(&profile->sample_index, &key, profile->samples_count, &is_new, &id);
	if (error)
		return error;
	row = profile->samples + id;
	if (is_new) {
		profile->samples_count++;
		*row = (struct fp_sample){ sample->type, sample->labels, sample->stack, 0, 0 };
	}
	row->count += sample->count;
	row->value += sample->value;
	return 0;
}

size_t fp_profile_bytes(const struct fp_profile *profile)
{
	size_t bytes = sizeof(*profile);

	bytes += profile->strings.bytes +
		 profile->strings.capacity * (sizeof(char *) + sizeof(uint32_t)) +
		 profile->strings.index_capacity * sizeof(uint32_t);
	bytes += profile->builds_capacity * sizeof(*profile->builds);
	bytes += profile->frames_capacity * sizeof(*profile->frames);
	bytes += profile->stacks_capacity * sizeof(*profile->stacks);
	bytes += profile->stack_frames_capacity * sizeof(*profile->stack_frames);
	bytes += profile->label_pool_capacity * sizeof(*profile->label_pool);
	bytes += profile->labels_capacity * sizeof(*profile->labels);
	bytes += profile->samples_capacity * sizeof(*profile->samples);
	bytes += fp_hashmap_bytes(&profile->build_index) + fp_hashmap_bytes(&profile->frame_index) +
		 fp_hashmap_bytes(&profile->stack_index) +
		 fp_hashmap_bytes(&profile->labels_index) +
		 fp_hashmap_bytes(&profile->sample_index);
	for (size_t type = 0; type < FP_PROFILE_TYPES; type++) {
		const struct fp_quality *quality = &profile->quality[type];

		bytes += quality->named_capacity * sizeof(*quality->named);
		bytes += quality->builds_capacity * sizeof(*quality->builds);
		bytes += quality->stops_capacity * sizeof(*quality->stops);
		bytes += fp_hashmap_bytes(&quality->build_rows);
		bytes += fp_hashmap_bytes(&quality->stop_rows);
	}
	return bytes;
}
