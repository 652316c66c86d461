// SPDX-License-Identifier: Apache-2.0
//
// JIT names: which processes are watched for a perf map, which maps the role holds, and the
// names of one epoch's addresses.
#include "names_jit.h"

#include "common/clock.h"

#include <errno.h>
#include <string.h>

// Two descriptions of one instance, from an event and from a stack record, differ by less.
#define SLACK_NS     (10 * FP_NS_PER_MS)
#define ASK_AGAIN_NS (200 * FP_NS_PER_MS) // a watch that is wanted is looked for this often

static uint64_t distance(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

// What began when the watched one ended is not it, however near.
static bool is_of(const struct fp_watch *watch, const struct fp_names_process *process)
{
	if (watch->ended && fp_watch_began_ns(process) >= watch->ended_ns)
		return false;
	return distance(watch->process.start_ns, process->start_ns) < SLACK_NS &&
	       distance(watch->process.exec_ns, process->exec_ns) < SLACK_NS;
}

static struct fp_watch *find(const struct fp_names *names, const struct fp_names_process *process)
{
	struct fp_watch *const *first = fp_hashmap_get(&names->watches, &process->tgid);
	struct fp_watch *nearest = NULL;

	for (struct fp_watch *watch = first ? *first : NULL; watch; watch = watch->next_of_tgid)
		if (is_of(watch, process) &&
		    (!nearest || distance(watch->process.exec_ns, process->exec_ns) <
				     distance(nearest->process.exec_ns, process->exec_ns)))
			nearest = watch;
	return nearest;
}

void fp_watch_satisfy(struct fp_names *names, struct fp_watch *watch)
{
	if (watch->addresses_count)
		TAILQ_REMOVE(&names->needy, watch, needing);
	watch->addresses_count = 0;
}

static void unchain(struct fp_names *names, struct fp_watch *watch)
{
	struct fp_watch **place = fp_hashmap_get(&names->watches, &watch->process.tgid);

	while (*place != watch)
		place = &(*place)->next_of_tgid;
	*place = watch->next_of_tgid;
	place = fp_hashmap_get(&names->watches, &watch->process.tgid);
	if (!*place)
		fp_hashmap_remove(&names->watches, &watch->process.tgid);
}

static void forget(struct fp_names *names, struct fp_watch *watch)
{
	fp_watch_satisfy(names, watch);
	fp_watch_close_map(names, watch);
	unchain(names, watch);
	TAILQ_REMOVE(&names->watch_list, watch, by_use);
	names->watches_count--;
	free(watch->addresses);
	free(watch);
}

static void make_room(struct fp_names *names)
{
	struct fp_watch *watch = TAILQ_LAST(&names->watch_list, fp_watch_list);

	while (watch && names->watches_count >= FP_NAMES_WATCHES_MAX) {
		struct fp_watch *before = TAILQ_PREV(watch, fp_watch_list, by_use);

		if (watch != names->operation.watch)
			forget(names, watch);
		watch = before;
	}
}

static struct fp_watch *add(struct fp_names *names, const struct fp_names_process *process)
{
	struct fp_watch *watch, **first;

	make_room(names);
	watch = calloc(1, sizeof(*watch));
	first = watch ? fp_hashmap_put(&names->watches, &process->tgid, NULL) : NULL;
	if (!first) {
		free(watch);
		return NULL;
	}
	watch->process = *process;
	watch->id = ++names->watch_ids;
	watch->next_of_tgid = *first;
	*first = watch;
	TAILQ_INSERT_HEAD(&names->watch_list, watch, by_use);
	names->watches_count++;
	names->scan_ns = 0;
	return watch;
}

static struct fp_watch *find_or_add(struct fp_names *names, const struct fp_names_process *process)
{
	struct fp_watch *watch = find(names, process);

	if (!watch)
		return add(names, process);
	TAILQ_REMOVE(&names->watch_list, watch, by_use);
	TAILQ_INSERT_HEAD(&names->watch_list, watch, by_use);
	return watch;
}

int fp_names_watch_jit(struct fp_names *names, const struct fp_names_process *process)
{
	if (!names->options.jit)
		return 0;
	return find_or_add(names, process) ? 0 : -ENOMEM;
}

static int push(struct fp_names *names, struct fp_watch *watch, uint64_t address)
{
	if (watch->addresses_count == watch->addresses_capacity) {
		uint32_t capacity = watch->addresses_capacity ? 2 * watch->addresses_capacity : 16;
		uint64_t *more = reallocarray(watch->addresses, capacity, sizeof(*more));

		if (!more)
			return -ENOMEM;
		watch->addresses = more;
		watch->addresses_capacity = capacity;
	}
	if (watch->addresses_count == 0)
		TAILQ_INSERT_TAIL(&names->needy, watch, needing);
	watch->addresses[watch->addresses_count++] = address;
	return 0;
}

int fp_names_want_jit(struct fp_names *names, const struct fp_names_process *process,
		      uint64_t address)
{
	struct fp_watch *watch = names->options.jit ? find_or_add(names, process) : NULL;
	struct fp_jit_key key = { .address = address };
	uint64_t now_ns = fp_monotonic_ns();
	bool inserted;

	if (!watch)
		return names->options.jit ? -ENOMEM : 0;
	key.watch = watch->id;
	if (watch->state == FP_WATCH_CLOSED || fp_hashmap_get(&names->jit_names, &key))
		return 0;
	if (names->jit_names.count >= FP_NAMES_ADDRESSES_MAX) {
		names->stats.queue_full++;
		return -ENOSPC;
	}
	if (!fp_hashmap_put(&names->jit_names, &key, &inserted))
		return -ENOMEM;
	names->stats.jit_asked++;
	if (watch->state == FP_WATCH_WAITING && now_ns - watch->asked_ns > ASK_AGAIN_NS &&
	    !fp_blame_stands(&watch->blame, now_ns))
		watch->due_ns = now_ns;
	return push(names, watch, address);
}

const char *fp_names_jit(const struct fp_names *names, const struct fp_names_process *process,
			 uint64_t address, size_t *ret_size)
{
	const struct fp_watch *watch = find(names, process);
	struct fp_jit_key key = { .address = address };
	const struct fp_jit_name *name;

	if (!watch)
		return NULL;
	key.watch = watch->id;
	name = fp_hashmap_get(&names->jit_names, &key);
	if (!name || name->size == 0)
		return NULL;
	*ret_size = name->size;
	return (const char *)names->jit_text.data + name->at;
}

void fp_watch_forget_names(struct fp_names *names)
{
	struct fp_watch *watch;

	while ((watch = TAILQ_FIRST(&names->needy)))
		fp_watch_satisfy(names, watch);
	fp_hashmap_clear(&names->jit_names);
	fp_buf_clear(&names->jit_text);
	if (names->operation.kind == FP_NAMES_MAP_LOOKUP)
		names->operation.superseded = true;
}

void fp_names_jit_free(struct fp_names *names)
{
	struct fp_watch *watch;

	while ((watch = TAILQ_FIRST(&names->watch_list)))
		forget(names, watch);
	fp_hashmap_free(&names->watches);
	fp_hashmap_free(&names->jit_names);
	fp_buf_free(&names->jit_text);
}
