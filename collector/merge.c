// SPDX-License-Identifier: Apache-2.0
#include "merge.h"

#include "facts.h"

#include <errno.h>
#include <string.h>

#define NOT_YET	 UINT32_MAX
#define UNWANTED (UINT32_MAX - 1)

#define STATE_LABEL "state" // how a thread was off the CPU, for wall time
#define KEPT_MAX    2	    // keep_label and state

// Translation tables of one batch, by index in the batch.
struct maps {
	uint32_t *labels; // index in the merged profile, or UNWANTED
	uint32_t *stacks;
	uint32_t *frames;
};

static void maps_free(struct maps *maps)
{
	free(maps->labels);
	free(maps->stacks);
	free(maps->frames);
}

int fp_merge_init(struct fp_merge *merge, const struct fp_merge_options *options)
{
	*merge = (struct fp_merge){ .options = *options };
	merge->facts.mixed_periods = options->mixed_periods;
	merge->stacks =
	    (struct fp_hashmap){ .key_size = FP_STACK_ID_LEN, .value_size = sizeof(uint32_t) };
	merge->hosts = (struct fp_hashmap){ .key_size = 16, .value_size = 1 };
	return fp_profile_new(&merge->profile);
}

void fp_merge_free(struct fp_merge *merge)
{
	fp_profile_free(merge->profile);
	fp_hashmap_free(&merge->stacks);
	fp_hashmap_free(&merge->hosts);
	*merge = (struct fp_merge){ 0 };
}

static int new_map(uint32_t **ret_map, uint32_t count)
{
	*ret_map = malloc(((size_t)count + 1) * sizeof(**ret_map));
	if (!*ret_map)
		return -ENOMEM;
	memset(*ret_map, 0xff, ((size_t)count + 1) * sizeof(**ret_map)); // NOT_YET
	return 0;
}

static int copy_string(struct fp_merge *merge, const struct fp_profile *batch, uint32_t string,
		       uint32_t *ret_string)
{
	return fp_profile_string(merge->profile, fp_profile_str(batch, string),
				 batch->strings.sizes[string], ret_string);
}

int fp_merge_build(struct fp_merge *merge, const struct fp_profile *batch, uint32_t build,
		   uint32_t *ret_build)
{
	struct fp_build copy = batch->builds[build];
	int r = copy_string(merge, batch, copy.path, &copy.path);

	return r < 0 ? r : fp_profile_build(merge->profile, &copy, ret_build);
}

static int copy_frame(struct fp_merge *merge, const struct fp_profile *batch, uint32_t frame,
		      uint32_t *ret_frame)
{
	struct fp_frame copy = batch->frames[frame];
	int r = 0;

	if (fp_frame_kind_has_build(copy.kind))
		r = fp_merge_build(merge, batch, copy.build, &copy.build);
	if (r == 0 && fp_frame_kind_has_name(copy.kind))
		r = copy_string(merge, batch, copy.name, &copy.name);
	return r < 0 ? r : fp_profile_frame(merge->profile, &copy, ret_frame);
}

static int copy_stack(struct fp_merge *merge, const struct fp_profile *batch,
		      const struct fp_stack *stack, struct maps *maps, uint32_t *ret_stack)
{
	FP_AUTOFREE uint32_t *frames = calloc((size_t)stack->count + 1, sizeof(*frames));

	if (!frames)
		return -ENOMEM;
	for (uint32_t i = 0; i < stack->count; i++) {
		uint32_t frame = batch->stack_frames[stack->first + i];

		if (maps->frames[frame] == NOT_YET) {
			int r = copy_frame(merge, batch, frame, &maps->frames[frame]);

			if (r < 0)
				return r;
		}
		frames[i] = maps->frames[frame];
	}
	return fp_profile_stack(merge->profile, frames, stack->count, ret_stack);
}

static int map_stack(struct fp_merge *merge, const struct fp_profile *batch, uint32_t stack,
		     struct maps *maps)
{
	const uint8_t *id = batch->stacks[stack].id;
	uint32_t *known = fp_hashmap_get(&merge->stacks, id);
	bool is_new;
	int r;

	if (known) {
		maps->stacks[stack] = *known;
		return 0;
	}
	r = copy_stack(merge, batch, &batch->stacks[stack], maps, &maps->stacks[stack]);
	if (r < 0)
		return r;
	known = fp_hashmap_put(&merge->stacks, id, &is_new);
	if (!known)
		return -ENOMEM;
	*known = maps->stacks[stack];
	return 0;
}

// The batch's label set with `host` put in; returns how many labels there are.
static size_t gather_labels(const struct fp_profile *batch, const struct fp_labels *set,
			    struct fp_selector_label *labels, size_t room)
{
	size_t count = 0;

	labels[count++] =
	    (struct fp_selector_label){ FP_HOST_LABEL, fp_profile_str(batch, batch->hostname),
					batch->strings.sizes[batch->hostname] };
	for (uint32_t i = 0; i < set->count && count < room; i++) {
		const struct fp_label *label = &batch->label_pool[set->first + i];

		labels[count++] = (struct fp_selector_label){ fp_profile_str(batch, label->name),
							      fp_profile_str(batch, label->value),
							      batch->strings.sizes[label->value] };
	}
	return count;
}

static bool is_kept(const struct fp_merge *merge, const char *name)
{
	const char *keep = merge->options.keep_label;

	return (keep && strcmp(name, keep) == 0) ||
	       (merge->options.aspect == fp_aspect_wall && strcmp(name, STATE_LABEL) == 0);
}

// The first of a name counts: `host` is the batch's, whatever the agent put there.
static bool is_taken(const struct fp_label *kept, uint32_t count, uint32_t name)
{
	for (uint32_t i = 0; i < count; i++)
		if (kept[i].name == name)
			return true;
	return false;
}

// The merged profile's label set for a set of the batch: the labels that are kept, or none.
static int reduce_labels(struct fp_merge *merge, const struct fp_selector_label *labels,
			 size_t count, uint32_t *ret_labels)
{
	struct fp_label kept[KEPT_MAX];
	uint32_t kept_count = 0;

	for (size_t i = 0; i < count && kept_count < KEPT_MAX; i++) {
		struct fp_label label;
		int r;

		if (!is_kept(merge, labels[i].name))
			continue;
		r = fp_profile_cstring(merge->profile, labels[i].name, &label.name);
		if (r == 0)
			r = fp_profile_string(merge->profile, labels[i].value, labels[i].value_size,
					      &label.value);
		if (r < 0)
			return r;
		if (!is_taken(kept, kept_count, label.name))
			kept[kept_count++] = label;
	}
	return fp_profile_labels(merge->profile, kept, kept_count, ret_labels);
}

static int map_labels(struct fp_merge *merge, const struct fp_profile *batch, struct maps *maps)
{
	for (uint32_t i = 0; i < batch->labels_count; i++) {
		const struct fp_labels *set = &batch->labels[i];
		FP_AUTOFREE struct fp_selector_label *labels =
		    calloc((size_t)set->count + 1, sizeof(*labels));
		size_t count;
		int r;

		if (!labels)
			return -ENOMEM;
		count = gather_labels(batch, set, labels, (size_t)set->count + 1);
		r = fp_selector_match(merge->options.selector, labels, count);
		if (r < 0)
			return r;
		maps->labels[i] = UNWANTED;
		if (r == 1)
			r = reduce_labels(merge, labels, count, &maps->labels[i]);
		if (r < 0)
			return r;
	}
	return 0;
}

static uint64_t product(uint64_t value, uint64_t period_ns)
{
	uint64_t result;

	return __builtin_mul_overflow(value, period_ns, &result) ? UINT64_MAX : result;
}

// Whether CPU samples are added up as time and not as counts.
static bool is_time(const struct fp_merge *merge)
{
	return merge->options.mixed_periods || merge->options.aspect->unit == FP_UNIT_NANOSECONDS;
}

// What of `more` still fits: rows and every sum of them then fit too.
static uint64_t take_room(uint64_t *total, uint64_t more)
{
	uint64_t room = (uint64_t)INT64_MAX - *total;

	if (more > room)
		more = room;
	*total += more;
	return more;
}

static int add_sample(struct fp_merge *merge, const struct fp_profile *batch,
		      const struct fp_sample *sample, struct maps *maps)
{
	struct fp_sample sum = { .type = sample->type, .labels = maps->labels[sample->labels] };
	bool is_cpu = sample->type == FP_PROFILE_CPU;
	uint64_t ns = is_cpu ? product(sample->value, batch->period_ns) : sample->value;
	int r;

	if (maps->stacks[sample->stack] == NOT_YET) {
		r = map_stack(merge, batch, sample->stack, maps);
		if (r < 0)
			return r;
	}
	sum.stack = maps->stacks[sample->stack];
	sum.count = take_room(&merge->counts, sample->count);
	sum.value = take_room(&merge->values, is_cpu && !is_time(merge) ? sample->value : ns);
	merge->facts.rows++;
	fp_merge_sum(&merge->facts.samples, sample->count);
	fp_merge_sum(&merge->facts.nanoseconds, ns);
	fp_merge_sum(&merge->facts.type_ns[sample->type], ns);
	return fp_profile_sample(merge->profile, &sum);
}

static int note_batch(struct fp_merge *merge, const struct fp_profile *batch)
{
	struct fp_merge_facts *facts = &merge->facts;
	bool is_new = false;

	facts->batches++;
	if (!facts->first_start_ns || batch->start_realtime_ns < facts->first_start_ns)
		facts->first_start_ns = batch->start_realtime_ns;
	if (batch->end_realtime_ns > facts->last_end_ns)
		facts->last_end_ns = batch->end_realtime_ns;
	fp_merge_sum(&facts->window_ns, batch->end_boottime_ns - batch->start_boottime_ns);
	if (!merge->profile->period_ns)
		merge->profile->period_ns = batch->period_ns;
	if (!fp_hashmap_put(&merge->hosts, batch->host_id, &is_new))
		return -ENOMEM;
	facts->hosts = merge->hosts.count;
	return fp_merge_quality(merge, batch);
}

int fp_merge_add(struct fp_merge *merge, const struct fp_profile *batch)
{
	FP_CLEANUP(maps_free) struct maps maps = { 0 };
	uint64_t rows_before = merge->facts.rows;
	int r = new_map(&maps.labels, batch->labels_count);

	if (r == 0)
		r = new_map(&maps.stacks, batch->stacks_count);
	if (r == 0)
		r = new_map(&maps.frames, batch->frames_count);
	if (r == 0)
		r = map_labels(merge, batch, &maps);
	if (r < 0)
		return r;
	merge->facts.batches_read++;
	for (uint32_t i = 0; i < batch->samples_count; i++) {
		const struct fp_sample *sample = &batch->samples[i];

		if (!fp_aspect_has(merge->options.aspect, sample->type))
			continue;
		merge->facts.rows_read++;
		if (maps.labels[sample->labels] == UNWANTED)
			continue;
		r = add_sample(merge, batch, sample, &maps);
		if (r < 0)
			return r;
	}
	return merge->facts.rows > rows_before ? note_batch(merge, batch) : 0;
}

struct fp_profile *fp_merge_take(struct fp_merge *merge)
{
	struct fp_profile *profile = merge->profile;

	profile->start_realtime_ns = merge->facts.first_start_ns;
	profile->end_realtime_ns = merge->facts.last_end_ns;
	if (fp_aspect_has(merge->options.aspect, FP_PROFILE_CPU) && is_time(merge))
		profile->period_ns = 1;
	fp_merge_quality_finish(merge);
	merge->profile = NULL;
	return profile;
}
