// SPDX-License-Identifier: Apache-2.0
//
// Operations: what is asked of opener and role, who has answered, and who is killed for not
// having done so.
#include "names_run.h"

#include "common/clock.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#define HUNG_FIRST_NS (60 * FP_NS_PER_S)
#define HUNG_MAX_NS   (24 * 3600 * FP_NS_PER_S)

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

int fp_names_ask_opener(struct fp_names *names, const struct fp_names_open_request *request)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(FP_OPENER_FDS_MAX * sizeof(int))];
	} control = { 0 };
	struct fp_opener_request head = request->head;
	int fds[FP_OPENER_FDS_MAX] = { names->role.socket_fd, request->memory_fd };
	size_t fds_size = (request->memory_fd >= 0 ? 2 : 1) * sizeof(int);
	struct iovec parts[] = {
		{ &head, sizeof(head) },
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
	head.name_size = (uint32_t)parts[1].iov_len;
	head.deny_size = (uint32_t)parts[2].iov_len;
	head.packet_size = (uint32_t)(parts[3].iov_len + parts[4].iov_len);
	if (head.name_size + head.deny_size + head.packet_size > FP_OPENER_TEXT_MAX)
		return -EMSGSIZE;
	r = send_message(names->opener.socket_fd, &message);
	if (r == 0) {
		names->operation.serial = head.serial;
		names->operation.opener_open = names->operation.role_open = true;
	}
	return r;
}

bool fp_names_is_hung(const struct fp_names *names, uint64_t device, uint64_t now_ns)
{
	const struct fp_hung_device *hung = fp_hashmap_get(&names->hung_devices, &device);

	return hung && now_ns < hung->until_ns;
}

// Whoever is killed there may stay for ever, in a sleep that no signal ends: so each new try on
// one device is later than the one before.
static void note_hung(struct fp_names *names, uint64_t device, uint64_t now_ns)
{
	struct fp_hung_device *hung;

	if (names->hung_devices.count >= FP_NAMES_DEVICES_MAX &&
	    !fp_hashmap_get(&names->hung_devices, &device))
		fp_hashmap_clear(&names->hung_devices);
	hung = fp_hashmap_put(&names->hung_devices, &device, NULL);
	if (!hung)
		return;
	hung->delay_ns = hung->delay_ns ? 2 * hung->delay_ns : HUNG_FIRST_NS;
	if (hung->delay_ns > HUNG_MAX_NS)
		hung->delay_ns = HUNG_MAX_NS;
	hung->until_ns = now_ns + hung->delay_ns;
}

static void note_answer(struct fp_names *names, uint64_t device)
{
	if (names->hung_devices.count)
		fp_hashmap_remove(&names->hung_devices, &device);
}

static bool end_of_kind(struct fp_names *names, const struct fp_names_result *result)
{
	switch (names->operation.kind) {
	case FP_NAMES_IDENTIFY:
		return fp_names_identity_end(names, result);
	case FP_NAMES_MAP_OPEN:
	case FP_NAMES_MAP_LOOKUP:
	case FP_NAMES_MAP_DROP:
		return fp_names_jit_end(names, result);
	case FP_NAMES_TABLE:
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
	note_answer(names, operation->device);
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
	uint64_t device = operation->device;

	operation->opener_open = false;
	if (!operation->role_open) { // sent and answered: it was the closing that hung
		finish_if_answered(names, now_ns);
	} else {
		names->stray_serial = operation->serial;
		fail(names, error, now_ns);
	}
	if (error == -ETIMEDOUT)
		note_hung(names, device, now_ns);
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
		if (operation->kind == FP_NAMES_IDENTIFY) // a few pages: it is the reading
			note_hung(names, operation->device, now_ns);
		fail(names, -ETIMEDOUT, now_ns);
		kill_role(names, now_ns);
	}
}

void fp_names_take_opener(struct fp_names *names, uint64_t now_ns)
{
	struct fp_names_operation *operation = &names->operation;
	struct fp_opener_answer answer;
	ssize_t n =
	    recv(names->opener.socket_fd, &answer, sizeof(answer), MSG_DONTWAIT | MSG_TRUNC);

	if (n < 0)
		return;
	// Also at the end of the stream: a child without its socket is of no use.
	if (n != sizeof(answer) || !operation->opener_open || answer.serial != operation->serial ||
	    answer.error > 0) {
		fp_names_child_kill(&names->opener, now_ns);
		fp_names_opener_died(names, now_ns);
		return;
	}
	operation->opener_open = false;
	if (operation->role_died && answer.error == 0)
		answer.error = -EOWNERDEAD; // it had the file and did not survive it
	operation->answer = answer;
	if (answer.error)
		operation->role_open = false;
	finish_if_answered(names, now_ns);
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
