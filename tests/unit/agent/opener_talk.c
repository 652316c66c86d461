// SPDX-License-Identifier: Apache-2.0
#include "opener_talk.h"

#include "common/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <cmocka.h>

void opener_open(struct opener *opener)
{
	int pair[2];

	*opener = (struct opener){ 0 };
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, opener->role), 0);
	opener->pid = fork();
	assert_true(opener->pid >= 0);
	if (opener->pid == 0) {
		prctl(PR_SET_PDEATHSIG, (long)SIGKILL, 0L, 0L, 0L);
		close(pair[0]);
		_exit(fp_opener_serve(pair[1]) == 0 ? 0 : 1);
	}
	close(pair[1]);
	opener->socket = pair[0];
}

void opener_close(struct opener *opener)
{
	int status;

	close(opener->socket);
	assert_int_equal(waitpid(opener->pid, &status, 0), opener->pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	close(opener->role[0]);
	close(opener->role[1]);
}

void opener_ask(struct opener *opener, struct fp_opener_request request, const char *name,
		const char *deny, struct fp_opener_answer *ret)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	struct iovec parts[] = { { &request, sizeof(request) },
				 { &opener->hung, opener->hung ? sizeof(opener->hung) : 0 },
				 { (void *)name, strlen(name) },
				 { (void *)deny, strlen(deny) },
				 { (void *)"packet", 6 } };
	struct msghdr message = { .msg_iov = parts,
				  .msg_iovlen = FP_ARRAY_SIZE(parts),
				  .msg_control = &control,
				  .msg_controllen = sizeof(control) };
	struct cmsghdr *head = CMSG_FIRSTHDR(&message);

	request.serial = 77;
	request.hung_count = opener->hung != 0;
	request.name_size = (uint32_t)strlen(name);
	request.deny_size = (uint32_t)strlen(deny);
	request.packet_size = 6;
	head->cmsg_level = SOL_SOCKET;
	head->cmsg_type = SCM_RIGHTS;
	head->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(head), &opener->role[1], sizeof(int));
	assert_true(sendmsg(opener->socket, &message, MSG_NOSIGNAL) > 0);
	opener->place = 0;
	do {
		assert_int_equal(recv(opener->socket, ret, sizeof(*ret), 0), sizeof(*ret));
		assert_int_equal(ret->serial, 77);
		assert_int_equal(ret->kind, request.kind);
		if (ret->error == -EINPROGRESS)
			opener->place = ret->device;
	} while (ret->error == -EINPROGRESS);
}

int opener_receive(struct opener *opener)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(4 * sizeof(int))];
	} control = { 0 };
	char packet[16];
	struct iovec part = { packet, sizeof(packet) };
	struct msghdr message = { .msg_iov = &part,
				  .msg_iovlen = 1,
				  .msg_control = &control,
				  .msg_controllen = sizeof(control) };
	ssize_t n = recvmsg(opener->role[0], &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	struct cmsghdr *head;
	int fd;

	if (n < 0)
		return -1;
	assert_int_equal(n, 6);
	assert_memory_equal(packet, "packet", 6);
	head = CMSG_FIRSTHDR(&message);
	assert_non_null(head);
	assert_int_equal(head->cmsg_len, CMSG_LEN(sizeof(int)));
	memcpy(&fd, CMSG_DATA(head), sizeof(fd));
	return fd;
}

void assert_opener_sends(struct opener *opener, const char *content)
{
	FP_AUTOCLOSE int fd = opener_receive(opener);
	char text[64] = "";

	assert_true(fd >= 0);
	assert_int_equal(fcntl(fd, F_GETFL) & O_ACCMODE, O_RDONLY);
	assert_true(read(fd, text, sizeof(text) - 1) >= 0);
	assert_string_equal(text, content);
}

struct fp_opener_request opener_request(const struct bench_file *file)
{
	return (struct fp_opener_request){
		.kind = FP_OPENER_FILE,
		.tgid = file->file.tgid,
		.parent_tgid = file->file.parent_tgid,
		.start = file->file.start,
		.end = file->file.end,
		.device = file->file.device,
		.inode = file->file.inode,
	};
}
