// SPDX-License-Identifier: Apache-2.0
#include "unwinddemand.h"

#include "common/clock.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#define HALF_LIFE_NS (60 * FP_NS_PER_S)
#define COLD_NS	     (60 * FP_NS_PER_S)	 // unseen for so long: goes for anybody
#define STAY_NS	     (60 * FP_NS_PER_S)	 // after it was loaded
#define HOLD_NS	     (300 * FP_NS_PER_S) // after it was evicted
#define RATIO	     4.0
#define RATIO_HELD   16.0
#define FULL_NS	     (60 * FP_NS_PER_S)	  // until it is tried again whether there is room
#define GONE_NS	     (250 * FP_NS_PER_MS) // the first time; doubled each time
#define SLOW_NS	     (30 * FP_NS_PER_S)	  // likewise
#define GONE_MAX_NS  (600 * FP_NS_PER_S)
#define LASTING_NS   (3600 * FP_NS_PER_S) // what cannot change as long as the file does not

struct fp_unwind_demand {
	struct fp_hashmap index; // struct fp_unwind_key → uint32_t number
	struct fp_unwind_build *builds;
	uint32_t count, capacity;
	uint64_t cooled_ns, name_bytes;
	struct fp_unwind_demand_stats stats;
};

int fp_unwind_demand_new(struct fp_unwind_demand **ret)
{
	struct fp_unwind_demand *demand = calloc(1, sizeof(*demand));

	if (!demand)
		return -ENOMEM;
	demand->index = FP_HASHMAP_INIT(struct fp_unwind_key, uint32_t);
	*ret = demand;
	return 0;
}

static void forget_file(struct fp_unwind_demand *demand, struct fp_unwind_build *build)
{
	if (build->file.name)
		demand->name_bytes -= strlen(build->file.name) + 1;
	free((char *)build->file.name);
	build->file = (struct fp_names_file){ 0 };
}

void fp_unwind_demand_free(struct fp_unwind_demand *demand)
{
	if (!demand)
		return;
	for (uint32_t i = 0; i < demand->count; i++) {
		forget_file(demand, &demand->builds[i]);
		free(demand->builds[i].place.rules);
	}
	free(demand->builds);
	fp_hashmap_free(&demand->index);
	free(demand);
}

// Of those that nobody names and that have no table, the one seen longest ago.
static uint32_t find_unused(const struct fp_unwind_demand *demand)
{
	uint32_t found = FP_UNWIND_NONE;

	for (uint32_t i = 0; i < demand->count; i++) {
		const struct fp_unwind_build *build = &demand->builds[i];

		if (!build->used)
			return i;
		if (build->refs == 0 && build->state == FP_UNWIND_WAITING &&
		    (found == FP_UNWIND_NONE || build->seen_ns < demand->builds[found].seen_ns))
			found = i;
	}
	return found;
}

static int make_slot(struct fp_unwind_demand *demand, uint32_t *ret_build)
{
	uint32_t slot;

	if (demand->count == FP_UNWIND_BUILDS_MAX) {
		slot = find_unused(demand);
		if (slot == FP_UNWIND_NONE)
			return -ENOSPC;
		if (demand->builds[slot].used)
			fp_hashmap_remove(&demand->index, &demand->builds[slot].key);
		forget_file(demand, &demand->builds[slot]);
		*ret_build = slot;
		return 0;
	}
	if (demand->count == demand->capacity) {
		uint32_t capacity = demand->capacity ? 2 * demand->capacity : 64;
		void *grown = reallocarray(demand->builds, capacity, sizeof(*demand->builds));

		if (!grown)
			return -ENOMEM;
		demand->builds = grown;
		demand->capacity = capacity;
	}
	*ret_build = demand->count++;
	demand->builds[*ret_build] = (struct fp_unwind_build){ 0 };
	return 0;
}

int fp_unwind_demand_take(struct fp_unwind_demand *demand, const struct fp_unwind_key *key,
			  uint32_t *ret_build)
{
	uint32_t *known = fp_hashmap_get(&demand->index, key), slot;
	int r;

	if (known) {
		demand->builds[*known].refs++;
		*ret_build = *known;
		return 0;
	}
	r = make_slot(demand, &slot);
	if (r < 0)
		return r;
	known = fp_hashmap_put(&demand->index, key, NULL);
	demand->builds[slot] = (struct fp_unwind_build){ .key = *key,
							 .used = known != NULL,
							 .refs = known != NULL,
							 .lack = FP_STOP_NOT_LOADED };
	if (!known)
		return -ENOMEM;
	*known = slot;
	*ret_build = slot;
	return 0;
}

uint32_t fp_unwind_demand_count(const struct fp_unwind_demand *demand)
{
	return demand->count;
}

struct fp_unwind_build *fp_unwind_demand_at(struct fp_unwind_demand *demand, uint32_t number)
{
	return &demand->builds[number];
}

void fp_unwind_demand_ref(struct fp_unwind_demand *demand, uint32_t number)
{
	demand->builds[number].refs++;
}

void fp_unwind_demand_give(struct fp_unwind_demand *demand, uint32_t number)
{
	demand->builds[number].refs--;
}

int fp_unwind_demand_place(struct fp_unwind_demand *demand, uint32_t number,
			   const struct fp_names_file *file)
{
	struct fp_unwind_build *build = &demand->builds[number];
	char *name = (char *)build->file.name;

	if (!name || strcmp(name, file->name) != 0) {
		name = strdup(file->name);
		if (!name)
			return -ENOMEM;
		forget_file(demand, build);
		demand->name_bytes += strlen(name) + 1;
	}
	build->file = *file;
	build->file.name = name;
	return 0;
}

void fp_unwind_demand_note(struct fp_unwind_demand *demand, uint32_t number, uint64_t stack,
			   uint64_t now_ns)
{
	struct fp_unwind_build *build = &demand->builds[number];

	if (build->seen_stack == stack)
		return;
	build->seen_stack = stack;
	build->heat += 1;
	build->seen_ns = now_ns;
}

void fp_unwind_demand_stopped(struct fp_unwind_demand *demand, uint32_t number)
{
	demand->builds[number].stops += 1;
}

void fp_unwind_demand_cool(struct fp_unwind_demand *demand, uint64_t now_ns)
{
	double left;

	if (now_ns <= demand->cooled_ns)
		return;
	left = exp2(-(double)(now_ns - demand->cooled_ns) / (double)HALF_LIFE_NS);
	if (demand->cooled_ns == 0)
		left = 1;
	demand->cooled_ns = now_ns;
	for (uint32_t i = 0; i < demand->count; i++) {
		demand->builds[i].heat *= left;
		demand->builds[i].stops *= left;
	}
}

// Whether the first is to be asked for before the second.
static bool is_wanted_more(const struct fp_unwind_build *one, const struct fp_unwind_build *other)
{
	if (one->preload != other->preload)
		return one->preload;
	if (one->stops != other->stops)
		return one->stops > other->stops;
	return one->heat > other->heat;
}

static bool is_wanted(const struct fp_unwind_build *build, uint64_t now_ns)
{
	return build->used && build->state == FP_UNWIND_WAITING && build->retry_ns <= now_ns &&
	       (build->heat > 0 || build->preload) && build->file.name;
}

uint32_t fp_unwind_demand_next(const struct fp_unwind_demand *demand, uint64_t free_blocks,
			       uint64_t now_ns)
{
	uint32_t found = FP_UNWIND_NONE;

	for (uint32_t i = 0; i < demand->count; i++) {
		const struct fp_unwind_build *build = &demand->builds[i];

		if (is_wanted(build, now_ns) && build->blocks <= free_blocks && free_blocks &&
		    (found == FP_UNWIND_NONE || is_wanted_more(build, &demand->builds[found])))
			found = i;
	}
	return found;
}

void fp_unwind_demand_asked(struct fp_unwind_demand *demand, uint32_t number)
{
	demand->builds[number].state = FP_UNWIND_ASKED;
}

void fp_unwind_demand_loaded(struct fp_unwind_demand *demand, uint32_t number,
			     const struct fp_unwind_place *place, uint64_t now_ns)
{
	struct fp_unwind_build *build = &demand->builds[number];

	build->state = FP_UNWIND_LOADED;
	build->place = *place;
	build->blocks = place->blocks;
	build->loaded_ns = now_ns;
	build->failures = 0;
	build->preload = false;
	if (build->seen_ns == 0) // loaded ahead: it has its chance
		build->seen_ns = now_ns;
}

static enum fp_stop lack_of(int error)
{
	switch (error) {
	case -ENOSPC:
		return FP_STOP_NO_ROOM;
	case -ENODATA:
		return FP_STOP_NO_ENTRIES;
	case -EBADMSG:
		return FP_STOP_MALFORMED;
	case -EFBIG:
		return FP_STOP_TOO_LARGE;
	case -ENOTSUP:
		return FP_STOP_MACHINE;
	}
	return FP_STOP_NO_FILE;
}

static uint64_t retry_after_ns(const struct fp_unwind_build *build, int error)
{
	uint64_t delay_ns = error == -ETIMEDOUT || error == -EOWNERDEAD ? SLOW_NS : GONE_NS;

	if (build->lack == FP_STOP_NO_ROOM)
		return 0; // until the next look at who could make room
	if (build->lack != FP_STOP_NO_FILE)
		return LASTING_NS;
	for (uint32_t i = 1; i < build->failures && delay_ns < GONE_MAX_NS; i++)
		delay_ns *= 2;
	return delay_ns;
}

// A file that could not be had is looked for where it is mapped next.
void fp_unwind_demand_failed(struct fp_unwind_demand *demand, uint32_t number, int error,
			     uint32_t blocks, uint64_t now_ns)
{
	struct fp_unwind_build *build = &demand->builds[number];

	build->state = FP_UNWIND_WAITING;
	build->lack = lack_of(error);
	build->failures++;
	build->retry_ns = now_ns + retry_after_ns(build, error);
	if (build->lack == FP_STOP_NO_ROOM) {
		build->blocks = blocks;
		demand->stats.no_room++;
	} else {
		forget_file(demand, build);
	}
}

static uint32_t find_who_needs_room(const struct fp_unwind_demand *demand, uint64_t free_blocks,
				    uint64_t now_ns)
{
	uint32_t found = FP_UNWIND_NONE;

	for (uint32_t i = 0; i < demand->count; i++) {
		const struct fp_unwind_build *build = &demand->builds[i];

		if (is_wanted(build, now_ns) && (build->blocks > free_blocks || !free_blocks) &&
		    (found == FP_UNWIND_NONE || is_wanted_more(build, &demand->builds[found])))
			found = i;
	}
	return found;
}

static bool is_cold(const struct fp_unwind_build *build, uint64_t now_ns)
{
	return build->seen_ns + COLD_NS <= now_ns;
}

static bool may_go_for(const struct fp_unwind_build *build, const struct fp_unwind_build *who,
		       uint64_t now_ns)
{
	double ratio = who->held_ns > now_ns ? RATIO_HELD : RATIO;

	return is_cold(build, now_ns) ||
	       (build->loaded_ns + STAY_NS <= now_ns && build->heat * ratio <= who->heat);
}

struct victim {
	uint64_t seen_ns;
	double heat;
	uint32_t build, blocks;
	bool cold;
};

// The cold by when they were seen, then the others by their heat.
static int first_to_go(const void *a, const void *b)
{
	const struct victim *x = a, *y = b;

	if (x->cold != y->cold)
		return x->cold ? -1 : 1;
	if (x->cold)
		return x->seen_ns < y->seen_ns ? -1 : x->seen_ns > y->seen_ns;
	return x->heat < y->heat ? -1 : x->heat > y->heat;
}

// who: for whose sake; NULL: any may have to go.
static uint32_t list_victims(const struct fp_unwind_demand *demand,
			     const struct fp_unwind_build *who, uint64_t now_ns,
			     struct victim *victims)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < demand->count; i++) {
		const struct fp_unwind_build *build = &demand->builds[i];

		if (build->used && build->state == FP_UNWIND_LOADED &&
		    (!who || may_go_for(build, who, now_ns)))
			victims[count++] = (struct victim){ .seen_ns = build->seen_ns,
							    .heat = build->heat,
							    .build = i,
							    .blocks = build->place.blocks,
							    .cold = is_cold(build, now_ns) };
	}
	qsort(victims, count, sizeof(*victims), first_to_go);
	return count;
}

// As many of the list as free what is needed; 0 when they are too few.
static uint32_t choose(const struct victim *list, uint32_t count, uint64_t needed,
		       uint32_t victims[FP_UNWIND_VICTIMS_MAX])
{
	uint64_t freed = 0;

	for (uint32_t i = 0; i < count && i < FP_UNWIND_VICTIMS_MAX; i++) {
		victims[i] = list[i].build;
		freed += list[i].blocks;
		if (freed >= needed)
			return i + 1;
	}
	return 0;
}

uint32_t fp_unwind_demand_victims(struct fp_unwind_demand *demand, uint64_t free_blocks,
				  uint64_t excess_blocks, uint64_t now_ns,
				  uint32_t victims[FP_UNWIND_VICTIMS_MAX])
{
	FP_AUTOFREE struct victim *list = calloc((size_t)demand->count + 1, sizeof(*list));
	struct fp_unwind_build *who = NULL;
	uint32_t number, count;

	if (!list)
		return 0;
	if (excess_blocks) {
		uint32_t chosen;

		count = list_victims(demand, NULL, now_ns, list);
		chosen = choose(list, count, excess_blocks, victims);
		if (chosen)
			return chosen;
		return count < FP_UNWIND_VICTIMS_MAX ? count : FP_UNWIND_VICTIMS_MAX; // to go on
	}
	number = find_who_needs_room(demand, free_blocks, now_ns);
	if (number == FP_UNWIND_NONE)
		return 0;
	who = &demand->builds[number];
	count = list_victims(demand, who, now_ns, list);
	count =
	    choose(list, count, who->blocks > free_blocks ? who->blocks - free_blocks : 1, victims);
	if (count == 0) {
		who->retry_ns = now_ns + FULL_NS;
		who->lack = FP_STOP_NO_ROOM;
	}
	return count;
}

void fp_unwind_demand_evicted(struct fp_unwind_demand *demand, uint32_t number, uint64_t now_ns,
			      struct fp_unwind_place *ret_place)
{
	struct fp_unwind_build *build = &demand->builds[number];

	*ret_place = build->place;
	build->place = (struct fp_unwind_place){ 0 };
	build->state = FP_UNWIND_WAITING;
	build->lack = FP_STOP_NO_ROOM;
	build->held_ns = now_ns + HOLD_NS;
	// At once, what is seen again is only in the way of who needed the room.
	build->retry_ns = now_ns + STAY_NS;
	demand->stats.evictions++;
}

void fp_unwind_demand_stats(const struct fp_unwind_demand *demand,
			    struct fp_unwind_demand_stats *ret)
{
	*ret = demand->stats;
	for (uint32_t i = 0; i < demand->count; i++) {
		const struct fp_unwind_build *build = &demand->builds[i];

		ret->builds += build->used;
		ret->loaded += build->used && build->state == FP_UNWIND_LOADED;
		ret->waiting += build->used && build->state != FP_UNWIND_LOADED &&
				(build->heat > 0 || build->preload) && build->retry_ns == 0;
	}
	ret->book_bytes = sizeof(*demand) + demand->capacity * sizeof(*demand->builds) +
			  fp_hashmap_bytes(&demand->index) + demand->name_bytes;
}
