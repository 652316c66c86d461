// SPDX-License-Identifier: Apache-2.0
//
// What identifies mapped files, remembered by device, inode and name. A file that is asked for
// again after a while is looked at again: an inode number may have come to another file, and
// a file may have been written anew; one that has not changed costs no reading.
#include "names_state.h"

#include "common/clock.h"

#include <errno.h>
#include <string.h>

#include <xxhash.h>

#define FRESH_NS (2 * FP_NS_PER_S)

static struct fp_identity_key key_of(const struct fp_names_file *file)
{
	return (struct fp_identity_key){ file->device, file->inode,
					 XXH3_64bits(file->name, strlen(file->name)) };
}

static struct fp_identity_entry *find(const struct fp_names *names,
				      const struct fp_identity_key *key)
{
	struct fp_identity_entry *const *entry = fp_hashmap_get(&names->identities, key);

	return entry ? *entry : NULL;
}

int fp_names_file_copy(const struct fp_names_file *file, struct fp_names_file *ret)
{
	char *name = strdup(file->name);

	if (!name)
		return -ENOMEM;
	*ret = *file;
	ret->name = name;
	return 0;
}

static void release_file(struct fp_names_file *file)
{
	free((char *)file->name);
	*file = (struct fp_names_file){ 0 };
}

void fp_names_file_head(const struct fp_names_file *file, struct fp_opener_request *head)
{
	*head = (struct fp_opener_request){
		.kind = FP_OPENER_FILE,
		.tgid = file->tgid,
		.parent_tgid = file->parent_tgid,
		.start = file->start,
		.end = file->end,
		.device = file->device,
		.inode = file->inode,
	};
}

static void forget(struct fp_names *names, struct fp_identity_entry *entry)
{
	fp_hashmap_remove(&names->identities, &entry->key);
	TAILQ_REMOVE(&names->by_use, entry, by_use);
	release_file(&entry->file);
	free(entry);
}

static void make_room(struct fp_names *names)
{
	struct fp_identity_entry *entry = TAILQ_LAST(&names->by_use, fp_identity_list);

	while (entry && names->identities.count >= FP_NAMES_IDENTITIES_MAX) {
		struct fp_identity_entry *before = TAILQ_PREV(entry, fp_identity_list, by_use);

		if (!entry->is_queued)
			forget(names, entry);
		entry = before;
	}
}

static struct fp_identity_entry *add(struct fp_names *names, const struct fp_identity_key *key)
{
	struct fp_identity_entry *entry, **place;

	make_room(names);
	entry = calloc(1, sizeof(*entry));
	place = entry ? fp_hashmap_put(&names->identities, key, NULL) : NULL;
	if (!place) {
		free(entry);
		return NULL;
	}
	*place = entry;
	entry->key = *key;
	TAILQ_INSERT_HEAD(&names->by_use, entry, by_use);
	return entry;
}

static int enqueue(struct fp_names *names, struct fp_identity_entry *entry,
		   const struct fp_names_file *file)
{
	int r;

	if (names->queue_count >= FP_NAMES_QUEUE_MAX) {
		names->stats.queue_full++;
		return -ENOSPC;
	}
	r = fp_names_file_copy(file, &entry->file);
	if (r < 0)
		return r;
	entry->is_queued = true;
	TAILQ_INSERT_TAIL(&names->queue, entry, queued);
	names->queue_count++;
	return 0;
}

static bool is_settled(const struct fp_identity_entry *entry)
{
	uint64_t now_ns = fp_monotonic_ns();

	return fp_blame_stands(&entry->blame, now_ns) ||
	       (entry->state != FP_NAMES_PENDING && now_ns - entry->answered_ns < FRESH_NS);
}

int fp_names_want_identity(struct fp_names *names, const struct fp_names_file *file)
{
	struct fp_identity_key key = key_of(file);
	struct fp_identity_entry *entry = find(names, &key);
	bool is_new = !entry;
	int r;

	if (entry) {
		TAILQ_REMOVE(&names->by_use, entry, by_use);
		TAILQ_INSERT_HEAD(&names->by_use, entry, by_use);
	}
	if (entry && entry->is_queued) {
		// The later process is likelier to be alive when its turn comes.
		const char *name = entry->file.name;

		entry->file = *file;
		entry->file.name = name;
		return 0;
	}
	if (entry && is_settled(entry))
		return 0;
	if (!entry)
		entry = add(names, &key);
	r = entry ? enqueue(names, entry, file) : -ENOMEM;
	if (r == 0)
		names->stats.identities_asked += is_new;
	else if (entry && is_new)
		forget(names, entry);
	return r;
}

enum fp_names_state fp_names_identity(const struct fp_names *names,
				      const struct fp_names_file *file, struct fp_build *ret_build)
{
	struct fp_identity_key key = key_of(file);
	const struct fp_identity_entry *entry = find(names, &key);

	if (!entry)
		return FP_NAMES_PENDING;
	if (entry->state == FP_NAMES_KNOWN) {
		ret_build->kind = entry->identity.kind;
		ret_build->id_len = entry->identity.id_len;
		memcpy(ret_build->id, entry->identity.id, sizeof(ret_build->id));
	}
	return entry->state;
}

static void dequeue(struct fp_names *names, struct fp_identity_entry *entry)
{
	TAILQ_REMOVE(&names->queue, entry, queued);
	names->queue_count--;
	entry->is_queued = false;
	release_file(&entry->file);
}

static void note_file(struct fp_identity_entry *entry, const struct fp_opener_answer *answer)
{
	entry->file_device = answer->device;
	entry->file_inode = answer->inode;
	entry->change_ns = answer->change_ns;
	entry->size = answer->size;
}

static void settle_none(struct fp_names *names, struct fp_identity_entry *entry, uint64_t now_ns)
{
	if (entry->state == FP_NAMES_PENDING)
		names->stats.identities_none++;
	entry->state = FP_NAMES_NONE;
	entry->answered_ns = now_ns;
	note_file(entry, &(struct fp_opener_answer){ 0 }); // to be read next time, changed or not
}

static int ask(struct fp_names *names, struct fp_identity_entry *entry)
{
	struct fp_role_packet packet = { .kind = FP_ROLE_IDENTIFY,
					 .serial = fp_names_serial(names) };
	struct fp_names_open_request request = { .name = entry->file.name,
						 .packet = &packet,
						 .memory_fd = -1 };

	fp_names_file_head(&entry->file, &request.head);
	if (entry->state != FP_NAMES_PENDING) {
		request.head.known_device = entry->file_device;
		request.head.known_inode = entry->file_inode;
		request.head.known_change_ns = entry->change_ns;
		request.head.known_size = entry->size;
	}
	return fp_names_ask_opener(names, &request);
}

bool fp_names_identity_begin(struct fp_names *names, uint64_t now_ns)
{
	struct fp_identity_entry *entry;

	while ((entry = TAILQ_FIRST(&names->queue))) {
		int r;

		if (fp_names_is_hung(names, entry->file.device, now_ns)) {
			names->stats.denied++;
			settle_none(names, entry, now_ns);
			dequeue(names, entry);
			continue;
		}
		names->operation.kind = FP_NAMES_IDENTIFY;
		names->operation.entry = entry;
		r = ask(names, entry);
		if (r == 0)
			return true;
		names->operation = (struct fp_names_operation){ 0 };
		if (r != -EMSGSIZE)
			return false;
		settle_none(names, entry, now_ns);
		dequeue(names, entry);
	}
	return false;
}

static bool take_identity(const struct fp_names_result *result, struct fp_role_identity *ret)
{
	struct fp_role_identity identity;

	if (result->size != sizeof(identity))
		return false;
	memcpy(&identity, result->payload, sizeof(identity));
	if (identity.kind > FP_BUILD_HASH || identity.id_len > sizeof(identity.id) ||
	    (identity.kind == FP_BUILD_NONE) != (identity.id_len == 0))
		return false;
	*ret = identity;
	return true;
}

static void settle_answer(struct fp_names *names, struct fp_identity_entry *entry,
			  const struct fp_names_result *result,
			  const struct fp_role_identity *identity)
{
	if (identity->kind == FP_BUILD_NONE) {
		settle_none(names, entry, result->now_ns);
		note_file(entry, &names->operation.answer);
		return;
	}
	note_file(entry, &names->operation.answer);
	names->stats.identities_known += !entry->was_known;
	entry->was_known = true;
	entry->state = FP_NAMES_KNOWN;
	entry->identity = *identity;
	entry->answered_ns = result->now_ns;
}

static void settle_error(struct fp_names *names, struct fp_identity_entry *entry,
			 const struct fp_names_result *result)
{
	bool is_refusal = !result->from_role && result->error == -EACCES;
	bool choked = !result->from_role && fp_names_is_choking(result->error);

	if (is_refusal && fp_names_is_denial(&names->operation.answer))
		names->stats.denied++;
	// A file that cannot be had any more keeps the answer it had.
	if (result->error == -EALREADY ||
	    (entry->state == FP_NAMES_KNOWN && !result->from_role && !is_refusal && !choked)) {
		entry->answered_ns = result->now_ns;
		return;
	}
	settle_none(names, entry, result->now_ns);
	if (choked)
		fp_blame_add(&entry->blame, result->error, result->now_ns);
}

bool fp_names_identity_end(struct fp_names *names, const struct fp_names_result *result)
{
	struct fp_identity_entry *entry = names->operation.entry;
	struct fp_role_identity identity;

	if (result->error == -EPIPE)
		return true; // stays first in the queue
	if (result->error == 0) {
		if (!take_identity(result, &identity))
			return false;
		settle_answer(names, entry, result, &identity);
	} else {
		settle_error(names, entry, result);
	}
	dequeue(names, entry);
	return true;
}

void fp_names_identity_free(struct fp_names *names)
{
	struct fp_identity_entry *entry;

	while ((entry = TAILQ_FIRST(&names->by_use)))
		forget(names, entry);
	fp_hashmap_free(&names->identities);
	fp_hashmap_free(&names->hung_places);
}
