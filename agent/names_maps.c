// SPDX-License-Identifier: Apache-2.0
//
// The perf maps that the role holds: found, looked up in, found anew when a program has put
// another file in a map's place, and given up for others when there are too many.
#include "names_jit.h"

#include "common/clock.h"
#include "procfs.h"

#include <errno.h>
#include <string.h>

#define DELAY_FIRST_NS (20 * FP_NS_PER_MS)
#define DELAY_MAX_NS   (10 * FP_NS_PER_S)
// A map that is written on demand in a short life must not fall between two looks.
#define DELAY_YOUNG_NS FP_NS_PER_S
#define YOUNG_NS       (60 * FP_NS_PER_S)
#define RECHECK_NS     (4 * FP_NS_PER_S)
#define CLOCK_STEP_NS  (2 * FP_NS_PER_S) // that a file may seem older than it is

static void set_drop(struct fp_names *names, uint32_t handle, bool drop)
{
	if (names->drop[handle] == drop)
		return;
	names->drop[handle] = drop;
	names->drops += drop ? 1 : (uint32_t)-1;
}

void fp_watch_close_map(struct fp_names *names, struct fp_watch *watch)
{
	if (watch->state != FP_WATCH_OPEN)
		return;
	fp_watch_unseal(names, watch);
	names->handles[watch->handle] = NULL;
	set_drop(names, watch->handle, true);
	names->stats.maps_open--;
	names->stats.map_bytes -= watch->size;
	watch->size = 0;
	watch->state = FP_WATCH_CLOSED;
}

static void wait_until(struct fp_names *names, struct fp_watch *watch, uint64_t due_ns)
{
	watch->state = watch->ended ? FP_WATCH_CLOSED : FP_WATCH_WAITING;
	watch->due_ns = due_ns;
	if (due_ns < names->scan_ns)
		names->scan_ns = due_ns;
}

static void wait_longer(struct fp_names *names, struct fp_watch *watch, uint64_t now_ns)
{
	uint64_t began_ns = fp_watch_began_ns(&watch->process);
	uint64_t longest_ns = now_ns - began_ns < YOUNG_NS ? DELAY_YOUNG_NS : DELAY_MAX_NS;

	watch->delay_ns = watch->delay_ns ? 2 * watch->delay_ns : DELAY_FIRST_NS;
	if (watch->delay_ns > longest_ns)
		watch->delay_ns = longest_ns;
	wait_until(names, watch, now_ns + watch->delay_ns);
}

void fp_names_jit_lost(struct fp_names *names, uint64_t now_ns)
{
	struct fp_watch *watch;

	TAILQ_FOREACH(watch, &names->watch_list, by_use)
	{
		if (watch->state != FP_WATCH_OPEN)
			continue;
		fp_watch_close_map(names, watch);
		wait_until(names, watch, now_ns);
	}
	memset(names->drop, 0, sizeof(names->drop));
	names->drops = 0;
}

// One that is free, or that of the watch used longest ago, who loses it when the other's map
// has been opened.
static uint32_t choose_handle(const struct fp_names *names)
{
	const struct fp_watch *watch;

	for (uint32_t handle = 0; handle < FP_NAMES_MAPS_MAX; handle++)
		if (!names->handles[handle])
			return handle;
	TAILQ_FOREACH_REVERSE(watch, &names->watch_list, fp_watch_list, by_use)
	if (watch->state == FP_WATCH_OPEN)
		break;
	return watch->handle;
}

// Its map is opened again when a name is wanted of it.
static void take_handle(struct fp_names *names, uint32_t handle, const struct fp_watch *taker)
{
	struct fp_watch *loser = names->handles[handle];

	if (!loser || loser == taker)
		return;
	fp_watch_close_map(names, loser);
	wait_until(names, loser, UINT64_MAX);
}

// The moment before which the file cannot have been written by this program: clocks may have
// been set since, and the monotonic one stands still in suspend.
static uint64_t not_before_ns(const struct fp_names_process *process)
{
	uint64_t began_ns = fp_watch_began_ns(process);
	uint64_t monotonic_ns = fp_procfs_monotonic_ns(), realtime_ns = fp_realtime_ns();
	uint64_t age_ns = (monotonic_ns > began_ns ? monotonic_ns - began_ns : 0) +
			  (fp_boottime_ns() - fp_monotonic_ns()) + CLOCK_STEP_NS;

	return began_ns && age_ns < realtime_ns ? realtime_ns - age_ns : 0;
}

static bool begin_open(struct fp_names *names, struct fp_watch *watch, uint64_t now_ns)
{
	uint32_t handle = watch->state == FP_WATCH_OPEN ? watch->handle : choose_handle(names);
	struct fp_role_packet packet = { .kind = FP_ROLE_MAP_ADD,
					 .argument = handle,
					 .serial = fp_names_serial(names) };
	struct fp_names_open_request request = {
		.head = { .kind = FP_OPENER_PERF_MAP,
			  .tgid = watch->process.tgid,
			  .process_start_ns = watch->process.start_ns,
			  .not_before_ns = not_before_ns(&watch->process),
			  .max_bytes = names->options.perf_map_max_bytes },
		.name = "",
		.packet = &packet,
		.memory_fd = -1,
	};

	if (watch->state == FP_WATCH_OPEN) {
		request.head.known_device = watch->device;
		request.head.known_inode = watch->inode;
	}
	names->operation.kind = FP_NAMES_MAP_OPEN;
	names->operation.watch = watch;
	names->operation.handle = handle;
	watch->asked_ns = now_ns;
	return fp_names_ask_opener(names, &request) == 0;
}

static bool begin_lookup(struct fp_names *names, struct fp_watch *watch)
{
	struct fp_names_operation *operation = &names->operation;
	uint32_t count = watch->addresses_count < FP_ROLE_ADDRESSES_MAX ? watch->addresses_count
									: FP_ROLE_ADDRESSES_MAX;
	struct fp_role_packet packet = { .kind = FP_ROLE_MAP_LOOKUP,
					 .argument = watch->handle,
					 .size = (uint32_t)(count * sizeof(uint64_t)),
					 .serial = fp_names_serial(names) };

	operation->kind = FP_NAMES_MAP_LOOKUP;
	operation->watch = watch;
	operation->addresses_count = count;
	memcpy(operation->addresses, watch->addresses + watch->addresses_count - count,
	       packet.size);
	if (fp_names_ask_role(names, &packet, operation->addresses) < 0)
		return false;
	if (count == watch->addresses_count)
		fp_watch_satisfy(names, watch);
	else
		watch->addresses_count -= count;
	return true;
}

static bool begin_drop(struct fp_names *names)
{
	struct fp_role_packet packet = { .kind = FP_ROLE_MAP_DROP,
					 .serial = fp_names_serial(names) };
	uint32_t handle = 0;

	while (!names->drop[handle])
		handle++;
	packet.argument = handle;
	names->operation.kind = FP_NAMES_MAP_DROP;
	names->operation.handle = handle;
	return fp_names_ask_role(names, &packet, NULL) == 0;
}

// The first of those with addresses for whom something can be done. For the others there is
// no map now.
static bool begin_needy(struct fp_names *names, uint64_t now_ns)
{
	struct fp_watch *watch;

	while ((watch = TAILQ_FIRST(&names->needy))) {
		bool has_map = watch->state == FP_WATCH_OPEN;
		bool look = has_map ? !watch->ended && now_ns - watch->asked_ns >= RECHECK_NS
				    : watch->state == FP_WATCH_WAITING && watch->due_ns <= now_ns;

		if (look)
			return begin_open(names, watch, now_ns);
		if (has_map)
			return begin_lookup(names, watch);
		fp_watch_satisfy(names, watch);
	}
	return false;
}

static bool begin_due(struct fp_names *names, uint64_t now_ns)
{
	struct fp_watch *watch, *due = NULL;
	uint64_t next_ns = UINT64_MAX;

	if (now_ns < names->scan_ns)
		return false;
	TAILQ_FOREACH(watch, &names->watch_list, by_use)
	{
		if (watch->state != FP_WATCH_WAITING)
			continue;
		if (!due && watch->due_ns <= now_ns)
			due = watch;
		else if (watch->due_ns < next_ns)
			next_ns = watch->due_ns;
	}
	names->scan_ns = next_ns;
	return due && begin_open(names, due, now_ns);
}

// What has ended comes first: whoever follows it may be about to write its file anew.
static bool begin_any(struct fp_names *names, uint64_t now_ns)
{
	if (!TAILQ_EMPTY(&names->to_seal))
		return fp_watch_begin_seal(names);
	if (names->drops)
		return begin_drop(names);
	return begin_needy(names, now_ns) || begin_due(names, now_ns);
}

bool fp_names_jit_begin(struct fp_names *names, uint64_t now_ns)
{
	if (begin_any(names, now_ns))
		return true;
	names->operation = (struct fp_names_operation){ 0 };
	return false;
}

uint64_t fp_names_jit_due_ns(const struct fp_names *names)
{
	return names->scan_ns;
}

static void take_map(struct fp_names *names, struct fp_watch *watch)
{
	const struct fp_names_operation *operation = &names->operation;

	take_handle(names, operation->handle, watch);
	if (watch->state != FP_WATCH_OPEN)
		names->stats.maps_open++;
	else
		names->stats.map_bytes -= watch->size;
	set_drop(names, operation->handle, false);
	names->handles[operation->handle] = watch;
	watch->state = FP_WATCH_OPEN;
	watch->handle = operation->handle;
	watch->device = operation->answer.device;
	watch->inode = operation->answer.inode;
	watch->size = operation->answer.size;
	watch->delay_ns = 0;
	names->stats.map_bytes += watch->size;
	if (watch->ended)
		fp_watch_seal(names, watch);
}

static void refuse(struct fp_names *names, struct fp_watch *watch, uint64_t now_ns)
{
	if (!watch->counted && fp_names_is_denial(&names->operation.answer))
		names->stats.denied++;
	else if (!watch->counted)
		names->stats.maps_refused++;
	watch->counted = true;
	watch->delay_ns = DELAY_MAX_NS; // whoever is in the way may go
	fp_watch_close_map(names, watch);
	wait_longer(names, watch, now_ns);
}

void fp_watch_close_for_good(struct fp_names *names, struct fp_watch *watch)
{
	fp_watch_close_map(names, watch);
	watch->state = FP_WATCH_CLOSED;
	fp_watch_satisfy(names, watch);
}

// Somebody died or hung over it, or had no room for it.
static void blame_map(struct fp_names *names, struct fp_watch *watch, int error, uint64_t now_ns)
{
	fp_watch_close_map(names, watch);
	fp_watch_satisfy(names, watch);
	fp_blame_add(&watch->blame, error, now_ns);
	wait_until(names, watch, watch->blame.until_ns);
}

static void fail_open(struct fp_names *names, struct fp_watch *watch, int error, uint64_t now_ns)
{
	switch (error) {
	case -EALREADY:
		names->stats.map_bytes += names->operation.answer.size - watch->size;
		watch->size = names->operation.answer.size;
		break;
	case -ESRCH:
		fp_watch_end(names, watch, FP_WATCH_MISSED, fp_procfs_monotonic_ns());
		break;
	case -EACCES:
		refuse(names, watch, now_ns);
		break;
	case -ETIMEDOUT:
	case -EOWNERDEAD: // the file may have reached the role, in the place of another
		take_handle(names, names->operation.handle, watch);
		blame_map(names, watch, error, now_ns);
		set_drop(names, names->operation.handle, true);
		break;
	case -EPIPE:
		if (watch->state != FP_WATCH_OPEN)
			wait_until(names, watch, now_ns);
		break;
	default: // none there; an open one that was deleted goes on to be read
		if (watch->state != FP_WATCH_OPEN)
			wait_longer(names, watch, now_ns);
	}
}

static void end_open(struct fp_names *names, const struct fp_names_result *result)
{
	struct fp_watch *watch = names->operation.watch;

	if (result->error == 0) {
		take_map(names, watch);
	} else if (result->from_role) {
		take_handle(names, names->operation.handle, watch); // and perhaps its map
		set_drop(names, names->operation.handle, true);
		names->stats.maps_refused += !watch->counted;
		watch->counted = true;
		blame_map(names, watch, result->error, result->now_ns);
	} else {
		fail_open(names, watch, result->error, result->now_ns);
	}
}

// For each address uint16_t length and the bytes, and nothing behind them.
static bool check_names(const struct fp_names_result *result, uint32_t count)
{
	size_t at = 0;

	for (uint32_t i = 0; i < count; i++) {
		uint16_t size;

		if (result->size - at < sizeof(size))
			return false;
		memcpy(&size, result->payload + at, sizeof(size));
		at += sizeof(size);
		if (result->size - at < size)
			return false;
		at += size;
	}
	return at == result->size;
}

static void keep_name(struct fp_names *names, uint64_t address, const uint8_t *bytes, uint16_t size)
{
	const struct fp_jit_key key = { names->operation.watch->id, address };
	struct fp_jit_name *name = fp_hashmap_get(&names->jit_names, &key);
	size_t at = names->jit_text.len;

	if (!name || size == 0)
		return;
	if (size > FP_STRING_MAX)
		size = FP_STRING_MAX;
	if (at + size > FP_NAMES_TEXT_MAX) {
		names->stats.queue_full++;
		return;
	}
	if (fp_buf_append(&names->jit_text, bytes, size) < 0)
		return;
	name->at = at;
	name->size = size;
	names->stats.jit_named++;
}

static void keep_names(struct fp_names *names, const struct fp_names_result *result)
{
	const struct fp_names_operation *operation = &names->operation;
	const uint8_t *at = result->payload;

	for (uint32_t i = 0; i < operation->addresses_count; i++) {
		uint16_t size;

		memcpy(&size, at, sizeof(size));
		keep_name(names, operation->addresses[i], at + sizeof(size), size);
		at += sizeof(size) + size;
	}
}

static bool end_lookup(struct fp_names *names, const struct fp_names_result *result)
{
	const struct fp_names_operation *operation = &names->operation;

	if (result->error == 0) {
		if (!check_names(result, operation->addresses_count))
			return false;
		if (!operation->superseded)
			keep_names(names, result);
	} else if (!result->from_role) {
		blame_map(names, operation->watch, result->error, result->now_ns);
	} else if (result->error == -ENOENT) {
		fp_watch_close_map(names, operation->watch); // the role has no such map
		wait_longer(names, operation->watch, result->now_ns);
	} else if (result->error == -ESTALE && operation->watch->ended) {
		names->stats.maps_lost++;
		fp_watch_close_for_good(names, operation->watch);
	} // else it could not be read this time
	return true;
}

bool fp_names_jit_end(struct fp_names *names, const struct fp_names_result *result)
{
	switch (names->operation.kind) {
	case FP_NAMES_MAP_OPEN:
		end_open(names, result);
		return true;
	case FP_NAMES_MAP_LOOKUP:
		return end_lookup(names, result);
	case FP_NAMES_MAP_SEAL:
		fp_watch_end_seal(names, result);
		return true;
	default: // a drop: what cannot be dropped is gone too
		set_drop(names, names->operation.handle, false);
		return true;
	}
}
