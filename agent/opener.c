// SPDX-License-Identifier: Apache-2.0
#include "opener.h"

#include "opener_open.h"
#include "role_start.h"

#include <errno.h>
#include <poll.h>
#include <seccomp.h>
#include <signal.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#ifndef CAP_CHECKPOINT_RESTORE
#define CAP_CHECKPOINT_RESTORE 40
#endif

// A request as it was received.
struct received {
	struct fp_opener_request head;
	int fds[FP_OPENER_FDS_MAX]; // -1: none
	uint64_t hung[FP_OPENER_HUNG_MAX];
	char *name, *deny;
	const uint8_t *packet;
};

static void received_free(struct received *received)
{
	for (size_t i = 0; i < FP_OPENER_FDS_MAX; i++)
		fp_close_fd(&received->fds[i]);
	fp_free_ptr(&received->name);
	fp_free_ptr(&received->deny);
}

static void take_fds(struct msghdr *message, struct received *received)
{
	struct cmsghdr *control = CMSG_FIRSTHDR(message);
	size_t count;

	if (!control || control->cmsg_level != SOL_SOCKET || control->cmsg_type != SCM_RIGHTS)
		return;
	count = (control->cmsg_len - CMSG_LEN(0)) / sizeof(int);
	memcpy(received->fds, CMSG_DATA(control),
	       (count < FP_OPENER_FDS_MAX ? count : FP_OPENER_FDS_MAX) * sizeof(int));
}

static int split(struct received *received, const uint8_t *text, size_t size)
{
	const struct fp_opener_request *head = &received->head;

	size_t hung_size = head->hung_count * sizeof(received->hung[0]);

	if (head->hung_count > FP_OPENER_HUNG_MAX ||
	    hung_size + (uint64_t)head->name_size + head->deny_size + head->packet_size != size)
		return -EBADMSG;
	memcpy(received->hung, text, hung_size);
	text += hung_size;
	received->name = strndup((const char *)text, head->name_size);
	received->deny = strndup((const char *)text + head->name_size, head->deny_size);
	received->packet = text + head->name_size + head->deny_size;
	return received->name && received->deny ? 0 : -ENOMEM;
}

// The next request, whose packet points into buffer. 0 at the end of the stream, 1, or -errno.
static int receive(int fd, uint8_t *buffer, size_t size, struct received *received)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(FP_OPENER_FDS_MAX * sizeof(int))];
	} control;
	struct iovec parts[] = { { &received->head, sizeof(received->head) }, { buffer, size } };
	struct msghdr message = { .msg_iov = parts,
				  .msg_iovlen = FP_ARRAY_SIZE(parts),
				  .msg_control = &control,
				  .msg_controllen = sizeof(control) };
	ssize_t n;
	int r;

	do
		n = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n <= 0)
		return n < 0 ? -errno : 0;
	take_fds(&message, received);
	if ((size_t)n < sizeof(received->head) || (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)))
		return -EBADMSG;
	r = split(received, buffer, (size_t)n - sizeof(received->head));
	return r < 0 ? r : 1;
}

static int send_answer(int fd, const struct fp_opener_answer *answer)
{
	ssize_t n;

	do
		n = send(fd, answer, sizeof(*answer), MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : 0;
}

// The file first, then what came along.
static int forward(const struct received *received, int file)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(FP_OPENER_FDS_MAX * sizeof(int))];
	} control = { 0 };
	int fds[FP_OPENER_FDS_MAX] = { file, received->fds[1] };
	size_t size = (received->fds[1] >= 0 ? 2 : 1) * sizeof(int);
	struct iovec part = { (void *)received->packet, received->head.packet_size };
	struct msghdr message = { .msg_iov = &part,
				  .msg_iovlen = 1,
				  .msg_control = &control,
				  .msg_controllen = CMSG_SPACE(size) };
	struct cmsghdr *head = CMSG_FIRSTHDR(&message);

	head->cmsg_level = SOL_SOCKET;
	head->cmsg_type = SCM_RIGHTS;
	head->cmsg_len = CMSG_LEN(size);
	memcpy(CMSG_DATA(head), fds, size);
	return sendmsg(received->fds[0], &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -errno : 0;
}

static void handle(int socket_fd, const struct received *received, struct fp_opener_answer *answer)
{
	static int (*const open_kind[FP_OPENER_KINDS])(const struct fp_opener_question *question,
						       struct fp_opener_answer *answer) = {
		[FP_OPENER_FILE] = fp_opener_open_file,
		[FP_OPENER_PERF_MAP] = fp_opener_open_map,
	};
	const struct fp_opener_question question = { .request = &received->head,
						     .name = received->name,
						     .deny = received->deny,
						     .hung = received->hung,
						     .notice_fd = socket_fd };
	uint32_t kind = received->head.kind;
	int fd FP_AUTOCLOSE = -1;

	if (kind >= FP_OPENER_KINDS || !open_kind[kind]) {
		answer->error = -EINVAL;
		return;
	}
	fd = open_kind[kind](&question, answer);
	if (fd >= 0)
		answer->error = forward(received, fd);
	// Closed before the answer: whoever waits for it learns when the close hangs.
}

int fp_opener_serve(int socket_fd)
{
	uint8_t *buffer FP_AUTOFREE = malloc(FP_OPENER_TEXT_MAX);

	if (!buffer)
		return -ENOMEM;
	for (;;) {
		struct received received FP_CLEANUP(received_free) = { .fds = { -1, -1 } };
		struct fp_opener_answer answer = { 0 };
		int r = receive(socket_fd, buffer, FP_OPENER_TEXT_MAX, &received);

		if (r <= 0)
			return r;
		answer.kind = received.head.kind;
		answer.serial = received.head.serial;
		handle(socket_fd, &received, &answer);
		r = send_answer(socket_fd, &answer);
		if (r < 0)
			return r == -EPIPE ? 0 : r;
	}
}

// It needs one socket and makes none; what it can open it must not be able to send anywhere.
static const int no_network[] = {
	SCMP_SYS(socket),  SCMP_SYS(socketpair), SCMP_SYS(connect), SCMP_SYS(bind),
	SCMP_SYS(listen),  SCMP_SYS(accept4),	 SCMP_SYS(setuid),  SCMP_SYS(setresuid),
	SCMP_SYS(fork),	   SCMP_SYS(vfork),	 SCMP_SYS(kill),    SCMP_SYS(unlinkat),
	SCMP_SYS(mkdirat), SCMP_SYS(renameat2),	 SCMP_SYS(linkat),
};

struct fp_role fp_opener_role(void)
{
	return (struct fp_role){
		.name = "fleetprof-open",
		.argument = FP_OPENER_ROLE_ARGUMENT,
		.keep = 1ULL << CAP_SYS_PTRACE | 1ULL << CAP_DAC_READ_SEARCH |
			1ULL << CAP_CHECKPOINT_RESTORE,
		.apart = true,
		.end_signal = SIGKILL, // it may be stuck where no other signal reaches it
	};
}

int fp_opener_main(void)
{
	struct fp_role role = fp_opener_role();
	int error = fp_role_settle(&role, getppid());

	if (error)
		fp_role_fail(&role, error);
	close_range(FP_ROLE_FIRST_FD + 1, ~0U, 0);
	fp_role_confine(&role, no_network, FP_ARRAY_SIZE(no_network));
	return fp_opener_serve(FP_ROLE_FIRST_FD) < 0 ? 1 : 0;
}
