// SPDX-License-Identifier: Apache-2.0
#include "role_talk.h"

#include "common/file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <cmocka.h>

static void put_fds(struct msghdr *message, const int *fds, size_t count)
{
	struct cmsghdr *part;

	message->msg_controllen = CMSG_SPACE(count * sizeof(*fds));
	part = CMSG_FIRSTHDR(message);
	part->cmsg_level = SOL_SOCKET;
	part->cmsg_type = SCM_RIGHTS;
	part->cmsg_len = CMSG_LEN(count * sizeof(*fds));
	memcpy(CMSG_DATA(part), fds, count * sizeof(*fds));
}

const struct role_answer *role_ask(int socket_fd, const struct role_question *question)
{
	static struct role_answer answer;
	static uint32_t serial;
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(4 * sizeof(int))] = { 0 };
	struct fp_role_packet head = { .kind = question->kind,
				       .argument = question->argument,
				       .size = question->size,
				       .serial = ++serial };
	struct iovec out[] = { { &head, sizeof(head) },
			       { (void *)question->payload, question->size } };
	struct msghdr message = { .msg_iov = out, .msg_iovlen = 2, .msg_control = control };
	struct iovec in[] = { { &head, sizeof(head) }, { answer.payload, sizeof(answer.payload) } };
	size_t fds = 0;
	ssize_t got;

	while (fds < 4 && question->fds[fds] > 0)
		fds++;
	if (fds > 0)
		put_fds(&message, question->fds, fds);
	else
		message.msg_control = NULL;
	assert_int_equal(sendmsg(socket_fd, &message, MSG_NOSIGNAL), sizeof(head) + question->size);
	message = (struct msghdr){ .msg_iov = in, .msg_iovlen = 2 };
	got = recvmsg(socket_fd, &message, 0);
	assert_true(got >= (ssize_t)sizeof(head));
	assert_int_equal(head.kind, question->kind);
	assert_int_equal(head.serial, serial);
	assert_int_equal(head.size, got - (ssize_t)sizeof(head));
	answer.error = head.error;
	answer.argument = head.argument;
	answer.size = head.size;
	return &answer;
}

int role_file(const void *bytes, size_t size)
{
	int fd = memfd_create("file", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(fp_write_all(fd, bytes, size), 0);
	return fd;
}

int role_text_file(const char *text)
{
	return role_file(text, strlen(text));
}

struct role_question role_lookup(uint64_t handle, const uint64_t *addresses, uint32_t count)
{
	return (struct role_question){ .kind = FP_ROLE_MAP_LOOKUP,
				       .argument = handle,
				       .payload = addresses,
				       .size = count * (uint32_t)sizeof(*addresses) };
}

void role_assert_names(const struct role_answer *answer, const char *const *names, size_t count)
{
	size_t at = 0;

	assert_int_equal(answer->error, 0);
	for (size_t i = 0; i < count; i++) {
		uint16_t length;

		assert_true(at + sizeof(length) <= answer->size);
		memcpy(&length, answer->payload + at, sizeof(length));
		at += sizeof(length);
		assert_int_equal(length, strlen(names[i]));
		assert_true(at + length <= answer->size);
		assert_memory_equal(answer->payload + at, names[i], length);
		at += length;
	}
	assert_int_equal(at, answer->size);
}
