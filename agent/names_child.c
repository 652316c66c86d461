// SPDX-License-Identifier: Apache-2.0
#include "names_child.h"

#include "common/cleanup.h"
#include "common/clock.h"

#include <errno.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#define DELAY_FIRST_NS	(50 * FP_NS_PER_MS)
#define DELAY_MAX_NS	(10 * FP_NS_PER_S)
#define STEADY_NS	(30 * FP_NS_PER_S) // ran this long: the next failure is a first one
#define END_PATIENCE_MS 200
#define SOCKET_BYTES	(1 << 20) // an answer of FP_ROLE_PAYLOAD_MAX in one packet

void fp_names_child_init(struct fp_names_child *child, int epoll_fd, fp_names_start_fn start,
			 void *context)
{
	*child = (struct fp_names_child){
		.start = start,
		.context = context,
		.epoll_fd = epoll_fd,
		.socket_fd = -1,
		.pid_fd = -1,
	};
}

static int watch(const struct fp_names_child *child, int fd)
{
	struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };

	return epoll_ctl(child->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

static void close_ends(struct fp_names_child *child)
{
	// Taken out by hand: a child that was forked a moment ago may still have a copy, and an
	// epoll set keeps what is open anywhere.
	if (child->socket_fd >= 0)
		epoll_ctl(child->epoll_fd, EPOLL_CTL_DEL, child->socket_fd, NULL);
	if (child->pid_fd >= 0)
		epoll_ctl(child->epoll_fd, EPOLL_CTL_DEL, child->pid_fd, NULL);
	fp_close_fd(&child->socket_fd);
	fp_close_fd(&child->pid_fd);
}

static void pause_before_next(struct fp_names_child *child, uint64_t now_ns)
{
	if (child->delay_ns == 0 || now_ns - child->started_ns >= STEADY_NS)
		child->delay_ns = DELAY_FIRST_NS;
	else if (child->delay_ns < DELAY_MAX_NS)
		child->delay_ns *= 2;
	child->due_ns = now_ns + child->delay_ns;
}

static pid_t *free_place(struct fp_names_child *child)
{
	for (size_t i = 0; i < FP_NAMES_STUCK_MAX; i++)
		if (child->stuck[i] == 0)
			return &child->stuck[i];
	return NULL;
}

static int start(struct fp_names_child *child, uint64_t now_ns)
{
	int pair[2], bytes = SOCKET_BYTES;
	int pid, r;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	// Best effort: past net.core.wmem_max the kernel gives what it has.
	setsockopt(pair[1], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
	child->started_ns = now_ns;
	pid = child->start(pair[1], child->context);
	close(pair[1]);
	if (pid < 0) {
		close(pair[0]);
		return pid;
	}
	child->pid = pid;
	child->socket_fd = pair[0];
	child->pid_fd = (int)syscall(SYS_pidfd_open, pid, 0U);
	child->starts++;
	r = child->pid_fd < 0 ? -errno : watch(child, child->socket_fd);
	if (r == 0)
		r = watch(child, child->pid_fd);
	if (r < 0)
		fp_names_child_kill(child, now_ns);
	return r;
}

bool fp_names_child_ensure(struct fp_names_child *child, uint64_t now_ns)
{
	fp_names_child_reap(child);
	if (fp_names_child_runs(child))
		return true;
	if (now_ns < child->due_ns || !free_place(child))
		return false;
	if (start(child, now_ns) == 0)
		return true;
	if (child->due_ns <= now_ns)
		pause_before_next(child, now_ns);
	return false;
}

bool fp_names_child_has_died(struct fp_names_child *child, uint64_t now_ns)
{
	if (!fp_names_child_runs(child) || waitpid(child->pid, NULL, WNOHANG) == 0)
		return false;
	close_ends(child);
	child->pid = 0;
	pause_before_next(child, now_ns);
	return true;
}

void fp_names_child_reap(struct fp_names_child *child)
{
	for (size_t i = 0; i < FP_NAMES_STUCK_MAX; i++)
		if (child->stuck[i] && waitpid(child->stuck[i], NULL, WNOHANG) != 0)
			child->stuck[i] = 0;
}

void fp_names_child_kill(struct fp_names_child *child, uint64_t now_ns)
{
	pid_t *place;

	if (!fp_names_child_runs(child))
		return;
	close_ends(child);
	kill(child->pid, SIGKILL); // not reaped yet: the pid is still its own
	place = free_place(child);
	if (waitpid(child->pid, NULL, WNOHANG) == 0 && place)
		*place = child->pid;
	child->pid = 0;
	pause_before_next(child, now_ns);
}

static bool has_stuck(const struct fp_names_child *child)
{
	for (size_t i = 0; i < FP_NAMES_STUCK_MAX; i++)
		if (child->stuck[i])
			return true;
	return false;
}

void fp_names_child_free(struct fp_names_child *child)
{
	const struct timespec pause = { .tv_nsec = 1000 * 1000 };

	fp_names_child_kill(child, fp_monotonic_ns());
	for (int ms = 0; ms < END_PATIENCE_MS && has_stuck(child); ms++) {
		nanosleep(&pause, NULL);
		fp_names_child_reap(child);
	}
}
