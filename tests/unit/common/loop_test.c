// SPDX-License-Identifier: Apache-2.0
#include "../cases.h"

#include "common/cleanup.h"
#include "common/loop.h"

#include <errno.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#define AUTOLOOP FP_CLEANUP(fp_loop_freep)

struct fixture {
	struct fp_loop *loop;
	struct fp_loop_source *sources[2];
	int calls[2];
	int stop_after;
	int result;
	bool remove_self, remove_other, rearm_other;
};

static int on_event(struct fp_loop_source *source, uint32_t events, void *context)
{
	struct fixture *fixture = context;
	int me = source == fixture->sources[1];

	assert_true(events & (EPOLLIN | EPOLLOUT));
	fixture->calls[me]++;
	if (fixture->remove_self)
		fp_loop_remove(source);
	if (fixture->remove_other) {
		fp_loop_remove(fixture->sources[!me]);
		fixture->sources[!me] = NULL; // freed after this turn
	}
	if (fixture->rearm_other)
		assert_int_equal(fp_loop_set_timer(fixture->sources[!me], 3600000000000, 0), 0);
	if (fixture->calls[0] + fixture->calls[1] >= fixture->stop_after)
		fp_loop_stop(fixture->loop);
	return fixture->result;
}

static void test_descriptor(void **state)
{
	AUTOLOOP struct fp_loop *loop = NULL;
	FP_AUTOCLOSE int fd = eventfd(1, EFD_CLOEXEC);
	struct fixture fixture = { .stop_after = 3 };

	assert_int_equal(fp_loop_new(&loop), 0);
	fixture.loop = loop;
	assert_int_equal(fp_loop_add_fd(loop, fd, EPOLLIN, on_event, &fixture, &fixture.sources[0]),
			 0);
	assert_int_equal(fp_loop_fd(fixture.sources[0]), fd);
	assert_int_equal(fp_loop_run(loop), 0);
	assert_int_equal(fixture.calls[0], 3);
	assert_int_equal(fp_loop_add_fd(loop, -1, EPOLLIN, on_event, NULL, NULL), -EBADF);
}

static void test_error_stops(void **state)
{
	AUTOLOOP struct fp_loop *loop = NULL;
	FP_AUTOCLOSE int fd = eventfd(1, EFD_CLOEXEC);
	struct fixture fixture = { .stop_after = 100, .result = -EPROTO };

	assert_int_equal(fp_loop_new(&loop), 0);
	fixture.loop = loop;
	assert_int_equal(fp_loop_add_fd(loop, fd, EPOLLIN, on_event, &fixture, &fixture.sources[0]),
			 0);
	assert_int_equal(fp_loop_run(loop), -EPROTO);
	assert_int_equal(fixture.calls[0], 1);
}

static void test_remove_other(void **state)
{
	AUTOLOOP struct fp_loop *loop = NULL;
	FP_AUTOCLOSE int a = eventfd(1, EFD_CLOEXEC), b = eventfd(1, EFD_CLOEXEC);
	struct fixture fixture = { .stop_after = 2, .remove_other = true };

	assert_int_equal(fp_loop_new(&loop), 0);
	fixture.loop = loop;
	assert_int_equal(fp_loop_add_fd(loop, a, EPOLLIN, on_event, &fixture, &fixture.sources[0]),
			 0);
	assert_int_equal(fp_loop_add_fd(loop, b, EPOLLIN, on_event, &fixture, &fixture.sources[1]),
			 0);
	// Both are ready in the first turn; whoever runs first silences the other.
	assert_int_equal(fp_loop_run(loop), 0);
	assert_true((fixture.calls[0] == 2 && fixture.calls[1] == 0) ||
		    (fixture.calls[0] == 0 && fixture.calls[1] == 2));
}

static void test_remove_self(void **state)
{
	AUTOLOOP struct fp_loop *loop = NULL;
	FP_AUTOCLOSE int a = eventfd(1, EFD_CLOEXEC), b = eventfd(1, EFD_CLOEXEC);
	struct fixture fixture = { .stop_after = 2, .remove_self = true };

	assert_int_equal(fp_loop_new(&loop), 0);
	fixture.loop = loop;
	assert_int_equal(fp_loop_add_fd(loop, a, EPOLLIN, on_event, &fixture, &fixture.sources[0]),
			 0);
	assert_int_equal(fp_loop_add_fd(loop, b, EPOLLIN, on_event, &fixture, &fixture.sources[1]),
			 0);
	assert_int_equal(fp_loop_run(loop), 0);
	assert_int_equal(fixture.calls[0], 1);
	assert_int_equal(fixture.calls[1], 1);
}

static void test_set_events(void **state)
{
	AUTOLOOP struct fp_loop *loop = NULL;
	FP_AUTOCLOSE int fd = eventfd(0, EFD_CLOEXEC); // writable, not readable
	struct fixture fixture = { .stop_after = 1 };
	struct fp_loop_source *source;

	assert_int_equal(fp_loop_new(&loop), 0);
	fixture.loop = loop;
	assert_int_equal(fp_loop_add_fd(loop, fd, EPOLLIN, on_event, &fixture, &source), 0);
	assert_int_equal(fp_loop_set_events(source, EPOLLOUT), 0);
	assert_int_equal(fp_loop_run(loop), 0);
	assert_int_equal(fixture.calls[0], 1);
}

static void test_timers(void **state)
{
	AUTOLOOP struct fp_loop *loop = NULL;
	struct fixture fixture = { .stop_after = 6 };

	assert_int_equal(fp_loop_new(&loop), 0);
	fixture.loop = loop;
	assert_int_equal(fp_loop_add_timer(loop, 0, 0, on_event, &fixture, &fixture.sources[0]), 0);
	assert_int_equal(
	    fp_loop_add_timer(loop, 1000000, 1000000, on_event, &fixture, &fixture.sources[1]), 0);
	assert_int_equal(fp_loop_run(loop), 0);
	assert_int_equal(fixture.calls[0], 1);
	assert_int_equal(fixture.calls[1], 5);
}

static void test_rearmed_timer(void **state)
{
	AUTOLOOP struct fp_loop *loop = NULL;
	struct fixture fixture = { .stop_after = 2, .rearm_other = true };

	assert_int_equal(fp_loop_new(&loop), 0);
	fixture.loop = loop;
	for (int i = 0; i < 2; i++)
		assert_int_equal(
		    fp_loop_add_timer(loop, 1, 1000, on_event, &fixture, &fixture.sources[i]), 0);
	// Both have expired before the first turn; whoever runs first puts the other off by an
	// hour, so only the first may run.
	usleep(2000);
	assert_int_equal(fp_loop_run(loop), 0);
	assert_true(fixture.calls[0] == 0 || fixture.calls[1] == 0);
}

static int signals_seen[2];

static int on_signal(struct fp_loop_source *source, uint32_t events, void *context)
{
	signals_seen[fp_loop_signal(source) == SIGUSR2]++;
	if (signals_seen[0] + signals_seen[1] == 2)
		fp_loop_stop(context);
	return 0;
}

static void test_signals(void **state)
{
	AUTOLOOP struct fp_loop *loop = NULL;

	assert_int_equal(fp_loop_new(&loop), 0);
	assert_int_equal(fp_loop_add_signal(loop, SIGUSR1, on_signal, loop), 0);
	assert_int_equal(fp_loop_add_signal(loop, SIGUSR2, on_signal, loop), 0);
	raise(SIGUSR1);
	raise(SIGUSR2);
	assert_int_equal(fp_loop_run(loop), 0);
	assert_int_equal(signals_seen[0], 1);
	assert_int_equal(signals_seen[1], 1);
	assert_int_equal(fp_loop_add_signal(loop, 1000, on_signal, loop), -EINVAL);
}

static void test_stop_before_run(void **state)
{
	AUTOLOOP struct fp_loop *loop = NULL;
	struct fixture fixture = { .stop_after = 1 };

	assert_int_equal(fp_loop_new(&loop), 0);
	fixture.loop = loop;
	fp_loop_stop(loop);
	assert_int_equal(fp_loop_run(loop), 0);
	// The stop is spent: the loop can be run again.
	assert_int_equal(fp_loop_add_timer(loop, 0, 0, on_event, &fixture, &fixture.sources[0]), 0);
	assert_int_equal(fp_loop_run(loop), 0);
	assert_int_equal(fixture.calls[0], 1);
}

int main(void)
{
	const struct CMUnitTest cases[] = {
		FP_CASE("a ready descriptor calls back until the loop is stopped", test_descriptor),
		FP_CASE("a callback's error stops the loop and is returned", test_error_stops),
		FP_CASE("a source removed by another does not run in the same turn",
			test_remove_other),
		FP_CASE("a source may remove itself", test_remove_self),
		FP_CASE("the awaited events can be changed", test_set_events),
		FP_CASE("a timer fires once or periodically", test_timers),
		FP_CASE("a timer put off by a callback does not fire in the same turn",
			test_rearmed_timer),
		FP_CASE("signals arrive through the loop", test_signals),
		FP_CASE("a stop before the run counts once", test_stop_before_run),
	};

	return cmocka_run_group_tests(cases, NULL, NULL);
}
