// SPDX-License-Identifier: Apache-2.0
#include "symbolwanted.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#define NOBODY UINT32_MAX

// The kind is no part of it: tables are stored by the id alone, and the header names no kind.
struct wanted_key {
	uint8_t len;
	uint8_t id[FP_BUILD_ID_MAX];
};

struct wanted_entry {
	struct wanted_key key;
	bool has_names;	    // a query said so; holds until one says otherwise
	bool was_looked_at; // at looked_ns, and then either found or asked for
	uint64_t looked_ns;
	uint32_t newer, older; // in the order of use
};

struct fp_symbol_wanted {
	pthread_mutex_t lock;
	struct fp_hashmap index; // struct wanted_key → entry number
	struct wanted_entry *entries;
	uint32_t count, capacity;
	uint32_t newest, oldest;
};

int fp_symbol_wanted_new(uint32_t builds, struct fp_symbol_wanted **ret_wanted)
{
	struct fp_symbol_wanted *wanted = calloc(1, sizeof(*wanted));

	if (!wanted)
		return -ENOMEM;
	wanted->entries = calloc(builds, sizeof(*wanted->entries));
	if (!wanted->entries) {
		free(wanted);
		return -ENOMEM;
	}
	pthread_mutex_init(&wanted->lock, NULL);
	wanted->index = FP_HASHMAP_INIT(struct wanted_key, uint32_t);
	wanted->capacity = builds;
	wanted->newest = wanted->oldest = NOBODY;
	*ret_wanted = wanted;
	return 0;
}

void fp_symbol_wanted_free(struct fp_symbol_wanted *wanted)
{
	if (!wanted)
		return;
	fp_hashmap_free(&wanted->index);
	pthread_mutex_destroy(&wanted->lock);
	free(wanted->entries);
	free(wanted);
}

static void unlink_entry(struct fp_symbol_wanted *wanted, uint32_t number)
{
	const struct wanted_entry *entry = &wanted->entries[number];

	*(entry->newer == NOBODY ? &wanted->newest : &wanted->entries[entry->newer].older) =
	    entry->older;
	*(entry->older == NOBODY ? &wanted->oldest : &wanted->entries[entry->older].newer) =
	    entry->newer;
}

static void link_newest(struct fp_symbol_wanted *wanted, uint32_t number)
{
	struct wanted_entry *entry = &wanted->entries[number];

	entry->newer = NOBODY;
	entry->older = wanted->newest;
	*(wanted->newest == NOBODY ? &wanted->oldest : &wanted->entries[wanted->newest].newer) =
	    number;
	wanted->newest = number;
}

static uint32_t take_slot(struct fp_symbol_wanted *wanted)
{
	uint32_t number = wanted->oldest;

	if (wanted->count < wanted->capacity)
		return wanted->count++;
	unlink_entry(wanted, number);
	fp_hashmap_remove(&wanted->index, &wanted->entries[number].key);
	return number;
}

// The build's entry, made when it is new, as the one used last. NULL: -ENOMEM.
static struct wanted_entry *use_entry(struct fp_symbol_wanted *wanted, const struct fp_build *build)
{
	struct wanted_key key = { .len = build->id_len };
	uint32_t *slot, number;
	bool is_new;

	memcpy(key.id, build->id, build->id_len);
	slot = fp_hashmap_get(&wanted->index, &key);
	if (slot) {
		number = *slot;
		unlink_entry(wanted, number);
		link_newest(wanted, number);
		return &wanted->entries[number];
	}
	number = take_slot(wanted);
	wanted->entries[number] = (struct wanted_entry){ .key = key };
	link_newest(wanted, number);
	slot = fp_hashmap_put(&wanted->index, &key, &is_new);
	if (!slot)
		return NULL; // it stays linked under a key that is not found, and leaves in time
	*slot = number;
	return &wanted->entries[number];
}

void fp_symbol_wanted_note(struct fp_symbol_wanted *wanted, const struct fp_build *build,
			   bool has_names)
{
	struct wanted_entry *entry;

	if (build->id_len == 0)
		return;
	pthread_mutex_lock(&wanted->lock);
	entry = use_entry(wanted, build);
	if (entry)
		entry->has_names = has_names;
	pthread_mutex_unlock(&wanted->lock);
}

// Whether it is the caller's turn to look for the build; nobody else gets one for a while.
static bool claim(struct fp_symbol_wanted *wanted, const struct fp_build *build, uint64_t now_ns)
{
	struct wanted_entry *entry;
	bool mine;

	pthread_mutex_lock(&wanted->lock);
	entry = use_entry(wanted, build);
	mine = entry && !entry->has_names &&
	       (!entry->was_looked_at || now_ns - entry->looked_ns >= FP_SYMBOL_ASK_AGAIN_NS);
	if (mine) {
		entry->was_looked_at = true;
		entry->looked_ns = now_ns;
	}
	pthread_mutex_unlock(&wanted->lock);
	return mine;
}

struct heat {
	uint64_t samples;
	uint32_t build;
	uint32_t last_stack; // that was counted, plus one
};

static bool can_be_asked_for(const struct fp_build *build)
{
	return build->kind != FP_BUILD_NONE && build->id_len > 0;
}

static void heat_stack(const struct fp_profile *profile, uint32_t stack, uint64_t samples,
		       struct heat *heats)
{
	const uint32_t *frames = &profile->stack_frames[profile->stacks[stack].first];

	for (uint32_t i = 0; i < profile->stacks[stack].count; i++) {
		const struct fp_frame *frame = &profile->frames[frames[i]];

		if ((frame->kind != FP_FRAME_FILE && frame->kind != FP_FRAME_VDSO) ||
		    frame->build == FP_NO_BUILD || heats[frame->build].last_stack == stack + 1)
			continue;
		heats[frame->build].last_stack = stack + 1;
		heats[frame->build].samples += samples;
	}
}

static int compare_heats(const void *one, const void *other)
{
	const struct heat *a = one, *b = other;

	if (a->samples != b->samples)
		return a->samples < b->samples ? 1 : -1;
	return (a->build > b->build) - (a->build < b->build);
}

// One row per build, hottest first; those that no stack passes through have no samples.
static struct heat *rank_builds(const struct fp_profile *profile)
{
	FP_AUTOFREE uint64_t *samples = calloc(profile->stacks_count + 1, sizeof(*samples));
	struct heat *heats = calloc(profile->builds_count + 1, sizeof(*heats));

	if (!samples || !heats) {
		free(heats);
		return NULL;
	}
	for (uint32_t i = 0; i < profile->samples_count; i++)
		samples[profile->samples[i].stack] += profile->samples[i].count;
	for (uint32_t i = 0; i < profile->builds_count; i++)
		heats[i].build = i;
	for (uint32_t i = 0; i < profile->stacks_count; i++)
		if (samples[i])
			heat_stack(profile, i, samples[i], heats);
	qsort(heats, profile->builds_count, sizeof(*heats), compare_heats);
	return heats;
}

int fp_symbol_wanted_pick(struct fp_symbol_wanted *wanted, const struct fp_profile *profile,
			  const struct fp_symbol_look *look,
			  struct fp_build ret_builds[FP_SYMBOLS_WANTED_MAX])
{
	FP_AUTOFREE struct heat *heats = rank_builds(profile);
	int count = 0;

	if (!heats)
		return -ENOMEM;
	for (uint32_t i = 0; i < profile->builds_count && count < FP_SYMBOLS_WANTED_MAX; i++) {
		const struct fp_build *build = &profile->builds[heats[i].build];

		if (heats[i].samples == 0)
			break;
		if (can_be_asked_for(build) && claim(wanted, build, look->now_ns) &&
		    !look->has(look->context, build))
			ret_builds[count++] = *build;
	}
	return count;
}
