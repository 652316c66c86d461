// SPDX-License-Identifier: Apache-2.0
#include "symbolrole.h"

#include "profile/elfident.h"
#include "profile/symbolwrite.h"
#include "symbolrole_maps.h"
#include "unwindtable.h"

#include <errno.h>
#include <malloc.h>
#include <string.h>
#include <sys/socket.h>

#define FDS_MAX	  2
#define TABLE_MAX ((uint64_t)64 << 20) // what the spool takes

struct request {
	struct fp_role_packet head;
	const uint8_t *payload;
	int fds[FDS_MAX]; // -1: none; a handler that keeps one takes it
	bool lost_fds;	  // no room for more
};

struct answer {
	uint64_t argument;
	struct fp_buf payload;
};

struct role {
	int socket;
	struct fp_role_maps maps;
	struct answer answer;
	struct { // as it stands on the wire; addresses are aligned in it
		struct fp_role_packet head;
		uint8_t payload[FP_ROLE_PAYLOAD_MAX];
	} packet;
};

static void role_free(struct role **role)
{
	if (!*role)
		return;
	fp_role_maps_free(&(*role)->maps);
	fp_buf_free(&(*role)->answer.payload);
	free(*role);
}

static void close_request(struct request *request)
{
	for (size_t i = 0; i < FDS_MAX; i++)
		fp_close_fd(&request->fds[i]);
}
#define AUTOREQUEST FP_CLEANUP(close_request)

static int identify(struct role *role, struct request *request)
{
	struct fp_role_identity identity = { .kind = FP_BUILD_NONE };
	struct fp_build build = { .kind = FP_BUILD_NONE };
	int error = fp_elf_identify(request->fds[0], &build);

	if (error)
		return error;
	identity.kind = build.kind;
	identity.id_len = build.id_len;
	memcpy(identity.id, build.id, sizeof(identity.id));
	return fp_buf_append(&role->answer.payload, &identity, sizeof(identity));
}

static int read_build(const struct request *request, struct fp_build *ret)
{
	struct fp_role_identity identity;

	if (request->head.size != sizeof(identity))
		return -EINVAL;
	memcpy(&identity, request->payload, sizeof(identity));
	if (identity.id_len > FP_BUILD_ID_MAX)
		return -EINVAL;
	*ret = (struct fp_build){ .kind = identity.kind, .id_len = identity.id_len };
	memcpy(ret->id, identity.id, sizeof(ret->id));
	return 0;
}

static int make_table(struct role *role, struct request *request)
{
	struct fp_build build;
	int error = read_build(request, &build);

	if (error)
		return error;
	error = fp_symbol_write_elf(request->fds[0], &build, request->fds[1], TABLE_MAX,
				    &role->answer.argument);
	malloc_trim(0); // tables are large and rare
	return error;
}

static int make_unwind_table(struct role *role, struct request *request)
{
	struct fp_build build;
	int error = read_build(request, &build);

	if (error)
		return error;
	error =
	    fp_unwind_table_write(request->fds[0], &build, request->fds[1], &role->answer.argument);
	malloc_trim(0);
	return error;
}

static int add_map(struct role *role, struct request *request)
{
	int error = fp_role_maps_add(&role->maps, request->head.argument, request->fds[0]);

	if (!error)
		fp_take_fd(&request->fds[0]);
	return error;
}

static int drop_map(struct role *role, struct request *request)
{
	return fp_role_maps_drop(&role->maps, request->head.argument);
}

static int seal_map(struct role *role, struct request *request)
{
	uint64_t ended_ns;

	if (request->head.size != sizeof(ended_ns))
		return -EINVAL;
	memcpy(&ended_ns, request->payload, sizeof(ended_ns));
	return fp_role_maps_seal(&role->maps, request->head.argument, ended_ns);
}

static int look_up(struct role *role, struct request *request)
{
	uint64_t addresses[FP_ROLE_ADDRESSES_MAX];
	size_t count = request->head.size / sizeof(*addresses);

	if (count > FP_ROLE_ADDRESSES_MAX || request->head.size % sizeof(*addresses))
		return -EINVAL;
	memcpy(addresses, request->payload, request->head.size);
	return fp_role_maps_lookup(&role->maps, request->head.argument, addresses, count,
				   &role->answer.payload);
}

_Static_assert((sizeof(uint16_t) + FP_STRING_MAX) * FP_ROLE_ADDRESSES_MAX <= FP_ROLE_PAYLOAD_MAX,
	       "the longest names fit an answer");

static const struct {
	int (*handle)(struct role *role, struct request *request);
	size_t fds;
} handlers[FP_ROLE_REQUESTS] = {
	[FP_ROLE_IDENTIFY] = { identify, 1 },  [FP_ROLE_TABLE] = { make_table, 2 },
	[FP_ROLE_MAP_ADD] = { add_map, 1 },    [FP_ROLE_MAP_DROP] = { drop_map, 0 },
	[FP_ROLE_MAP_LOOKUP] = { look_up, 0 }, [FP_ROLE_UNWIND] = { make_unwind_table, 2 },
	[FP_ROLE_MAP_SEAL] = { seal_map, 0 },
};

static size_t count_fds(const struct request *request)
{
	size_t count = 0;

	while (count < FDS_MAX && request->fds[count] >= 0)
		count++;
	return count;
}

static int handle(struct role *role, struct request *request)
{
	uint32_t kind = request->head.kind;

	if (kind >= FP_ROLE_REQUESTS || !handlers[kind].handle)
		return -EOPNOTSUPP;
	if (request->lost_fds)
		return -EMFILE;
	if (count_fds(request) != handlers[kind].fds)
		return -EINVAL;
	return handlers[kind].handle(role, request);
}

// Takes as many as there is a place for, closes the others: none stays behind unknown.
static void take_fds(struct msghdr *message, struct request *request)
{
	size_t taken = 0;

	for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part;
	     part = CMSG_NXTHDR(message, part)) {
		size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < count; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(part) + i * sizeof(fd), sizeof(fd));
			if (taken < FDS_MAX)
				request->fds[taken++] = fd;
			else
				fp_close_fd(&fd);
		}
	}
}

// 1: a packet; 0: the peer has closed. -EBADMSG: what came is none, and cannot be answered.
static int receive(struct role *role, struct request *request)
{
	char control[CMSG_SPACE(FDS_MAX * sizeof(int))] = { 0 };
	struct iovec part = { &role->packet, sizeof(role->packet) };
	struct msghdr message = { .msg_iov = &part,
				  .msg_iovlen = 1,
				  .msg_control = control,
				  .msg_controllen = sizeof(control) };
	ssize_t got;

	do
		got = recvmsg(role->socket, &message, MSG_CMSG_CLOEXEC);
	while (got < 0 && errno == EINTR);
	if (got <= 0)
		return got < 0 ? -errno : 0;
	take_fds(&message, request);
	request->lost_fds = message.msg_flags & MSG_CTRUNC;
	if (message.msg_flags & MSG_TRUNC || (size_t)got < sizeof(request->head))
		return -EBADMSG;
	request->head = role->packet.head;
	request->payload = role->packet.payload;
	return request->head.size == (size_t)got - sizeof(request->head) ? 1 : -EBADMSG;
}

static int send_answer(struct role *role, const struct request *request, int error)
{
	struct answer *answer = &role->answer;
	struct fp_role_packet head = { .kind = request->head.kind,
				       .error = error,
				       .argument = answer->argument,
				       .size = error ? 0 : (uint32_t)answer->payload.len,
				       .serial = request->head.serial };
	struct iovec parts[] = { { &head, sizeof(head) }, { answer->payload.data, head.size } };
	struct msghdr message = { .msg_iov = parts, .msg_iovlen = FP_ARRAY_SIZE(parts) };
	ssize_t sent;

	do
		sent = sendmsg(role->socket, &message, MSG_NOSIGNAL);
	while (sent < 0 && errno == EINTR);
	return sent < 0 ? -errno : 0;
}

// 1: go on.
static int serve_one(struct role *role)
{
	AUTOREQUEST struct request request = { .fds = { -1, -1 } };
	int result = receive(role, &request), error;

	if (result <= 0)
		return result;
	role->answer.argument = 0;
	fp_buf_clear(&role->answer.payload);
	error = handle(role, &request);
	if (role->answer.payload.error) { // sticky; the next request may need less
		fp_buf_free(&role->answer.payload);
		error = -ENOMEM;
	}
	close_request(&request); // who has the answer may count on it
	error = send_answer(role, &request, error);
	return error ? error : 1;
}

int fp_symbol_role_serve(int socket_fd)
{
	FP_CLEANUP(role_free) struct role *role = calloc(1, sizeof(*role));
	int result = 1;

	if (!role)
		return -ENOMEM;
	role->socket = socket_fd;
	fp_role_maps_init(&role->maps);
	while (result > 0)
		result = serve_one(role);
	return result == -EPIPE || result == -ECONNRESET ? 0 : result;
}
