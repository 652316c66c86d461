// SPDX-License-Identifier: Apache-2.0
#include "labels_place.h"

#include "cgroup.h"
#include "common/clock.h"
#include "labels_service.h"
#include "procfs.h"

#include <errno.h>
#include <string.h>
#include <sys/utsname.h>

#define NOWHERE UINT32_MAX
// A host has some hundred control groups and some thousand processes; these bounds are for
// those that make and remove them all day.
#define PLACES_MAX    8192u
#define CGROUPS_MAX   16384u
#define PROCESSES_MAX 32768u
#define STRINGS_MAX   (2u << 20)

struct instance {
	uint64_t start_ns;
	uint32_t place;
	uint32_t padding;
};

static int intern(struct fp_places *places, const char *text, uint32_t *ret_id)
{
	return fp_intern_add(&places->strings, text, strlen(text), ret_id);
}

static int add_place(struct fp_places *places, const struct fp_place_key *key, uint32_t *ret_index)
{
	uint32_t *index = fp_hashmap_put(&places->index, key, NULL);

	if (!index)
		return -ENOMEM;
	if (places->count == places->capacity) {
		uint32_t capacity = places->capacity ? 2 * places->capacity : 64;
		struct fp_place *more = realloc(places->places, capacity * sizeof(*more));

		if (!more) {
			fp_hashmap_remove(&places->index, key);
			return -ENOMEM;
		}
		places->places = more;
		places->capacity = capacity;
	}
	*index = *ret_index = places->count;
	places->places[places->count++] = (struct fp_place){ .key = *key };
	return 0;
}

static void forget(struct fp_places *places)
{
	fp_intern_free(&places->strings);
	fp_hashmap_free(&places->index);
	fp_hashmap_free(&places->cgroups);
	fp_hashmap_free(&places->processes);
	places->index = FP_HASHMAP_INIT(struct fp_place_key, uint32_t);
	places->cgroups = FP_HASHMAP_INIT(uint64_t, uint32_t);
	places->processes = FP_HASHMAP_INIT(uint32_t, struct instance);
	places->count = 0;
}

static int begin(struct fp_places *places)
{
	struct fp_place_key nothing = { 0 };
	uint32_t index;
	int r = fp_intern_init(&places->strings);

	return r < 0 ? r : add_place(places, &nothing, &index);
}

int fp_places_init(struct fp_places *places, const struct fp_labeler_options *options)
{
	const char *hostname = options->hostname;
	struct utsname host;
	int r = 0;

	*places = (struct fp_places){ .tree.fd = -1 };
	forget(places);
	if (!hostname)
		hostname = uname(&host) == 0 ? host.nodename : "";
	places->hostname = strdup(hostname);
	if (!places->hostname)
		return -ENOMEM;
	if (options->log_directory && options->log_directory[0])
		r = fp_pods_new(options->log_directory, &places->pods);
	if (r < 0)
		return r;
	places->is_v2 = options->cgroup_subsystem == FP_CGROUP_V2;
	fp_cgroup_tree_open(options->cgroup_subsystem, &places->tree);
	return begin(places);
}

void fp_places_free(struct fp_places *places)
{
	forget(places);
	free(places->places);
	free(places->hostname);
	fp_pods_free(places->pods);
	fp_cgroup_tree_close(&places->tree);
}

size_t fp_places_bytes(const struct fp_places *places)
{
	return places->strings.bytes + places->capacity * sizeof(*places->places) +
	       fp_hashmap_bytes(&places->index) + fp_hashmap_bytes(&places->cgroups) +
	       fp_hashmap_bytes(&places->processes) +
	       (places->pods ? fp_pods_bytes(places->pods) : 0);
}

int fp_places_trim(struct fp_places *places, bool *ret_forgotten)
{
	bool full = places->count > PLACES_MAX || places->strings.bytes > STRINGS_MAX ||
		    places->cgroups.count > CGROUPS_MAX;

	if (places->processes.count > PROCESSES_MAX)
		fp_hashmap_clear(&places->processes);
	*ret_forgotten = full;
	if (!full)
		return 0;
	forget(places);
	return begin(places);
}

static int place_of(struct fp_places *places, const struct fp_cgroup_facts *facts,
		    uint32_t *ret_place)
{
	struct fp_place_key key = { .has_name = facts->has_name, .is_claimed = facts->is_claimed };
	const struct {
		const char *text;
		uint32_t *id;
	} texts[] = {
		{ facts->container_id, &key.container_id },
		{ facts->pod_container_id, &key.pod_container_id },
		{ facts->runtime, &key.runtime },
		{ facts->pod_uid, &key.pod_uid },
		{ facts->unit, &key.unit },
		{ facts->slice, &key.slice },
	};
	const uint32_t *known;

	for (size_t i = 0; i < FP_ARRAY_SIZE(texts); i++) {
		int r = intern(places, texts[i].text, texts[i].id);

		if (r < 0)
			return r;
	}
	known = fp_hashmap_get(&places->index, &key);
	if (!known)
		return add_place(places, &key, ret_place);
	*ret_place = *known;
	return 0;
}

// Of what will not change: the group is gone, out of sight, or no id can be opened.
static bool is_for_good(int error)
{
	return error == -ESTALE || error == -ENOENT || error == -EXDEV || error == -EPERM ||
	       error == -EOPNOTSUPP || error == -ENOSYS;
}

// *ret_place is NOWHERE when the group is gone or cannot be opened; what may pass, such as too many
// open files, is asked again with the next stack.
static int by_cgroup(struct fp_places *places, uint64_t id, uint32_t *ret_place)
{
	const uint32_t *known = fp_hashmap_get(&places->cgroups, &id);
	struct fp_cgroup_facts facts;
	uint32_t place = NOWHERE, *cell;
	int r;

	if (known || places->tree.fd < 0 || id == 0) {
		*ret_place = known ? *known : NOWHERE;
		return 0;
	}
	r = fp_cgroup_tree_find(&places->tree, id, &facts);
	if (r == -EPERM || r == -EOPNOTSUPP || r == -ENOSYS)
		fp_cgroup_tree_close(&places->tree);
	if (r == 0)
		r = place_of(places, &facts, &place);
	if (r == -ENOMEM)
		return r;
	*ret_place = NOWHERE;
	if (r < 0 && !is_for_good(r))
		return 0;
	places->stats.cgroups_found += r == 0;
	places->stats.cgroups_gone += r < 0;
	cell = fp_hashmap_put(&places->cgroups, &id, NULL);
	if (!cell)
		return -ENOMEM;
	*cell = *ret_place = place;
	return 0;
}

static int by_process(struct fp_places *places, uint32_t tgid, uint64_t first_ticks,
		      uint64_t last_ticks, uint32_t *ret_place)
{
	struct fp_cgroup_facts facts;

	*ret_place = NOWHERE;
	if (fp_cgroup_process_find(tgid, first_ticks, last_ticks, &facts) < 0)
		return 0;
	return place_of(places, &facts, ret_place);
}

static int remember(struct fp_places *places, uint32_t tgid, uint64_t start_ns, uint32_t place)
{
	struct instance *instance = fp_hashmap_put(&places->processes, &tgid, NULL);

	if (!instance)
		return -ENOMEM;
	*instance = (struct instance){ .start_ns = start_ns, .place = place };
	return 0;
}

// What the parent has: it had it when it forked, or moved since, which few do. Process 1 is
// everybody's parent after their own, and puts what it starts elsewhere: it tells nothing.
static int by_parent(struct fp_places *places, const struct fp_stack_record *record,
		     uint32_t parent, uint32_t *ret_place)
{
	const struct instance *known = fp_hashmap_get(&places->processes, &parent);
	uint64_t ticks = fp_procfs_start_ticks(record->start_boottime_ns);
	int r;

	*ret_place = NOWHERE;
	if (parent <= 1)
		return 0;
	if (known && known->start_ns <= record->start_ns) {
		*ret_place = known->place;
	} else {
		r = by_process(places, parent, 0, ticks, ret_place);
		if (r < 0)
			return r;
	}
	places->stats.inherited += *ret_place != NOWHERE;
	return 0;
}

static bool is_empty(const struct fp_places *places, uint32_t place)
{
	const struct fp_place_key *key = &places->places[place].key;

	return !key->container_id && !key->pod_uid && !key->unit;
}

// Of a process whose control group alone does not tell.
static int by_instance(struct fp_places *places, const struct fp_stack_record *record,
		       const struct fp_labeler_process *process, uint32_t *ret_place)
{
	const struct instance *known = fp_hashmap_get(&places->processes, &process->tgid);
	uint64_t ticks = fp_procfs_start_ticks(record->start_boottime_ns);
	int r;

	if (known && known->start_ns == record->start_ns) {
		*ret_place = known->place;
		return 0;
	}
	r = by_process(places, process->tgid, ticks, ticks, ret_place);
	if (r == 0 && *ret_place != NOWHERE)
		places->stats.processes_read++;
	else if (r == 0)
		r = by_parent(places, record, process->parent_tgid, ret_place);
	if (r < 0)
		return r;
	if (*ret_place == NOWHERE) {
		places->stats.unknown++;
		*ret_place = 0;
	}
	return remember(places, process->tgid, record->start_ns, *ret_place);
}

static int locate(struct fp_places *places, const struct fp_stack_record *record,
		  const struct fp_labeler_process *process, uint32_t *ret_place)
{
	int r;

	if (record->kernel_thread) {
		*ret_place = 0;
		return 0;
	}
	r = by_cgroup(places, record->cgroup_id, ret_place);
	if (r < 0)
		return r;
	// On v1 and hybrid hosts units may stand in another hierarchy than containers.
	if (*ret_place == NOWHERE || (!places->is_v2 && is_empty(places, *ret_place)))
		return by_instance(places, record, process, ret_place);
	return remember(places, process->tgid, record->start_ns, *ret_place);
}

static const char *text_of(const struct fp_places *places, uint32_t id)
{
	return fp_intern_get(&places->strings, id);
}

// The most specific of: workload, unit, name of the container.
static int name_service(struct fp_places *places, struct fp_place *place)
{
	const char *text = text_of(places, place->pod);
	size_t size = place->pod ? fp_service_of_pod(text, places->hostname) : 0;

	if (size == 0) {
		text = text_of(places, place->key.unit);
		size = fp_service_of_unit(text);
	}
	if (size == 0 && place->key.has_name) {
		text = text_of(places, place->key.container_id);
		size = strlen(text);
	}
	return fp_intern_add(&places->strings, text, size, &place->service);
}

static int name_pod(struct fp_places *places, struct fp_place *place)
{
	const struct fp_place_key *key = &place->key;
	uint32_t id = key->pod_container_id ? key->pod_container_id : key->container_id;
	struct fp_pod_names names =
	    fp_pods_find(places->pods, text_of(places, id), text_of(places, key->pod_uid));
	int r;

	// Names that are known stay when the kubelet has removed the container's log.
	if (!names.pod[0] || (place->pod && !names.container[0]))
		return 0;
	r = intern(places, names.namespace, &place->namespace);
	if (r == 0)
		r = intern(places, names.pod, &place->pod);
	if (r == 0)
		r = intern(places, names.container, &place->container);
	if (r == 0)
		place->version++;
	return r;
}

// Names of Kubernetes come a little after the container, and only if there is a kubelet.
static int complete(struct fp_places *places, uint32_t index)
{
	struct fp_place *place = &places->places[index];
	const struct fp_place_key *key = &place->key;
	// A user's claim of a container is not one of its pod.
	bool may_be_pod = key->pod_uid || (key->container_id && !key->has_name && !key->is_claimed);
	bool fresh = place->version == 0;
	uint64_t generation;
	int r;

	place->version += fresh;
	if (places->pods && may_be_pod && !(place->pod && place->container)) {
		r = fp_pods_refresh(places->pods, fp_monotonic_ns(), &generation);
		if (r == 0 && generation != place->pods_generation) {
			uint32_t version = place->version;

			place->pods_generation = generation;
			r = name_pod(places, place);
			fresh |= place->version != version;
		}
		if (r < 0)
			return r;
	}
	return fresh ? name_service(places, place) : 0;
}

void fp_places_see(struct fp_places *places, const struct fp_stack_record *record)
{
	uint32_t place;

	if (!record->kernel_thread)
		by_cgroup(places, record->cgroup_id, &place); // an error comes back at the drain
}

int fp_places_find(struct fp_places *places, const struct fp_stack_record *record,
		   const struct fp_labeler_process *process, uint32_t *ret_place)
{
	uint32_t place;
	int r = locate(places, record, process, &place);

	if (r == 0)
		r = complete(places, place);
	if (r == 0)
		*ret_place = place;
	return r;
}
