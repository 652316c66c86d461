// SPDX-License-Identifier: Apache-2.0
#include "loop.h"

#include "cleanup.h"
#include "clock.h"

#include <errno.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>

enum { EVENTS_PER_TURN = 16 };

enum source_kind { SOURCE_FD, SOURCE_TIMER, SOURCE_SIGNAL };

struct fp_loop_source {
	struct fp_loop *loop;
	struct fp_loop_source *next, *previous; // in loop->sources
	struct fp_loop_source *next_removed;	// in loop->removed
	enum source_kind kind;
	int fd;
	int signal_number;
	bool removed;
	fp_loop_fn fn;
	void *context;
};

struct fp_loop {
	int epoll_fd;
	bool stopping;
	struct fp_loop_source *sources;
	// Removed sources are freed only after the turn: an event already fetched by
	// epoll_wait may still point to them.
	struct fp_loop_source *removed;
};

int fp_loop_new(struct fp_loop **ret_loop)
{
	FP_AUTOFREE struct fp_loop *loop = calloc(1, sizeof(*loop));

	if (!loop)
		return -ENOMEM;
	loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (loop->epoll_fd < 0)
		return -errno;
	*ret_loop = fp_take_ptr(loop);
	return 0;
}

static void free_removed(struct fp_loop *loop)
{
	while (loop->removed) {
		struct fp_loop_source *source = loop->removed;

		loop->removed = source->next_removed;
		free(source);
	}
}

void fp_loop_free(struct fp_loop *loop)
{
	if (!loop)
		return;
	while (loop->sources)
		fp_loop_remove(loop->sources);
	free_removed(loop);
	close(loop->epoll_fd);
	free(loop);
}

static int add_source(struct fp_loop *loop, const struct fp_loop_source *form,
		      uint32_t epoll_events, struct fp_loop_source **ret_source)
{
	FP_AUTOFREE struct fp_loop_source *source = malloc(sizeof(*source));
	struct epoll_event event = { .events = epoll_events, .data.ptr = source };

	if (!source)
		return -ENOMEM;
	*source = *form;
	source->loop = loop;
	if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, source->fd, &event) < 0)
		return -errno;
	source->next = loop->sources;
	if (source->next)
		source->next->previous = source;
	loop->sources = source;
	if (ret_source)
		*ret_source = source;
	(void)fp_take_ptr(source);
	return 0;
}

int fp_loop_add_fd(struct fp_loop *loop, int fd, uint32_t epoll_events, fp_loop_fn fn,
		   void *context, struct fp_loop_source **ret_source)
{
	struct fp_loop_source form = { .kind = SOURCE_FD, .fd = fd, .fn = fn, .context = context };

	return add_source(loop, &form, epoll_events, ret_source);
}

static struct timespec timespec_of(uint64_t ns)
{
	return (struct timespec){ .tv_sec = (time_t)(ns / FP_NS_PER_S),
				  .tv_nsec = (long)(ns % FP_NS_PER_S) };
}

static int arm_timer(int fd, uint64_t first_ns, uint64_t period_ns)
{
	// A zero first expiry would disarm the timer; "now" is one nanosecond.
	struct itimerspec when = { .it_value = timespec_of(first_ns ? first_ns : 1),
				   .it_interval = timespec_of(period_ns) };

	return timerfd_settime(fd, 0, &when, NULL) < 0 ? -errno : 0;
}

int fp_loop_add_timer(struct fp_loop *loop, uint64_t first_ns, uint64_t period_ns, fp_loop_fn fn,
		      void *context, struct fp_loop_source **ret_source)
{
	FP_AUTOCLOSE int fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
	struct fp_loop_source form = {
		.kind = SOURCE_TIMER, .fd = fd, .fn = fn, .context = context
	};
	int r;

	if (fd < 0)
		return -errno;
	r = arm_timer(fd, first_ns, period_ns);
	if (r == 0)
		r = add_source(loop, &form, EPOLLIN, ret_source);
	if (r == 0)
		fp_take_fd(&fd);
	return r;
}

int fp_loop_set_timer(struct fp_loop_source *source, uint64_t first_ns, uint64_t period_ns)
{
	return source->kind == SOURCE_TIMER ? arm_timer(source->fd, first_ns, period_ns) : -EINVAL;
}

int fp_loop_add_signal(struct fp_loop *loop, int signal_number, fp_loop_fn fn, void *context)
{
	FP_AUTOCLOSE int fd = -1;
	struct fp_loop_source form = {
		.kind = SOURCE_SIGNAL, .signal_number = signal_number, .fn = fn, .context = context
	};
	sigset_t set;
	int r;

	sigemptyset(&set);
	if (sigaddset(&set, signal_number) < 0)
		return -errno;
	r = pthread_sigmask(SIG_BLOCK, &set, NULL);
	if (r != 0)
		return -r;
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fd < 0)
		return -errno;
	form.fd = fd;
	r = add_source(loop, &form, EPOLLIN, NULL);
	if (r == 0)
		fp_take_fd(&fd);
	return r;
}

int fp_loop_signal(const struct fp_loop_source *source)
{
	return source->signal_number;
}

int fp_loop_fd(const struct fp_loop_source *source)
{
	return source->fd;
}

int fp_loop_set_events(struct fp_loop_source *source, uint32_t epoll_events)
{
	struct epoll_event event = { .events = epoll_events, .data.ptr = source };

	return epoll_ctl(source->loop->epoll_fd, EPOLL_CTL_MOD, source->fd, &event) < 0 ? -errno
											: 0;
}

void fp_loop_remove(struct fp_loop_source *source)
{
	struct fp_loop *loop;

	if (!source || source->removed)
		return;
	loop = source->loop;
	// Fails harmlessly when the caller has closed its descriptor already.
	epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, source->fd, NULL);
	if (source->kind != SOURCE_FD)
		close(source->fd);
	if (source->next)
		source->next->previous = source->previous;
	if (source->previous)
		source->previous->next = source->next;
	else
		loop->sources = source->next;
	source->removed = true;
	source->next_removed = loop->removed;
	loop->removed = source;
}

// Takes the expiry or the signal off a descriptor of ours. False: nothing was there, for
// example because a callback earlier in this turn re-armed the timer.
static bool consume(struct fp_loop_source *source)
{
	struct signalfd_siginfo info;
	uint64_t expirations;

	switch (source->kind) {
	case SOURCE_TIMER:
		return read(source->fd, &expirations, sizeof(expirations)) ==
		       (ssize_t)sizeof(expirations);
	case SOURCE_SIGNAL:
		return read(source->fd, &info, sizeof(info)) == (ssize_t)sizeof(info);
	case SOURCE_FD:
		break;
	}
	return true;
}

static int dispatch(struct epoll_event *events, int count)
{
	for (int i = 0; i < count; i++) {
		struct fp_loop_source *source = events[i].data.ptr;
		int r;

		if (source->removed || !consume(source))
			continue;
		r = source->fn(source, events[i].events, source->context);
		if (r < 0)
			return r;
	}
	return 0;
}

int fp_loop_run(struct fp_loop *loop)
{
	struct epoll_event events[EVENTS_PER_TURN];
	int r = 0;

	while (r == 0 && !loop->stopping) {
		int count = epoll_wait(loop->epoll_fd, events, EVENTS_PER_TURN, -1);

		if (count < 0 && errno == EINTR)
			continue;
		if (count < 0)
			return -errno;
		r = dispatch(events, count);
		free_removed(loop);
	}
	loop->stopping = false; // spent; the loop may be run again
	return r;
}

void fp_loop_stop(struct fp_loop *loop)
{
	loop->stopping = true;
}
