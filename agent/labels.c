// SPDX-License-Identifier: Apache-2.0
#include "labels.h"

#include "labels_place.h"
#include "labels_static.h"
#include "outcomes.h"
#include "relabel.h"

#include <errno.h>
#include <string.h>

// Sets that are remembered: of a place, an executable, a thread's name and a state.
#define SETS_MAX  16384u
#define ARENA_MAX (2u << 20)

struct set_key {
	uint32_t place, version, executable, state; // state 0: not off-CPU, else 1 + state
	char comm[FP_COMM_LEN];			    // zeroes behind the name
};

struct known_set { // where the arena has it: {sizes, name, value} for each label
	uint32_t offset;
	uint16_t count;
	uint16_t dropped;
};

struct label_sizes {
	uint16_t name, value;
};

struct fp_labeler {
	struct fp_places places;
	struct fp_label_set statics, set; // set: scratch
	struct fp_relabel *relabel;
	struct fp_hashmap known; // set_key → known_set
	struct fp_buf arena;
};

void fp_labeler_free(struct fp_labeler *labeler)
{
	if (!labeler)
		return;
	fp_places_free(&labeler->places);
	fp_label_set_free(&labeler->statics);
	fp_label_set_free(&labeler->set);
	fp_relabel_free(labeler->relabel);
	fp_hashmap_free(&labeler->known);
	fp_buf_free(&labeler->arena);
	free(labeler);
}

int fp_labeler_new(const struct fp_labeler_options *options, struct fp_labeler **ret)
{
	struct fp_labeler *labeler FP_CLEANUP(fp_labeler_freep) = calloc(1, sizeof(*labeler));
	FP_AUTOBUF struct fp_buf error = { 0 };
	int r;

	if (!labeler)
		return -ENOMEM;
	labeler->places.tree.fd = -1;
	labeler->known = FP_HASHMAP_INIT(struct set_key, struct known_set);
	r = fp_places_init(&labeler->places, options);
	if (r == 0)
		r = fp_label_set_read(&labeler->statics, options->static_labels);
	if (r == 0)
		r = fp_relabel_new(options->relabel ? options->relabel : "", &labeler->relabel,
				   &error);
	if (r < 0)
		return r;
	*ret = fp_take_ptr(labeler);
	return 0;
}

static int put(struct fp_label_set *set, const char *name, const char *value, size_t size)
{
	return fp_label_set_put(set, name, strlen(name), value, size);
}

static int put_statics(struct fp_labeler *labeler)
{
	const struct fp_label_set *statics = &labeler->statics;

	for (uint32_t i = 0; i < statics->count; i++) {
		const struct fp_label_text *row = &statics->rows[i];
		const char *text = (const char *)statics->text.data;
		int r = fp_label_set_put(&labeler->set, text + row->name, row->name_size,
					 text + row->value, row->value_size);

		if (r < 0)
			return r;
	}
	return 0;
}

static const struct {
	const char *name;
	size_t offset; // of the value's id
} place_labels[] = {
	{ "container_id", offsetof(struct fp_place, key.container_id) },
	{ "container_runtime", offsetof(struct fp_place, key.runtime) },
	{ "pod_uid", offsetof(struct fp_place, key.pod_uid) },
	{ "namespace", offsetof(struct fp_place, namespace) },
	{ "pod", offsetof(struct fp_place, pod) },
	{ "container", offsetof(struct fp_place, container) },
	{ "systemd_unit", offsetof(struct fp_place, key.unit) },
	{ "systemd_slice", offsetof(struct fp_place, key.slice) },
};

static int put_place(struct fp_labeler *labeler, const struct fp_place *place)
{
	for (size_t i = 0; i < FP_ARRAY_SIZE(place_labels); i++) {
		uint32_t id = *(const uint32_t *)((const char *)place + place_labels[i].offset);
		const char *value = fp_intern_get(&labeler->places.strings, id);
		int r = id ? put(&labeler->set, place_labels[i].name, value, strlen(value)) : 0;

		if (r < 0)
			return r;
	}
	return 0;
}

bool fp_label_is_ours(const char *name)
{
	static const char *const others[] = { "executable", "thread", "state", "service_name" };

	for (size_t i = 0; i < FP_ARRAY_SIZE(place_labels); i++)
		if (strcmp(place_labels[i].name, name) == 0)
			return true;
	for (size_t i = 0; i < FP_ARRAY_SIZE(others); i++)
		if (strcmp(others[i], name) == 0)
			return true;
	return false;
}

// Where the configuration names the service, that holds.
static int put_service(struct fp_labeler *labeler, const struct fp_place *place,
		       const char *executable)
{
	const char *service = fp_intern_get(&labeler->places.strings, place->service);
	size_t size;

	fp_label_set_get(&labeler->statics, "service_name", strlen("service_name"), &size);
	if (size > 0)
		return 0;
	if (!service[0])
		service = executable;
	return put(&labeler->set, "service_name", service, strlen(service));
}

static int put_task(struct fp_labeler *labeler, const struct fp_stack_record *record,
		    const char *executable)
{
	const char *state = fp_away_reason_name(record->state);
	int r = put(&labeler->set, "executable", executable, strlen(executable));

	if (r == 0)
		r = put(&labeler->set, "thread", record->comm,
			strnlen(record->comm, sizeof(record->comm)));
	if (r == 0 && record->source != FP_SOURCE_CPU)
		r = put(&labeler->set, "state", state, strlen(state));
	return r;
}

static int build(struct fp_labeler *labeler, const struct fp_stack_record *record,
		 const char *executable, uint32_t place_index, bool *ret_dropped)
{
	const struct fp_place *place = &labeler->places.places[place_index];
	int r;

	fp_label_set_clear(&labeler->set);
	r = put_statics(labeler); // first: what we know ourselves holds
	if (r == 0)
		r = put_place(labeler, place);
	if (r == 0)
		r = put_task(labeler, record, executable);
	if (r == 0)
		r = put_service(labeler, place, executable);
	if (r == 0)
		r = fp_relabel_apply(labeler->relabel, &labeler->set, ret_dropped);
	return r;
}

static int store(struct fp_labeler *labeler, struct known_set *ret)
{
	const struct fp_label_set *set = &labeler->set;

	ret->offset = (uint32_t)labeler->arena.len;
	ret->count = (uint16_t)set->count;
	for (uint32_t i = 0; i < set->count; i++) {
		const struct fp_label_text *row = &set->rows[i];
		struct label_sizes sizes = { (uint16_t)row->name_size, (uint16_t)row->value_size };

		fp_buf_append(&labeler->arena, &sizes, sizeof(sizes));
		fp_buf_append(&labeler->arena, set->text.data + row->name, row->name_size);
		fp_buf_append(&labeler->arena, set->text.data + row->value, row->value_size);
	}
	return labeler->arena.error;
}

static void forget_sets(struct fp_labeler *labeler)
{
	fp_hashmap_clear(&labeler->known);
	fp_buf_clear(&labeler->arena);
}

static int make_room(struct fp_labeler *labeler)
{
	bool forgotten;
	int r = fp_places_trim(&labeler->places, &forgotten);

	if (forgotten || labeler->known.count > SETS_MAX || labeler->arena.len > ARENA_MAX)
		forget_sets(labeler);
	return r;
}

static int key_of(struct fp_labeler *labeler, const struct fp_stack_record *record,
		  const struct fp_labeler_process *process, struct set_key *ret)
{
	struct set_key key = { .state = record->source == FP_SOURCE_CPU ? 0 : 1u + record->state };
	int r = fp_places_find(&labeler->places, record, process, &key.place);

	if (r == 0)
		r = fp_intern_add(&labeler->places.strings, process->executable,
				  strlen(process->executable), &key.executable);
	if (r < 0)
		return r;
	key.version = labeler->places.places[key.place].version;
	memcpy(key.comm, record->comm, strnlen(record->comm, sizeof(record->comm)));
	*ret = key;
	return 0;
}

static int find_set(struct fp_labeler *labeler, const struct fp_stack_record *record,
		    const struct fp_labeler_process *process, struct known_set *ret)
{
	struct set_key key;
	struct known_set *known, fresh = { 0 };
	bool dropped = false;
	int r = key_of(labeler, record, process, &key);

	if (r < 0)
		return r;
	known = fp_hashmap_get(&labeler->known, &key);
	if (!known) {
		r = build(labeler, record, process->executable, key.place, &dropped);
		if (r == 0 && !dropped)
			r = store(labeler, &fresh);
		if (r < 0)
			return r;
		fresh.dropped = dropped;
		known = fp_hashmap_put(&labeler->known, &key, NULL);
		if (!known)
			return -ENOMEM;
		*known = fresh;
	}
	*ret = *known;
	return 0;
}

static int add_to_profile(const struct fp_labeler *labeler, const struct known_set *known,
			  struct fp_profile *profile, uint32_t *ret_labels)
{
	const char *at = known->count ? (const char *)labeler->arena.data + known->offset : "";
	struct fp_label labels[FP_LABELS_MAX];

	for (uint32_t i = 0; i < known->count; i++) {
		struct label_sizes sizes;
		int r;

		memcpy(&sizes, at, sizeof(sizes));
		at += sizeof(sizes);
		r = fp_profile_string(profile, at, sizes.name, &labels[i].name);
		if (r == 0)
			r = fp_profile_string(profile, at + sizes.name, sizes.value,
					      &labels[i].value);
		if (r < 0)
			return r;
		at += sizes.name + sizes.value;
	}
	return fp_profile_labels(profile, labels, known->count, ret_labels);
}

void fp_labeler_see(struct fp_labeler *labeler, const struct fp_stack_record *record)
{
	fp_places_see(&labeler->places, record);
}

int fp_labeler_describe(struct fp_labeler *labeler, const struct fp_stack_record *record,
			const struct fp_labeler_process *process, struct fp_profile *profile,
			uint32_t *ret_labels, bool *ret_dropped)
{
	struct known_set known;
	int r = make_room(labeler);

	if (r == 0)
		r = find_set(labeler, record, process, &known);
	if (r == 0 && !known.dropped)
		r = add_to_profile(labeler, &known, profile, ret_labels);
	if (r == 0)
		*ret_dropped = known.dropped;
	return r;
}

uint64_t fp_labeler_bytes(const struct fp_labeler *labeler)
{
	return sizeof(*labeler) + fp_places_bytes(&labeler->places) +
	       fp_hashmap_bytes(&labeler->known) + labeler->arena.capacity +
	       labeler->set.text.capacity + labeler->statics.text.capacity;
}

void fp_labeler_stats(const struct fp_labeler *labeler, struct fp_labeler_stats *ret)
{
	*ret = labeler->places.stats;
	ret->bytes = fp_labeler_bytes(labeler);
	ret->relabel_overruns = fp_relabel_overruns(labeler->relabel);
	if (labeler->places.pods)
		ret->log_entries_unread = fp_pods_unread(labeler->places.pods);
}
