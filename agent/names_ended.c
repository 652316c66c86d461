// SPDX-License-Identifier: Apache-2.0
//
// Perf maps of ended processes. Another program may write the same file a moment later: in a
// container that is started again both are pid 1 and have one /tmp. So the role is told of the
// end, and from then on does not take the file for the process's work. It holds the map until all
// stacks of the process have been resolved.
#include "names_jit.h"

#include "common/clock.h"
#include "procfs.h"

#include <errno.h>

// A file's time is that of the last tick before it was written to, at most this much earlier. What an
// exec starts may write within one; what comes after an exit, in another container, does not.
#define TICK_NS (10 * FP_NS_PER_MS)

void fp_watch_seal(struct fp_names *names, struct fp_watch *watch)
{
	if (watch->to_seal)
		return;
	TAILQ_INSERT_TAIL(&names->to_seal, watch, sealing);
	watch->to_seal = true;
}

void fp_watch_unseal(struct fp_names *names, struct fp_watch *watch)
{
	if (watch->to_seal)
		TAILQ_REMOVE(&names->to_seal, watch, sealing);
	watch->to_seal = false;
}

void fp_watch_end(struct fp_names *names, struct fp_watch *watch, enum fp_watch_end how,
		  uint64_t ended_ns)
{
	if (watch->ended)
		return;
	watch->ended = how;
	watch->ended_ns = ended_ns;
	if (watch->state == FP_WATCH_OPEN)
		fp_watch_seal(names, watch);
	else
		fp_watch_close_for_good(names, watch);
}

void fp_names_end_process(struct fp_names *names, uint32_t tgid, uint64_t time_ns, bool exec)
{
	struct fp_watch *const *first = fp_hashmap_get(&names->watches, &tgid);

	for (struct fp_watch *watch = first ? *first : NULL; watch; watch = watch->next_of_tgid)
		if (fp_watch_began_ns(&watch->process) < time_ns)
			fp_watch_end(names, watch, exec ? FP_WATCH_REPLACED : FP_WATCH_EXITED,
				     time_ns);
}

// In the time that files have, from now back: clocks may be set. 0: not known.
static uint64_t end_in_real_time(const struct fp_watch *watch)
{
	uint64_t age_ns = fp_procfs_monotonic_ns() - watch->ended_ns;

	if (watch->ended == FP_WATCH_REPLACED)
		age_ns += TICK_NS;
	return watch->ended == FP_WATCH_MISSED ? 0 : fp_realtime_ns() - age_ns;
}

bool fp_watch_begin_seal(struct fp_names *names)
{
	struct fp_watch *watch = TAILQ_FIRST(&names->to_seal);
	uint64_t ended_ns = end_in_real_time(watch);
	struct fp_role_packet packet = { .kind = FP_ROLE_MAP_SEAL,
					 .argument = watch->handle,
					 .size = sizeof(ended_ns),
					 .serial = fp_names_serial(names) };

	names->operation.kind = FP_NAMES_MAP_SEAL;
	names->operation.watch = watch;
	return fp_names_ask_role(names, &packet, &ended_ns) == 0;
}

void fp_watch_end_seal(struct fp_names *names, const struct fp_names_result *result)
{
	struct fp_watch *watch = names->operation.watch;

	if (result->from_role && result->error == -EAGAIN)
		return; // there is more of it, and it is still the next
	fp_watch_unseal(names, watch);
	if (result->error == 0)
		return;
	if (result->from_role && result->error == -ESTALE)
		names->stats.maps_lost++;
	fp_watch_close_for_good(names, watch);
}

void fp_names_add_reader(struct fp_names *names, struct fp_names_reader *reader)
{
	fp_names_remove_reader(names, reader);
	reader->settled_ns = fp_procfs_monotonic_ns();
	reader->next = names->readers;
	names->readers = reader;
}

void fp_names_remove_reader(struct fp_names *names, struct fp_names_reader *reader)
{
	struct fp_names_reader **place = &names->readers;

	while (*place && *place != reader)
		place = &(*place)->next;
	if (*place)
		*place = reader->next;
}

void fp_names_end_epoch(struct fp_names *names, struct fp_names_reader *reader, uint64_t began_ns)
{
	struct fp_watch *watch;
	uint64_t before_ns;

	fp_watch_forget_names(names);
	if (reader->settled_ns < began_ns)
		reader->settled_ns = began_ns;
	before_ns = reader->settled_ns;
	for (reader = names->readers; reader; reader = reader->next)
		if (reader->settled_ns < before_ns)
			before_ns = reader->settled_ns;
	TAILQ_FOREACH(watch, &names->watch_list, by_use)
	if (watch->ended && watch->ended_ns < before_ns)
		fp_watch_close_map(names, watch);
}
