// SPDX-License-Identifier: Apache-2.0
//
// Operations: what is asked of opener and role, who has answered, and who is killed for not
// having done so.
#include "names_run.h"

#include "common/clock.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#define HUNG_FIRST_NS	 (60 * FP_NS_PER_S)
#define DIED_FIRST_NS	 (5 * FP_NS_PER_S) // nobody has waited for it
#define BLAME_MAX_NS	 (24 * 3600 * FP_NS_PER_S)
#define UNWIND_DEADLINES 5
#define NOTICES_MAX	 64 // of one request; it takes some ten

uint32_t fp_names_serial(struct fp_names *names)
{
	return ++names->serial;
}

static int send_message(int fd, struct msghdr *message)
{
	ssize_t n;

	do
		n = sendmsg(fd, message, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : 0;
}

int fp_names_ask_role(struct fp_names *names, const struct fp_role_packet *packet,
		      const void *payload)
{
	struct iovec parts[] = { { (void *)packet, sizeof(*packet) },
				 { (void *)payload, packet->size } };
	struct msghdr message = { .msg_iov = parts, .msg_iovlen = packet->size ? 2 : 1 };
	int r = send_message(names->role.socket_fd, &message);

	if (r == 0) {
		names->operation.serial = packet->serial;
		names->operation.role_open = true;
	}
	return r;
}

// The places at which nothing is opened now.
static uint32_t list_hung(const struct fp_names *names, uint64_t hung[FP_NAMES_HUNG_MAX])
{
	uint64_t now_ns = fp_monotonic_ns();
	size_t position = 0;
	uint32_t count = 0;
	const void *key;
	void *value;

	while (count < FP_NAMES_HUNG_MAX &&
	       fp_hashmap_next(&names->hung_places, &position, &key, &value)) {
		memcpy(&hung[count], key, sizeof(hung[0]));
		if (fp_blame_stands(value, now_ns))
			count++;
	}
	return count;
}

int fp_names_ask_opener(struct fp_names *names, const struct fp_names_open_request *request)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(FP_OPENER_FDS_MAX * sizeof(int))];
	} control = { 0 };
	struct fp_opener_request head = request->head;
	uint64_t hung[FP_NAMES_HUNG_MAX];
	int fds[FP_OPENER_FDS_MAX] = { names->role.socket_fd, request->memory_fd };
	size_t fds_size = (request->memory_fd >= 0 ? 2 : 1) * sizeof(int);
	struct iovec parts[] = {
		{ &head, sizeof(head) },
		{ hung, 0 },
		{ (void *)request->name, strlen(request->name) },
		{ names->deny, strlen(names->deny) },
		{ (void *)request->packet, sizeof(*request->packet) },
		{ (void *)request->payload, request->packet->size },
	};
	struct msghdr message = { .msg_iov = parts,
				  .msg_iovlen = FP_ARRAY_SIZE(parts),
				  .msg_control = &control,
				  .msg_controllen = CMSG_SPACE(fds_size) };
	struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
	int r;

	rights->cmsg_level = SOL_SOCKET;
	rights->cmsg_type = SCM_RIGHTS;
	rights->cmsg_len = CMSG_LEN(fds_size);
	memcpy(CMSG_DATA(rights), fds, fds_size);
	head.serial = request->packet->serial;
	head.hung_count = list_hung(names, hung);
	parts[1].iov_len = head.hung_count * sizeof(hung[0]);
	head.name_size = (uint32_t)parts[2].iov_len;
	head.deny_size = (uint32_t)parts[3].iov_len;
	head.packet_size = (uint32_t)(parts[4].iov_len + parts[5].iov_len);
	if (parts[1].iov_len + head.name_size + head.deny_size + head.packet_size >
	    FP_OPENER_TEXT_MAX)
		return -EMSGSIZE;
	r = send_message(names->opener.socket_fd, &message);
	if (r == 0) {
		names->operation.serial = head.serial;
		names->operation.opener_open = names->operation.role_open = true;
	}
	return r;
}

void fp_blame_add(struct fp_blame *blame, int error, uint64_t now_ns)
{
	uint64_t first_ns = error == -ETIMEDOUT ? HUNG_FIRST_NS : DIED_FIRST_NS;

	if (now_ns > blame->until_ns && now_ns - blame->until_ns > BLAME_MAX_NS)
		blame->delay_ns = 0; // it has done well since
	blame->delay_ns *= 2;
	if (blame->delay_ns < first_ns)
		blame->delay_ns = first_ns;
	if (blame->delay_ns > BLAME_MAX_NS)
		blame->delay_ns = BLAME_MAX_NS;
	blame->until_ns = now_ns + blame->delay_ns;
}

bool fp_names_is_hung(const struct fp_names *names, uint64_t place, uint64_t now_ns)
{
	const struct fp_blame *blame = fp_hashmap_get(&names->hung_places, &place);

	return blame && fp_blame_stands(blame, now_ns);
}

// A user can have any number of namespaces: they make room for one another, and for devices.
static void make_room(struct fp_names *names)
{
	size_t position = 0;
	const void *key;
	void *value;

	while (fp_hashmap_next(&names->hung_places, &position, &key, &value)) {
		uint64_t place;

		memcpy(&place, key, sizeof(place));
		if (place & FP_OPENER_NAMESPACE) {
			fp_hashmap_remove(&names->hung_places, &place);
			return;
		}
	}
	fp_hashmap_clear(&names->hung_places);
}

// Whoever is killed there may stay for ever, in a sleep that no signal ends: so each new try at
// one place is later than the one before.
static void note_hung(struct fp_names *names, uint64_t place, uint64_t now_ns)
{
	struct fp_blame *blame;

	if (place == 0)
		return;
	if (names->hung_places.count >= FP_NAMES_HUNG_MAX &&
	    !fp_hashmap_get(&names->hung_places, &place))
		make_room(names);
	blame = fp_hashmap_put(&names->hung_places, &place, NULL);
	if (blame)
		fp_blame_add(blame, -ETIMEDOUT, now_ns);
}

// Who has more mounts than can be read takes as much time at every try as one who hangs.
static void note_answer(struct fp_names *names, uint64_t now_ns)
{
	const struct fp_names_operation *operation = &names->operation;

	if (operation->answer.error == -EACCES && operation->answer.refusal == FP_OPENER_MOUNTS)
		note_hung(names, operation->answer.device, now_ns);
	else if (operation->place && names->hung_places.count)
		fp_hashmap_remove(&names->hung_places, &operation->place);
}

static bool end_of_kind(struct fp_names *names, const struct fp_names_result *result)
{
	switch (names->operation.kind) {
	case FP_NAMES_IDENTIFY:
		return fp_names_identity_end(names, result);
	case FP_NAMES_MAP_OPEN:
	case FP_NAMES_MAP_LOOKUP:
	case FP_NAMES_MAP_DROP:
	case FP_NAMES_MAP_SEAL:
		return fp_names_jit_end(names, result);
	case FP_NAMES_TABLE:
	case FP_NAMES_UNWIND:
		return fp_names_table_end(names, result);
	case FP_NAMES_IDLE:
		break;
	}
	return true;
}

static void kill_role(struct fp_names *names, uint64_t now_ns)
{
	fp_names_child_kill(&names->role, now_ns);
	names->stray_serial = 0;
	fp_names_jit_lost(names, now_ns);
}

static void finish(struct fp_names *names, const struct fp_names_result *result)
{
	struct fp_names_result blamed = *result;
	bool makes_sense = end_of_kind(names, result);

	if (!makes_sense) {
		blamed.error = -EOWNERDEAD;
		blamed.from_role = false;
		end_of_kind(names, &blamed);
	}
	names->operation = (struct fp_names_operation){ 0 };
	if (!makes_sense)
		kill_role(names, result->now_ns);
}

static void fail(struct fp_names *names, int error, uint64_t now_ns)
{
	finish(names, &(struct fp_names_result){ .error = error, .now_ns = now_ns });
}

// Both have answered, or the opener has sent nothing.
static void finish_if_answered(struct fp_names *names, uint64_t now_ns)
{
	struct fp_names_operation *operation = &names->operation;
	const struct fp_role_packet *packet = (const struct fp_role_packet *)names->packet;

	if (operation->kind == FP_NAMES_IDLE || operation->opener_open || operation->role_open)
		return;
	note_answer(names, now_ns);
	if (operation->answer.error) {
		fail(names, operation->answer.error, now_ns);
		return;
	}
	finish(names, &(struct fp_names_result){ .error = packet->error > 0 ? 0 : packet->error,
						 .argument = packet->argument,
						 .payload = names->packet + sizeof(*packet),
						 .size = packet->size,
						 .from_role = true,
						 .now_ns = now_ns });
}

// The opener goes; its file may have reached the role all the same.
static void blame_opener(struct fp_names *names, int error, uint64_t now_ns)
{
	struct fp_names_operation *operation = &names->operation;
	uint64_t place = operation->place;

	operation->opener_open = false;
	if (!operation->role_open) { // sent and answered: it was the closing that hung
		finish_if_answered(names, now_ns);
	} else {
		names->stray_serial = operation->serial;
		fail(names, error, now_ns);
	}
	if (error == -ETIMEDOUT)
		note_hung(names, place, now_ns);
}

void fp_names_opener_died(struct fp_names *names, uint64_t now_ns)
{
	if (names->operation.opener_open)
		blame_opener(names, -EOWNERDEAD, now_ns);
}

void fp_names_role_died(struct fp_names *names, uint64_t now_ns)
{
	struct fp_names_operation *operation = &names->operation;

	if (operation->opener_open && operation->role_open) {
		// Over nothing of ours. The opener will find nobody to send to, and say so.
		operation->role_open = false;
		operation->answer.error = -EPIPE;
		operation->role_died = true;
	} else if (operation->role_open) {
		fail(names, -EOWNERDEAD, now_ns);
	}
	names->stray_serial = 0;
	fp_names_jit_lost(names, now_ns);
}

void fp_names_enforce_deadline(struct fp_names *names, uint64_t now_ns)
{
	const struct fp_names_operation *operation = &names->operation;

	if (operation->kind == FP_NAMES_IDLE || now_ns < operation->deadline_ns)
		return;
	names->stats.timeouts++;
	if (operation->opener_open) {
		fp_names_child_kill(&names->opener, now_ns);
		blame_opener(names, -ETIMEDOUT, now_ns);
	} else {
		// A few pages: it is the reading, where that waits for others than a disk.
		if (operation->kind == FP_NAMES_IDENTIFY && operation->place >> 32 == 0)
			note_hung(names, operation->place, now_ns);
		fail(names, -ETIMEDOUT, now_ns);
		kill_role(names, now_ns);
	}
}

// False: the stream has nothing now.
static bool receive_opener(struct fp_names *names, struct fp_opener_answer *ret, bool *ret_is_whole)
{
	ssize_t n = recv(names->opener.socket_fd, ret, sizeof(*ret), MSG_DONTWAIT | MSG_TRUNC);

	*ret_is_whole = n == sizeof(*ret);
	return n >= 0;
}

static void take_answer(struct fp_names *names, const struct fp_opener_answer *answer,
			uint64_t now_ns)
{
	struct fp_names_operation *operation = &names->operation;

	operation->opener_open = false;
	operation->answer = *answer;
	// The deadline is against what hangs, most of all in opening. From here on the role works:
	// 0.2 s for the largest libraries, but on a host that is busy and has them not in memory.
	if (operation->kind == FP_NAMES_UNWIND)
		operation->deadline_ns =
		    now_ns + UNWIND_DEADLINES * names->options.request_deadline_ns;
	if (operation->role_died && answer->error == 0)
		operation->answer.error = -EOWNERDEAD; // it had the file and did not survive it
	if (operation->answer.error)
		operation->role_open = false;
	finish_if_answered(names, now_ns);
}

// All notices at once: a deadline is to find the last of them.
void fp_names_take_opener(struct fp_names *names, uint64_t now_ns)
{
	struct fp_names_operation *operation = &names->operation;
	struct fp_opener_answer answer;
	bool is_whole;

	for (int i = 0; i < NOTICES_MAX; i++) {
		if (!receive_opener(names, &answer, &is_whole))
			return;
		// Also at the end of the stream: a child without its socket is of no use.
		if (!is_whole || !operation->opener_open || answer.serial != operation->serial ||
		    answer.error > 0)
			break;
		if (answer.error != -EINPROGRESS) {
			take_answer(names, &answer, now_ns);
			return;
		}
		operation->place = answer.device;
	}
	fp_names_child_kill(&names->opener, now_ns);
	fp_names_opener_died(names, now_ns);
}

static bool is_answer(const struct fp_names *names, size_t size)
{
	const struct fp_role_packet *packet = (const struct fp_role_packet *)names->packet;

	return size >= sizeof(*packet) && packet->size == size - sizeof(*packet) &&
	       names->operation.role_open && packet->serial == names->operation.serial;
}

// An operation given up with its opener may be answered later, once.
static bool is_stray(struct fp_names *names, size_t size)
{
	const struct fp_role_packet *packet = (const struct fp_role_packet *)names->packet;

	if (size < sizeof(*packet) || names->stray_serial == 0 ||
	    packet->serial != names->stray_serial)
		return false;
	names->stray_serial = 0;
	return true;
}

void fp_names_take_role(struct fp_names *names, uint64_t now_ns)
{
	ssize_t n = recv(names->role.socket_fd, names->packet, FP_NAMES_PACKET_MAX,
			 MSG_DONTWAIT | MSG_TRUNC);

	if (n < 0)
		return;
	if ((size_t)n <= FP_NAMES_PACKET_MAX && is_answer(names, (size_t)n)) {
		names->operation.role_open = false;
		finish_if_answered(names, now_ns);
		return;
	}
	if ((size_t)n <= FP_NAMES_PACKET_MAX && is_stray(names, (size_t)n))
		return;
	// Nonsense, or the end of the stream: a child without its socket is of no use.
	fp_names_child_kill(&names->role, now_ns);
	fp_names_role_died(names, now_ns);
}
