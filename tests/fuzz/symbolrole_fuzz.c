// SPDX-License-Identifier: Apache-2.0
//
// symbolrole_fuzz: the whole loop of the symbols role over a socket. The input is a script of
// packets and the content of the file whose descriptor goes with them:
//   u16 bytes of script | script | file
// and in the script, for each packet:
//   u8 kind | u8 argument | u8 descriptors and form | u8 bytes of payload | payload
// Form 0x80: the payload is the packet as it stands; 0x40: before it the file is cut to half,
// 0x20: written whole again. Every answer is what the header promises.
#include "fuzz.h"
#include "memfile.h"

#include "agent/symbolrole.h"
#include "agent/unwindtable.h"
#include "common/cleanup.h"

#include <pthread.h>
#include <string.h>
#include <sys/socket.h>

#define RAW    0x80
#define SHRINK 0x40
#define RENEW  0x20

struct client {
	int socket;
	const uint8_t *script, *content;
	size_t script_size, content_size;
	int file, table;
};

struct packet {
	struct fp_role_packet head;
	uint8_t payload[UINT8_MAX];
};

static void check_names(const uint8_t *payload, size_t size, size_t count)
{
	size_t at = 0;

	for (size_t i = 0; i < count; i++) {
		uint16_t length;

		if (size - at < sizeof(length))
			abort();
		memcpy(&length, payload + at, sizeof(length));
		at += sizeof(length);
		if (length > FP_STRING_MAX || size - at < length)
			abort();
		at += length;
	}
	if (at != size)
		abort();
}

// What has been written last is a table, of as many bytes as the answer says.
static void check_unwind_table(int fd, uint64_t size)
{
	off_t end = lseek(fd, 0, SEEK_CUR);
	FP_AUTOFREE uint8_t *bytes = malloc(size);
	struct fp_unwind_view view;

	if (!bytes || end < (off_t)size ||
	    pread(fd, bytes, size, end - (off_t)size) != (ssize_t)size ||
	    fp_unwind_table_check(bytes, size, &view))
		abort();
}

static void check_answer(const struct client *client, const struct fp_role_packet *asked,
			 const uint8_t *answer, size_t size)
{
	struct fp_role_identity identity;
	struct fp_role_packet head;

	if (size < sizeof(head))
		abort();
	memcpy(&head, answer, sizeof(head));
	if (head.kind != asked->kind || head.serial != asked->serial || head.error > 0 ||
	    head.size != size - sizeof(head) || (head.error && head.size > 0))
		abort();
	if (head.error)
		return;
	if (head.kind == FP_ROLE_MAP_SEAL && (head.size > 0 || asked->size != sizeof(uint64_t)))
		abort();
	if (head.kind == FP_ROLE_MAP_LOOKUP)
		check_names(answer + sizeof(head), head.size, asked->size / sizeof(uint64_t));
	if (head.kind == FP_ROLE_UNWIND)
		check_unwind_table(client->table, head.argument);
	if (head.kind != FP_ROLE_IDENTIFY)
		return;
	if (head.size != sizeof(identity))
		abort();
	memcpy(&identity, answer + sizeof(head), sizeof(identity));
	if (identity.kind > FP_BUILD_HASH || identity.id_len > FP_BUILD_ID_MAX)
		abort();
}

// False when the role has gone.
static bool send_packet(const struct client *client, const void *bytes, size_t size, size_t fds)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(3 * sizeof(int))] = { 0 };
	struct iovec part = { (void *)bytes, size };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
	const int all[] = { client->file, client->table, client->file };

	if (fds > 0) {
		struct cmsghdr *rights = (struct cmsghdr *)control;

		message.msg_control = control;
		message.msg_controllen = CMSG_SPACE(fds * sizeof(int));
		rights->cmsg_level = SOL_SOCKET;
		rights->cmsg_type = SCM_RIGHTS;
		rights->cmsg_len = CMSG_LEN(fds * sizeof(int));
		memcpy(CMSG_DATA(rights), all, fds * sizeof(int));
	}
	return sendmsg(client->socket, &message, MSG_NOSIGNAL) == (ssize_t)size;
}

static void change_file(const struct client *client, uint8_t form)
{
	int file = client->file;

	if (form & SHRINK && ftruncate(file, (off_t)client->content_size / 2) < 0)
		abort();
	if (form & RENEW)
		memfile_set(&file, client->content, client->content_size);
}

static void *run_client(void *context)
{
	const struct client *client = context;
	static uint8_t answer[sizeof(struct fp_role_packet) + FP_ROLE_PAYLOAD_MAX];
	size_t at = 0;

	for (uint32_t serial = 1; client->script_size - at >= 4; serial++) {
		const uint8_t *step = client->script + at;
		struct packet packet = { .head = { step[0], 0, step[1], step[3], serial } };
		size_t left = client->script_size - at - 4;
		ssize_t got;
		bool sent;

		if (step[3] < left)
			left = step[3];
		packet.head.size = (uint32_t)left;
		memcpy(packet.payload, step + 4, left);
		at += 4 + left;
		change_file(client, step[2]);
		sent = step[2] & RAW
			   ? send_packet(client, packet.payload, left, step[2] % 4)
			   : send_packet(client, &packet, sizeof(packet.head) + left, step[2] % 4);
		if (!sent)
			break;
		got = recv(client->socket, answer, sizeof(answer), 0);
		if (got <= 0)
			break;
		if (step[2] & RAW)
			memcpy(&packet.head, packet.payload, sizeof(packet.head));
		check_answer(client, &packet.head, answer, (size_t)got);
	}
	shutdown(client->socket, SHUT_RDWR);
	return NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int file = -1, table = -1;
	struct client client;
	pthread_t thread;
	size_t script;
	int ends[2];

	if (size < 2)
		return 0;
	script = data[0] | (size_t)data[1] << 8;
	if (script > size - 2)
		script = size - 2;
	memfile_set(&file, data + 2 + script, size - 2 - script);
	memfile_set(&table, "", 0);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		abort();
	client = (struct client){ .socket = ends[0],
				  .script = data + 2,
				  .script_size = script,
				  .content = data + 2 + script,
				  .content_size = size - 2 - script,
				  .file = file,
				  .table = table };
	if (pthread_create(&thread, NULL, run_client, &client))
		abort();
	fp_symbol_role_serve(ends[1]);
	close(ends[1]);
	pthread_join(thread, NULL);
	close(ends[0]);
	return 0;
}
