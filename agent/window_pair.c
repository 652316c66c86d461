// SPDX-License-Identifier: Apache-2.0
//
// Who woke whom: two stacks become one.
#include "window_private.h"

#include <stdio.h>
#include <string.h>

const struct fp_key *fp_pair_key(const struct fp_stack_record *pair, enum fp_pair_part part)
{
	return (const struct fp_key *)&pair->frames[part == FP_PAIR_SLEEPER ? 0 : 2];
}

int fp_window_pair_resolve(struct fp_window *window, struct fp_resolver *resolver,
			   const struct fp_stack_record *record, struct fp_window_stack *ret)
{
	struct fp_resolved *resolved;
	int error;

	*ret = (struct fp_window_stack){};
	if (!record)
		return 0;
	error = fp_window_resolve(window, resolver, record, &resolved);
	if (error)
		return error;
	ret->known = true;
	ret->resolved = *resolved;
	memcpy(ret->comm, record->comm, FP_COMM_LEN);
	return 0;
}

static int error_frame(struct fp_profile *profile, const char *name, uint32_t *ret_frame)
{
	struct fp_frame frame = { .kind = FP_FRAME_ERROR, .build = FP_NO_BUILD };
	int error = fp_profile_cstring(profile, name, &frame.name);

	return error ? error : fp_profile_frame(profile, &frame, ret_frame);
}

// The waker's frames, its outermost first: the joined stack is leaf first, and that is its leaf.
static int put_waker(struct fp_profile *profile, const struct fp_window_stack *waker,
		     uint32_t *frames, uint32_t *ret_count)
{
	const struct fp_stack *stack;

	if (!waker->known)
		return error_frame(profile, "[stack lost]", &frames[(*ret_count)++]);
	if (waker->resolved.unwanted)
		return 0; // a rule does not want its stack; that it woke stays
	stack = &profile->stacks[waker->resolved.stack];
	for (uint32_t i = 0; i < stack->count; i++)
		frames[(*ret_count)++] = profile->stack_frames[stack->first + stack->count - 1 - i];
	return 0;
}

static int put_marker(struct fp_profile *profile, const struct fp_window_stack *waker,
		      uint32_t *frames, uint32_t *ret_count)
{
	char name[64]; // the first two are longer than any thread's name makes it

	if (!waker->known)
		snprintf(name, sizeof(name), "[woken by an unknown thread]");
	else if (waker->resolved.interrupt)
		snprintf(name, sizeof(name), "[woken by an interrupt handler]");
	else
		snprintf(name, sizeof(name), "[woken by %s]", waker->comm);
	return error_frame(profile, name, &frames[(*ret_count)++]);
}

static int join(struct fp_profile *profile, const struct fp_window_pair *pair, uint32_t *ret_stack)
{
	const struct fp_stack *sleeper;
	// both sides of both, a note in each where a walk ended, and the marker
	uint32_t frames[2 * (FP_MAX_FRAMES + FP_MAX_USER_FRAMES + 2) + 1], count = 0;
	int error = put_waker(profile, &pair->waker, frames, &count);

	if (!error)
		error = put_marker(profile, &pair->waker, frames, &count);
	if (error)
		return error;
	sleeper = &profile->stacks[pair->sleeper.resolved.stack]; // tables may have moved
	memcpy(&frames[count], &profile->stack_frames[sleeper->first],
	       sleeper->count * sizeof(frames[0]));
	return fp_profile_stack(profile, frames, count + sleeper->count, ret_stack);
}

int fp_window_count_pair(struct fp_window *window, const struct fp_count *count,
			 const struct fp_window_pair *pair)
{
	struct fp_profile *profile = window->profile;
	struct fp_sample sample = { .type = FP_PROFILE_WAKER,
				    .count = count->count,
				    .value = count->value };
	int error;

	if (pair->sleeper.known && pair->sleeper.resolved.unwanted) {
		window->relabel_dropped[FP_SOURCE_WAKER] += count->count;
		return 0;
	}
	profile->quality[FP_PROFILE_WAKER].counters[FP_QUALITY_SAMPLES] += count->count;
	if (!pair->sleeper.known || !pair->waker.known)
		window->stacks_lost[FP_SOURCE_WAKER] += count->count;
	if (!pair->sleeper.known) {
		error = fp_window_lost_stack(profile, &sample);
		return error ? error : fp_profile_sample(profile, &sample);
	}
	error = join(profile, pair, &sample.stack);
	sample.labels = pair->sleeper.resolved.labels;
	if (!error)
		error = fp_window_count_quality(window, FP_PROFILE_WAKER, &pair->sleeper.resolved,
						count->count);
	return error ? error : fp_profile_sample(profile, &sample);
}
