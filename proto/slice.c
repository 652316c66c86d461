// SPDX-License-Identifier: Apache-2.0
#include "slice.h"

#include <errno.h>
#include <string.h>

static int copy_string(const struct fp_profile *from, uint32_t string, struct fp_profile *to,
		       uint32_t *ret_id)
{
	return fp_profile_string(to, fp_profile_str(from, string), from->strings.sizes[string],
				 ret_id);
}

static int copy_build(const struct fp_profile *from, uint32_t build, struct fp_profile *to,
		      uint32_t *ret_id)
{
	struct fp_build copy = from->builds[build];
	int error = copy_string(from, copy.path, to, &copy.path);

	return error ? error : fp_profile_build(to, &copy, ret_id);
}

static int copy_frame(const struct fp_profile *from, uint32_t frame, struct fp_profile *to,
		      uint32_t *ret_id)
{
	struct fp_frame copy = from->frames[frame];
	int error = 0;

	if (fp_frame_kind_has_build(copy.kind))
		error = copy_build(from, copy.build, to, &copy.build);
	if (!error && fp_frame_kind_has_name(copy.kind))
		error = copy_string(from, copy.name, to, &copy.name);
	return error ? error : fp_profile_frame(to, &copy, ret_id);
}

static int copy_stack(const struct fp_profile *from, uint32_t stack, struct fp_profile *to,
		      uint32_t *ret_id)
{
	const struct fp_stack *whole = from->stacks + stack;
	FP_AUTOFREE uint32_t *frames = calloc((size_t)whole->count + 1, sizeof(*frames));
	int error = frames ? 0 : -ENOMEM;

	for (uint32_t i = 0; !error && i < whole->count; i++)
		error = copy_frame(from, from->stack_frames[whole->first + i], to, frames + i);
	return error ? error : fp_profile_stack(to, frames, whole->count, ret_id);
}

static int copy_labels(const struct fp_profile *from, uint32_t set, struct fp_profile *to,
		       uint32_t *ret_id)
{
	const struct fp_labels *whole = from->labels + set;
	FP_AUTOFREE struct fp_label *labels = calloc((size_t)whole->count + 1, sizeof(*labels));
	int error = labels ? 0 : -ENOMEM;

	for (uint32_t i = 0; !error && i < whole->count; i++) {
		const struct fp_label *label = from->label_pool + whole->first + i;

		error = copy_string(from, label->name, to, &labels[i].name);
		if (!error)
			error = copy_string(from, label->value, to, &labels[i].value);
	}
	return error ? error : fp_profile_labels(to, labels, whole->count, ret_id);
}

static int copy_sample(const struct fp_profile *from, uint32_t row, struct fp_profile *to)
{
	struct fp_sample copy = from->samples[row];
	int error = copy_labels(from, copy.labels, to, &copy.labels);

	if (!error)
		error = copy_stack(from, copy.stack, to, &copy.stack);
	return error ? error : fp_profile_sample(to, &copy);
}

static int copy_identity(const struct fp_profile *from, struct fp_profile *to)
{
	int error;

	memcpy(to->host_id, from->host_id, sizeof(to->host_id));
	memcpy(to->boot_id, from->boot_id, sizeof(to->boot_id));
	to->sequence = from->sequence;
	to->start_boottime_ns = from->start_boottime_ns;
	to->end_boottime_ns = from->end_boottime_ns;
	to->start_realtime_ns = from->start_realtime_ns;
	to->end_realtime_ns = from->end_realtime_ns;
	to->period_ns = from->period_ns;
	error = copy_string(from, from->hostname, to, &to->hostname);
	if (!error)
		error = copy_string(from, from->kernel_release, to, &to->kernel_release);
	if (!error)
		error = copy_string(from, from->machine, to, &to->machine);
	if (!error)
		error = copy_string(from, from->agent_version, to, &to->agent_version);
	return error;
}

static int copy_stop(const struct fp_profile *from, const struct fp_build_stop *stop,
		     struct fp_profile *to, enum fp_profile_type type)
{
	uint32_t build = 0, reason = 0;
	int error = copy_build(from, stop->build, to, &build);

	if (!error)
		error = copy_string(from, stop->reason, to, &reason);
	return error ? error : fp_quality_stop(to, type, build, reason, stop->count);
}

static int copy_quality(const struct fp_profile *from, enum fp_profile_type type,
			struct fp_profile *to)
{
	const struct fp_quality *whole = from->quality + type;
	struct fp_quality *copy = to->quality + type;
	int error = copy_string(from, whole->hook, to, &copy->hook);

	copy->present = true;
	memcpy(copy->counters, whole->counters, sizeof(copy->counters));
	for (uint32_t i = 0; !error && i < whole->named_count; i++)
		error = fp_quality_set_named(to, type, fp_profile_str(from, whole->named[i].name),
					     whole->named[i].value);
	for (uint32_t i = 0; !error && i < whole->builds_count; i++) {
		struct fp_build_quality *row;
		uint32_t build = 0;

		error = copy_build(from, whole->builds[i].build, to, &build);
		if (error)
			return error;
		row = fp_quality_build(to, type, build);
		if (!row)
			return -ENOMEM;
		row->stacks = whole->builds[i].stacks;
		row->stopped = whole->builds[i].stopped;
	}
	for (uint32_t i = 0; !error && i < whole->stops_count; i++)
		error = copy_stop(from, &whole->stops[i], to, type);
	return error;
}

int fp_profile_slice(const struct fp_profile *profile, uint32_t first, uint32_t count,
		     struct fp_profile **ret_part)
{
	FP_AUTOPROFILE struct fp_profile *part = NULL;
	int error = fp_profile_new(&part);

	if (!error)
		error = copy_identity(profile, part);
	for (int type = 1; !error && !first && type < FP_PROFILE_TYPES; type++)
		if (profile->quality[type].present)
			error = copy_quality(profile, type, part);
	for (uint32_t i = 0; !error && i < count; i++)
		error = copy_sample(profile, first + i, part);
	if (!error)
		*ret_part = fp_take_ptr(part);
	return error;
}

uint64_t fp_profile_count(const struct fp_profile *profile)
{
	uint64_t count = 0;

	for (uint32_t i = 0; i < profile->samples_count; i++)
		count += profile->samples[i].count;
	return count;
}
